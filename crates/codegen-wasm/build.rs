//! Assembles the runtime's text, so that no reader of that format is part of the compiler.

use std::path::Path;

/// The parts of the module's text.
const PARTS: [&str; 3] = ["memory", "lanes", "numbers"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = "(module\n".to_string();
    for part in PARTS {
        let path = format!("src/runtime/{part}.wat");
        println!("cargo::rerun-if-changed={path}");
        text += &std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    }
    text += ")";
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("runtime.wasm"), wat::parse_str(&text)?)?;
    Ok(())
}
