//! Compiles `spring.slang` to an archive that is linked in. `PULLBACK` names the compiler, if it is not on the path.

use std::path::Path;
use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let archive = Path::new(&out).join("libspring.a");
    let compiler = std::env::var("PULLBACK").unwrap_or_else(|_| "pullback".to_string());
    let status = Command::new(&compiler)
        .args(["build", "../c-library/spring.slang", "spring", "--native", "-o"])
        .arg(&archive)
        .status()
        .unwrap_or_else(|error| panic!("`{compiler}` does not run: {error}"));
    assert!(status.success(), "`{compiler}` has found an error in the program");
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=spring");
    println!("cargo::rustc-link-lib=m");
    println!("cargo::rerun-if-changed=../c-library/spring.slang");
    println!("cargo::rerun-if-env-changed=PULLBACK");
}
