//! `test emit TARGET`: writes the program in a language of graphics processors, and checks it by `// check:`
//! and `// not:` lines, or by `// error: LINE:COLUMN: TEXT`. `test emit TARGET subgroups` writes it for
//! devices whose subgroups are waves.
//!
//! Whatever the target, the program is also written as SPIR-V, GLSL and HLSL, and `spirv-val` and
//! `glslangValidator` must accept it if they are installed. The latter also checks HLSL, unless the program
//! has features that only Microsoft's compiler supports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use driver::gpu::{self, Target, Wanted};
use driver::pipeline::{self, Failure, Options};
use driver::session::{FileOptions, Session};

use crate::file::TestFile;

/// Every target and its name.
pub const TARGETS: [(&str, Target); 7] = [
    ("wgsl", Target::Wgsl),
    ("spirv", Target::Spirv),
    ("spirv-asm", Target::SpirvAsm),
    ("msl", Target::Msl),
    ("hlsl", Target::Hlsl),
    ("glsl", Target::Glsl),
    ("reflection", Target::Reflection),
];

/// Writes a file's program for a target.
pub fn emit(
    session: &mut Session,
    path: &Path,
    entry: Option<&str>,
    wanted: Wanted,
) -> Result<Vec<u8>, Failure> {
    let mut loaded = pipeline::load(session, path)?;
    loaded.errors()?;
    gpu::emit(&session.sources, &mut loaded, entry, wanted, &Options::default())
}

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let name = file.command.get(1).map_or("wgsl", String::as_str);
    let target =
        TARGETS.iter().find(|t| t.0 == name).ok_or_else(|| format!("there is no target '{name}'"))?.1;
    let subgroups = file.command.get(2).is_some_and(|word| word == "subgroups");
    let entry = file.all("entry").next();
    let mut session = Session::new(FileOptions::default());
    let bytes = match emit(&mut session, &file.path, entry, Wanted { target, subgroups }) {
        Ok(bytes) => bytes,
        Err(failure) => {
            let found = super::slang::places(&session, &failure);
            let wanted: Vec<&str> = file.all("error").collect();
            let fits =
                |w: &&str| found.iter().any(|line| line.starts_with(&place(w)) && line.contains(&text(w)));
            let all = !wanted.is_empty() && wanted.iter().all(fits);
            return if all { Ok(()) } else { Err(format!("found\n{}", found.join("\n"))) };
        }
    };
    if let Some(want) = file.all("error").next() {
        return Err(format!("it was written, instead of the error '{want}'"));
    }
    file.match_output(&String::from_utf8_lossy(&bytes))?;
    for target in [Target::Spirv, Target::Glsl, Target::Hlsl] {
        let mut session = Session::new(FileOptions::default());
        if let Ok(bytes) = emit(&mut session, &file.path, entry, Wanted { target, subgroups }) {
            validate(&file.path, target, &bytes)?;
        }
    }
    Ok(())
}

fn place(wanted: &str) -> String {
    wanted.splitn(3, ':').take(2).map(|part| format!("{}:", part.trim())).collect()
}

fn text(wanted: &str) -> String {
    wanted.splitn(3, ':').nth(2).unwrap_or_default().trim().to_string()
}

/// The stage that a text in GLSL is for.
fn stage(text: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(text);
    match () {
        () if text.contains("local_size_x") => "comp",
        () if text.contains("gl_Position") => "vert",
        () => "frag",
    }
}

/// Validates texts of programs in GLSL in as few runs of the tool as there are stages, since it takes longer to start than
/// to read one; passes if the tool is not installed.
pub fn validate_glsl(texts: &[(&Path, Vec<u8>)]) -> Result<(), String> {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("pullback-{}-glsl-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let mut paths: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for (k, (of, text)) in texts.iter().enumerate() {
        let name = of.file_stem().unwrap_or_default().to_string_lossy();
        let path = folder.join(format!("{name}-{k}.glsl"));
        std::fs::write(&path, text).map_err(|e| e.to_string())?;
        paths.entry(stage(text)).or_default().push(path);
    }
    let runs = paths.iter().map(|(stage, paths)| {
        accepted(Target::Glsl, Command::new("glslangValidator").args(["-S", stage]).args(paths))
    });
    let result = runs.collect();
    let _ = std::fs::remove_dir_all(&folder);
    result
}

/// Runs a tool, which accepts what it is given, or is not installed.
fn accepted(target: Target, command: &mut Command) -> Result<(), String> {
    match command.output() {
        Err(_) => Ok(()),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "{target:?} is not accepted:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Validates a module with the target's own tool; passes if the tool is not installed.
pub fn validate(of: &Path, target: Target, bytes: &[u8]) -> Result<(), String> {
    let name = of.file_stem().unwrap_or_default().to_string_lossy();
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let unique = format!("pullback-{process}-{thread:?}-{name}-{target:?}");
    let path = std::env::temp_dir().join(unique);
    let mut command = match target {
        Target::Spirv => {
            let mut command = Command::new("spirv-val");
            // A module without an entry point is not a valid shader for Vulkan.
            let environment = if entry_points(bytes) > 0 { "vulkan1.1" } else { "spv1.3" };
            command.args(["--target-env", environment]);
            command
        }
        Target::Glsl => return validate_glsl(&[(of, bytes.to_vec())]),
        Target::Hlsl => {
            let text = String::from_utf8_lossy(bytes);
            let Some(entry) = hlsl_entry(&text).filter(|_| !is_for_dxc_only(&text)) else { return Ok(()) };
            let mut command = Command::new("glslangValidator");
            command.args(["-D", "-V", "-S", "comp", "-o", "/dev/null", "-e", entry]);
            command
        }
        _ => return Ok(()),
    };
    std::fs::write(&path, bytes).map_err(|e| e.to_string())?;
    let result = accepted(target, command.arg(&path));
    let _ = std::fs::remove_file(&path);
    result
}

/// Returns true if a program has features that Microsoft's compiler supports and `glslangValidator` does not:
/// 64-bit integers, typed loads of bytes, and zeros converted to an array.
pub fn is_for_dxc_only(text: &str) -> bool {
    ["int64_t", "Load<", "Interlocked64", "])0"].iter().any(|word| text.contains(word))
}

/// The first entry point of an HLSL program.
pub fn hlsl_entry(text: &str) -> Option<&str> {
    let after = text.split_once("\n[numthreads(")?.1;
    after.split_once("void ")?.1.split('(').next()
}

/// The number of entry points of a SPIR-V module.
fn entry_points(bytes: &[u8]) -> usize {
    const ENTRY_POINT: u32 = 15;
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let (mut at, mut found) = (5, 0);
    while at < words.len() {
        found += usize::from(words[at] & 0xffff == ENTRY_POINT);
        at += (words[at] >> 16).max(1) as usize;
    }
    found
}
