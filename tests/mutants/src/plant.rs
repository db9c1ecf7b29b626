//! Plants faults in a source file: each place keeps its own code, and gets a wrong one beside it, which runs if the fault's
//! number is asked for at run time. So all faults are compiled at once (mutant schemata: Untch, Offutt and Harrold,
//! "Mutation analysis using mutant schemata", 1993).
//!
//! A fault replaces a comparison or a logical operator, negates a condition or a constant, changes an offset of one, or
//! leaves a statement out. The text is only added to, so nested places compose.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Stmt, UnOp};

/// A place where a fault can be.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Its line.
    pub(crate) line: usize,
    /// A description of the change.
    pub(crate) what: String,
    /// The bytes of the source that it replaces.
    range: Range<usize>,
    /// The text in their place; `None` if the statement is left out.
    text: Option<String>,
}

/// All places in a source file.
pub(crate) fn faults(source: &str) -> syn::Result<Vec<Fault>> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder { source, found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

/// The file with the faults that have a number, which is asked for by `path::planted(number)`; and, for each fault, the
/// bytes of the result that belong to it.
pub(crate) fn planted(
    source: &str,
    faults: &[(u32, &Fault)],
    path: &str,
) -> (String, Vec<(u32, Range<usize>)>) {
    // Texts to insert: at the same byte, what ends comes first, inner before outer; then what begins, outer before inner.
    let mut texts: Vec<(usize, bool, usize, u32, String)> = Vec::new();
    for &(number, fault) in faults {
        let Range { start, end } = fault.range;
        let (before, after) = match &fault.text {
            Some(text) => (format!("(if {path}::planted({number}) {{ {text} }} else {{ "), " })"),
            None => (format!("if !{path}::planted({number}) {{ "), " }"),
        };
        texts.push((start, true, usize::MAX - end, number, before));
        texts.push((end, false, usize::MAX - start, number, after.into()));
    }
    texts.sort_by_key(|text| (text.0, text.1, text.2));
    let (mut out, mut at, mut open, mut ranges) = (String::new(), 0, Vec::new(), Vec::new());
    for (byte, begins, _, number, text) in texts {
        out += &source[at..byte];
        at = byte;
        if begins {
            open.push((number, out.len()));
        }
        out += &text;
        if !begins && let Some(k) = open.iter().rposition(|o| o.0 == number) {
            ranges.push((number, open.remove(k).1..out.len()));
        }
    }
    (out + &source[at..], ranges)
}

struct Finder<'s> {
    source: &'s str,
    found: Vec<Fault>,
}

impl Finder<'_> {
    fn text(&self, span: Span) -> &str {
        &self.source[span.byte_range()]
    }

    fn add(&mut self, of: Span, what: impl Into<String>, text: Option<String>) {
        let (line, range) = (of.start().line, of.byte_range());
        self.found.push(Fault { line, what: what.into(), range, text });
    }

    /// A binary expression with other operators.
    fn binary(&mut self, binary: &syn::ExprBinary) {
        let is_one = |e: &Expr| matches!(e, Expr::Lit(lit) if matches!(&lit.lit, Lit::Int(n) if n.base10_digits() == "1"));
        let other = match binary.op {
            BinOp::Eq(_) => "!=",
            BinOp::Ne(_) => "==",
            BinOp::Lt(_) => "<=",
            BinOp::Le(_) => "<",
            BinOp::Gt(_) => ">=",
            BinOp::Ge(_) => ">",
            BinOp::And(_) if !has_let(&binary.left) && !has_let(&binary.right) => "||",
            BinOp::Or(_) => "&&",
            BinOp::Add(_) if is_one(&binary.right) => "-",
            BinOp::Sub(_) if is_one(&binary.right) => "+",
            _ => return,
        };
        let op = self.text(binary.op.span()).to_string();
        let (left, right) = (self.text(binary.left.span()), self.text(binary.right.span()));
        let text = format!("({left}) {other} ({right})");
        self.add(binary.span(), format!("`{op}` to `{other}`"), Some(text));
    }

    fn condition(&mut self, cond: &Expr) {
        // A comparison and a negation have faults of their own.
        if !has_let(cond) && !matches!(cond, Expr::Binary(_) | Expr::Unary(_)) {
            let text = format!("!({})", self.text(cond.span()));
            self.add(cond.span(), "a condition negated", Some(text));
        }
    }
}

/// Returns true if an expression binds names: only a condition may.
fn has_let(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("cfg") || a.path().is_ident("test"))
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() && !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() {
            visit::visit_impl_item_fn(self, item);
        }
    }
    // What the compiler evaluates asks for nothing at run time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr(&mut self, e: &'ast Expr) {
        match e {
            Expr::Binary(binary) => self.binary(binary),
            Expr::If(e) => self.condition(&e.cond),
            Expr::While(e) => self.condition(&e.cond),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let text = self.text(unary.expr.span()).to_string();
                self.add(unary.span(), "a negation left out", Some(text));
            }
            Expr::Lit(lit) if let Lit::Bool(value) = &lit.lit => {
                self.add(
                    lit.span(),
                    format!("`{}` to `{}`", value.value, !value.value),
                    Some((!value.value).to_string()),
                );
            }
            _ => {}
        }
        visit::visit_expr(self, e);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(e, Some(_)) = stmt {
            let is_effect = match e {
                Expr::MethodCall(_) | Expr::Call(_) => true,
                Expr::Binary(binary) => matches!(
                    binary.op,
                    BinOp::AddAssign(_)
                        | BinOp::SubAssign(_)
                        | BinOp::BitOrAssign(_)
                        | BinOp::BitAndAssign(_)
                ),
                _ => false,
            };
            if is_effect {
                self.add(stmt.span(), "a statement left out", None);
            }
        }
        visit::visit_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use super::{faults, planted};

    const SOURCE: &str =
        "fn f(a: i32, b: bool) -> bool {\n    log(a);\n    if !b && a + 1 < 3 { return true; }\n    b\n}\n";

    #[test]
    fn places_are_found_and_nest() {
        let found = faults(SOURCE).unwrap();
        let what: Vec<&str> = found.iter().map(|f| f.what.as_str()).collect();
        let wanted = [
            "a statement left out",
            "`&&` to `||`",
            "a negation left out",
            "`<` to `<=`",
            "`+` to `-`",
            "`true` to `false`",
        ];
        assert_eq!(what, wanted);
        let numbered: Vec<_> = (1..).zip(&found).collect();
        let (text, ranges) = planted(SOURCE, &numbered, "ir");
        assert_eq!(ranges.len(), found.len());
        assert!(syn::parse_file(&text).is_ok(), "{text}");
        assert!(text.contains("if !ir::planted(1) { log(a); }"), "{text}");
        // With no fault, what is left is the source.
        let (same, _) = planted(SOURCE, &[], "ir");
        assert_eq!(same, SOURCE);
    }

    #[test]
    fn tests_constants_and_patterns_are_left_alone() {
        let source = "const A: bool = 1 == 2;\n#[cfg(test)]\nmod tests { fn f() { g(); } }\n\
                      fn f(x: bool) -> u8 { match x { true => 1, false => 2 } }\n";
        assert_eq!(faults(source).unwrap().len(), 0);
    }
}
