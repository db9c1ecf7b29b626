//! Trees as bytes: every program of the repository is read as it was written, and damaged bytes do no harm.

use pullback_syntax::print::print_file;
use pullback_syntax::{Ast, FileId, NoIncludes, Sources, parse_file, stored};
use test_support::{Random, programs};

/// A tree, the length of its file, and its bytes.
fn parsed(text: &str) -> (Ast, u32, Vec<u8>) {
    let (mut ast, mut sources, mut reported) = (Ast::default(), Sources::default(), Vec::new());
    let file = sources.add("test.slang", text);
    parse_file(&mut ast, &mut sources, file, &mut NoIncludes, &[], &mut reported);
    let bytes = stored::write(&ast);
    (ast, text.len() as u32, bytes)
}

#[test]
fn programs_are_read_as_they_were_written() {
    let mut sizes = (0, 0);
    for path in programs(&["tests", "examples", "crates/driver/core"]) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let (ast, length, bytes) = parsed(&text);
        sizes = (sizes.0 + text.len(), sizes.1 + bytes.len());
        // The program has other files before, and files of other modules.
        let (mut program, _, _) = parsed("struct Other { int x; } int other(Other o) { return o.x; }");
        let before = program.exprs.len();
        let added = stored::read(&bytes, &mut program, &[(FileId(7), length)]);
        let added = added.unwrap_or_else(|| panic!("{}", path.display()));
        let again = &program.files[added[0]];
        assert_eq!((added.len(), again.file), (1, FileId(7)), "{}", path.display());
        assert_eq!(print_file(&program, again), print_file(&ast, &ast.files[0]), "{}", path.display());
        assert_eq!(program.exprs.len() - before, ast.exprs.len());
        // Everything else, locations too.
        let mut alone = Ast::default();
        stored::read(&bytes, &mut alone, &[(FileId(0), length)]).expect("is read");
        assert_eq!(stored::write(&alone), bytes, "{}", path.display());
    }
    // Every node has its location.
    assert!(sizes.1 < 2 * sizes.0, "{sizes:?}");
}

#[test]
fn what_nests_as_deeply_as_the_parser_allows_is_read() {
    let deep = |open: &str, middle: &str, close: &str, n: usize| {
        let text = format!("{}{middle}{}", open.repeat(n), close.repeat(n));
        let (ast, length, bytes) = parsed(&text);
        assert!(ast.exprs.len() + ast.decls.len() >= n, "{open}");
        assert!(stored::read(&bytes, &mut Ast::default(), &[(FileId(0), length)]).is_some(), "{open}");
    };
    let parens = format!("let x = {}1{};", "(".repeat(900), ")".repeat(900));
    deep("", &parens, "", 1);
    deep("", &format!("void f() {{ {}{} }}", "{".repeat(900), "}".repeat(900)), "", 1);
    deep("", &format!("void f() {{ {} }}", "if (f() == (1 + -2)) g(); else ".repeat(450) + ";"), "", 1);
    deep("", &format!("let x = {}1{};", "(int a) => (".repeat(300), ")".repeat(300)), "", 1);
    deep("", &format!("let x = {}1;", "1 + ".repeat(100_000)), "", 1);
    deep("", &format!("let x = a{};", ".b(1)[2]".repeat(50_000)), "", 1);
    deep("namespace n {", "int x;", "}", 400);
}

#[test]
fn damaged_bytes_are_no_tree_or_another_tree() {
    let text = std::fs::read_to_string(test_support::repository().join("crates/driver/core/tensor.slang"));
    let (_, length, bytes) = parsed(&text.expect("is there"));
    let files = [(FileId(0), length)];
    let mut random = Random(5);
    let mut n_read = 0;
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len());
            match random.below(3) {
                0 => damaged[at] = random.bits() as u8,
                1 => drop(damaged.remove(at)),
                _ => damaged.truncate(at.max(1)),
            }
        }
        let mut ast = Ast::default();
        if let Some(added) = stored::read(&damaged, &mut ast, &files) {
            n_read += 1;
            added.iter().for_each(|&k| drop(print_file(&ast, &ast.files[k])));
        } else {
            assert!(
                ast.files.is_empty() && ast.exprs.is_empty() && ast.stmts.is_empty() && ast.decls.is_empty()
            );
        }
    }
    assert!(n_read > 50, "{n_read}");
}
