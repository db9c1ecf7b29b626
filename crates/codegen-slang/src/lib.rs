//! Prints IR as readable Slang source, for `pullback derive`.
//!
//! The IR is structured, so each of its instructions becomes a statement or a part of an expression; no
//! control flow has to be reconstructed. Values that are used once and have no name become parts of
//! expressions, and the others become variables, named as in the source where they have a name there. The
//! text has the semantics of the IR, bit for bit, except for the sign of a zero (`x + 0.0` is written as `x`) and
//! where the language leaves the result open (integer division by zero, indices out of range).
//!
//! A loop's stack becomes an array if the loop has a bound: a constant trip count or `[MaxIters]`. Any other stack
//! is a `Stack`, a struct that is declared with the functions; if it was full, the results that depend on it are
//! NaN. A construct that has no textual form is refused with an error that names it. Global memory is declared again,
//! under the names that it has in the program.
#![forbid(unsafe_code)]

mod control;
mod expression;
mod loops;
mod memory;
mod names;
mod order;
mod statement;
mod tidy;
mod types;
mod unsupported;

use ir::{Func, Module};
use rustc_hash::FxHashMap;

use crate::unsupported::refused;

pub use statement::Printed;
pub use types::scalar as scalar_name;
pub use unsupported::Unsupported;

/// Writes functions and their callees. Arrays that hold stacks have the bounds determined by the function
/// that makes them, so one of `funcs` that takes a stack must come after that function.
pub fn print(module: &Module, funcs: &[(Func, Printed)]) -> Result<String, Unsupported> {
    let mut names: FxHashMap<Func, String> = FxHashMap::default();
    let mut taken = names::Names::default();
    for (func, printed) in funcs {
        names.insert(*func, taken.fresh(&printed.name));
    }
    let own = Printed::default();
    // Callees come first, as a reader expects; the functions of a call cycle come in any order.
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
            return Err(refused(src.span, format!("the function '{}', which has no body", src.name)));
        }
        for callee in ir::walk::callees(src) {
            work.push((callee, false));
        }
    }
    for &func in &order {
        names.entry(func).or_insert_with(|| taken.fresh(&module.funcs[func].name));
    }
    let memory = memory::Memory::declare(module, &order, &mut taken)?;
    let library = types::StackLibrary {
        stack: taken.fresh("Stack"),
        trips: taken.fresh("MAX_TRIPS"),
        inner_trips: taken.fresh("MAX_INNER_TRIPS"),
    };
    let mut bounds = types::StackBounds::new(library);
    let mut text = String::new();
    // A call tells how long the stacks are that its callee takes, which has been written by then.
    while bounds.begin() {
        text.clear();
        for &func in &order {
            if !text.is_empty() {
                text.push('\n');
            }
            let given = funcs.iter().find(|f| f.0 == func).map_or(&own, |f| &f.1);
            text += &statement::function(module, func, &names, given, &memory, &mut bounds)?;
        }
    }
    // A program may have the names already.
    let types::StackLibrary { stack, trips, inner_trips } = &bounds.library;
    text = text.replace("Stack<", &format!("{stack}<"));
    text = text.replace(", MAX_TRIPS>", &format!(", {trips}>"));
    text = text.replace(", MAX_INNER_TRIPS>", &format!(", {inner_trips}>"));
    let mut parts = vec![memory.text.clone(), bounds.declaration(&text), text];
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n"))
}
