//! Every program of tests/run on the first graphics processor of this machine, compared with the interpreter: the same text
//! and buffers, numbers to a relative 1e-4, or a refusal with a reason. Without a device the test says so and passes.
#![cfg(feature = "wgpu")]

use std::path::Path;

use driver::launch::Backend;
use pullback_tests::commands::slang::outcome;
use pullback_tests::file::{TestFile, discover};

/// Programs that are not compared, and why.
const NOT_HERE: [(&str, &str); 5] = [
    ("first-group-last.slang", "devices do not promise that the first group runs last"),
    ("guards.slang", "an infinity in the middle of an expression may be lost on devices"),
    ("checkpoint-budget.slang", "lavapipe of Mesa 22.3 compiles it for minutes"),
    (
        "43-loads-and-stores-that-happen-once.slang",
        "the process ends in lavapipe of Mesa 22.3; to be looked into",
    ),
    ("dimensions.slang", "the process ends in lavapipe of Mesa 22.3; to be looked into"),
];

/// Whether two texts are the same but for the last digits of numbers.
fn is_same(a: &str, b: &str) -> bool {
    let split = |text: &str| -> Vec<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
        text.split(|c| !is_part(c)).filter(|t| !t.is_empty()).map(str::to_string).collect()
    };
    let (a, b) = (split(a), split(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            a == b
                || match (a.parse::<f64>(), b.parse::<f64>()) {
                    (Ok(x), Ok(y)) => {
                        (x - y).abs() <= 1e-4 * x.abs().max(y.abs()).max(1e-2) || x.is_nan() && y.is_nan()
                    }
                    _ => false,
                }
        })
}

#[test]
fn programs_give_the_same_on_the_device() {
    let devices = driver::gpu::devices();
    let Some(device) = devices.first() else {
        eprintln!("there is no device with a Vulkan driver: skipped");
        return;
    };
    eprintln!("on {} ({})", device.name, device.driver);
    let work = || {
        let (mut same, mut refused, mut faults) = (0, 0, Vec::new());
        let only = std::env::var("PULLBACK_ONLY").unwrap_or_default();
        for path in discover(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            let name = path.display().to_string();
            if NOT_HERE.iter().any(|n| name.ends_with(n.0)) {
                continue;
            }
            if !name.contains("/run/") || !name.ends_with(".slang") || !name.contains(&only) {
                continue;
            }
            let Ok(file) = TestFile::read(&path) else { continue };
            if file.all("error").next().is_some() || file.command.first().is_none_or(|c| c != "run") {
                continue;
            }
            let Ok(wanted) = outcome(&file, Backend::Interp) else { continue };
            match outcome(&file, Backend::Wgpu) {
                Ok(found) if is_same(&found, &wanted) => same += 1,
                Ok(found) => faults.push(format!("{name}:\n{found}\ninstead of\n{wanted}")),
                Err(why)
                    if why.contains("E093") || why.contains("does not have") || why.contains("is empty") =>
                {
                    refused += 1;
                }
                Err(why) => faults.push(format!("{name}: {why}")),
            }
        }
        eprintln!("{same} the same, {refused} refused, {} different", faults.len());
        faults
    };
    let thread =
        std::thread::Builder::new().stack_size(512 << 20).spawn(work).expect("the system has a thread");
    let faults = thread.join().expect("no panic");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
