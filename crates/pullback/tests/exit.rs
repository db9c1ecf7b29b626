//! A process may end while LLVM compiles in the background: it ends as it would otherwise.

use std::process::Command;

use pullback::Compiler;

/// The variable that makes this test the process that ends.
const CHILD: &str = "PULLBACK_TEST_CHILD";

#[test]
fn the_end_of_a_process_does_not_hurt_what_compiles() {
    if std::env::var_os(CHILD).is_some() {
        return begin();
    }
    let own = std::env::current_exe().expect("the path of this test");
    for _ in 0..20 {
        let child = Command::new(&own)
            .args(["--exact", "the_end_of_a_process_does_not_hurt_what_compiles"])
            .env(CHILD, "1")
            .output()
            .expect("the test runs");
        assert!(child.status.success(), "{}: {}", child.status, String::from_utf8_lossy(&child.stderr));
    }
}

/// Runs long enough that LLVM begins, and not so long that it is done.
fn begin() {
    let text = "
        RWStructuredBuffer<uint> o;
        [shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 id : SV_DispatchThreadID)
        {
            uint sum = 0;
            for (uint i = 0; i < 20000; i++) sum = sum * 1664525 + i + id.x;
            if (sum == 1) o[0] = id.x;
        }";
    let mut kernels = Compiler::new().text("long.slang", text).and_then(|m| m.kernels()).expect("compiles");
    kernels.write_value("o", [0]).expect("a buffer");
    let k = kernels.kernel("k").expect("a kernel");
    let stop = kernels.stop_handle();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        stop.stop();
    });
    kernels.dispatch(k, [u32::MAX, 4, 1]).expect_err("it is stopped");
}
