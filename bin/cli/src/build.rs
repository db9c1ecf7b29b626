//! `build`: compiles a library of C functions.

use driver::build::{self, Options, Prefixed};
use driver::{files, pipeline};

use crate::args::BuildArgs;
use crate::report::{self, Stop};

pub(crate) fn build(args: &BuildArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let (prefix, prefixed) = match &args.prefix {
            Some(prefix) if build::is_beginning(prefix) => (prefix.clone(), Prefixed::Always),
            Some(prefix) => {
                return Err(Stop::Usage(format!(
                    "`--prefix {prefix}`: expected a name of letters, digits and `_`"
                )));
            }
            None => {
                let prefix = build::prefix(&args.output).map_err(|error| Stop::Usage(error.to_string()))?;
                (prefix, Prefixed::WhereNeeded)
            }
        };
        let mut loaded = pipeline::load(session, &args.source.file)?;
        loaded.errors()?;
        let options = Options {
            compile: report::options(&args.compile),
            functions: args.function.clone(),
            kernels: args.entry.clone(),
            native: args.native,
            exclusive: args.exclusive,
            prefix,
            prefixed,
        };
        let built = build::build(&mut loaded, &options)?;
        build::write(&built, &args.output)?;
        if let Some(path) = &args.header {
            files::write(path, built.header.as_bytes())?;
        }
        if let Some(path) = &args.rust {
            files::write(path, built.rust.as_bytes())?;
        }
        report::warn(session, &[loaded.warned, built.notes].concat());
        Ok(0)
    })
}
