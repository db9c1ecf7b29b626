//! Notes the folder of rustc's own libraries, in which Rust's distribution has LLVM's shared library: whoever
//! builds with that distribution has LLVM without installing anything. It is looked for there last, at run time.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_string());
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    println!("cargo::rustc-env=PULLBACK_RUSTC_LIBRARIES={}/lib", sysroot.unwrap_or_default());
}
