//! Memory that functions reach, in every command that calls them, and the backends that call them.

use std::path::PathBuf;
use std::process::Command;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn pullback(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .args(args)
        .current_dir(folder())
        .output()
        .expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// Each function reaches memory of another kind. `slope` is what `--bind` below makes of it at `x = 2`.
const KINDS: [(&str, &str, &str, &str, f64); 12] = [
    ("buffer", "StructuredBuffer<float> w;", "x * w[1]", "w=[5,3]", 3.0),
    ("doubles", "StructuredBuffer<double> w;", "x * float(w[0])", "w=[7]", 7.0),
    ("writable", "RWStructuredBuffer<float> w;", "x * w[0]", "w=[2]", 2.0),
    ("uniform", "uniform float k;", "x * x * k", "k=0.5", 2.0),
    ("uniform_vector", "uniform float3 k;", "x * k.z", "k=[1,2,3]", 3.0),
    ("matrix", "uniform float2x3 k;", "x * k[1][0]", "k=[[1,2,3],[4,5,6]]", 4.0),
    ("block", "cbuffer C { float k; float2 l; }", "x * l.y", "l=[1,6]", 6.0),
    ("parameter_block", "struct S { float k; } ParameterBlock<S> s;", "x * s.k", "s={\"k\":5}", 5.0),
    ("bytes", "ByteAddressBuffer w;", "x * asfloat(w.Load(4))", "w=words:0,0x40400000", 3.0),
    ("texture", "Texture2D<float4> t;", "x * t.Load(int3(1, 0, 0)).x", "t=[[4,8]]", 8.0),
    ("pointer", "uniform float* p;", "x * p[1]", "p=[1,9]", 9.0),
    ("structs", "struct S { float a; float b; } StructuredBuffer<S> w;", "x * w[1].b", "w=[1,2,3,4]", 4.0),
];

fn write(name: &str, declaration: &str, result: &str) -> String {
    let text = format!("{declaration}\n[Differentiable] float f(float x) {{ return {result}; }}\n");
    let path = folder().join(format!("memory-{name}.slang"));
    std::fs::write(&path, text).expect("the test folder is writable");
    path.to_str().expect("a plain path").to_string()
}

/// The backends of this build, graphics processors only where there is one.
fn backends() -> Vec<&'static str> {
    let mut all = vec!["interp", "cranelift"];
    if cfg!(feature = "llvm") {
        all.extend(["llvm", "tiers"]);
    }
    if cfg!(feature = "wgpu") && pullback(&["devices"]).0 == Some(0) {
        all.push("wgpu");
    }
    all
}

#[test]
fn what_is_not_bound_is_refused_by_every_command() {
    for (name, declaration, result, bind, _) in KINDS {
        let file = write(name, declaration, result);
        let names = bind.split_once('=').expect("NAME=VALUE").0;
        let fit = ["fit", &file, "--loss", "f", "--items", "1", "--steps", "1", "--out", "memory-out"];
        let commands: [&[&str]; 5] = [
            &["grad", &file, "f", "--at", "x=2"],
            &["grad", &file, "f", "--at", "x=2", "--backend", "cranelift", "--mode", "hessian"],
            &["gradcheck", &file, "f"],
            &["bench", &file, "--seconds", "0", "--count", "1"],
            &fit,
        ];
        for command in commands {
            let (status, out, err) = pullback(command);
            let says = err.contains(&format!("`{names}` is not bound: `--bind {names}="));
            // of a block, any of its fields is the first
            let says = says || err.contains("is not bound: `--bind ");
            assert!(status == Some(1) && says && out.is_empty(), "{name} {command:?}: {out}{err}");
        }
    }
}

#[test]
fn what_is_bound_is_read_on_every_backend() {
    let backends = backends();
    for (k, (name, declaration, result, bind, slope)) in KINDS.into_iter().enumerate() {
        let file = write(&format!("bound-{name}"), declaration, result);
        let mut bound = vec!["--bind", bind];
        if name == "block" {
            bound.extend(["--bind", "k=1"]);
        }
        for backend in &backends {
            let args =
                [&["grad", &file, "f", "--at", "x=2", "--json", "--backend", backend][..], &bound].concat();
            let (status, out, err) = pullback(&args);
            // What a device lacks (pointers, doubles) it says.
            if *backend == "wgpu" && err.contains("error[E09") {
                continue;
            }
            let json: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
            let found = json["gradient"]["x"].as_f64();
            assert!(status == Some(0) && found == Some(slope), "{name} on {backend}: {out}{err}");
        }
        let backend = backends[k % backends.len()];
        let args = ["gradcheck", &file, "f", "--points", "2", "--backend", backend];
        let (status, out, err) = pullback(&[&args[..], &bound].concat());
        let refused = backend == "wgpu" && err.contains("error[E09");
        assert!(refused || status == Some(0) && out.contains("0 unclear"), "{name} on {backend}: {out}{err}");
        let fit = ["fit", &file, "--loss", "f", "--items", "1", "--steps", "1", "--out", "memory-out"];
        let (status, out, err) = pullback(&[&fit[..], &bound].concat());
        assert!(status == Some(0), "{name}: {out}{err}");
        let bench = ["bench", &file, "--seconds", "0", "--count", "1"];
        let (status, out, err) = pullback(&[&bench[..], &bound].concat());
        assert!(status == Some(0), "{name}: {out}{err}");
    }
}

#[test]
fn each_call_finds_memory_as_it_is_bound() {
    let declaration = "RWStructuredBuffer<float> n;";
    let file = write("state", declaration, "x * x * (n[0] += 1)");
    for backend in backends() {
        let args = ["gradcheck", &file, "f", "--bind", "n=[2]", "--backend", backend, "--json"];
        let (status, out, err) = pullback(&args);
        let json: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
        let entries = json["entries"].as_array().cloned().unwrap_or_default();
        let agree = entries.len() == 5 && entries.iter().all(|e| e["verdict"] == "agrees");
        assert!(status == Some(0) && agree, "{backend}: {out}{err}");
    }
}

#[test]
fn a_name_that_is_wrong_or_bound_twice_is_an_error() {
    let file = write("wrong", "StructuredBuffer<float> w; uniform float k;", "x * w[0] * k");
    let wrong: [(&[&str], &str); 5] = [
        (&["--bind", "v=[1]"], "`v` is bound, but the program has w, k"),
        (&["--bind", "w=[1]", "--bind", "w=[2]"], "`w` is bound twice"),
        (&["--bind", "w=[1]", "--bind", "k=zeros:2"], "a uniform has one element"),
        (&["--bind", "w=3"], "`--bind w`"),
        (&["--bind", "w"], "expected NAME=VALUE"),
    ];
    for (bind, message) in wrong {
        for command in [["grad", "--at", "x=1"], ["gradcheck", "--points", "1"]] {
            let args = [&[command[0], &file, "f"], &command[1..], bind].concat();
            let (status, _, err) = pullback(&args);
            assert!(status != Some(0) && err.contains(message), "{args:?}: {err}");
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
    let path = folder().join("memory-backends.slang");
    std::fs::write(&path, text).expect("the test folder is writable");
    let file = path.to_str().expect("a plain path");
    let at = "p={\"at\":[1,2],\"h\":0.5,\"on\":true,\"n\":-3},n=25,d=1.5,a=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]";
    for mode in ["forward", "reverse", "hessian"] {
        let of = |backend: &str| {
            let (status, out, err) =
                pullback(&["grad", file, "f", "--at", at, "--mode", mode, "--json", "--backend", backend]);
            (status, out, err)
        };
        let (status, want, err) = of("interp");
        assert!(status == Some(0) && want.contains("result"), "{err}");
        for backend in backends() {
            let (status, found, err) = of(backend);
            if backend == "wgpu" && err.contains("error[E09") {
                continue;
            }
            assert!(
                status == Some(0) && found == want,
                "{mode} on {backend}: {found} instead of {want} {err}"
            );
        }
    }
}

#[test]
fn a_function_of_memory_cannot_be_called() {
    let text = "[Differentiable] float f(float x, no_diff RWStructuredBuffer<float> b) { return x * b[0]; }";
    let path = folder().join("memory-parameter.slang");
    std::fs::write(&path, text).expect("the test folder is writable");
    let (status, out, err) = pullback(&["gradcheck", path.to_str().expect("a plain path"), "f"]);
    assert!(status == Some(1) && out.is_empty() && err.contains("parameter `b`"), "{out}{err}");
}

fn bound(file: &str, backend: &str, binds: &[&str]) -> (Option<i32>, String, String) {
    let mut args = vec!["run", file, "--backend", backend];
    for bind in binds {
        args.extend(["--bind", bind]);
    }
    pullback(&args)
}

/// A pointer in a struct, behind a pointer or in a uniform, has the name of its path; all of them have to be bound.
#[test]
fn pointers_behind_pointers_are_bound_by_name() {
    let file = folder().join("memory-behind.slang");
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
    std::fs::write(&file, text).expect("the test folder is writable");
    let file = file.to_str().expect("a plain path");
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
    let run = |backend: &str, binds: &[&str]| bound(file, backend, binds);
    for backend in backends().into_iter().filter(|b| *b != "wgpu") {
        let (code, out, err) = run(backend, &binds);
        assert_eq!(code, Some(0), "{backend}: {err}");
        for line in ["network.first.sums: 2.0", "network.rest[1].sums: 0.0 31.0", "result: 31.0"] {
            assert!(out.lines().any(|l| l == line), "{backend}: {line} in {out}");
        }
        assert!(!out.contains("network: "), "{backend}: {out}");
    }
    let (code, _, err) = run("interp", &binds[1..]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("`network.first.weights` is not bound"), "{err}");
    let all: Vec<&str> = binds.iter().copied().chain(["network=zeros:2"]).collect();
    let (code, _, err) = run("interp", &all);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("`network` has 2 elements and holds pointers"), "{err}");
    assert!(err.contains("`network[1].first.weights`"), "{err}");
}

/// Several elements that hold pointers: those of each have its index in their names. A step of a training over them.
#[test]
fn lists_that_hold_pointers_are_bound_by_element() {
    let file = folder().join("memory-lists.slang");
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
    std::fs::write(&file, text).expect("the test folder is writable");
    let file = file.to_str().expect("a plain path");
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
    let run = |backend: &str, binds: &[&str]| bound(file, backend, binds);
    for backend in backends().into_iter().filter(|b| *b != "wgpu") {
        let (code, out, err) = run(backend, &binds);
        assert_eq!(code, Some(0), "{backend}: {err}");
        let wanted = [
            "network.layers[0].gradients: 10.0 10.0",
            "network.layers[1].gradients: 6.0",
            "rows[0]: 30.0 7.0",
            "result: 15.0 11.0 6.0",
        ];
        for line in wanted {
            assert!(out.lines().any(|l| l == line), "{backend}: {line} in {out}");
        }
    }
    let lacking = |name: &str| binds.iter().copied().filter(|b| !b.starts_with(name)).collect::<Vec<_>>();
    let (code, _, err) = run("interp", &lacking("network.layers[1].weights"));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("`network.layers[1].weights` is not bound"), "{err}");
    let (code, _, err) = run("interp", &lacking("network.layers[1]"));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("`network.layers` has 2 elements"), "{err}");
    assert!(err.contains("`network.layers[1]."), "{err}");
}
