//! `completions` and `manual`: what a shell and `man` know of the command line, made from the same data as the help.

use clap::{Command, CommandFactory};
use driver::Error;

use crate::args::{Cli, CompletionsArgs, ManualArgs};
use crate::report;

/// Prints the script by which a shell completes commands.
pub(crate) fn completions(args: &CompletionsArgs) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pullback", &mut script);
    report::out_bytes(&script);
    0
}

/// Writes a manual page for each command to a folder.
pub(crate) fn manual(args: &ManualArgs) -> u8 {
    match pages(args) {
        Ok(()) => 0,
        Err(error) => {
            report::err(&format!("error[{}]: {error}\n", error.code()));
            1
        }
    }
}

fn pages(args: &ManualArgs) -> Result<(), Error> {
    driver::files::prepare_folder(&args.folder)?;
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let inner: Vec<(String, Command)> = all
        .get_subcommands()
        .map(|command| (format!("pullback-{}", command.get_name()), command.clone()))
        .collect();
    for (name, command) in std::iter::once(("pullback".to_string(), all)).chain(inner) {
        let path = args.folder.join(format!("{name}.1"));
        let mut page = Vec::new();
        let made = clap_mangen::Man::new(command).render(&mut page);
        made.map_err(|e| Error::write(&path, driver::files::plain(&e)))?;
        driver::files::write(&path, &page)?;
    }
    Ok(())
}
