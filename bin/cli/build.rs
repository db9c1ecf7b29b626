//! Links the binary at a fixed address on Linux: 54,000 words of tables are then in the file as they are, where the
//! loader of a position-independent binary writes each of them before `main`, a third of a command's start.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}"));
    if target("OS").as_deref() == Ok("linux") && target("ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
