//! Tests the memory that functions reach, in every command that calls functions, and on the backends that
//! call them.

mod common;

use common::{Out, file, pullback};

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

#[test]
fn a_name_that_is_wrong_or_bound_twice_is_an_error() {
    let file = write("wrong", "StructuredBuffer<float> w; uniform float k;", "x * w[0] * k");
    let wrong: [(&[&str], &str); 8] = [
        (&["--bind", "w[1]=[1]"], "`w[1]` is bound, but the program has w, k"),
        (&["--bind", "w.x=[1]"], "`w.x` is bound, but"),
        (&["--bind", "k[0]=1"], "`k[0]` is bound, but"),
        (&["--bind", "v=[1]"], "`v` is bound, but the program has w, k"),
        (&["--bind", "w=[1]", "--bind", "w=[2]"], "`w` is bound twice"),
        (&["--bind", "w=[1]", "--bind", "k=zeros:2"], "a uniform has one element"),
        (&["--bind", "w=3"], "`--bind w`"),
        (&["--bind", "w"], "expected NAME=VALUE"),
    ];
    for (bind, message) in wrong {
        for command in [["grad", "--at", "x=1"], ["gradcheck", "--points", "1"]] {
            let args = [&[command[0], &file, "f"], &command[1..], bind].concat();
            let out = pullback(&args);
            assert!(out.status != Some(0) && out.stderr.contains(message), "{args:?}: {}", out.stderr);
        }
    }
}

#[test]
fn backends_give_the_same_gradients() {
    let text = "
        struct P : IDifferentiable { float2 at; half h; bool on; int16_t n; }
        groupshared float last[4];
        [Differentiable] float f(P p, float a[20], no_diff int n, inout double d, out float2x2 m)
        {
            float s = p.at.x * float(p.h) + p.n;
            for (int i = 0; i < n; i++) s += a[i % 20] * a[(i + 3) % 20] * p.at.y;
            m = float2x2(s, p.at.x, p.at.y, a[19]);
            d = d * s;
            return p.on ? s : -s;
        }";
    let file = file("memory-backends.slang", text);
    let at = "p={\"at\":[1,2],\"h\":0.5,\"on\":true,\"n\":-3},n=25,d=1.5,a=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]";
    for mode in ["forward", "reverse", "hessian"] {
        let grad = ["grad", &file, "f", "--at", at, "--mode", mode, "--json"];
        let want = pullback(&grad);
        assert!(want.status == Some(0) && want.stdout.contains("result"), "{}", want.stderr);
        on_each(&grad, &[], |backend, out| {
            assert!(out.stdout == want.stdout, "{mode} on {backend}: {}{}", out.stdout, out.stderr);
        });
    }
}

#[test]
fn a_function_of_memory_cannot_be_called() {
    let text = "[Differentiable] float f(float x, no_diff RWStructuredBuffer<float> b) { return x * b[0]; }";
    let out = pullback(&["gradcheck", &file("memory-parameter.slang", text), "f"]);
    let says = out.stdout.is_empty() && out.stderr.contains("parameter `b`");
    assert!(out.status == Some(1) && says, "{}{}", out.stdout, out.stderr);
}

fn refused(file: &str, binds: &[&str], says: &[&str]) {
    let out = on("interp", &["run", file], binds).expect("no device");
    let is_said = says.iter().all(|text| out.stderr.contains(text));
    assert!(out.status == Some(1) && is_said, "{says:?}: {}", out.stderr);
}

/// A pointer in a struct, behind another pointer or in a uniform, is named by its path; all of them must be
/// bound.
#[test]
fn pointers_behind_pointers_are_bound_by_name() {
    let text = "struct Layer { float* weights; float* sums; }
struct Network { Layer first; Layer rest[2]; }
struct Scaled { float* values; float by; }
uniform Scaled scaled;
[numthreads(1, 1, 1)]
void main(uniform Network* network, uniform float* result)
{
    network.first.sums[0] += network.first.weights[1];
    network.rest[1].sums[1] += network.rest[0].weights[0] * scaled.values[0] * scaled.by;
    result[0] = network.rest[1].sums[1];
}
";
    let file = file("memory-behind.slang", text);
    let binds = [
        "network.first.weights=[1,2]",
        "network.first.sums=zeros:1",
        "network.rest[0].weights=[3]",
        "network.rest[0].sums=zeros:1",
        "network.rest[1].weights=zeros:1",
        "network.rest[1].sums=[0,1]",
        "scaled={\"by\":2}",
        "scaled.values=[5]",
        "result=zeros:1",
    ];
    on_each(&["run", &file], &binds, |backend, out| {
        assert_eq!(out.status, Some(0), "{backend}: {}", out.stderr);
        for line in ["network.first.sums: 2.0", "network.rest[1].sums: 0.0 31.0", "result: 31.0"] {
            assert!(out.stdout.lines().any(|l| l == line), "{backend}: {line} in {}", out.stdout);
        }
        assert!(!out.stdout.contains("network: "), "{backend}: {}", out.stdout);
    });
    refused(&file, &binds[1..], &["`network.first.weights` is not bound"]);
    let all: Vec<&str> = binds.iter().copied().chain(["network=zeros:2"]).collect();
    refused(&file, &all, &["`network` has 2 elements and holds pointers", "`network[1].first.weights`"]);
}

/// If several elements hold pointers, those of each element have its index in their names. The program is a
/// training step over such elements.
#[test]
fn lists_that_hold_pointers_are_bound_by_element() {
    let text = "struct Layer { float* weights; Atomic<float>* gradients; int inputs; }
struct Network { Layer* layers; int depth; }
uniform Network* network;
uniform float** rows;
RWStructuredBuffer<Layer> own;
RWStructuredBuffer<float> result;
[BackwardDerivative(weight_bwd)] float weight(int layer, int i) { return network.layers[layer].weights[i]; }
void weight_bwd(int layer, int i, float d) { network.layers[layer].gradients[i].add(d); }
[Differentiable] float loss(float x)
{
    float value = x;
    [MaxIters(8)] for (int layer = 0; layer < network.depth; layer++)
    {
        float sum = 0;
        [MaxIters(8)] for (int i = 0; i < network.layers[layer].inputs; i++)
            sum += weight(layer, i) * value;
        value = sum;
    }
    return value;
}
[numthreads(1, 1, 1)]
void main()
{
    var x = diffPair(2.0);
    bwd_diff(loss)(x, 1.0);
    result[0] = x.d;
    result[1] = rows[1][0] + (*rows)[1];
    rows[0][0] = loss(2.0);
    result[2] = own[1].weights[own[0].inputs];
}
";
    let file = file("memory-lists.slang", text);
    let binds = [
        "network={\"depth\":2}",
        "network.layers=[{\"inputs\":2},{\"inputs\":1}]",
        "network.layers[0].weights=[1,2]",
        "network.layers[0].gradients=zeros:2",
        "network.layers[1].weights=[5]",
        "network.layers[1].gradients=zeros:1",
        "rows[0]=[0,7]",
        "rows[1]=[4]",
        "own=[{\"inputs\":1},{\"inputs\":2}]",
        "own[0].weights=[1]",
        "own[0].gradients=zeros:1",
        "own[1].weights=[1,6]",
        "own[1].gradients=zeros:1",
        "result=zeros:3",
    ];
    on_each(&["run", &file], &binds, |backend, out| {
        assert_eq!(out.status, Some(0), "{backend}: {}", out.stderr);
        let wanted = [
            "network.layers[0].gradients: 10.0 10.0",
            "network.layers[1].gradients: 6.0",
            "rows[0]: 30.0 7.0",
            "result: 15.0 11.0 6.0",
            // Pointers have names and no values.
            "own: 1 2",
        ];
        for line in wanted {
            assert!(out.stdout.lines().any(|l| l == line), "{backend}: {line} in {}", out.stdout);
        }
    });
    let lacking = |name: &str| binds.iter().copied().filter(|b| !b.starts_with(name)).collect::<Vec<_>>();
    let weights = "network.layers[1].weights";
    refused(&file, &lacking(weights), &["`network.layers[1].weights` is not bound"]);
    let says = ["`network.layers` has 2 elements", "`network.layers[1]."];
    refused(&file, &lacking("network.layers[1]"), &says);
}

#[test]
fn a_buffer_of_pointers_is_bound_by_their_names() {
    let file = file(
        "memory-rows.slang",
        "RWStructuredBuffer<float*> rows; RWStructuredBuffer<float> o; struct S { uint64_t k; float* p; } RWStructuredBuffer<S> s;\n\
         [numthreads(1, 1, 1)] void main() { o[0] = rows[1][0] + s[0].p[0]; }\n",
    );
    let named = ["rows[0]=[1]", "rows[1]=[2]", "o=zeros:1", "s=[{\"k\":3}]", "s.p=[4]"];
    on_each(&["run", &file], &named, |backend, out| {
        assert_eq!(
            out.stdout, "o: 6.0\ns: 3\nrows[0]: 1.0\nrows[1]: 2.0\ns.p: 4.0\n",
            "{backend}: {}",
            out.stderr
        );
    });
    on_each(&["run", &file, "--json", "--out", "s"], &named, |backend, out| {
        assert!(out.stdout.contains("\"words\":[3,0,0,0]"), "{backend}: {} {}", out.stdout, out.stderr);
    });
    refused(&file, &["rows=[1,2]", "o=zeros:1"], &["`--bind rows`: element 0: a pointer", "`OUTER[0]=…`"]);
}
