//! Chooses the functions and kernels of a library: those that are named, or all that are marked.

use syntax::{DeclId, Diagnostic};

use crate::error::{Error, Failure};
use crate::pipeline::Loaded;

/// The functions and kernels to be built.
pub(crate) struct Chosen {
    pub(crate) functions: Vec<check::tables::FuncRef>,
    pub(crate) entries: Vec<DeclId>,
    /// Each was named, so that it is an error if it cannot be built.
    pub(crate) is_named: bool,
    pub(crate) notes: Vec<Diagnostic>,
}

/// The functions and kernels that are named; if none is, all that are marked.
pub(crate) fn choose(
    loaded: &mut Loaded,
    named_functions: &[String],
    named_kernels: &[String],
) -> Result<Chosen, Failure> {
    let is_named = !named_functions.is_empty() || !named_kernels.is_empty();
    let mut notes = Vec::new();
    let (mut functions, mut entries) = (Vec::new(), Vec::new());
    for name in named_functions {
        functions.push(loaded.function(name)?);
    }
    for name in named_kernels {
        entries.push(loaded.entry(Some(name))?);
    }
    if !is_named {
        for listed in loaded.differentiable_declarations() {
            let why = match listed.why_not {
                Some(why) => why.replace("check a function", "mark a function"),
                None if listed.is_member => {
                    format!("it is a member of a type: name it, as `{}`", listed.name)
                }
                None => {
                    functions.push(listed.function);
                    continue;
                }
            };
            let span = loaded.program.ast.decls[listed.function.decl].name_span;
            notes.push(skipped(&listed.name, span, &why));
        }
        for entry in loaded.program.entry_points(loaded.file) {
            match loaded.program.stage(entry).filter(|stage| *stage != "compute") {
                Some(stage) => {
                    let why = format!("it is a {stage} stage, which only a graphics pipeline runs");
                    let span = loaded.program.ast.decls[entry].name_span;
                    notes.push(skipped(loaded.name(entry), span, &why));
                }
                None => entries.push(entry),
            }
        }
    }
    // A function or kernel that is named twice is built once.
    let (functions, entries) = (once(functions), once(entries));
    if functions.is_empty() && entries.is_empty() {
        return Err(nothing(notes));
    }
    Ok(Chosen { functions, entries, is_named, notes })
}

/// A warning about what is not in the library.
pub(crate) fn skipped(name: &str, span: syntax::Span, why: &str) -> Diagnostic {
    Diagnostic::warning("E0904", span, format!("`{name}` is not in the library: {why}"))
}

/// The error that there is nothing to build, with the reasons.
pub(crate) fn nothing(mut notes: Vec<Diagnostic>) -> Failure {
    let message =
        "the file has nothing to build: mark a function [Differentiable], name one, or write a kernel";
    if notes.is_empty() {
        return Error::input(message).into();
    }
    let span = notes[0].primary.span;
    notes.push(Diagnostic::error("E0902", syntax::Span::of_file(span.file), message));
    Failure::Program(notes)
}

/// Removes repeated items from a list.
fn once<T: PartialEq>(list: Vec<T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in list {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}
