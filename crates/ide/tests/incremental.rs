//! Checks that diagnostics after an edit, of which most are reused, are those of a check from the start.

use std::path::Path;

use driver::session::FileOptions;
use pullback_ide::{self as ide, Checked, Checker};
use syntax::Severity;
use test_support::{Random, programs};

fn options(path: &Path, text: &str) -> FileOptions {
    FileOptions { open: vec![(path.to_path_buf(), text.into())], ..FileOptions::default() }
}

fn check(checker: &mut Checker, path: &Path, text: &str) -> Vec<String> {
    let found = driver::on_large_stack(|| {
        checker.check(&options(path, text), path, &|| false, &mut |_| {}).expect("the text is given")
    });
    lines(&found.expect("nothing stops it"))
}

fn lines((sources, diagnostics): &Checked) -> Vec<String> {
    let mut lines: Vec<String> = diagnostics
        .iter()
        .map(|d| {
            let place = |span: syntax::Span| {
                let path = sources.files.get(span.file.0 as usize).map_or("", |file| &file.path);
                format!("{path}:{}-{}", span.start, span.end)
            };
            let notes: Vec<String> =
                d.notes.iter().map(|n| format!("{} {}", place(n.span), n.message)).collect();
            format!("{} {:?} {} {} {notes:?}", place(d.primary.span), d.severity, d.code, d.message)
        })
        .collect();
    lines.sort();
    lines
}

/// The public programs that are checked.
const FOLDERS: [&str; 4] = ["tests/check", "tests/autodiff", "tests/run", "examples"];

/// Replaces, removes or repeats a word or line.
fn edited(text: &str, random: &mut Random) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts: Vec<usize> = text
        .char_indices()
        .filter(|&(at, c)| is_word(c) && !text[..at].ends_with(is_word))
        .map(|(at, _)| at)
        .collect();
    let Some(&start) = starts.get(random.below(starts.len())) else { return text.to_string() };
    let end = start + text[start..].find(|c| !is_word(c)).unwrap_or(text.len() - start);
    let other = starts[random.below(starts.len())];
    let other_end = other + text[other..].find(|c| !is_word(c)).unwrap_or(text.len() - other);
    let (before, word, after) = (&text[..start], &text[start..end], &text[end..]);
    match random.below(6) {
        0 => format!("{before}{after}"),
        1 => format!("{before}{}{after}", &text[other..other_end]),
        2 => format!("{before}{word} + 1{after}"),
        3 => {
            let line_end = after.find('\n').map_or(text.len(), |n| end + n + 1);
            format!("// more\n{}{}", &text[..line_end], &text[line_end..])
        }
        4 => {
            let from = before.rfind('\n').map_or(0, |n| n + 1);
            let to = after.find('\n').map_or(text.len(), |n| end + n + 1);
            format!("{}{}", &text[..from], &text[to..])
        }
        _ => format!("{before}float{after}"),
    }
}

/// The number of edits of each program. With more than four, no program is left out.
fn n_edits() -> usize {
    std::env::var("PULLBACK_EDITS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

/// Edits each program several times, with one checker that remembers and one that does not.
#[test]
fn reused_diagnostics_are_those_of_a_new_check() {
    let n_edits = n_edits();
    let all = programs(&FOLDERS);
    let share = all.len() / 60 + 1;
    let mut n_reused = 0;
    for (k, path) in all.iter().enumerate().filter(|(k, _)| n_edits > 4 || k % share == 0) {
        let original = std::fs::read_to_string(path).expect("a file of the repository");
        if original.len() > 20_000 {
            continue;
        }
        let mut random = Random(k as u64);
        let mut checker = Checker::new();
        let mut text = original.clone();
        for edit in 0..n_edits {
            let reused = check(&mut checker, path, &text);
            let n_computed = checker.n_computed();
            let mut fresh = Checker::new();
            let expected = check(&mut fresh, path, &text);
            n_reused += fresh.n_computed() - n_computed;
            // What differentiation reaches has no errors of the checker.
            let own = reused.iter().find(|line| line.contains("E0999"));
            assert_eq!(own, None, "{} after edit {edit}:\n{text}", path.display());
            let only = |a: &[String], b: &[String]| -> Vec<String> {
                a.iter().filter(|line| !b.contains(line)).cloned().collect()
            };
            let (more, less) = (only(&reused, &expected), only(&expected, &reused));
            assert!(
                more.is_empty() && less.is_empty(),
                "{} after edit {edit}: reused has {more:#?}, and lacks {less:#?}\n{text}",
                path.display()
            );
            // Programs that stay broken say little.
            let next = edited(if edit % 3 == 2 { &original } else { &text }, &mut random);
            text = next;
        }
    }
    assert!(n_reused > 100, "only {n_reused} declarations were not checked again");
}

/// A file without errors of the checker gets from both what `pullback check` reports; a file with such errors gets
/// these, and perhaps errors of differentiation.
#[test]
fn diagnostics_are_those_of_the_command_line() {
    let all = programs(&FOLDERS);
    let share = if n_edits() > 4 { 1 } else { all.len() / 120 + 1 };
    for path in all.iter().step_by(share) {
        let text = std::fs::read_to_string(path).expect("a file of the repository");
        let found = check(&mut Checker::new(), path, &text);
        let expected = driver::on_large_stack(|| ide::diagnostics(&options(path, &text), path));
        let expected = expected.expect("the text is given");
        let has_errors = expected.1.iter().any(|d| d.severity == Severity::Error);
        let expected = lines(&expected);
        if has_errors {
            let missing: Vec<&String> = expected.iter().filter(|line| !found.contains(line)).collect();
            assert!(missing.is_empty(), "{}: {missing:#?}\nfound {found:#?}", path.display());
        } else {
            assert_eq!(found, expected, "{}", path.display());
        }
    }
}

const THREE: &str = "\
float helper(float x) { return x * 2; }
[Differentiable] float a(float x) { return helper(x); }
[Differentiable] float b(float x) { float s = 0; for (int i = 0; i < 3; i++) s += x * i; return s; }
float c(float x) { return lenght(x); }
";

#[test]
fn only_what_an_edit_concerns_is_checked_again() {
    let path = Path::new("/nowhere/three.slang");
    let mut checker = Checker::new();
    let found = check(&mut checker, path, THREE);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(checker.n_computed() > 4);
    check(&mut checker, path, &format!("// a line\n{THREE}"));
    assert_eq!(checker.n_computed(), 0, "nothing depends on where it stands");
    let found = check(&mut checker, path, &THREE.replace("lenght", "length"));
    assert_eq!((found.len(), checker.n_computed()), (1, 1), "{found:#?}");
    let found = check(&mut checker, path, &THREE.replace("x * i", "x * i * i"));
    assert_eq!((found.len(), checker.n_computed()), (2, 2), "checked and differentiated: {found:#?}");
    check(&mut checker, path, &THREE.replace("float helper(float x)", "float helper(float x, int n = 0)"));
    assert!(checker.n_computed() > 4, "what a head says concerns all");
}

/// The word `error_here` in each version has to be found.
#[test]
fn a_broken_declaration_hides_nothing_of_the_others() {
    let path = Path::new("/nowhere/broken.slang");
    for broken in [
        "float broken(float x) { return x + ; }",
        "float broken(float x) { return (x; }",
        "float broken(float x) { if (x > 0) { return x; }",
        "float broken(float x { return x; }",
        "float broken(float x) return x; }",
        "struct Broken { float a; float f( { return a; } };",
        "struct Broken { float a",
        "[Differentiable float broken(float x) { return x; }",
        "float broken = ;",
        "float3 broken(",
        "float broken(float x) { for (int i = 0; i < ; i++) { x += 1 } return x; }",
        "interface IBroken { float f(; }",
        "enum Broken { A, B",
        "float broken(float x) { return x.; }",
        "float broken(float x) { let y = \"abc; return x; }",
        "typedef float;",
        "namespace { float f(float x { return x; } }",
        "#if 1\nfloat broken(float x) { return ; }\n#endif",
        "@",
    ] {
        let text = format!(
            "float plain(float x) {{ return x; }}\nfloat before(float x) {{ return undefined_before; }}\n\
             [Differentiable] float lost_before(float x) {{ float y = plain(x); return y; }}\n{broken}\n\
             float after(float x) {{ return undefined_after; }}\n\
             [Differentiable] float lost_after(float x)\n{{\n    return plain(x);\n}}\n\
             [Differentiable] float endless(float x) {{ float s = 1; for (int i = 0; i < int(x); i++) s *= endless(s); return s; }}\n"
        );
        let found = check(&mut Checker::new(), path, &text);
        let has = |word: &str| found.iter().any(|line| line.contains(word));
        assert!(has("undefined_before") && has("undefined_after"), "{broken}\n{found:#?}");
        let n_lost = found.iter().filter(|line| line.contains("E41022")).count();
        assert_eq!(n_lost, 2, "{broken}\n{found:#?}");
    }
}

#[test]
fn differentiation_has_its_say_beside_errors_of_the_checker() {
    let path = Path::new("/nowhere/both.slang");
    let own = "[ForwardDerivative(g_fwd)] float g(float x) { return x * x; }\n\
        DifferentialPair<float> g_fwd(DifferentialPair<float> x) { return diffPair(x.p * x.p, 2 * x.p * x.d * x.d); }\n\
        [Differentiable] float f(float x) { return g(x); }\n";
    let alone = check(&mut Checker::new(), path, own);
    assert!(alone.iter().any(|line| line.contains("E0910")), "{alone:#?}");
    let both =
        check(&mut Checker::new(), path, &format!("{own}float other(float x) {{ return nothing; }}\n"));
    assert!(alone.iter().all(|line| both.contains(line)), "{both:#?}");
    assert_eq!(both.len(), alone.len() + 1, "{both:#?}");
}

/// An error in an operator or an extension keeps only what can use it from being differentiated.
#[test]
fn errors_of_operators_and_extensions_are_confined() {
    let path = Path::new("/nowhere/confined.slang");
    // Derivatives that are not linear, which differentiation reports: one is used with `V`, one without.
    let wrong = |name: &str, body: &str| {
        format!(
            "[ForwardDerivative({name}_fwd)] float {name}(float x) {{ return x * x; }}\n\
             DifferentialPair<float> {name}_fwd(DifferentialPair<float> x) {{ return diffPair(x.p * x.p, 2 * x.p * x.d * x.d); }}\n\
             [Differentiable] float of_{name}(float x) {{ {body} }}\n"
        )
    };
    let own = wrong("g", "return g(x);")
        + "struct V : IDifferentiable { float a; }\ninterface IShape { float area(float x); }\n\
           struct Square : IShape { float side; float area(float x) { return side * x; } }\n";
    let user = wrong("h", "V v = { x }; return h((v + v).a);");
    let plus = "[Differentiable] V operator+(V a, V b) { V c = { a.a + b.a }; return c; }\n";
    let found_of = |found: &[String]| found.iter().filter(|line| line.contains("E0910")).count();
    let whole = check(&mut Checker::new(), path, &format!("{own}{plus}{user}"));
    assert_eq!((found_of(&whole), whole.len()), (2, 2), "both are differentiated: {whole:#?}");
    for broken in [
        "[Differentiable] V operator+(V a, V b) { V c = { a.a + nothing }; return c; }",
        "[Differentiable] V operator+(V a, V b) { return helper(a); }\n[Differentiable] V helper(V a) { return nothing; }",
        "V operator+<T : IShape>(V a, T b) { return nothing; }\n[Differentiable] V operator+(V a, V b) { return nothing; }",
        "extension V { float sum() { return nothing; } }\n\
            [Differentiable] V operator+(V a, V b) { V c = { no_diff(a.sum()) }; return c; }",
        "extension V : IShape { float area(float x) { return nothing; } }\n\
            [Differentiable] V operator+(V a, V b) { V c = { no_diff(a.area(b.a)) }; return c; }",
    ] {
        let found = check(&mut Checker::new(), path, &format!("{own}{broken}\n{user}"));
        assert!(found.iter().any(|line| line.contains("nothing")), "{broken}\n{found:#?}");
        assert_eq!(
            found_of(&found),
            1,
            "only the function without `V` is differentiated: {broken}\n{found:#?}"
        );
        assert!(!found.iter().any(|line| line.contains("E0999")), "{broken}\n{found:#?}");
    }
    // What may be used anywhere.
    let broken = "extension float { __subscript(int i) -> float { get { return nothing; } } }\n";
    let found = check(&mut Checker::new(), path, &format!("{own}{plus}{broken}{user}"));
    assert_eq!(found_of(&found), 0, "{found:#?}");
    // What values of interface type reach, without its name and without that of its type.
    let disc = "struct Disc : IList { __subscript(int i) -> float { get { return nothing; } } }\n";
    let list = "interface IList { __subscript(int i) -> float { get; } }\n";
    let dynamic = wrong("h", "return h(x) * no_diff(first());")
        + "float first(IList list) { return list[0]; }\nuniform IList list;\nfloat first() { return first(list); }\n";
    let found = check(&mut Checker::new(), path, &format!("{own}{list}{disc}{dynamic}"));
    assert_eq!(found_of(&found), 1, "{found:#?}");
    assert!(!found.iter().any(|line| line.contains("E0999")), "{found:#?}");
}

/// A program's own function that finds resources is called wherever a handle is used, and is not named there.
#[test]
fn an_error_in_what_handles_call_concerns_their_uses() {
    let path = Path::new("/nowhere/handles.slang");
    let text = "[vk::binding(0, 0)] __DynamicResource<__DynamicResourceKind.General> heap[];\n\
        export T getDescriptorFromHandle<T : float>(DescriptorHandle<T> handle)\n\
        { return heap[((uint2)handle).x].asOpaqueDescriptor<T>(); }\n\
        [Differentiable] float first(ByteAddressBuffer.Handle bytes, float x)\n\
        { return no_diff(asfloat(bytes.Load(4))) * x; }\n";
    let found = check(&mut Checker::new(), path, text);
    assert!(!found.is_empty() && !found.iter().any(|line| line.contains("E0999")), "{found:#?}");
    let right = text.replace("T : float", "T : IOpaqueDescriptor");
    let found = check(&mut Checker::new(), path, &right);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_check_stops_when_it_is_asked_to() {
    let path = Path::new("/nowhere/stopped.slang");
    let mut checker = Checker::new();
    // A check that was stopped has found something that the next one uses, so each is a new one.
    for steps in 0..6 {
        checker = Checker::new();
        let left = std::cell::Cell::new(steps);
        let stop = || {
            let stops = left.get() == 0;
            left.set(left.get().max(1) - 1);
            stops
        };
        let found =
            checker.check(&options(path, THREE), path, &stop, &mut |_| {}).expect("the text is given");
        assert!(found.is_none(), "{steps}");
    }
    assert_eq!(check(&mut checker, path, THREE), check(&mut Checker::new(), path, THREE));
}

#[test]
fn what_a_macro_is_applied_to_moves_with_the_text() {
    let path = Path::new("/nowhere/macro.slang");
    let text = "#define SHOW(f) float g_##f() { return f; }\nSHOW(missing)\n";
    let mut checker = Checker::new();
    for text in [text.to_string(), text.replace("SHOW(m", "// a comment\n SHOW(m"), text.to_string()] {
        assert_eq!(check(&mut checker, path, &text), check(&mut Checker::new(), path, &text), "{text}");
    }
}

/// One error is reported in the place of a macro, and nothing that the macro makes there goes on to later stages.
#[test]
fn an_error_in_a_macro_concerns_all_that_it_makes() {
    let path = Path::new("/nowhere/macros.slang");
    let text = "#define BOTH(f) [Differentiable] float a_##f(float x) { return f(x); } \\\n    \
                [Differentiable] float b_##f(float x) { return f(x) * x; }\n\
                [Differentiable] float known(float x) { return x; }\nBOTH(known)\nBOTH(missing)\n";
    let found = check(&mut Checker::new(), path, text);
    assert!(found.len() == 1 && found[0].contains("E30015"), "{found:#?}");
}
