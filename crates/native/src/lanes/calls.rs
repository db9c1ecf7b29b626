//! Passes values to and from functions, and emits `if` and `switch` where lanes diverge.
//!
//! If the condition of an `if` or `switch` varies, each arm runs under the mask of the lanes that
//! take it, unless there are none, and the results are selected lane by lane. An arm that did not run gives
//! zeros, which are not used. Nothing is ever poison, since values of inactive lanes are still processed
//! together with others.

use crate::emit::{Assembler, Binary, Compare, Odds, VARYING, blocks, control};
use crate::types::is_array;
use ir::{Func, InstData, Op, Region, Type, TypeData, scalar};

use super::operand::{El, Id, Val, Vals};
use super::{Backend, Class, Emitter, Res, Writer, el, slot_types};

/// A function with more arguments than this takes them through memory: LLVM's time is quadratic in the
/// operands of a call.
pub(super) const PASSED: usize = 64;

impl<'m, B: Backend> Emitter<'_, 'm, B> {
    /// The types of a value's parts that are passed in registers; an array is its address.
    pub(super) fn parts(&self, ty: Type) -> Vals {
        match self.ts[ty] {
            TypeData::Scalar(s) => Vals::from_slice(&[Val::bits(el(s), 0)]),
            TypeData::Vector(s, n) => Vals::from_elem(Val::bits(el(s), 0), n as usize),
            TypeData::Buffer(_) => {
                Vals::from_slice(&[Val::bits(El::Ptr, 0), Val::i64(0), Val::i64(0), Val::i64(0)])
            }
            TypeData::Array(..) | TypeData::Stack(_) | TypeData::Cell(_) => {
                Vals::from_slice(&[Val::bits(El::Ptr, 0)])
            }
            TypeData::Residuals(_) => Vals::new(),
        }
    }

    /// Returns true if the parts of a varying value of this type are vectors.
    pub(super) fn spreads(&self, ty: Type) -> bool {
        self.ts.is_numeric(ty) || matches!(self.ts[ty], TypeData::Buffer(_))
    }

    /// Zeros in the place of a value that was not computed.
    pub(super) fn blanks(&self, ty: Type, varying: bool) -> Vals {
        let var = varying && self.spreads(ty);
        let wide = varying && !self.spreads(ty);
        let id = |v: Val| match self.ts[ty] {
            TypeData::Array(..) => Id::Name("@rt_zero"),
            TypeData::Stack(_) => Id::Name("@rt_empty"),
            _ => v.id,
        };
        self.parts(ty).into_iter().map(|v| Val { id: id(v), var, wide, ..v }).collect()
    }

    /// Allocates memory for `n` parts that are not passed in registers.
    pub(super) fn room(&mut self, n: usize) -> Val {
        self.w.alloca(8 * n as u64 * self.lanes as u64, 64)
    }

    /// The address of part number `k` in such memory.
    fn room_word(&mut self, at: Val, k: usize) -> Val {
        self.w.offset(at, Val::i64(8 * k as i64 * self.lanes as i64))
    }

    pub(super) fn store_words(&mut self, to: Val, parts: &[Val]) {
        for (k, &part) in parts.iter().enumerate() {
            let at = self.room_word(to, k);
            self.w.store(part, at, Class::Local);
        }
    }

    /// Loads the parts from such memory; `like` holds parts of the same types.
    pub(super) fn load_words(&mut self, from: Val, like: &[Val]) -> Vals {
        let mut all = Vals::new();
        for (k, part) in like.iter().enumerate() {
            let at = self.room_word(from, k);
            let x = self.w.load(part.el, part.var, at, Class::Local);
            all.push(Val { wide: part.wide, ..x });
        }
        all
    }

    /// The parts that a function returns: those of all results but arrays.
    pub(super) fn returned(&self, func: Func, results: &[bool]) -> Vals {
        let mut parts = Vals::new();
        for (ty, &varying) in slot_types(&self.cx.ir.funcs[func].results).zip(results) {
            if !is_array(self.ts, ty) {
                parts.extend(self.blanks(ty, varying));
            }
        }
        parts
    }

    /// Returns true if a region is so small and free of effects that it is not worth a branch.
    fn is_small(&self, region: Region) -> bool {
        const SMALL: usize = 6;
        let insts = &self.f.regions[region].insts;
        insts.len() <= SMALL
            && insts.iter().all(|&i| {
                let data = &self.f.insts[i];
                let numeric = data.results.iter().all(|&r| self.ts.is_numeric(self.ty(r)));
                let cheap = matches!(
                    data.op,
                    Op::Const(_)
                        | Op::Zero
                        | Op::Add
                        | Op::Sub
                        | Op::Mul
                        | Op::Neg
                        | Op::And
                        | Op::Or
                        | Op::Xor
                        | Op::Not
                        | Op::Eq
                        | Op::Ne
                        | Op::Lt
                        | Op::Le
                        | Op::Gt
                        | Op::Ge
                        | Op::Select
                        | Op::Detach
                        | Op::Extract(_)
                        | Op::Construct
                        | Op::Splat
                        | Op::Insert(_)
                );
                numeric && cheap
            })
    }

    /// Emits a divergent `if` or `switch`. An `if` has no cases: its condition selects the first region.
    pub(super) fn part(&mut self, data: &'m InstData, cases: &[i64]) -> Res {
        if !self.bundles.joins(data).is_empty() {
            return self.no_lanes("a choice of stacks that varies", data.span);
        }
        let outer = self.mask;
        let tag = self.one(data.args[0]);
        let s = self.scalar_of(data.args[0]);
        let mut taken = Vec::new();
        if data.op == Op::If {
            let not = self.w.binary(Binary::Xor, tag, Val::bool(true));
            taken.extend([tag, not]);
        } else {
            let mut others = Val { var: true, ..Val::bool(true) };
            for &case in cases {
                let bits = scalar::from_i64(s, case);
                let here = if scalar::to_i64(s, bits) == case {
                    let is = self.w.compare(Compare::Equal, tag, Val::bits(tag.el, bits));
                    self.w.binary(Binary::And, is, others)
                } else {
                    Val { var: true, ..Val::bool(false) }
                };
                let not = self.w.binary(Binary::Xor, here, Val::bool(true));
                others = self.w.binary(Binary::And, others, not);
                taken.push(here);
            }
            taken.push(others);
        }
        let mut found: Option<Vec<Vals>> = None;
        for (&here, &region) in taken.iter().zip(&data.regions) {
            self.mask = outer;
            let mask = self.active(here);
            // Masks are varying even if the condition is uniform, since loops carry them.
            let mask = self.w.spread(mask);
            self.mask = Some(mask);
            let arm = if self.is_small(region) {
                control::arm(self, region, data)?
            } else {
                let any = self.w.any(mask);
                let blank: Vals =
                    data.results.iter().flat_map(|&r| self.blanks(self.ty(r), VARYING)).collect();
                let found = blocks::unless(self, any, Odds::Even, &blank, |e| {
                    e.note_full();
                    Ok(control::arm(e, region, data)?.into_iter().flatten().collect())
                })?;
                control::deal(self, data, found)
            };
            self.mask = outer;
            found = Some(match found {
                None => arm,
                Some(others) => {
                    let mut picked = Vec::new();
                    for ((&result, a), b) in data.results.iter().zip(&arm).zip(&others) {
                        picked.push(self.pick(self.ty(result), here, a, b, data.span)?);
                    }
                    picked
                }
            });
        }
        control::set_all(self, data, &found.unwrap_or_default())
    }
}
