//! Tests that `pullback bench` measures. Its output is in `documents/bench.md`, without the times.

use crate::common::{file, pullback};

#[test]
fn functions_and_gradients_take_time() {
    let path = file(
        "bench.slang",
        "[Differentiable] void swap(inout float a, out float b) { b = a * a; a = sin(a); }",
    );
    let out = pullback(&["bench", &path, "--seconds", "0", "--count", "100", "--json"]);
    for kernel in ["primal", "gradient"] {
        let times = &out.json()["functions"][0][kernel];
        assert!(times["ns_per_thread"].as_f64().is_some_and(|x| x > 0.0), "{times}");
        assert!(times["dispatches"].as_u64().is_some_and(|n| n >= 5), "{times}");
    }
}
