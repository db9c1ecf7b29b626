//! The ranges that random arguments are drawn from.
//!
//! A program declares them by attributes of parameters and fields, `[Range(0.1, 2.0)] float x`. The name is that of
//! Slang's user-defined attributes: whoever declares `struct RangeAttribute { float low; float high; }` with
//! `[__AttributeUsage]` finds them by Slang's reflection, too.

use check::Program;
use check::tables::FuncRef;
use check::types::{Ty, TyKind};
use syntax::ast::{Attribute, ExprKind, UnaryOp};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::error::{Error, Failure};
use crate::pipeline::{Listed, Loaded};

/// The attribute that declares a range.
const RANGE: &str = "Range";
/// Structs within each other beyond this depth have no ranges.
const DEPTH: usize = 32;

/// A range for the numbers that a name covers.
pub type Named = (String, (f64, f64));

/// A range for all numbers, and others for those of some parameters or fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// The range of numbers that no name covers.
    pub common: (f64, f64),
    /// Ranges by name; of several names that cover a number, the longest counts, and of equal ones the last.
    pub named: Vec<Named>,
}

impl Ranges {
    /// These ranges, after those that the parameters of a function and their fields declare by attributes.
    pub fn with_declared(&self, program: &mut Program, function: &FuncRef) -> Result<Ranges, Failure> {
        let mut named = declared(program, function)?;
        named.extend(self.named.iter().cloned());
        Ok(Ranges { common: self.common, named })
    }

    /// The range of the number with that path.
    pub fn of(&self, number: &str) -> (f64, f64) {
        let covering = self.named.iter().filter(|(name, _)| covers(name, number));
        covering.max_by_key(|(name, _)| name.len()).map_or(self.common, |named| named.1)
    }
}

/// Returns true if a name covers a number, as `p`, `p.w` and `p.w[0]` cover `p.w[0]`.
pub fn covers(name: &str, number: &str) -> bool {
    number.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Refuses names with ranges on the command line of which none of these functions has an input.
pub(crate) fn are_inputs(loaded: &Loaded, names: &[String], functions: &[Listed]) -> Result<(), Error> {
    for name in names {
        let param = name.split(['.', '[']).next().unwrap_or_default();
        let has = |listed: &Listed| {
            let params = loaded.program.params_of(listed.function.decl);
            params.iter().any(|&p| loaded.program.ast.decl_name(p) == param)
        };
        if !functions.iter().any(has) {
            return Err(Error::input(format!("`--range {name}`: no function has an input `{param}`")));
        }
    }
    Ok(())
}

/// The ranges that attributes of a function's parameters and their fields declare.
fn declared(program: &mut Program, function: &FuncRef) -> Result<Vec<Named>, Failure> {
    let mut found = Vec::new();
    for param in program.params_of(function.decl) {
        let ty = program.decl_type(param);
        of_declaration(program, (param, ty), "", 0, &mut found)?;
    }
    Ok(found)
}

/// Adds the ranges of a parameter or field, and of what is in it.
fn of_declaration(
    program: &mut Program,
    (decl, ty): (DeclId, Ty),
    path: &str,
    depth: usize,
    found: &mut Vec<Named>,
) -> Result<(), Failure> {
    let path = format!("{path}{}", program.ast.decl_name(decl));
    if let Some(attribute) = program.attribute(decl, RANGE).cloned() {
        found.push((path.clone(), range_of(program, decl, &attribute)?));
    }
    // Arrays of structs are named as structs of arrays: `p.w[0]`.
    let mut element = ty;
    while let TyKind::Array(of, _) = program.types[element] {
        element = of;
    }
    if matches!(program.types[element], TyKind::Struct(..)) && depth < DEPTH {
        for (field, ty, _) in program.fields(element) {
            of_declaration(program, (field, ty), &format!("{path}."), depth + 1, found)?;
        }
    }
    Ok(())
}

/// The numbers of `[Range(low, high)]`.
fn range_of(program: &mut Program, decl: DeclId, attribute: &Attribute) -> Result<(f64, f64), Failure> {
    let numbers: Vec<Option<f64>> = attribute.args.iter().map(|&arg| constant(program, decl, arg)).collect();
    match numbers[..] {
        [Some(low), Some(high)] if low <= high && (high - low).is_finite() => Ok((low, high)),
        _ => {
            let message = "`[Range]` needs two finite numbers, the smaller one first";
            let error = Diagnostic::error("E0708", attribute.span, message);
            Err(Failure::Program(vec![error.help("write `[Range(0.1, 2.0)]`")]))
        }
    }
}

/// The value of a number that is written out, or of an integer that is known at compile time.
fn constant(program: &mut Program, decl: DeclId, expr: ExprId) -> Option<f64> {
    match program.ast.exprs[expr].kind {
        ExprKind::Float { value, .. } => Some(value),
        ExprKind::Unary(UnaryOp::Neg, of) => constant(program, decl, of).map(|x| -x),
        _ => program.const_int_at(decl, expr).map(|n| n as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_counts() {
        let named = [("p", (0.0, 1.0)), ("p.w", (2.0, 3.0)), ("p.w[1]", (4.0, 5.0)), ("p", (6.0, 7.0))];
        let named = named.map(|(name, range)| (name.to_string(), range)).to_vec();
        let ranges = Ranges { common: (-2.0, 2.0), named };
        assert_eq!(ranges.of("q"), (-2.0, 2.0));
        assert_eq!(ranges.of("pw"), (-2.0, 2.0));
        assert_eq!(ranges.of("p.w[0]"), (2.0, 3.0));
        assert_eq!(ranges.of("p.w[1]"), (4.0, 5.0));
        assert_eq!(ranges.of("p.v"), (6.0, 7.0));
    }
}
