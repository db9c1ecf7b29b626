//! Checks that doubling a program about doubles the IR after all stages: the counts do not depend on the
//! machine.

use driver::Request;
use driver::gpu::{Target, emit_compiled};
use driver::pipeline::{Compiled, Failure, Loaded, Options, on_large_stack};
use driver::render;
use driver::session::{FileOptions, Session};
use ir::Module;

/// A program of size `n` whose kernel is `main`.
type Of = fn(usize) -> String;

fn compiled(text: String) -> (Session, Compiled) {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let file = session.load_text(&mut program, "growth.slang", text, ".".as_ref());
    let mut loaded = Loaded::new(program, file);
    let made = (|| {
        let entry = loaded.entry(Some("main"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        loaded.compile(&request, &Options::default())
    })();
    let compiled = made.unwrap_or_else(|failure| match failure {
        Failure::Program(all) => {
            panic!("{}", render::all_to_text(&session.sources, &all, driver::render::Style::Plain))
        }
        Failure::Other(error) => panic!("{error}"),
    });
    (session, compiled)
}

/// The number of instructions, operands, results, and inputs and outputs of regions, over all functions.
fn size(module: &Module) -> usize {
    let (instructions, operands) = pullback_tests::size(module);
    instructions + operands
}

const KERNEL: &str = "RWStructuredBuffer<float> o;\n[numthreads(1, 1, 1)] void main()\n\
    { var p = diffPair(o[0]); bwd_diff(f)(p, 20, 1.0f); o[1] = p.d; }\n";

fn in_function(body: &str) -> String {
    format!(
        "[Differentiable] float f(float x, no_diff int n)\n{{\n    float s = x;\n{body}    return s;\n}}\n{KERNEL}"
    )
}

fn lines(n: usize, line: impl Fn(usize) -> String) -> String {
    (0..n).map(|k| line(k) + "\n").collect()
}

/// Each case keeps separate residuals for reverse mode.
fn cases(n: usize) -> String {
    let all = lines(n, |k| format!("case {k}: s = sin(s * {k}.5f) + s * x; break;"));
    in_function(&format!("for (int i = 0; i < n; i++) {{ switch (i) {{\n{all}default: s *= 2;\n}} }}\n"))
}

/// Each branch keeps separate residuals, and so do the loops in them.
fn else_ifs(n: usize) -> String {
    let all = lines(n, |k| {
        format!("else if (i == {k}) {{ for (int j = 0; j < n; j++) s = sin(s * {k}.5f) + s * x; }}")
    });
    in_function(&format!("for (int i = 0; i < n; i++) {{ if (i < 0) s *= 2;\n{all} }}\n"))
}

fn ifs(n: usize) -> String {
    in_function(&lines(n, |k| format!("if (s > {k}.01f) s = sin(s) + x; else s = s * x + {k}.5f;")))
}

fn straight(n: usize) -> String {
    in_function(&lines(n, |k| format!("s = sin(s * {k}.25f) + x;")))
}

fn steps_of_a_struct(n: usize) -> String {
    let fields = lines(n, |k| format!("float f{k};"));
    let step = lines(n, |k| format!("r.f{k} = sin(s.f{k}) + s.f{} * 0.25f;", (k + 1) % n));
    let first = lines(n, |k| format!("t.f{k} = x * {k};"));
    format!(
        "struct S : IDifferentiable {{ {fields} }}\n[Differentiable] S step(S s) {{ S r;\n{step} return r; }}\n{}",
        in_function(&format!(
            "S t;\n{first}\nfor (int i = 0; i < 6; i++) t = step(t);\ns = t.f0 + t.f{};\n",
            n - 1
        ))
    )
}

/// Each `break` puts the rest of the body into an arm, which must yield everything that the loop carries and
/// keeps.
fn breaks(n: usize) -> String {
    in_function(&format!(
        "for (int i = 0; i < n; i++) {{\n{}}}\n",
        lines(n, |k| format!("s = sin(s) * s + {k}; if (s > {k} + 1000) break;"))
    ))
}

/// Each loop passes on what the loops in it keep.
fn loops_within_loops(n: usize) -> String {
    let before =
        lines(n, |k| format!("for (int i{k} = 0; i{k} < n && s < {k}.5f; i{k}++) {{ s = sin(s) * x;"));
    in_function(&format!("{before}s *= x;\n{}", lines(n, |_| "s = cos(s) * x; }".to_string())))
}

const ALL: [(&str, Of); 6] = [
    ("cases of a switch in a loop", cases),
    ("arms of else-ifs in a loop", else_ifs),
    ("ifs in sequence", ifs),
    ("straight lines", straight),
    ("fields of a struct", steps_of_a_struct),
    ("breaks of a loop", breaks),
];

#[test]
fn programs_grow_in_proportion() {
    on_large_stack(|| {
        for (name, of) in ALL {
            let (one, two) = (size(&compiled(of(40)).1.module), size(&compiled(of(80)).1.module));
            assert!(10 * two <= 23 * one, "{name}: {one} for 40, {two} for 80");
        }
    });
}

#[test]
fn code_of_loops_within_loops_grows_in_proportion() {
    let text = |n| {
        let module = compiled(loops_within_loops(n)).1.module;
        codegen_cranelift::clif_text(&module, &native::Options::default()).expect("Cranelift can express it")
    };
    on_large_stack(|| {
        let (one, two) = (text(12).len(), text(24).len());
        assert!(10 * two <= 23 * one, "{one} bytes for 12, {two} for 24");
    });
}

#[test]
fn loops_grow_in_proportion_on_devices() {
    let bytes_of = |of: Of, n: usize| {
        let (session, compiled) = compiled(of(n));
        let text = emit_compiled(&session.sources, &compiled, None, Target::Wgsl);
        let text = String::from_utf8(text.unwrap_or_else(|_| panic!("{n} are refused"))).expect("it is text");
        // Deep code is indented.
        text.lines().map(|line| line.trim_start().len()).sum::<usize>()
    };
    on_large_stack(|| {
        for (name, of, n) in
            [("breaks of a loop", breaks as Of, 80), ("nested loops", loops_within_loops, 12)]
        {
            let (one, two) = (bytes_of(of, n), bytes_of(of, 2 * n));
            assert!(10 * two <= 23 * one, "{name}: {one} bytes for {n}, {two} for {}", 2 * n);
        }
    });
}

/// The numbers of lines of LLVM's text for a module's functions: in total, and of the longest function.
#[cfg(feature = "llvm")]
fn lines_for_llvm(module: &Module) -> (usize, usize) {
    let machine = codegen_llvm::Machine::generic();
    let text =
        codegen_llvm::text(module, &native::Options::default(), &machine).expect("LLVM can express it");
    let text = text.print();
    let functions = text.split("\ndefine ").skip(1).map(|function| function.lines().count());
    (text.lines().count(), functions.max().unwrap_or(0))
}

/// LLVM's compile time is superlinear in the length of a function.
#[cfg(feature = "llvm")]
#[test]
fn llvm_is_given_no_long_functions() {
    on_large_stack(|| {
        for (name, of) in [ALL[0], ALL[2], ALL[3]] {
            // Shorter ones are left whole.
            let one = lines_for_llvm(&compiled(of(1600)).1.module);
            let two = lines_for_llvm(&compiled(of(3200)).1.module);
            assert!(two.0 * 10 <= one.0 * 23, "{name}: {} lines for 1600, {} for 3200", one.0, two.0);
            assert!(two.1 <= 1000, "{name}: a function of {} lines", two.1);
        }
    });
}

/// LLVM would inline each mathematical function at each call.
#[cfg(feature = "llvm")]
#[test]
fn kernels_of_devices_have_functions_of_numbers_once() {
    let bytes_of = |n: usize| {
        let body = lines(n, |k| format!("    s += sin(s + {k}) * cos(s * x);\n"));
        let (session, compiled) = compiled(in_function(&body));
        emit_compiled(&session.sources, &compiled, None, Target::Ptx).map_or(0, |text| text.len())
    };
    on_large_stack(|| {
        let (few, many) = (bytes_of(1), bytes_of(60));
        assert!(few > 0 && many < 10 * few, "{few} bytes for one, {many} for 60");
    });
}

/// Otherwise the code for lanes would be the same as that for a single thread.
#[cfg(feature = "llvm")]
#[test]
fn llvm_compiles_once_what_all_threads_do() {
    let plan = |kernel: &str| {
        let text = ifs(2).replace(KERNEL, "") + kernel;
        let module = compiled(text).1.module;
        let options = native::Options { lanes: Some(8), ..native::Options::default() };
        let text = codegen_llvm::text(&module, &options, &codegen_llvm::Machine::generic());
        text.expect("LLVM can express it").entries.remove(0)
    };
    on_large_stack(|| {
        let same = plan(KERNEL);
        let reason = same.lanes.expect_err("no code for lanes");
        assert!(reason.what.contains("all do the same"), "{}", reason.what);
        assert!(same.one.is_some());
        // The threads differ in the values that they write, or only in the locations, or call a function
        // whose arguments are all uniform.
        for body in [
            "o[t.x] = f(o[t.x], 20);",
            "o[t.x] = f(float(n[0]), 20);",
            "InterlockedAdd(n[0], 1);",
            "count();",
            "if (t.x > 9) count();",
        ] {
            let kernel = format!(
                "RWStructuredBuffer<float> o;\nRWStructuredBuffer<int> n;\n\
                 void count() {{ for (int i = 0; i < 2; i++) InterlockedAdd(n[i], 1); }}\n\
                 [numthreads(16, 1, 1)] void main(uint3 t : SV_DispatchThreadID) {{ {body} }}\n"
            );
            let lanes = plan(&kernel).lanes;
            assert!(lanes.as_ref().is_ok_and(|lanes| lanes.1 == 8), "{body}: {lanes:?}");
        }
    });
}

/// Structs that a function updates, in a loop and without, whose text is so long that LLVM uses its fast
/// settings.
#[cfg(feature = "llvm")]
fn large() -> [(&'static str, Module); 3] {
    let in_a_loop = steps_of_a_struct(360).replace("i < 6", "i < n");
    let whole = steps_of_a_struct(240)
        .replace("for (int i = 0; i < 6; i++) t = step(t);", &"if (t.f0 < 9) t = step(t);".repeat(6));
    let of = |text| checked_large(compiled(text).1.module);
    [("loop", of(in_a_loop)), ("steps", of(whole)), ("ifs", of(ifs(1000)))]
}

#[cfg(feature = "llvm")]
fn checked_large(module: Module) -> Module {
    let text = codegen_llvm::text(&module, &native::Options::default(), &codegen_llvm::Machine::generic());
    let text = text.expect("LLVM can express it").print();
    assert!(text.len() > 1 << 20, "{} bytes", text.len());
    // Most of the text is in pieces without loops.
    let straight: usize =
        text.split("\ndefine ").filter(|f| f.contains("pullback-straight")).map(str::len).sum();
    assert!(straight * 3 > text.len() * 2, "{straight} bytes of {}", text.len());
    module
}

/// The fast settings do not change what the code computes.
#[cfg(feature = "llvm")]
#[test]
fn code_of_large_functions_is_right() {
    use driver::launch::{Backend, CodeOptions, Runner};
    on_large_stack(|| {
        for (name, module) in large() {
            let run = |backend| {
                let code = CodeOptions::default();
                let mut runner = Runner::with_options(module.clone(), backend, &code).expect("it compiles");
                let buffer = module.globals.keys().next().expect("there is one");
                runner.bind_global(buffer, &[0.3f32.to_le_bytes(), [0; 4]].concat());
                runner.dispatch("main", [1, 1, 1], 1).expect("it runs");
                runner.bytes_of(buffer).to_vec()
            };
            assert_eq!(run(Backend::fastest()), run(Backend::INTERP), "{name}");
        }
    });
}
