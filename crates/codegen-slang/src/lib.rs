//! IR to Slang source that people can read: `pullback derive`.
//!
//! The IR is structured, so each of its instructions is a statement or a part of an expression; nothing has to be
//! reconstructed. Values that are used once and have no name become parts of expressions, the others are variables,
//! with the names of the source where they have one. The text means what the IR means, bit for bit, but for what the
//! language leaves open (division by zero of integers, indices out of range).
//!
//! A loop's stack is an array, so the loop needs a bound: a constant number of trips or `[MaxIters]`. What a text cannot
//! say is refused and named. Memory of the host is declared again, with the names that it has in the program.
#![forbid(unsafe_code)]

mod expression;
mod memory;
mod names;
mod statement;
mod types;

use ir::{Func, Module, Op, Span};
use rustc_hash::FxHashMap;

pub use types::scalar as scalar_name;

/// Something that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Where it comes from.
    pub span: Span,
    /// What it is.
    pub message: String,
}

/// A function to be written, and what it is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Its name.
    pub name: String,
    /// Names of its parameters; those that are left out have their own.
    pub params: Vec<String>,
    /// Names of its results, likewise.
    pub results: Vec<String>,
    /// The result of a function written before that a parameter takes on: a stack has its bounds.
    pub sources: Vec<Option<(Func, usize)>>,
}

/// Writes functions and those that they call. Arrays that hold stacks have the
/// bounds that the function which makes them gives them, so a function that takes a stack comes after that one.
pub fn print(module: &Module, funcs: &[(Func, Printed)]) -> Result<String, Unsupported> {
    let mut names: FxHashMap<Func, String> = FxHashMap::default();
    let mut taken = names::Names::default();
    for (func, printed) in funcs {
        names.insert(*func, taken.fresh(&printed.name));
    }
    let own = Printed::default();
    // Callees first, as a reader expects; a ring of calls is in any order.
    let mut order: Vec<Func> = Vec::new();
    let mut seen = cranelift_entity::EntitySet::new();
    let mut work: Vec<(Func, bool)> = funcs.iter().rev().map(|f| (f.0, false)).collect();
    while let Some((func, done)) = work.pop() {
        if done {
            order.push(func);
            continue;
        }
        if !seen.insert(func) {
            continue;
        }
        work.push((func, true));
        let src = &module.funcs[func];
        if !src.has_body() {
            let message = format!("the function '{}', which has no body", src.name);
            return Err(Unsupported { span: src.span, message });
        }
        for callee in ir::walk::callees(src) {
            work.push((callee, false));
        }
    }
    for &func in &order {
        names.entry(func).or_insert_with(|| taken.fresh(&module.funcs[func].name));
    }
    let memory = memory::Memory::declare(module, &order, &mut taken)?;
    let mut text = memory.text.clone();
    let mut bounds = types::StackBounds::default();
    for func in order {
        if !text.is_empty() {
            text.push('\n');
        }
        let given = funcs.iter().find(|f| f.0 == func).map_or(&own, |f| &f.1);
        text += &statement::function(module, func, &names, given, &memory, &mut bounds)?;
    }
    Ok(text)
}

/// An op that has no text.
fn unsupported(op: &Op, span: Span) -> Unsupported {
    let what = match op {
        Op::BufferOffset | Op::BufferCast(_) | Op::BufferAddress => "a pointer to memory of the host".into(),
        Op::Barrier | Op::WaveGather | Op::Builtin(_) | Op::OnDevice => {
            "what a thread knows of its group".into()
        }
        other => format!("the operation `{}`", ir::print::op_name(other)),
    };
    Unsupported { span, message: what }
}
