//! A session can have any number of programs.

use pullback_driver::launch::Execution;
use pullback_driver::module::Module;
use pullback_driver::pipeline;
use pullback_driver::session::{FileOptions, Session};

#[test]
fn a_file_is_in_two_programs() {
    let folder = std::env::temp_dir().join(format!("pullback-session-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let (one, two) = (folder.join("one.slang"), folder.join("two.slang"));
    std::fs::write(&one, "import two; [Differentiable] float f(float x) { return g(x) * x; }")
        .expect("written");
    std::fs::write(&two, "[Differentiable] public float g(float x) { return sin(x); }").expect("written");
    let mut session = Session::new(FileOptions::default());
    for path in [&one, &two, &one] {
        let mut loaded = pipeline::load(&mut session, path).expect("the file is there");
        loaded.check(false).expect("it is right");
        assert_eq!(loaded.differentiable_functions().len(), 1);
    }
}

/// A macro of the command line is the user's, and the modules of the library have names that it may have, too.
#[test]
fn macros_do_not_reach_the_library() {
    let text = "import implicit; import odes; import random; import edges; import jacobians; \
                [Differentiable] float f(float x) { return N * x; }";
    let defines = ["N", "T", "M", "F", "x", "t", "k"].map(|name| (name.to_string(), "3".to_string()));
    let text = text.replace("float x", "float y").replace("* x", "* y");
    let mut session = Session::new(FileOptions { defines: defines.into(), ..FileOptions::default() });
    let mut program = session.program();
    let file = session.load_text(&mut program, "macros.slang", text, std::path::Path::new(""));
    session.loaded(program, file).check(false).expect("it is right");
}

#[test]
fn a_module_says_what_is_lost() {
    let text = "
struct Scale { float by; [Differentiable] float of(float x) { return x * by; } }
[Differentiable] float f(float x, float y) { Scale s = { y }; return s.of(x); }
RWStructuredBuffer<float> found;
[numthreads(1, 1, 1)]
void main()
{
    var y = diffPair(3.0);
    var x = diffPair(2.0);
    bwd_diff(f)(x, y, 1.0);
    found[0] = y.d;
}";
    let mut session = Session::new(FileOptions::default());
    let module =
        Module::from_text(&mut session, "scale.slang", text, &Execution::default()).expect("compiles");
    let codes: Vec<&str> = module.warnings().iter().map(|w| w.code).collect();
    // The struct keeps no derivative; that the method ignores its field for this reason is not reported
    // again.
    assert_eq!(codes, ["E31159"]);
}

#[test]
fn a_standard_module_is_found_in_the_tree_of_the_file() {
    let root = std::env::temp_dir().join(format!("pullback-standard-modules-{}", std::process::id()));
    let folder = root.join("tree/source/standard-modules/nets");
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    std::fs::create_dir_all(root.join("tree/tests")).expect("a folder for temporary files");
    let module =
        "module nets; __include \"parts\";\n#ifdef UNIT_TEST\npublic int tested() { return 1; }\n#endif\n";
    std::fs::write(folder.join("nets.slang"), module).expect("written");
    std::fs::write(folder.join("parts.slang"), "implementing nets; public int own() { return 2; }")
        .expect("written");
    let text = "import slang.nets; int f() { return own() + tested(); }";
    let (inside, outside) = (root.join("tree/tests/a.slang"), root.join("b.slang"));
    for path in [&inside, &outside] {
        std::fs::write(path, text).expect("written");
    }
    let mut session = Session::new(FileOptions::default());
    let mut loaded = pipeline::load(&mut session, &inside).expect("the file is there");
    loaded.check(false).expect("the module is found");
    let mut loaded = pipeline::load(&mut session, &outside).expect("the file is there");
    let error = format!("{:?}", loaded.check(false).expect_err("there is no such module"));
    assert!(error.contains("PULLBACK_STANDARD_MODULES"), "{error}");
    std::fs::remove_dir_all(&root).expect("is removed");
}

#[test]
#[cfg(feature = "gpu")]
fn a_target_refuses_each_entry_point_by_itself() {
    let folder = std::env::temp_dir().join(format!("pullback-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let path = folder.join("a.slang");
    let kernel = |name: &str, ty: &str| {
        format!("[numthreads(1, 1, 1)] void {name}() {{ {ty} x = o[0]; o[0] = float(x * x); }}\n")
    };
    let kernels = [kernel("first", "double"), kernel("second", "float"), kernel("third", "double")];
    std::fs::write(&path, format!("RWStructuredBuffer<float> o;\n{}", kernels.concat())).expect("written");
    let refused = |target| {
        let mut session = Session::new(FileOptions::default());
        let found = pullback_driver::gpu::refusals(&mut session, &path, target).expect("the file is there");
        found.len()
    };
    // WGSL has no doubles.
    assert_eq!(refused(pullback_driver::gpu::Target::Wgsl), 2);
    assert_eq!(refused(pullback_driver::gpu::Target::Spirv), 0);
    std::fs::remove_dir_all(&folder).expect("is removed");
}
