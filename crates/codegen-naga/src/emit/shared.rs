//! Zero-initialises group-shared memory: all threads of the group write the zeros together, before anything
//! else.
//!
//! naga's writers make the first thread write each variable as a whole. This leaves all of the work to a
//! single thread, and a driver that expands such an assignment number by number takes a minute to compile an
//! array of a thousand numbers. A module with one entry point therefore contains loops of its own. In WGSL,
//! the language itself guarantees zeros.

use naga::{
    AddressSpace, Barrier, BinaryOperator as Bin, Expression, GlobalVariable, Handle, Statement, TypeInner,
};

use rustc_hash::FxHashSet;

use super::{Emitter, Res, Role};
use crate::Target;
use crate::build::Expr;
use crate::module::Cx;

impl Cx<'_> {
    /// Returns true if the entry point zero-initialises group-shared memory itself.
    pub(crate) fn zeroes_shared(&self) -> bool {
        self.options.target != Target::Wgsl && self.ir.entries.len() == 1
    }

    /// Group-shared variables that the entry point zero-initialises itself. The arrays through which lanes of
    /// waves exchange values are excluded: they are never read before they are written.
    pub(crate) fn zeroed(&self) -> Vec<(Handle<GlobalVariable>, Handle<naga::Type>)> {
        if !self.zeroes_shared() {
            return Vec::new();
        }
        let variables = self.out.global_variables.iter();
        let shared = variables.filter(|(_, data)| data.space == AddressSpace::WorkGroup);
        let own: FxHashSet<_> = self.waves.values.values().chain(self.waves.lanes.values()).collect();
        let read = shared.filter(|(var, _)| !own.contains(var));
        read.map(|(var, data)| (var, data.ty)).collect()
    }
}

impl Emitter<'_, '_> {
    /// Writes the zeros and waits for all threads of the group.
    pub(super) fn zero_shared(&mut self, index: Expr) -> Res {
        let threads =
            if let Role::Kernel(size) = self.role { size.iter().product::<u32>().max(1) } else { 1 };
        let (zero, step) = (self.code.u32(0), self.code.u32(threads));
        for (var, ty) in self.cx.zeroed() {
            let place = self.code.expr(Expression::GlobalVariable(var));
            let TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } =
                self.cx.out.types[ty].inner
            else {
                let is_first = self.code.binary(Bin::Equal, index, zero);
                self.when(Some(is_first), |e| e.zero_place(place, ty))?;
                continue;
            };
            let rounds = n.get().div_ceil(threads);
            let n = self.code.u32(n.get());
            self.each(rounds, |e, k| {
                let at = e.code.binary(Bin::Multiply, k, step);
                let at = e.code.binary(Bin::Add, at, index);
                let inside = e.code.binary(Bin::Less, at, n);
                e.when(Some(inside), |e| {
                    let part = e.code.element(place, at);
                    e.zero_place(part, base)
                })
            })?;
        }
        self.code.push(Statement::ControlBarrier(Barrier::WORK_GROUP));
        Ok(())
    }

    /// Writes zeros to a place, each atomic word by itself.
    fn zero_place(&mut self, place: Expr, ty: Handle<naga::Type>) -> Res {
        match self.cx.out.types[ty].inner.clone() {
            TypeInner::Atomic(scalar) => {
                let ty = self.cx.ty(TypeInner::Scalar(scalar));
                let zero = self.code.zero(ty);
                self.code.store(place, zero);
                Ok(())
            }
            TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } => {
                self.each(n.get(), |e, i| {
                    let part = e.code.element(place, i);
                    e.zero_place(part, base)
                })
            }
            TypeInner::Struct { members, .. } => {
                for (k, member) in members.iter().enumerate() {
                    let part = self.code.part(place, k as u32);
                    self.zero_place(part, member.ty)?;
                }
                Ok(())
            }
            _ => {
                let zero = self.code.zero(ty);
                self.code.store(place, zero);
                Ok(())
            }
        }
    }
}
