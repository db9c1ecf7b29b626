//! Tests the commands as scripts see them: the printed text, its destination, and the exit status.

mod common;

use std::path::PathBuf;

use common::{Out, file, pullback};

/// The message, line and column of the first diagnostic.
fn diagnostic(out: &Out) -> (String, u64, u64) {
    let json = out.json();
    let first = &json["diagnostics"][0];
    let number = |name: &str| first[name].as_u64().unwrap_or(u64::MAX);
    (first["message"].as_str().unwrap_or_default().to_string(), number("line"), number("column"))
}

const SCALE: &str = "
struct Item { float scale; float3 dir; }
RWStructuredBuffer<float> result;
RWStructuredBuffer<uint> count;
StructuredBuffer<Item> items;
uniform float offset;
[shader(\"compute\")]
[numthreads(2, 1, 1)]
void computeMain(uint3 tid : SV_DispatchThreadID)
{
    uint i = tid.x;
    result[i] = items[i].scale * items[i].dir.z + offset;
    InterlockedAdd(count[0], i);
}
";

#[test]
fn run_takes_a_plain_main_where_nothing_is_bound() {
    let text = format!("{SCALE}\nvoid main() {{ printf(\"plain\\n\"); }}\n");
    let path = file("plain-main.slang", &text);
    assert_eq!(pullback(&["run", &path]).stdout, "plain\n");
    let bind =
        ["--bind", "items=[]", "--bind", "result=zeros:1", "--bind", "count=[0]", "--bind", "offset=1"];
    let out = pullback(&[&["run", &path, "--out", "count"], &bind[..]].concat());
    assert_eq!(out.stdout, "count: 1\n", "{}", out.stderr);
}

#[test]
fn the_hash_grid_learns_its_picture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hash-grid.slang");
    let bind = ["--bind", "features=zeros:320", "--bind", "gradients=zeros:320", "--bind", "losses=zeros:5"];
    let out = pullback(&[&["run", path, "--json"], &bind[..]].concat());
    let losses = &out.json()["buffers"]["losses"]["values"];
    let loss = |k: usize| losses[k].as_f64().unwrap_or(f64::NAN);
    assert!(loss(0) > 0.1 && loss(4) < 1e-3, "{losses} {}", out.stderr);
}

#[test]
fn run_binds_and_prints() {
    let path = file("scale.slang", SCALE);
    let args = [
        "run",
        &path,
        "--groups",
        "2",
        "--bind",
        r#"items=[{"scale":1,"dir":[0,0,1]},{"scale":2,"dir":[0,0,2]},{"scale":3,"dir":[0,0,3]},[4,[0,0,4]]]"#,
        "--bind",
        "offset=0.5",
        "--bind",
        "result=zeros:4",
        "--bind",
        "count=words:0x10",
    ];
    for backend in ["interp", "cranelift"] {
        let text = pullback(&[&args[..], &["--backend", backend]].concat());
        assert_eq!(text.stdout, "result: 1.5 4.5 9.5 16.5\ncount: 22\n", "{}", text.stderr);
        assert_eq!(text.status, Some(0));
        let json = pullback(&[&args[..], &["--backend", backend, "--json", "--repeat", "3"]].concat()).json();
        assert_eq!(json["buffers"]["result"]["type"], "float32");
        assert_eq!(json["buffers"]["result"]["values"], serde_json::json!([1.5, 4.5, 9.5, 16.5]));
        assert_eq!(json["buffers"]["count"]["values"], serde_json::json!([16 + 3 * 6]));
        assert_eq!(json["seconds"].as_array().map(Vec::len), Some(3));
    }
    let only = pullback(&[&args[..], &["--out", "count"]].concat());
    assert_eq!(only.stdout, "count: 22\n");
    let none = pullback(&[&args[..], &["--out", "none"]].concat());
    assert_eq!(none.stdout, "");
    let npy = file("result.npy", "");
    let written = pullback(&[&args[..], &["--out", &format!("result=@{npy}")]].concat());
    assert_eq!(written.stdout, "count: 22\n", "{}", written.stderr);
    let read = driver::npy::read(npy.as_ref()).expect("an .npy file");
    assert_eq!(read.to_f64(), [1.5, 4.5, 9.5, 16.5]);
}

#[test]
fn the_order_of_matrices_that_a_program_names_is_not_the_hosts() {
    let text = "
struct S { column_major float2x3 m; row_major float2x3 n[1]; row_major float2x3 p; }
RWStructuredBuffer<S> v;
uniform column_major float2x3 lone;
StructuredBuffer<row_major float2x3> named;
StructuredBuffer<float2x3> host;
RWStructuredBuffer<float> o;
[numthreads(6, 1, 1)]
void main(uint t : SV_DispatchThreadID)
{
    o[t] = v[0].m[t / 3][t % 3];
    o[6 + t] = v[0].n[0][t / 3][t % 3];
    o[12 + t] = v[0].p[t / 3][t % 3];
    o[18 + t] = lone[t / 3][t % 3];
    o[24 + t] = named[0][t / 3][t % 3];
    o[30 + t] = host[0][t / 3][t % 3];
}";
    let path = file("order.slang", text);
    let one = "0x3f800000,0x40000000,0x40400000,0x40800000,0x40a00000,0x40c00000";
    let (v, lone) = (format!("v=words:{one},{one},{one}"), format!("lone=words:{one}"));
    for (layout, default) in [("row", "1.0 2.0 3.0 4.0 5.0 6.0"), ("column", "1.0 3.0 5.0 2.0 4.0 6.0")] {
        // Flat numbers are in the order of memory, while a list of rows gives the rows of the matrix.
        for (list, host) in [("[1,2,3,4,5,6]", default), ("[[[1,2,3],[4,5,6]]]", "1.0 2.0 3.0 4.0 5.0 6.0")] {
            let (named, given) = (format!("named={list}"), format!("host={list}"));
            let binds =
                ["--bind", &v, "--bind", &lone, "--bind", "o=zeros:36", "--bind", &named, "--bind", &given];
            let out = pullback(&[&["run", &path, "--matrix-layout", layout][..], &binds].concat());
            let (rows, columns) = ("1.0 2.0 3.0 4.0 5.0 6.0", "1.0 3.0 5.0 2.0 4.0 6.0");
            let values = format!("o: {columns} {default} {rows} {columns} {rows} {host}\n");
            assert_eq!(out.stdout, format!("{values}v: {rows} {rows} {rows}\n"), "{}", out.stderr);
        }
    }
}

#[test]
fn small_numbers_are_zeros_where_that_is_asked_for() {
    let text = "
RWStructuredBuffer<double> x;
[shader(\"compute\")]
[numthreads(4, 1, 1)]
void computeMain(uint3 tid : SV_DispatchThreadID) { x[tid.x] = x[tid.x] * 0.5; }
";
    let path = file("small.slang", text);
    let args = ["run", &path, "--bind", "x=[1e-300,4e-310,-3e-308,0.5]"];
    assert_eq!(pullback(&args).stdout, "x: 5e-301 2e-310 -1.5000000000000004e-308 0.25\n");
    let flushed = pullback(&[&args[..], &["--flush-subnormals"]].concat());
    let wanted = match cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        true => "x: 5e-301 0.0 -0.0 0.25\n",
        false => "x: 5e-301 2e-310 -1.5000000000000004e-308 0.25\n",
    };
    assert_eq!(flushed.stdout, wanted, "{}", flushed.stderr);
}

#[test]
fn run_refuses_what_does_not_fit() {
    let path = file("refuse.slang", SCALE);
    let good = ["--bind", "offset=1", "--bind", "items=zeros:4", "--bind", "count=[0]"];
    for (bad, named) in [
        (vec![], "`result` is not bound"),
        (vec!["--bind", "result=zeros:4", "--bind", "result=zeros:4"], "bound twice"),
        (vec!["--bind", "result=zeros:4", "--bind", "other=[1]"], "`other`"),
        (vec!["--bind", "result={\"a\":1}"], "`--bind result`"),
        (vec!["--bind", "result=zeros:4", "--entry", "nothing"], "`nothing`"),
        (vec!["--bind", "result=zeros:4", "--out", "nothing"], "`--out nothing`"),
    ] {
        let out = pullback(&[&["run", &path, "--json"], &good[..], &bad].concat());
        assert_eq!(out.status, Some(1), "{bad:?}: {}", out.stderr);
        assert!(diagnostic(&out).0.contains(named), "{bad:?}: {}", out.stdout);
    }
    for usage in [vec!["--bind", "result"], vec!["--groups", "0"], vec!["--nonsense"], vec!["--bind", "x=1,"]]
    {
        let out = pullback(&[&["run", &path], &usage[..]].concat());
        assert_eq!(out.status, Some(2), "{usage:?}: {}", out.stderr);
    }
}

#[test]
fn diagnostics_have_line_and_column() {
    let path = file("wrong.slang", "[Differentiable]\nfloat f(float x)\n{\n    return x * missing;\n}\n");
    for command in ["check", "run"] {
        let out = pullback(&[command, &path, "--json"]);
        assert_eq!(out.status, Some(1));
        let (message, line, column) = diagnostic(&out);
        assert!(message.contains("missing"), "{message}");
        assert_eq!((line, column), (4, 16));
        assert!(
            out.stderr.contains("return x * missing;") && out.stderr.contains("^^^^^^^"),
            "{}",
            out.stderr
        );
    }
    let missing = pullback(&["check", "no-such-file.slang", "--json"]);
    assert_eq!(missing.status, Some(1));
    assert!(diagnostic(&missing).0.contains("no-such-file.slang"));
}

const FUNCTIONS: &str = "
[Differentiable]
float f(float x, float2 y) { return x * x * y.x + sin(y.y) * x; }

[ForwardDerivative(wrong_fwd)]
float wrong(float x) { return x * x; }
DifferentialPair<float> wrong_fwd(DifferentialPair<float> x) { return diffPair(x.p * x.p, 3.0 * x.p * x.d); }
[Differentiable]
float uses_wrong(float x) { return wrong(x) + x; }
";

#[test]
fn gradients_at_a_point() {
    let path = file("functions.slang", FUNCTIONS);
    for mode in ["forward", "reverse"] {
        let json = pullback(&["grad", &path, "f", "--at", "x=2,y=[3,0]", "--mode", mode, "--json"]).json();
        assert_eq!(json["value"]["result"], 12.0);
        assert_eq!(json["gradient"]["x"], 12.0);
        assert_eq!(json["gradient"]["y"], serde_json::json!([4.0, 2.0]));
    }
    let json = pullback(&["grad", &path, "f", "--at", "x=2,y=[3,0]", "--mode", "hessian", "--json"]).json();
    assert_eq!(json["hessian"]["result"]["x"]["x"], 6.0);
    assert_eq!(json["hessian"]["result"]["x"]["y"], serde_json::json!([4.0, 1.0]));
    assert_eq!(json["hessian"]["result"]["y[0]"]["x"], 4.0);
    // Functions that the library's derivatives call are differentiable, too.
    let path =
        file("angles.slang", "[Differentiable] double f(double x) { return sin(x) + tan(x) * sinh(x); }\n");
    for mode in [&["hessian"][..], &["hvp", "--along", "x=1"]] {
        let json =
            pullback(&[&["grad", &path, "f", "--at", "x=0.5", "--json", "--mode"], mode].concat()).json();
        let found = &json[mode[0]]["result"]["x"];
        let found = found.as_f64().or_else(|| found["x"].as_f64()).expect("a number");
        let (sin, tan, square) = (0.5f64.sin(), 0.5f64.tan(), 1.0 / 0.5f64.cos().powi(2));
        let (sinh, cosh) = (0.5f64.sinh(), 0.5f64.cosh());
        let wanted = -sin + 2.0 * square * tan * sinh + 2.0 * square * cosh + tan * sinh;
        assert!((found - wanted).abs() < 1e-12, "{mode:?}: {found} instead of {wanted}");
    }
    // A division by zero does not matter for inputs whose tangent is zero, in any mode.
    let text = "[Differentiable] float f(float x, float2 y) { return x * y.x + 1 / y.x + y.y * y.y; }\n";
    let path = file("pole.slang", text);
    let at = ["grad", &path, "f", "--at", "x=2,y=[0,3]", "--json", "--mode"];
    for mode in ["forward", "reverse"] {
        let json = pullback(&[&at[..], &[mode]].concat()).json();
        assert_eq!(json["gradient"].to_string(), r#"{"x":0.0,"y":["-inf",6.0]}"#, "{mode}");
    }
    let json = pullback(&[&at[..], &["hvp", "--along", "x=1"]].concat()).json();
    assert_eq!(json["hvp"]["result"].to_string(), r#"{"x":0.0,"y":[1.0,0.0]}"#);
    let json = pullback(&[&at[..], &["hessian"]].concat()).json();
    assert_eq!(json["hessian"]["result"]["y[0]"].to_string(), r#"{"x":1.0,"y":["inf",0.0]}"#);
    assert_eq!(pullback(&["gradcheck", &path, "f", "--at", "x=2,y=[0,3]"]).status, Some(0));
    let path = file("functions.slang", FUNCTIONS);
    let at = ["grad", &path, "f", "--at", "x=2,y=[3,0]", "--mode", "hvp"];
    let json = pullback(&[&at[..], &["--along", "x=1,y=[0.5,0]", "--json"]].concat()).json();
    assert_eq!(json["hvp"]["result"]["x"], 8.0);
    assert_eq!(pullback(&at).status, Some(2));
    let out = pullback(&["grad", &path, "f", "--at", "x=2"]);
    assert_eq!(out.status, Some(1));
    assert!(out.stderr.contains("`y`"), "{}", out.stderr);
}

#[test]
fn derivatives_that_are_not_finite_are_found() {
    let text = "[Differentiable]\nfloat f(float x)\n{\n    return log(x * 2);\n}\n\
                [Differentiable]\nfloat loss(float a, no_diff int index) { return f(a * index); }\n";
    let path = file("check-nan.slang", text);
    let commands: [&[&str]; 5] = [
        &["grad", &path, "f", "--at", "x=0"],
        &["grad", &path, "f", "--at", "x=0", "--mode", "forward", "-O", "0"],
        &["grad", &path, "f", "--at", "x=0", "--mode", "hessian"],
        &["gradcheck", &path, "f", "--at", "x=0"],
        &["fit", &path, "--items", "3", "--param", "a=1", "--steps", "2", "--quiet"],
    ];
    for args in commands {
        let out = pullback(&[args, &["--check-nan"]].concat());
        assert_eq!(out.status, Some(1), "{args:?}: {}{}", out.stdout, out.stderr);
        assert!(out.stderr.contains("check-nan.slang:4:12"), "{args:?}: {}", out.stderr);
        assert!(out.stderr.contains("/ 0.0 = inf"), "{args:?}: {}", out.stderr);
    }
    let out = pullback(&["grad", &path, "f", "--at", "x=0.5", "--check-nan"]);
    assert_eq!(out.status, Some(0), "{}", out.stderr);
}

#[test]
fn gradcheck_tells_right_from_wrong() {
    let path = file("gradcheck.slang", FUNCTIONS);
    let right = pullback(&["gradcheck", &path, "f"]);
    assert_eq!(right.status, Some(0), "{}{}", right.stdout, right.stderr);
    assert!(right.stdout.contains("15 derivatives at 5 points: 15 agree"), "{}", right.stdout);
    let wrong = pullback(&["gradcheck", &path, "uses_wrong", "--at", "x=1.5"]);
    assert_eq!(wrong.status, Some(1), "{}{}", wrong.stdout, wrong.stderr);
    assert!(wrong.stdout.contains("DIFFERS"), "{}", wrong.stdout);
}

/// The modes disagree at this point: forward mode multiplies NaN by the zero tangent of the clamped value,
/// while in reverse mode the clamp stops a NaN cotangent.
#[test]
fn gradcheck_sees_no_derivative_where_there_is_no_value() {
    let text = "[Differentiable] float f(float x, float y) { return log(x) * clamp(y, 0.0, 1.0); }";
    let path = file("no-value.slang", text);
    let out = pullback(&["gradcheck", &path, "f", "--at", "x=-1,y=2"]);
    assert_eq!(out.status, Some(0), "{}{}", out.stdout, out.stderr);
    assert!(out.stdout.contains("0 agree, 2 unclear, 0 differ"), "{}", out.stdout);
}

#[test]
fn explain_shows_every_pass() {
    let path = file("explain.slang", FUNCTIONS);
    let out = pullback(&["explain", &path, "f"]);
    assert_eq!(out.status, Some(0), "{}", out.stderr);
    for pass in ["lower", "linearize", "propagate", "unzip", "transpose", "optimised"] {
        assert!(out.stdout.contains(&format!("──── {pass}")), "{pass} in\n{}", out.stdout);
    }
    for stage in ["ast", "ir", "linearize", "unzip", "transpose", "opt", "clif"] {
        let out = pullback(&["emit", &path, "--stage", stage]);
        assert_eq!(out.status, Some(0), "{stage}: {}", out.stderr);
        assert!(out.stdout.contains('f'), "{stage}");
    }
}

#[test]
fn explain_names_the_derivative_of_each_call() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/run/modules/retro");
    let shown = |args: &[&str]| {
        let out = pullback(&[&["explain", "--witnesses"], args].concat());
        assert_eq!(out.status, Some(0), "{}", out.stderr);
        out.stdout.replace(&format!("{folder}/"), "")
    };
    let asks_first = format!("{folder}/asks-first.slang");
    assert_eq!(
        shown(&[&asks_first, "calls"]),
        "asks-first.slang:23:5: bwd_diff(calls): backward, for module asks-first: derived from its body, base.slang:14
  base.slang:14:55: own: written backward 'left_own', left.slang:7 (module left)
  base.slang:14:64: derived: written backward 'mine', asks-first.slang:11 (module asks-first)\n"
    );
    let all = shown(&[&format!("{folder}/kinds.slang")]);
    for line in [
        "bwd_diff(Ray.scaled): backward, for module kinds: written backward 'Ray.b_scaled', kinds.slang:19",
        "fwd_diff(constant<float>): forward, for module kinds: written forward '__func_extension', kinds.slang:37",
        "bwd_diff(substituted): backward, for module kinds: substitute 'stands', kinds.slang:39",
        "__apply(applied): backward, for module kinds: written as '__apply' '__func_extension', kinds.slang:41",
        "bwd_diff(forwarded): backward, for module kinds: written forward, transposed 'd_forwarded'",
    ] {
        assert!(all.contains(line), "{line}\nin\n{all}");
    }
    let path = file(
        "witnesses.slang",
        "[TreatAsDifferentiable] float treated(float x) { return x; }
         float plain(float x) { return x; }
         [BackwardDerivative(b)] float back(float x) { return x; }
         void b(inout DifferentialPair<float> x, float d) {}
         interface I : IDifferentiable { [Differentiable] float get(float x); }
         [Differentiable] float f<T : I>(T t, float x) { return t.get(x); }
         [Differentiable] float g(I i, float x) { return treated(x) + no_diff plain(x) + sin(x) + back(x) + i.get(x); }",
    );
    let all = shown(&[&path]);
    for line in [
        "g: forward, for module witnesses: derived from its body",
        "treated: treat-as: zero",
        "plain: none ('no_diff')",
        "sin<float>: built-in rule",
        "back: none (zero: it has a backward derivative only)",
        "back: written backward 'b'",
        "I.get: by the type in the value",
    ] {
        assert!(all.contains(line), "{line}\nin\n{all}");
    }
}

#[test]
fn fit_finds_a_line_and_resumes() {
    let path = file(
        "line.slang",
        "// fit: --items @line.csv --optimizer lbfgs --steps 50
         struct Line : IDifferentiable { float slope; float offset; }
         [Differentiable]
         float loss(Line line, no_diff float x, no_diff float y)
         {
             float e = line.slope * x + line.offset - y;
             return e * e;
         }",
    );
    file("line.csv", "x,y\n0,1\n1,3\n2,5\n3,7\n");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("line");
    let folder = folder.to_str().expect("a plain path");
    let out = pullback(&["fit", &path, "--out", folder, "--quiet"]);
    assert_eq!(out.status, Some(0), "{}", out.stderr);
    let value = |name: &str| -> f64 {
        let line = out.stdout.lines().find(|l| l.contains(name)).unwrap_or_else(|| panic!("{}", out.stdout));
        line.split('=').nth(1).and_then(|x| x.trim().parse().ok()).expect("a number")
    };
    assert!(
        (value("line.slope") - 2.0).abs() < 1e-3 && (value("line.offset") - 1.0).abs() < 1e-3,
        "{}",
        out.stdout
    );
    assert!(PathBuf::from(folder).join("line-loss.png").is_file());

    let checkpoint = file("line-state.json", "");
    let adam =
        ["--optimizer", "adam", "--rate", "0.05", "--checkpoint", &checkpoint, "--out", folder, "--quiet"];
    let first = pullback(&[&["fit", &path, "--steps", "20"], &adam[..]].concat());
    assert_eq!(first.status, Some(0), "{}", first.stderr);
    let second = pullback(&[&["fit", &path, "--steps", "40", "--resume"], &adam[..]].concat());
    assert!(second.stdout.starts_with("40 steps"), "{}{}", second.stdout, second.stderr);
    let kernel = pullback(&["fit", &path, "--show-kernel"]);
    assert!(kernel.stdout.contains("bwd_diff(loss)"), "{}", kernel.stdout);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let program = file("without-imports.slang", "void main() { }\n");
    let out = pullback(&["run", &program, "-I", "nowhere/at/all"]);
    assert_eq!(out.status, Some(0));
    assert_eq!(out.stderr, "warning: there is no folder `nowhere/at/all` to look for files in\n");
}

#[test]
fn imports_are_found_and_read_once() {
    file("shared-part.slang", "float twice(float x) { return 2.0 * x; }");
    let path = file(
        "importer.slang",
        "import shared_part;\nRWStructuredBuffer<float> r;\n[numthreads(1,1,1)] void main() { r[0] = twice(4.0); }",
    );
    let out = pullback(&["run", &path, "--bind", "r=[0]"]);
    assert_eq!(out.stdout, "r: 8.0\n", "{}", out.stderr);
    let missing = file("missing-import.slang", "import nowhere;\n[numthreads(1,1,1)] void main() { }");
    let out = pullback(&["run", &missing]);
    assert_eq!(out.status, Some(1), "{}", out.stderr);
    assert!(out.stderr.contains("nowhere"), "{}", out.stderr);
    let cycle = file("cycle.slang", "import cycle;\n[numthreads(1,1,1)] void main() { }");
    assert!(matches!(pullback(&["run", &cycle]).status, Some(0 | 1)));
}

#[test]
fn what_reverse_mode_keeps_is_reported() {
    let text = "[Differentiable] float f(float x, int n)\n{\n    for (int i = 0; i < n; i++) x = sin(x) * x;\n    return x;\n}\n";
    let path = file("kept.slang", text);
    let out = pullback(&["check", &path, "--report-checkpoints"]);
    assert_eq!(out.status, Some(0), "{}", out.stderr);
    assert!(out.stdout.starts_with("checkpoints of `f`\n"), "{}", out.stdout);
    let line = "kept.slang:3: a value, 4 bytes for each trip of the loop at line 3; read by the derivative of `mul` at line 3";
    assert!(out.stdout.contains(line), "{}", out.stdout);
    let sparse = file("sparse.slang", &text.replace("for (", "[Checkpoint] for ("));
    let sparse = pullback(&["check", &sparse, "--report-checkpoints"]);
    assert!(sparse.stdout.contains("call_transpose_of"), "{}", sparse.stdout);
}

#[test]
fn pointers_that_move_in_a_loop_are_not_kept() {
    let text = "[Differentiable] double f(DiffPtr<double> p, int n)\n{\n    double y = 0.0;\n    \
                for (int i = 0; i < n; i++) y += p[i];\n    return y;\n}\n";
    let path = file("moved.slang", text);
    let out = pullback(&["check", &path, "--report-checkpoints"]);
    assert_eq!(out.status, Some(0), "{}", out.stderr);
    assert!(out.stdout.starts_with("checkpoints of `f`\n"), "{}", out.stdout);
    assert!(out.stdout.trim_end().ends_with(", 0 bytes for each trip"), "{}", out.stdout);
}

#[test]
fn warnings_are_hidden_by_code() {
    let path = file("warns.slang", "float f(float x) { if (x > 0) return 1; }\n");
    let out = pullback(&["check", &path]);
    assert!(out.stderr.contains("41010"), "{}", out.stderr);
    for code in ["41010", "E41010", "W0026,41010"] {
        let out = pullback(&["check", &path, "--allow", code]);
        assert_eq!((out.status, out.stderr.as_str()), (Some(0), ""));
    }
}

/// A tangent is lost two calls below, in functions that are called twice and are therefore not inlined.
const LOST: &str = "
void quotient_bwd(inout DifferentialPair<float> a, inout DifferentialPair<float> b, float d)
{
    a = diffPair(a.p, d / b.p);
    b = diffPair(b.p, -a.p * d / (b.p * b.p));
}
[BackwardDerivative(quotient_bwd)]
float quotient(float a, float b) { return a / b; }
[Differentiable]
float2 divided(float2 a, float b) { return { quotient(a.x, b), quotient(a.y, b) }; }
[Differentiable]
float2 project(float2 x, float4x4 m) { float4 h = mul(m, float4(x, 1.0, 1.0)); return divided(h.xy, h.w); }
[Differentiable]
float2 both(float2 x, float2 y, float4x4 m) { return project(x, m) + project(y, m); }
RWStructuredBuffer<float2> results;
[numthreads(1, 1, 1)]
void computeMain()
{
    float4x4 m = float4x4(1.0);
    results[0] = fwd_diff(both)(diffPair(float2(1.0), float2(1.0)), diffPair(float2(2.0)), diffPair(m)).d;
}
";

#[test]
fn lost_tangents_are_told_whatever_is_done() {
    let path = file("lost-tangent.slang", LOST);
    let out = |name: &str| format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    let (c, bench) = (out("lost-tangent.c"), out("lost-tangent.o"));
    let mut ways = vec![
        vec!["run", &path, "--bind", "results=zeros:2"],
        vec!["emit", &path, "--stage", "opt", "--entry", "computeMain"],
        vec!["derive", &path, "both", "--mode", "fwd"],
        vec!["grad", &path, "both", "--at", "x=[1,1]", "--at", "y=[1,1]", "--mode", "forward"],
        vec!["gradcheck", &path, "both"],
    ];
    if cfg!(feature = "gpu") {
        ways.push(vec!["emit", &path, "--target", "wgsl", "--entry", "computeMain"]);
    }
    if cfg!(feature = "llvm") {
        ways.push(vec!["build", &path, "-o", &bench, "--header", &c]);
    }
    for way in ways {
        let found = pullback(&way);
        assert!(found.stderr.contains("warning[E0915]: the tangent is lost"), "{way:?}: {}", found.stderr);
    }
}

#[test]
fn items_of_a_fit_are_of_endings_that_it_reads() {
    let path =
        file("endings.slang", "[Differentiable] float loss(float a, no_diff float x) { return a * x; }");
    for name in ["points.txt", "photo.png", "points"] {
        file(name, "x\n1\n");
        let found = pullback(&["fit", &path, "--items", &format!("@{name}"), "--steps", "1"]);
        assert!(found.stderr.contains("ends in neither .csv nor .npy"), "{name}: {}", found.stderr);
    }
}

#[test]
fn what_a_fit_cannot_learn_is_told() {
    let text = "
struct Line : IDifferentiable { float slope; float height; }
struct Scale { float by; [Differentiable] float of(float x) { return x * by; } }
[Differentiable]
float loss(Line line, float x)
{
    Scale scale = { line.slope };
    return (scale.of(x) + line.height) * x;
}
";
    let path = file("no-derivative.slang", text);
    let folder = format!("{}/no-derivative", env!("CARGO_TARGET_TMPDIR"));
    for way in [
        vec!["fit", &path, "--items", "3", "--steps", "1", "--out", &folder],
        vec!["explain", &path, "loss"],
        vec!["bench", &path, "loss", "--count", "16", "--seconds", "0.01"],
    ] {
        let found = pullback(&way);
        assert!(found.stderr.contains("warning[E31159]: 'by' has no derivative here"), "{}", found.stderr);
    }
}
