//! Compiles `spring.slang` to an archive that is linked in, and to bindings that `main.rs` includes. `PULLBACK` names the
//! compiler, if it is not on the path.

use std::path::Path;
use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let compiler = std::env::var("PULLBACK").unwrap_or_else(|_| "pullback".to_string());
    let status = Command::new(&compiler)
        .args(["build", "../c-library/spring.slang", "--native", "-o"])
        .arg(Path::new(&out).join("libspring.a"))
        .arg("--rust")
        .arg(Path::new(&out).join("spring.rs"))
        .status()
        .unwrap_or_else(|error| panic!("`{compiler}` does not run: {error}"));
    assert!(status.success(), "`{compiler}` has found an error in the program");
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=spring");
    println!("cargo::rustc-link-lib=m");
    println!("cargo::rerun-if-changed=../c-library/spring.slang");
    println!("cargo::rerun-if-env-changed=PULLBACK");
}
