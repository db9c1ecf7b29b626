//! `build`: a library of C functions.

use driver::build::{self, Options};
use driver::{files, pipeline};

use crate::args::BuildArgs;
use crate::report::{self, Stop};

pub(crate) fn build(args: &BuildArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let stem = args.output.file_stem().and_then(|s| s.to_str()).unwrap_or("pullback");
        let stem = stem.strip_prefix("lib").filter(|s| !s.is_empty()).unwrap_or(stem);
        let prefix: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if prefix.is_empty() || prefix.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Stop::Usage(format!("the name of `{}` begins no name in C", args.output.display())));
        }
        let mut loaded = pipeline::load(session, &args.source.file)?;
        loaded.errors()?;
        let options = Options {
            compile: report::options(&args.compile),
            functions: args.function.clone(),
            kernels: args.entry.clone(),
            native: args.native,
            exclusive: args.exclusive,
            prefix,
        };
        let built = build::build(&mut loaded, &options)?;
        build::write(&built, &args.output)?;
        if let Some(path) = &args.header {
            files::write(path, built.header.as_bytes())?;
        }
        report::warn(session, &loaded.warned);
        Ok(0)
    })
}
