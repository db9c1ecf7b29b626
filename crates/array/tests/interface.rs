//! Tests the description of a program's interface for hosts.

use std::path::Path;
use std::sync::Arc;

use pullback_array::{Error, Options, Program};
use serde_json::{Value, json};

fn program(text: &str) -> Arc<Program> {
    Program::from_text("test.slang", text, Path::new(""), Options::default()).expect("it parses")
}

fn interface(text: &str) -> Value {
    let described = program(text).interface().expect("it is right");
    serde_json::from_str(&described).expect("it is JSON")
}

#[test]
fn kernels_have_parameters_with_types() {
    let found = interface(
        "[PyExport(\"Net\")] struct Layers<let N : int> { DiffTensorView w[N]; float3x2 m; }
        [AutoPyBindCUDA] [CudaKernel] [Differentiable] void f(Layers<2> net, TensorView<uint2> out, no_diff half h) {}
        [AutoPyBindCUDA] [CUDAKernel] [ForwardDifferentiable] void g(DiffTensorView x) {}
        [CudaKernel] void hidden() {}",
    );
    let kernels = found["kernels"].as_array().expect("a list");
    let shown: Vec<_> = kernels.iter().map(|k| (&k["name"], &k["fwd"], &k["bwd"])).collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(shown, [(&json!("f"), &yes, &yes), (&json!("g"), &yes, &no)]);
    let field = |k: usize| &kernels[0]["params"][0]["type"]["fields"][k];
    let net = &kernels[0]["params"][0]["type"];
    assert_eq!((&net["kind"], &net["exported"]), (&json!("struct"), &json!("Net")));
    let (w, m) = (&field(0)["type"], &field(1)["type"]);
    assert_eq!(
        (&w["kind"], &w["n"], &w["element"]["base"]),
        (&json!("array"), &json!(2), &json!("DiffTensorView"))
    );
    assert_eq!((&m["kind"], &m["rows"], &m["columns"]), (&json!("matrix"), &json!(3), &json!(2)));
    let out = &kernels[0]["params"][1]["type"];
    assert_eq!((&out["kind"], &out["args"][0]["name"]), (&json!("opaque"), &json!("vector<uint,2>")));
    let h = &kernels[0]["params"][2];
    let wanted = (&json!("h"), &json!("half"), &json!("in"), &yes);
    assert_eq!((&h["name"], &h["type"]["scalar"], &h["direction"], &h["no_diff"]), wanted);
}

#[test]
fn host_functions_have_bodies() {
    let found = interface(
        "[CudaKernel] void k(TensorView<float> x, float by) {}
        int half_of(int n) { return n / 2; }
        [TorchEntryPoint] void run(TorchTensor<float> x)
        {
            __dispatch_kernel(k, uint3(1), uint3(half_of(4), 1, 1))(x, 2);
            switch (1) { default: break; }
        }",
    );
    assert_eq!(found["hosts"], json!([{ "name": "run", "function": 0 }]));
    let names: Vec<_> = (0..2).map(|k| &found["functions"][k]["name"]).collect();
    assert_eq!(names, [&json!("run"), &json!("half_of")]);
    let body = &found["functions"][0]["body"]["body"];
    let dispatch = &body[0]["expr"];
    assert_eq!((&dispatch["is"], &dispatch["entry"]), (&json!("dispatch"), &json!("k")));
    // Numbers are converted to the types of the kernel's parameters.
    assert_eq!(dispatch["args"][1]["to"]["scalar"], json!("float"));
    let refused = "test.slang:6: this statement in host code is not supported yet";
    assert_eq!((&body[1]["do"], &body[1]["what"]), (&json!("unsupported"), &json!(refused)));
}

#[test]
fn all_of_a_file_is_checked() {
    for text in ["float f() { return y; }", "[CudaKernel] void f(Texture1D<int> t) { asm_(); }"] {
        let Err(Error::Program(report)) = program(text).interface() else { panic!("{text}") };
        assert!(report.json.contains("E30015"), "{}", report.text);
    }
}
