//! Names the feature of a build of the compiler that has what this build lacks: a command, a backend, a target or an
//! option.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use driver::launch::Backend;

/// The names that depend on features, each with its feature, and true if this build has it.
type Features<const N: usize> = [(&'static str, &'static str, bool); N];

const COMMANDS: Features<1> = [("build", "llvm", cfg!(any(feature = "llvm", feature = "wasm")))];
const OPTIONS: Features<2> =
    [("--target", "gpu", cfg!(feature = "gpu")), ("--subgroups", "gpu", cfg!(feature = "gpu"))];
const TARGETS: Features<3> = [
    ("ptx", "llvm", cfg!(feature = "llvm")),
    ("wasm", "wasm", cfg!(feature = "wasm")),
    ("wasm-relaxed", "wasm", cfg!(feature = "wasm")),
];

/// A note if wrong usage is right usage of another build.
pub(crate) fn note(error: &clap::Error) -> Option<String> {
    let told = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let argument = told(ContextKind::InvalidArg).split(['=', ' ']).next().unwrap_or_default();
    let value = told(ContextKind::InvalidValue);
    let (what, feature) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let command = told(ContextKind::InvalidSubcommand);
            (format!("the command `{command}`"), lacking(&COMMANDS, command)?)
        }
        ErrorKind::UnknownArgument => (format!("`{argument}`"), lacking(&OPTIONS, argument)?),
        ErrorKind::InvalidValue if argument == "--backend" => {
            let (_, feature) = Backend::absent().find(|(name, _)| *name == value)?;
            (format!("the backend `{value}`"), feature)
        }
        ErrorKind::InvalidValue if argument == "--target" => {
            (format!("the target `{value}`"), lacking(&TARGETS, value)?)
        }
        _ => return None,
    };
    Some(format!("\nnote: this build lacks {what}; one with `--features {feature}` has it\n"))
}

/// The feature that has what this build lacks.
fn lacking<const N: usize>(all: &Features<N>, name: &str) -> Option<&'static str> {
    all.iter().find(|one| one.0 == name && !one.2).map(|one| one.1)
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, OPTIONS, TARGETS, lacking};

    #[test]
    fn names_only_what_is_absent() {
        let features = [("here", "a", true), ("there", "b", false)];
        assert_eq!(lacking(&features, "there"), Some("b"));
        assert_eq!(lacking(&features, "here"), None);
        assert_eq!(lacking(&features, "nowhere"), None);
    }

    #[test]
    fn the_tables_agree_with_the_command_line() {
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        for (name, _, here) in COMMANDS {
            assert_eq!(command.find_subcommand(name).is_some(), here, "{name}");
        }
        let emit = command.find_subcommand("emit").expect("every build has it");
        for (name, _, here) in OPTIONS {
            let is_option = emit.get_arguments().any(|a| a.get_long() == name.strip_prefix("--"));
            assert_eq!(is_option, here, "{name}");
        }
        let target = emit.get_arguments().find(|a| a.get_long() == Some("target"));
        for (name, _, here) in TARGETS {
            let values = target.map(clap::Arg::get_possible_values).unwrap_or_default();
            assert_eq!(values.iter().any(|value| value.get_name() == name), here, "{name}");
        }
    }
}
