//! `build`: compiles a library of C functions, or a module of WebAssembly.

#[cfg(feature = "llvm")]
use driver::build::{self, Options, Prefixed};
use driver::error::Failure;
use driver::pipeline::Loaded;
use driver::{files, pipeline};
use syntax::{Diagnostic, Severity};

use crate::args::{BuildArgs, BuildTarget};
use crate::outputs::Outputs;
use crate::report::{self, Stop};

pub(crate) fn build(args: &BuildArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        if args.module {
            return packed(args, session);
        }
        let target = target(args)?;
        let mut loaded = pipeline::load(session, &args.source.file)?;
        Outputs::of(&session.sources)
            .writes("--output", Some(&args.output))
            .writes("--header", args.header.as_deref())
            .writes("--rust", args.rust.as_deref())
            .check()?;
        loaded.errors()?;
        let notes = match target {
            #[cfg(feature = "llvm")]
            BuildTarget::Native => library(args, &mut loaded)?,
            #[cfg(feature = "wasm")]
            BuildTarget::Wasm | BuildTarget::WasmRelaxed => module(args, target, session, &mut loaded)?,
        };
        report::warn(session, &[loaded.warned, notes].concat());
        Ok(0)
    })
}

/// Writes a module as a file of its own, if nothing is wrong with it.
fn packed(args: &BuildArgs, session: &mut driver::session::Session) -> Result<u8, Stop> {
    let diagnostics = pipeline::check(session, &args.source.file)?;
    Outputs::of(&session.sources).writes("--output", Some(&args.output)).check()?;
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(Failure::Program(diagnostics).into());
    }
    let mut own = session.fresh();
    let loaded = pipeline::load(&mut own, &args.source.file)?;
    let file = loaded.program.ast.files[loaded.file].file;
    if own.sources.files[file.0 as usize].module.is_some() {
        return Err(Stop::Usage(format!("`{}` is a compiled module already", args.source.file.display())));
    }
    files::write(&args.output, &own.packed(&loaded.program, loaded.file).to_bytes())?;
    report::warn(session, &diagnostics);
    Ok(0)
}

/// The target that is asked for, or that the ending of the output says. Options of other targets are errors.
fn target(args: &BuildArgs) -> Result<BuildTarget, Stop> {
    let is_module = args.output.extension().is_some_and(|ending| ending == "wasm");
    let target = match args.target {
        Some(target) => target,
        None => BuildTarget::of_output(is_module).ok_or_else(|| {
            let (kind, feature) =
                if is_module { ("modules of WebAssembly", "wasm") } else { ("libraries of C", "llvm") };
            Stop::Usage(format!("this build lacks {kind}; one with `--features {feature}` has them"))
        })?,
    };
    let native = [
        ("--prefix", args.prefix.is_some()),
        ("--header", args.header.is_some()),
        ("--rust", args.rust.is_some()),
        ("--native", args.native),
        ("--exclusive", args.exclusive),
    ];
    match native.iter().find(|(_, is_given)| *is_given && target.is_module()) {
        Some((option, _)) => Err(Stop::Usage(format!(
            "`{option}` is for libraries of C; a module of WebAssembly describes itself, in its section `pullback`"
        ))),
        None => Ok(target),
    }
}

/// Writes a module of WebAssembly.
#[cfg(feature = "wasm")]
fn module(
    args: &BuildArgs,
    target: BuildTarget,
    session: &driver::session::Session,
    loaded: &mut Loaded,
) -> Result<Vec<Diagnostic>, Stop> {
    let features = driver::wasm::Features { relaxed_simd: target == BuildTarget::WasmRelaxed };
    let named = (&args.function[..], &args.entry[..]);
    let options = report::options(&args.compile);
    let (bytes, notes) = driver::wasm::build(&session.sources, loaded, named, features, &options)?;
    files::write(&args.output, &bytes)?;
    Ok(notes)
}

/// Writes a library, its header and its bindings.
#[cfg(feature = "llvm")]
fn library(args: &BuildArgs, loaded: &mut Loaded) -> Result<Vec<Diagnostic>, Stop> {
    let (prefix, prefixed) = match &args.prefix {
        Some(prefix) if build::is_beginning(prefix) => (prefix.clone(), Prefixed::Always),
        Some(prefix) => {
            return Err(Stop::Usage(format!(
                "`--prefix {prefix}`: expected a name of letters, digits and `_`"
            )));
        }
        None => {
            let prefix = build::prefix(&args.output).map_err(report::usage)?;
            (prefix, Prefixed::WhereNeeded)
        }
    };
    let options = Options {
        compile: report::options(&args.compile),
        functions: args.function.clone(),
        kernels: args.entry.clone(),
        native: args.native,
        exclusive: args.exclusive,
        prefix,
        prefixed,
    };
    let built = build::build(loaded, &options)?;
    build::write(&built, &args.output)?;
    let write = |path: &Option<std::path::PathBuf>, text: &str| match path {
        Some(path) => files::write(path, text.as_bytes()),
        None => Ok(()),
    };
    write(&args.header, &built.header)?;
    write(&args.rust, &built.rust)?;
    Ok(built.notes)
}
