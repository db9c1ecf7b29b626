//! Tests the measurements of `pullback bench` and its output. No times are compared.

use std::process::Command;

fn bench(source: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let folder = std::env::temp_dir().join(format!("pullback-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let path = folder.join(format!("{}.slang", args.len()));
    std::fs::write(&path, source).expect("the file is written");
    let output = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .arg("bench")
        .arg(&path)
        .args(["--seconds", "0", "--count", "100"])
        .args(args)
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const SOURCE: &str = "
struct Net : IDifferentiable { float w[40]; float2x3 m; no_diff half k; int n; bool on; }
[Differentiable] float loss(Net net, double x, no_diff uint2 size)
{
    float y = float(x);
    for (int i = 0; i < net.n; i++)
        y = tanh(net.w[i] * y) + net.m[1].y + float(net.k) * size.x;
    return y;
}
[Differentiable] void swap(inout float a, out float b) { b = a * a; a = sin(a); }
int plain(int n) { return n * n; }
float from(RWStructuredBuffer<float> b) { return b[0]; }
";

#[test]
fn every_differentiable_function_is_measured() {
    let (status, out, err) = bench(SOURCE, &["--json"]);
    assert_eq!(status, Some(0), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    let functions = json["functions"].as_array().expect("a list");
    let names: Vec<&str> = functions.iter().filter_map(|f| f["function"].as_str()).collect();
    assert_eq!(names, ["loss", "swap"]);
    for function in functions {
        // Threads are rounded up to whole groups of 64.
        assert_eq!(function["threads"], 128);
        for kernel in ["primal", "gradient"] {
            let times = &function[kernel];
            assert!(times["ns_per_thread"].as_f64().is_some_and(|x| x > 0.0), "{times}");
            assert!(times["dispatches"].as_u64().is_some_and(|n| n >= 5), "{times}");
        }
    }
}

#[test]
fn what_a_gradient_keeps_is_said_beside_what_must_be_kept() {
    let source = "
[Differentiable] float decays(float x)
{
    float y = x;
    for (int i = 0; i < 100; i++)
        y = sin(y) * x + y * y;
    return y;
}
[Differentiable] float waits(float x)
{
    float y = x;
    while (y < 10.0)
        y = y * y + x;
    return y;
}
[Differentiable] float again(float x, no_diff int n) { return n > 0 ? sin(again(x, n - 1)) : x; }
[Differentiable] float square(float x) { return x * x; }
";
    let (status, out, err) = bench(source, &["--json", "--threads", "1"]);
    assert_eq!(status, Some(0), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    let of = |name: &str, key: &str| {
        let functions = json["functions"].as_array().expect("a list");
        functions.iter().find(|f| f["function"] == name).and_then(|f| f[key].as_u64())
    };
    for name in ["waits", "square"] {
        let (kept, least) = (of(name, "kept_bytes"), of(name, "least_kept_bytes"));
        assert!(
            least.is_some() && least <= kept && kept <= least.map(|n| 2 * n),
            "{name}: {kept:?} of {least:?}"
        );
    }
    // The number of each iteration and `x` must be kept; the sine and the cosine are kept as well, so that
    // they need not be recomputed.
    assert_eq!(of("decays", "least_kept_bytes"), Some(404), "{out}");
    assert_eq!(of("decays", "kept_bytes"), Some(1204), "{out}");
    let (status, out, err) = bench(source, &["waits", "again", "--threads", "1"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(
        out.contains("waits keeps ") && out.contains("[MaxIters]` (") && out.contains(".slang:12)"),
        "{out}"
    );
    // If it does not run in lanes, the reason is printed, with the line.
    let says = out.lines().find(|line| line.starts_with("the gradient of again runs in no lanes"));
    assert!(says.is_none_or(|line| line.contains("calls itself") && line.contains(".slang:16)")), "{out}");
}

#[test]
fn functions_can_be_named() {
    let (status, out, err) = bench(SOURCE, &["swap", "--at", "a=0.5"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.lines().nth(1).is_some_and(|line| line.starts_with("swap ")), "{out}");
    let (status, out, _) = bench(SOURCE, &["plain", "--json", "--threads", "1"]);
    assert_eq!(status, Some(0));
    assert!(out.contains("\"gradient\":null"), "{out}");
    let (status, _, err) = bench(SOURCE, &["from"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("its parameter `b` is no number"), "{err}");
    let (status, _, err) = bench("int f() { return 1; }", &[]);
    assert_eq!(status, Some(1));
    assert!(err.contains("no differentiable function"), "{err}");
}
