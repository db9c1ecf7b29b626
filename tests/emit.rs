//! Writes every program of tests/run in every language of graphics processors: the result is valid, or the
//! program is refused with a reason; a program whose first line has the word `everywhere` must not be
//! refused. `spirv-val` and `glslangValidator` check the results if they are installed; the latter, which takes long to
//! start, checks HLSL for one program in [`TURNS`].

use std::path::{Path, PathBuf};

use driver::gpu::{Target, emit_compiled};
use driver::pipeline::{Failure, Options};
use driver::session::{FileOptions, Session};
use pullback_tests::commands::emit::{TARGETS, hlsl_entry, is_for_dxc_only, validate, validate_glsl};
use pullback_tests::file::{TestFile, programs};
use pullback_tests::{floor, on_all_cores, request};

/// The number of programs of which one is checked in HLSL.
const TURNS: usize = 3;
/// The length in bytes from which a text in HLSL is not checked: the tool would take minutes.
const TOO_LONG: usize = 128 << 10;
/// The number of programs that are checked in GLSL at once.
const AT_ONCE: usize = 32;

/// The languages in which a program can be written.
#[derive(Default)]
struct Written {
    /// For each target, true if there is text.
    valid: [bool; TARGETS.len()],
    /// The targets that refuse what all must write, or write what is not valid.
    faults: Vec<String>,
    /// True if glslangValidator reads the text in HLSL.
    is_read: bool,
    /// The text in GLSL.
    glsl: Option<Vec<u8>>,
}

/// Writes a program in every language; nothing if it does not compile.
fn written((at, file): &(usize, TestFile)) -> Written {
    let path = &file.path;
    let mut found = Written::default();
    if file.all("error").next().is_some() {
        return found;
    }
    let entry = file.all("entry").next().filter(|e| !e.contains('('));
    let mut session = Session::new(FileOptions::default());
    let Ok((mut loaded, request)) = request(&mut session, path, entry) else { return found };
    let Ok(compiled) = loaded.compile(&request, &Options::default()) else { return found };
    let is_one = compiled.module.entries.len() == 1;
    for (k, (name, target)) in TARGETS.iter().enumerate() {
        if *target == Target::Glsl && !is_one {
            continue;
        }
        match emit_compiled(&session.sources, &compiled, None, *target) {
            Ok(bytes) => {
                found.valid[k] = true;
                let text = String::from_utf8_lossy(&bytes);
                found.is_read |=
                    *target == Target::Hlsl && hlsl_entry(&text).is_some() && !is_for_dxc_only(&text);
                match target {
                    Target::Glsl => found.glsl = Some(bytes),
                    Target::Hlsl if at % TURNS > 0 || bytes.len() >= TOO_LONG => {}
                    _ => {
                        if let Err(why) = validate(path, *target, &bytes) {
                            found.faults.push(format!("{} as {name}: {why}", path.display()));
                        }
                    }
                }
            }
            Err(Failure::Program(list)) => {
                let why = list.first().map_or("", |d| d.message.as_str());
                let short = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path);
                let refused = format!("refused as {name}: {}: {why}", short.display());
                eprintln!("{refused}");
                if file.has_option("everywhere") {
                    found.faults.push(refused);
                }
            }
            Err(Failure::Other(error)) => {
                found.faults.push(format!("{} as {name}: {error}", path.display()));
            }
        }
    }
    found
}

#[test]
fn programs_are_valid_or_refused() {
    let all: Vec<(usize, TestFile)> = programs().map(|(_, file)| file).enumerate().collect();
    let mut texts = Vec::new();
    let (mut counts, mut faults, mut read) = (vec![0; TARGETS.len()], Vec::new(), 0);
    for (found, (_, file)) in on_all_cores(&all, written).into_iter().zip(&all) {
        texts.extend(found.glsl.map(|text| (&*file.path, text)));
        counts.iter_mut().zip(found.valid).for_each(|(all, own)| *all += usize::from(own));
        faults.extend(found.faults);
        read += usize::from(found.is_read);
    }
    let texts: Vec<_> = texts.chunks(AT_ONCE).collect();
    faults.extend(on_all_cores(&texts, |texts| validate_glsl(texts).err()).into_iter().flatten());
    eprintln!("{read} of those in HLSL are such that glslangValidator reads them");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for ((name, _), valid) in TARGETS.iter().zip(counts) {
        floor::hold(name, valid);
    }
    floor::say_missing(&["spirv-val", "glslangValidator"]);
}

/// The example that trains a hash grid and the programs that are timed beside other systems can be written in every
/// language.
#[test]
fn examples_and_benches_are_valid_in_every_language() {
    let peers = test_support::programs(&["benches/peers"])
        .into_iter()
        .filter(|path| std::fs::read_to_string(path).expect("it is read").contains("[shader(\"compute\")]"));
    let mut paths: Vec<PathBuf> = peers.collect();
    assert_eq!(paths.len(), 6);
    paths.push(pullback_tests::file::root().join("../examples/hash-grid.slang"));
    for path in paths {
        let mut session = Session::new(FileOptions::default());
        let place = path.display();
        let Ok((mut loaded, request)) = request(&mut session, &path, None) else {
            panic!("{place} is not read")
        };
        let compiled = loaded.compile(&request, &Options::default());
        let Ok(compiled) = compiled else { panic!("{place} is not compiled") };
        let is_one = compiled.module.entries.len() == 1;
        for (name, target) in TARGETS.into_iter().filter(|(_, target)| is_one || *target != Target::Glsl) {
            let bytes = match emit_compiled(&session.sources, &compiled, None, target) {
                Ok(bytes) => bytes,
                Err(Failure::Program(list)) => {
                    panic!("{place}: {name}: {:?}", list.first().map(|d| &d.message))
                }
                Err(Failure::Other(error)) => panic!("{place}: {name}: {error}"),
            };
            validate(&path, target, &bytes).unwrap_or_else(|why| panic!("{place}: {name}: {why}"));
        }
    }
}

/// A kernel with a loop without a bound has an arena; another one of the same file that shares functions with it,
/// and whose stacks are short, has none.
#[test]
fn only_kernels_that_need_an_arena_have_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("emit/arena-of-one-kernel.slang");
    let mut session = Session::new(FileOptions::default());
    let Ok((mut loaded, request)) = request(&mut session, &path, None) else { panic!("it is read") };
    let Ok(compiled) = loaded.compile(&request, &Options::default()) else { panic!("it is compiled") };
    let Ok(built) = driver::gpu::build(&session.sources, &compiled, Target::Spirv.into(), &[]) else {
        panic!("it is built")
    };
    let all = &built.reflection;
    let arenas = |k: usize| {
        let kinds = all.entries[k].uses.iter().map(|u| all.bindings[u.binding].kind);
        kinds.filter(|kind| kind.name().starts_with("arena")).count()
    };
    assert_eq!([0, 1].map(|k| (&all.entries[k].name[..], arenas(k))), [("unbounded", 2), ("bounded", 0)]);
}
