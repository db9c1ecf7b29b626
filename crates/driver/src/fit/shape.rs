//! The numbers of a fitted element: where they are in its value and in its gradient.
//!
//! A path such as `.center[0]` leads to a number in a value of the element's type and, since fields of a
//! differential have the names of the fields that they belong to, in a gradient, too. Numbers are counted in
//! the order of declaration.

use std::fmt::Write as _;

use check::types::{self, Ty, TyKind};
use check::{Program, Subst};
use ir::Scalar;
use syntax::ast::Modifiers;

/// The numbers of a type that are fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One number.
    Number(Scalar),
    /// Parts, each with the text that follows the path of the whole.
    Parts(Vec<(String, Shape)>),
    /// An array.
    Array(u64, Box<Shape>),
}

/// A place in a generated program: the text of a number's path, and of its number within the element.
pub struct Leaf<'a> {
    /// The path, such as `.center[0]`.
    pub path: &'a str,
    /// The number, such as `3` or `(2 + i1 * 4)`.
    pub number: &'a str,
    /// The type of the value.
    pub scalar: Scalar,
}

/// How much of the work a thread does.
enum Share<'a> {
    All,
    /// Of the arrays, every so many-th element from the thread's number on; thread 0 does everything else.
    Part(&'a str, u64),
}

impl Shape {
    /// The shape of an element whose gradient has the type `gradient`. `None` if a part of it is of a kind
    /// that text has no path for.
    pub fn of(program: &mut Program, element: Ty, gradient: Ty) -> Option<Shape> {
        let known = |program: &Program, n| program.val_int(n, &Subst::default());
        match (program.types[element].clone(), program.types[gradient].clone()) {
            (TyKind::Scalar(s), TyKind::Scalar(_)) => Some(Shape::Number(float(s)?)),
            (TyKind::Vector(s, n, _), TyKind::Vector(..)) => {
                let (n, number) = (known(program, &n)?, Shape::of(program, s, s)?);
                Some(Shape::Parts((0..n).map(|k| (format!("[{k}]"), number.clone())).collect()))
            }
            (TyKind::Matrix(s, rows, columns, _), TyKind::Matrix(..)) => {
                let (rows, columns) = (known(program, &rows)?, known(program, &columns)?);
                let number = Shape::of(program, s, s)?;
                let places = (0..rows).flat_map(|r| (0..columns).map(move |c| format!("[{r}][{c}]")));
                Some(Shape::Parts(places.map(|place| (place, number.clone())).collect()))
            }
            (TyKind::Array(a, Some(n)), TyKind::Array(b, Some(m))) => {
                let (n, m) = (known(program, &n)?, known(program, &m)?);
                let element = Shape::of(program, a, b)?;
                (n == m).then(|| Shape::Array(n as u64, Box::new(element)))
            }
            (TyKind::Struct(..), TyKind::Struct(..) | TyKind::SynthDiff(_)) => {
                let gradients = program.fields(gradient);
                let values = program.fields(element);
                let mut parts: Vec<(String, Shape)> = Vec::new();
                for (field, ty, _) in gradients {
                    if program.ast.decls[field].modifiers.has(Modifiers::PRIVATE) {
                        return None;
                    }
                    let name = program.ast.name(program.ast.decls[field].name).to_string();
                    let has_name = |decl| program.ast.name(program.ast.decls[decl].name) == name;
                    // A field of a user's differential may have no field of its name to move.
                    let value = values.iter().find(|value| has_name(value.0))?.1;
                    parts.push((format!(".{name}"), Shape::of(program, value, ty)?));
                }
                Some(Shape::Parts(parts))
            }
            _ => None,
        }
    }

    /// The number of numbers.
    pub fn len(&self) -> usize {
        match self {
            Shape::Number(_) => 1,
            Shape::Parts(parts) => parts.iter().map(|part| part.1.len()).sum(),
            Shape::Array(n, element) => *n as usize * element.len(),
        }
    }

    /// Returns true if there is nothing to fit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true for a number, and for vectors and arrays of numbers, in any depth.
    pub fn is_of_numbers(&self) -> bool {
        match self {
            Shape::Number(_) => true,
            Shape::Parts(parts) => {
                parts.iter().all(|(text, part)| text.starts_with('[') && part.is_of_numbers())
            }
            Shape::Array(_, element) => element.is_of_numbers(),
        }
    }

    /// The path of each number, in order.
    pub fn paths(&self) -> Vec<String> {
        match self {
            Shape::Number(_) => vec![String::new()],
            Shape::Parts(parts) => {
                let all = parts.iter().flat_map(|(text, part)| {
                    part.paths().into_iter().map(move |path| format!("{text}{path}"))
                });
                all.collect()
            }
            Shape::Array(n, element) => {
                let paths = element.paths();
                (0..*n).flat_map(|k| paths.iter().map(move |path| format!("[{k}]{path}"))).collect()
            }
        }
    }

    /// The length of the longest array that is not an element of another.
    pub fn longest(&self) -> u64 {
        match self {
            Shape::Number(_) => 1,
            Shape::Parts(parts) => parts.iter().map(|part| part.1.longest()).max().unwrap_or(1),
            Shape::Array(n, _) => *n,
        }
    }

    /// Writes a statement for each number, in loops over the elements of arrays.
    pub fn each(
        &self,
        t: &mut String,
        indent: usize,
        statement: &dyn Fn(Leaf<'_>) -> String,
    ) -> std::fmt::Result {
        self.write(t, indent, ("", "0", 0), &Share::All, statement)
    }

    /// Like [`Self::each`], but the work is divided among threads: `part` is the text of a thread's number.
    pub fn each_of_part(
        &self,
        t: &mut String,
        indent: usize,
        (part, parts): (&str, u64),
        statement: &dyn Fn(Leaf<'_>) -> String,
    ) -> std::fmt::Result {
        self.write(t, indent, ("", "0", 0), &Share::Part(part, parts), statement)
    }

    fn write(
        &self,
        t: &mut String,
        indent: usize,
        (path, base, first): (&str, &str, usize),
        share: &Share<'_>,
        statement: &dyn Fn(Leaf<'_>) -> String,
    ) -> std::fmt::Result {
        let at = |first: usize| match (base, first) {
            ("0", first) => first.to_string(),
            (base, 0) => base.to_string(),
            (base, first) => format!("({base} + {first})"),
        };
        match self {
            Shape::Number(scalar) => {
                let text = statement(Leaf { path, number: &at(first), scalar: *scalar });
                match share {
                    Share::All => writeln!(t, "{:indent$}{text}", ""),
                    Share::Part(part, _) => writeln!(t, "{:indent$}if ({part} == 0) {{ {text} }}", ""),
                }
            }
            Shape::Parts(parts) => {
                let mut first = first;
                for (text, part) in parts {
                    part.write(t, indent, (&format!("{path}{text}"), base, first), share, statement)?;
                    first += part.len();
                }
                Ok(())
            }
            Shape::Array(n, element) => {
                let i = format!("i{indent}");
                let head = match share {
                    Share::All => format!("for (int {i} = 0; {i} < {n}; {i}++)"),
                    Share::Part(part, parts) => {
                        format!("for (int {i} = int({part}); {i} < {n}; {i} += {parts})")
                    }
                };
                writeln!(t, "{:indent$}{head}\n{:indent$}{{", "", "")?;
                let base = format!("({} + uint({i}) * {})", at(first), element.len());
                element.write(t, indent + 4, (&format!("{path}[{i}]"), &base, 0), &Share::All, statement)?;
                writeln!(t, "{:indent$}}}", "")
            }
        }
    }
}

/// The scalar, if it is a float.
fn float(s: types::Scalar) -> Option<Scalar> {
    match s {
        types::Scalar::Half => Some(Scalar::F16),
        types::Scalar::Float => Some(Scalar::F32),
        types::Scalar::Double => Some(Scalar::F64),
        _ => None,
    }
}
