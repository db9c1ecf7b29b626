//! Assembles the runtime's text, so that no reader of that format is part of the compiler.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=src/runtime.wat");
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("runtime.wasm"), wat::parse_file("src/runtime.wat")?)?;
    Ok(())
}
