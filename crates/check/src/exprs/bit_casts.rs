//! Checks `bit_cast` between types of different sizes.
//!
//! A cast is checked where its types are known: in its own body and, if that is generic, in every instance
//! that the checked file calls, directly or through other generic functions. (Casts that are reached only
//! through a value of interface type are checked during lowering.)

use rustc_hash::FxHashSet;
use syntax::{DeclId, Diagnostic, Span};

use crate::Program;
use crate::exprs::infer::Checker;
use crate::tables::FuncRef;
use crate::types::data_layout::{DataLayout, round_up};
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty};

/// The maximum number of instances to visit: a generic function may call ever new instances of itself.
const MOST: usize = 10_000;

impl Checker<'_> {
    /// Records a call of an instance.
    pub(crate) fn note_instance(&mut self, func: &FuncRef, span: Span) {
        let is_cast = self.p.is_bit_cast(func.decl);
        let is_instance = !func.args.is_empty() || func.self_ty.is_some();
        if is_cast || is_instance && !self.p.is_core(func.decl) {
            let caller = self.scope;
            let calls = self.p.instances.calls.entry(caller).or_default();
            if calls.is_empty() {
                self.p.instances.callers.push(caller);
            }
            calls.push((func.clone(), span));
        }
    }
}

impl Program {
    fn is_bit_cast(&self, decl: DeclId) -> bool {
        self.is_core(decl) && self.intrinsic(decl).is_some_and(|name| name == "bit_cast")
    }

    /// Checks the casts in all bodies that have been checked.
    pub(crate) fn check_bit_casts(&mut self) {
        let mut seen: FxHashSet<FuncRef> = FxHashSet::default();
        let callers = self.instances.callers.iter();
        let mut work: Vec<(FuncRef, Span)> =
            callers.filter_map(|caller| self.instances.calls.get(caller)).flatten().cloned().collect();
        while let Some((func, span)) = work.pop() {
            if self.is_bit_cast(func.decl) {
                if let [GenericArg::Type(to), GenericArg::Type(from)] = func.args[..] {
                    self.check_bit_cast(from, to, span);
                }
                continue;
            }
            if seen.len() >= MOST || !seen.insert(func.clone()) {
                continue;
            }
            self.body(func.decl);
            let env = self.subst_of(&func);
            for (callee, span) in self.instances.calls.get(&func.decl).cloned().unwrap_or_default() {
                work.push((self.substitute_func(&callee, &env), span));
            }
        }
    }

    fn check_bit_cast(&mut self, from: Ty, to: Ty, span: Span) {
        // Bit casts treat a `bool` as a 32-bit number.
        let mut extent = |ty| self.extent_in(ty, DataLayout::Scalar);
        let (Some((a, x)), Some((b, y))) = (extent(from), extent(to)) else { return };
        if a != b && round_up(a, x) != round_up(b, y) {
            let found = self.bit_cast_error((from, a as u64), (to, b as u64), span);
            let is_known = |d: &Diagnostic| d.primary.span == span && d.message == found.message;
            if !self.diagnostics.iter().any(is_known) {
                self.report(found);
            }
        }
    }

    /// The diagnostic for a `bit_cast` between types of different sizes.
    pub fn bit_cast_error(&self, from: (Ty, u64), to: (Ty, u64), span: Span) -> Diagnostic {
        let [(from, a), (to, b)] = [from, to].map(|(ty, size)| (self.shown(ty), size));
        let message = text!("`bit_cast` of a `{}`, {} bytes, to `{}`, {} bytes", from, a, to, b);
        let help = "cast to a type of the same size, or use `reinterpret`: what a type has more is zero";
        Diagnostic::error("E41202", span, message).help(help)
    }
}
