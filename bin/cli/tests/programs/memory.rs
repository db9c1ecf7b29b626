//! Tests the memory that functions reach, in every command that calls functions, and on the backends that
//! call them. `documents/memory.md` shows how pointers in memory are bound.

use crate::common::{Out, file, pullback};

/// Functions that reach different kinds of memory: name, declaration, result, bindings, and the slope at `x =
/// 2` with these bindings.
const KINDS: [(&str, &str, &str, &str, f64); 25] = [
    ("buffer", "StructuredBuffer<float> w;", "x * w[1]", "w=[5,3]", 3.0),
    ("doubles", "StructuredBuffer<double> w;", "x * float(w[0])", "w=[7]", 7.0),
    ("writable", "RWStructuredBuffer<float> w;", "x * w[0]", "w=[2]", 2.0),
    ("uniform", "uniform float k;", "x * x * k", "k=0.5", 2.0),
    ("uniform_vector", "uniform float3 k;", "x * k.z", "k=[1,2,3]", 3.0),
    ("matrix", "uniform float2x3 k;", "x * k[1][0]", "k=[[1,2,3],[4,5,6]]", 4.0),
    ("block", "cbuffer C { float k; float2 l; }", "x * l.y", "l=[1,6] k=1", 6.0),
    ("parameter_block", "struct S { float k; } ParameterBlock<S> s;", "x * s.k", r#"s={"k":5}"#, 5.0),
    ("constants", "struct S { float2 l; } ConstantBuffer<S> c;", "x * c.l.y", r#"c={"l":[1,6]}"#, 6.0),
    ("bytes", "ByteAddressBuffer w;", "x * asfloat(w.Load(4))", "w=words:0,0x40400000", 3.0),
    ("texture", "Texture2D<float4> t;", "x * t.Load(int3(1, 0, 0)).x", "t=[[4,8]]", 8.0),
    ("pointer", "uniform float* p;", "x * p[1]", "p=[1,9]", 9.0),
    ("structs", "struct S { float a; float b; } StructuredBuffer<S> w;", "x * w[1].b", "w=[1,2,3,4]", 4.0),
    ("buffers", "StructuredBuffer<float> w[2];", "x * w[0][0] * w[1][1]", "w[0]=[5,3] w[1]=[2,7]", 35.0),
    (
        "textures",
        "Texture2D<float4> t[2];",
        "x * t[1].Load(int3(1, 0, 0)).x",
        "t[0]=[[4,8]] t[1]=[[3,5]]",
        5.0,
    ),
    (
        "samplers",
        "Texture2D<float4> t; SamplerState s[2];",
        "x * t.SampleLevel(s[1], float2(0.5, 0.5), 0).x",
        "t=[[4,8]]",
        6.0,
    ),
    (
        "sampler",
        "Texture2D<float4> t; SamplerState s;",
        "x * t.SampleLevel(s, float2(0.6, 0.5), 0).x",
        r#"t=[[4,8]] s={"filter":"nearest"}"#,
        8.0,
    ),
    (
        "block_of_resources",
        "struct S { float k; StructuredBuffer<float> b; Texture2D<float4> t; SamplerState p; } ParameterBlock<S> s;",
        "x * s.b[1] * s.t.SampleLevel(s.p, float2(0.5, 0.5), 0).x * s.k",
        "s.k=2 s.b=[1,9] s.t=[[4,8]]",
        108.0,
    ),
    (
        "pointer_in_struct",
        "struct S { float* p; float by; } uniform S s;",
        "x * s.p[1] * s.by",
        r#"s.p=[1,9] s={"by":2}"#,
        18.0,
    ),
    ("pointer_in_constants", "struct S { float* p; } ConstantBuffer<S> c;", "x * c.p[0]", "c.p=[4]", 4.0),
    (
        "pointers_in_buffer",
        "struct L { float* w; int n; } RWStructuredBuffer<L> l;",
        "x * l[0].w[1] * (l[1].w[0] *= 2)",
        r#"l[0].w=[1,9] l[1].w=[3] l=[{"n":2},{"n":1}]"#,
        54.0,
    ),
    (
        "pointers_behind_pointer",
        "struct L { float* w; } struct N { L a; L r[2]; } uniform N* n;",
        "x * n.a.w[0] * n.r[1].w[1]",
        "n.a.w=[2] n.r[0].w=[1] n.r[1].w=[1,5]",
        10.0,
    ),
    (
        "buffer_of_pointers",
        "RWStructuredBuffer<float*> w; StructuredBuffer<float*> r;",
        "x * w[1][0] * r[0][1]",
        "w[0]=[1] w[1]=[7] r[0]=[0,2]",
        14.0,
    ),
    (
        "buffer_of_arrays_of_pointers",
        "RWStructuredBuffer<Array<float*, 2>> a; uniform Array<float*, 2>* p;",
        "x * a[1][1][0] * p[0][1][0]",
        "a[0][0]=[1] a[0][1]=[1] a[1][0]=[1] a[1][1]=[6] p[0][0]=[1] p[0][1]=[3]",
        18.0,
    ),
    ("pointers", "uniform float** rows;", "x * rows[1][0]", "rows[0]=[1] rows[1]=[7]", 7.0),
];

fn write(name: &str, declaration: &str, result: &str) -> String {
    let text = format!("{declaration}\n[Differentiable] float f(float x) {{ return {result}; }}\n");
    file(&format!("memory-{name}.slang"), &text)
}

/// The backends of this build; graphics processors only if there is one.
fn backends() -> Vec<&'static str> {
    let mut all = vec!["interp", "cranelift"];
    if cfg!(feature = "llvm") {
        all.extend(["llvm", "tiers"]);
    }
    if cfg!(feature = "wgpu") && pullback(&["devices"]).status == Some(0) {
        all.push("wgpu");
    }
    all
}

/// Runs a command on a backend; `None` if the backend is a device that reports that it cannot run it.
fn on(backend: &str, args: &[&str], binds: &[&str]) -> Option<Out> {
    let mut args = [args, &["--backend", backend]].concat();
    args.extend(binds.iter().flat_map(|bind| ["--bind", bind]));
    let out = pullback(&args);
    // A device reports features that it lacks (pointers, doubles).
    (backend != "wgpu" || !out.stderr.contains("error[E09")).then_some(out)
}

/// Runs a command on every backend.
fn on_each(args: &[&str], binds: &[&str], judge: impl Fn(&str, &Out)) {
    for backend in backends() {
        if let Some(out) = on(backend, args, binds) {
            judge(backend, &out);
        }
    }
}

/// The commands that call a function, except for `grad`.
fn commands(file: &str) -> [Vec<&str>; 4] {
    [
        vec!["gradcheck", file, "f", "--points", "2"],
        vec!["verify", file, "f", "--points", "1", "--backend", "interp,cranelift", "-O", "2"],
        vec!["bench", file, "--seconds", "0", "--count", "1"],
        vec!["fit", file, "--loss", "f", "--items", "1", "--steps", "1", "--out", "memory-out"],
    ]
}

#[test]
fn what_is_not_bound_is_refused_by_every_command() {
    for (name, declaration, result, _, _) in KINDS {
        let file = write(name, declaration, result);
        let grad = ["grad", &file, "f", "--at", "x=2"];
        let hessian = [&grad[..], &["--backend", "cranelift", "--mode", "hessian"]].concat();
        for command in commands(&file).into_iter().chain([grad.to_vec(), hessian]) {
            let out = pullback(&command);
            let (said, other) = match command[0] {
                "verify" => (&out.stdout, &out.stderr),
                _ => (&out.stderr, &out.stdout),
            };
            let says = said.contains(" is not bound: `--bind ") && other.is_empty();
            assert!(out.status == Some(1) && says, "{name} {command:?}: {}{}", out.stdout, out.stderr);
        }
    }
}

#[test]
fn what_is_bound_is_read_by_every_command() {
    for (name, declaration, result, binds, slope) in KINDS {
        let file = write(&format!("bound-{name}"), declaration, result);
        let binds: Vec<&str> = binds.split(' ').collect();
        on_each(&["grad", &file, "f", "--at", "x=2", "--json"], &binds, |backend, out| {
            let found = out.json()["gradient"]["x"].as_f64();
            assert!(out.status == Some(0) && found == Some(slope), "{name} on {backend}: {}", out.stdout);
        });
        for mut command in commands(&file) {
            command.extend(binds.iter().flat_map(|bind| ["--bind", bind]));
            let out = pullback(&command);
            let fine = out.status == Some(0) && !out.stdout.contains("not checked");
            let fine = fine && (command[0] != "gradcheck" || out.stdout.contains(" 0 unclear"));
            assert!(fine, "{name} {command:?}: {}{}", out.stdout, out.stderr);
        }
    }
}

#[test]
fn each_call_finds_memory_as_it_is_bound() {
    let in_struct = "struct S { float* p; int i; } uniform S s;";
    for (name, declaration, place, binds) in [
        ("state", "RWStructuredBuffer<float> n;", "n[0]", &["n=[2]"][..]),
        ("state-behind", in_struct, "s.p[0]", &["s.p=[2]", r#"s={"i":0}"#]),
    ] {
        let file = write(name, declaration, &format!("x * x * ({place} += 1)"));
        on_each(&["gradcheck", &file, "f", "--json"], binds, |backend, out| {
            let entries = out.json()["entries"].as_array().cloned().unwrap_or_default();
            let agree = entries.len() == 5 && entries.iter().all(|e| e["verdict"] == "agrees");
            assert!(out.status == Some(0) && agree, "{backend}: {}{}", out.stdout, out.stderr);
        });
    }
}
