//! Emits calls, `if` and `switch`.
//!
//! If the condition is uniform, one arm runs. If it varies, each arm runs under the mask of the lanes that
//! take it, unless there are none, and the results are selected lane by lane. An arm that did not run gives
//! zeros, which are not used. Nothing is ever poison, since values of inactive lanes are still processed
//! together with others.

use ir::{Func, Inst, InstData, Op, Region, Span, Type, TypeData, scalar};
use native::emit::Assembler;
use native::types::{is_array, size};

use super::local::Class;
use super::{Emitter, Res, Version, el, slot_types};

use crate::text::{Block, El, Id, Val, Vals};

/// A function with more results than this returns them through memory.
const IN_REGISTERS: usize = 8;
/// A function with more floats as results than this returns them through memory, too: x86-64 returns a fourth
/// float on the x87 stack, which costs a store and a load as well, and which LLVM without optimisation does
/// not always pop. Once that stack is full, every float that is pushed on it becomes NaN.
const FLOATS_IN_REGISTERS: usize = 3;
/// A function with more arguments than this takes them through memory: LLVM's time is quadratic in the
/// operands of a call.
pub(super) const PASSED: usize = 64;

/// Returns true if a function returns these results through memory.
pub(super) fn is_by_memory(results: &[Val]) -> bool {
    let floats = results.iter().filter(|v| !v.var && matches!(v.el, El::F32 | El::F64)).count();
    results.len() > IN_REGISTERS || floats > FLOATS_IN_REGISTERS
}

impl<'m> Emitter<'_, 'm> {
    /// Emits calls and the ops that hold regions.
    pub(super) fn control(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        let divergent = self.facts.divergent[inst];
        match &data.op {
            Op::Call(func) => {
                let results = self.call_func(*func, &data.args, data.span)?;
                for (&result, vals) in data.results.iter().zip(results) {
                    self.set(result, &vals);
                }
                Ok(())
            }
            Op::If if divergent => self.parted(data, &[]),
            Op::Switch(cases) if divergent => self.parted(data, cases),
            Op::If => self.if_op(data),
            Op::Switch(cases) => self.switch(data, cases),
            Op::For(info) => self.for_op(data, *info, divergent),
            Op::Loop(info) => self.loop_op(data, *info, divergent),
            _ => self.unsupported(&data.op, "unknown", data.span),
        }
    }

    /// The types of a value's parts that are passed in registers; an array is its address.
    pub(super) fn parts(&self, ty: Type) -> Vals {
        match self.ts[ty] {
            TypeData::Scalar(s) => Vals::from_slice(&[Val::bits(el(s), 0)]),
            TypeData::Vector(s, n) => Vals::from_elem(Val::bits(el(s), 0), n as usize),
            TypeData::Buffer(_) => self.null(),
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
    pub(super) fn blank(&self, ty: Type, varying: bool) -> Vals {
        let var = varying && self.spreads(ty);
        let wide = varying && !self.spreads(ty);
        let id = |v: Val| match self.ts[ty] {
            TypeData::Array(..) => Id::Name("@rt_zero"),
            TypeData::Stack(_) => Id::Name("@rt_empty"),
            _ => v.id,
        };
        self.parts(ty).into_iter().map(|v| Val { id: id(v), var, wide, ..v }).collect()
    }

    /// Calls a function of the module; returns the parts of each result.
    pub(super) fn call_func(&mut self, func: Func, args: &[ir::Value], span: Span) -> Res<Vec<Vals>> {
        let callee = &self.cx.ir.funcs[func];
        if !callee.has_body() {
            return self.unsupported(&Op::Call(func), "a function without a body", span);
        }
        let params: Vec<bool> = args.iter().map(|&a| self.varies(a)).collect();
        let results = if self.lanes > 1 {
            self.cx.facts(self.dealing, func, &params)?.results
        } else {
            vec![false; callee.results.len()]
        };
        let mut list = vec!["ptr %ctx".to_string()];
        let mut passed = Vals::new();
        for &arg in args {
            let (ty, vals, varying) = (self.ty(arg), self.get(arg), self.varies(arg));
            passed.extend(self.fit_all(ty, vals, varying, span)?);
        }
        if passed.len() > PASSED {
            let at = self.room(passed.len());
            self.store_words(at, &passed);
            passed = Vals::from_slice(&[at]);
        }
        list.extend(passed.iter().map(|&v| self.w.typed(v)));
        let mut arrays = Vals::new();
        for (ty, &varying) in slot_types(&callee.results).zip(&results) {
            if is_array(self.ts, ty) {
                let to = self.memory(size(self.ts, ty), varying);
                list.push(self.w.typed(to));
                arrays.push(to);
            }
        }
        if let Some(mask) = self.mask {
            let mask = self.w.spread(mask);
            list.push(self.w.typed(mask));
        }
        let version =
            Version { func, lanes: self.lanes, params, masked: self.mask.is_some(), dealing: self.dealing };
        let (number, _) = self.cx.versions.insert_full(version);
        self.w.calls(&format!("f{number}"));
        let parts = self.returned(func, &results);
        if is_by_memory(&parts) {
            let to = self.room(parts.len());
            let mut more = list;
            more.push(self.w.typed(to));
            let text = more.join(", ");
            self.w.line(format_args!("call fastcc void @f{number}({text})"));
            let returned = self.load_words(to, &parts);
            return Ok(self.deal_results(func, arrays, returned));
        }
        let types: Vec<String> = parts.iter().map(|&p| self.w.ty(p.el, p.var)).collect();
        let list = list.join(", ");
        let mut returned = Vals::new();
        match &types[..] {
            [] => self.w.line(format_args!("call fastcc void @f{number}({list})")),
            [ty] => {
                let out = self.w.reg(parts[0].el, parts[0].var);
                let o = self.w.operand(out, false);
                self.w.line(format_args!("{o} = call fastcc {ty} @f{number}({list})"));
                returned.push(Val { wide: parts[0].wide, ..out });
            }
            _ => {
                let all = self.w.reg(El::Ptr, false);
                let a = self.w.operand(all, false);
                let ty = format!("{{ {} }}", types.join(", "));
                self.w.line(format_args!("{a} = call fastcc {ty} @f{number}({list})"));
                for (k, part) in parts.iter().enumerate() {
                    let out = self.w.reg(part.el, part.var);
                    let o = self.w.operand(out, false);
                    self.w.line(format_args!("{o} = extractvalue {ty} {a}, {k}"));
                    returned.push(Val { wide: part.wide, ..out });
                }
            }
        }
        Ok(self.deal_results(func, arrays, returned))
    }

    /// Allocates memory for `n` parts that are not passed in registers.
    fn room(&mut self, n: usize) -> Val {
        self.w.alloca(8 * n as u64 * self.lanes as u64, 64)
    }

    /// The address of part number `k` in such memory.
    fn room_word(&mut self, at: Val, k: usize) -> Val {
        self.w.offset(at, Val::i64(8 * k as i64 * self.lanes as i64))
    }

    pub(super) fn store_words(&mut self, to: Val, parts: &[Val]) {
        let note = self.note(Class::Local, 8);
        for (k, &part) in parts.iter().enumerate() {
            let at = self.room_word(to, k);
            self.w.store(part, at, &note);
        }
    }

    /// Loads the parts from such memory; `like` holds parts of the same types.
    pub(super) fn load_words(&mut self, from: Val, like: &[Val]) -> Vals {
        let note = self.note(Class::Local, 8);
        let mut all = Vals::new();
        for (k, part) in like.iter().enumerate() {
            let at = self.room_word(from, k);
            let x = self.w.load(part.el, part.var, at, &note);
            all.push(Val { wide: part.wide, ..x });
        }
        all
    }

    /// Distributes the returned values to the results of a call.
    fn deal_results(&self, func: Func, arrays: Vals, returned: Vals) -> Vec<Vals> {
        let (mut arrays, mut returned) = (arrays.into_iter(), returned.into_iter());
        slot_types(&self.cx.ir.funcs[func].results)
            .map(|ty| {
                if is_array(self.ts, ty) {
                    arrays.by_ref().take(1).collect()
                } else {
                    let n = self.parts(ty).len();
                    returned.by_ref().take(n).collect()
                }
            })
            .collect()
    }

    /// The parts that a function returns: those of all results but arrays.
    pub(super) fn returned(&self, func: Func, results: &[bool]) -> Vals {
        let mut parts = Vals::new();
        for (ty, &varying) in slot_types(&self.cx.ir.funcs[func].results).zip(results) {
            if !is_array(self.ts, ty) {
                parts.extend(self.blank(ty, varying));
            }
        }
        parts
    }

    /// Emits an arm; returns its results in the representation of the instruction's, and the block in which
    /// it ends.
    fn arm(&mut self, region: Region, data: &InstData) -> Res<(Vec<Vals>, Block)> {
        native::emit::path_arm(self, region);
        self.region(region)?;
        let mut all = Vec::with_capacity(data.results.len());
        for (&v, &result) in self.f.regions[region].results.iter().zip(&data.results) {
            let (ty, vals, varying) = (self.ty(v), self.get(v), self.varies(result));
            all.push(self.fit_all(ty, vals, varying, data.span)?);
        }
        Ok((all, self.w.block))
    }

    /// Makes phis for values that come from several blocks.
    pub(super) fn join(&mut self, from: &[(&Vec<Vals>, Block)]) -> Vec<Vals> {
        let Some(((first, _), _)) = from.split_first() else { return Vec::new() };
        let mut all = Vec::with_capacity(first.len());
        for (k, value) in first.iter().enumerate() {
            let mut parts = Vals::new();
            for (n, part) in value.iter().enumerate() {
                let same = from.iter().all(|(vals, _)| vals[k][n] == *part) && matches!(part.id, Id::Bits(_));
                if same {
                    parts.push(*part);
                    continue;
                }
                let (phi, v) = self.w.phi(part.el, part.var, part.wide);
                for (vals, block) in from {
                    self.w.flow(phi, vals[k][n], *block);
                }
                parts.push(v);
            }
            all.push(parts);
        }
        all
    }

    fn if_op(&mut self, data: &'m InstData) -> Res {
        let (yes, no, after) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        let c = self.one(data.args[0]);
        let together = self.split_lanes(data.regions[0], c);
        self.w.branch(c, yes, no, "");
        self.w.enter(yes);
        let (a, a_end) = self.arm(data.regions[0], data)?;
        self.w.jump(after);
        self.w.enter(no);
        let (b, b_end) = self.arm(data.regions[1], data)?;
        self.w.jump(after);
        self.w.enter(after);
        let all = self.join(&[(&a, a_end), (&b, b_end)]);
        self.rejoin(together);
        for (&result, vals) in data.results.iter().zip(&all) {
            self.set(result, vals);
        }
        Ok(())
    }

    fn switch(&mut self, data: &'m InstData, cases: &[i64]) -> Res {
        let s = self.scalar_of(data.args[0]);
        let tag = self.one(data.args[0]);
        let after = self.w.new_block();
        let blocks: Vec<Block> = data.regions.iter().map(|_| self.w.new_block()).collect();
        let mut entries: Vec<(u64, Block)> = Vec::new();
        for (&case, &block) in cases.iter().zip(&blocks) {
            let bits = scalar::from_i64(s, case);
            // A case that the tag's type cannot represent is never taken; of equal cases, the first one is.
            if scalar::to_i64(s, bits) == case && entries.iter().all(|e| e.0 != bits) {
                entries.push((bits, block));
            }
        }
        let mut way = Val::i32(0);
        if self.parts_at(data.regions[0]) {
            for (&(bits, _), k) in entries.iter().zip(1..) {
                let is_case = self.w.compare("icmp eq", tag, Val::bits(tag.el, bits));
                way = self.w.select(is_case, Val::i32(k), way);
            }
        }
        let together = self.split_lanes(data.regions[0], way);
        self.w.switch(tag, &entries, blocks[cases.len()]);
        let mut arms = Vec::new();
        for (&block, &region) in blocks.iter().zip(&data.regions) {
            self.w.enter(block);
            let arm = self.arm(region, data)?;
            self.w.jump(after);
            arms.push(arm);
        }
        self.w.enter(after);
        let from: Vec<(&Vec<Vals>, Block)> = arms.iter().map(|a| (&a.0, a.1)).collect();
        let all = self.join(&from);
        self.rejoin(together);
        for (&result, vals) in data.results.iter().zip(&all) {
            self.set(result, vals);
        }
        Ok(())
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
    fn parted(&mut self, data: &'m InstData, cases: &[i64]) -> Res {
        let outer = self.mask;
        let tag = self.one(data.args[0]);
        let s = self.scalar_of(data.args[0]);
        let mut taken = Vec::new();
        if data.op == Op::If {
            let not = self.w.binary("xor", tag, Val::bool(true));
            taken.extend([tag, not]);
        } else {
            let mut others = Val { var: true, ..Val::bool(true) };
            for &case in cases {
                let bits = scalar::from_i64(s, case);
                let here = if scalar::to_i64(s, bits) == case {
                    let is = self.w.compare("icmp eq", tag, Val::bits(tag.el, bits));
                    self.w.binary("and", is, others)
                } else {
                    Val { var: true, ..Val::bool(false) }
                };
                let not = self.w.binary("xor", here, Val::bool(true));
                others = self.w.binary("and", others, not);
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
                self.arm(region, data)?.0
            } else {
                let any = self.any(mask);
                let before = self.w.block;
                let (run, after) = (self.w.new_block(), self.w.new_block());
                self.w.branch(any, run, after, "");
                self.w.enter(run);
                self.note_full();
                let (vals, end) = self.arm(region, data)?;
                self.w.jump(after);
                self.w.enter(after);
                let mut blank = Vec::new();
                for &result in &data.results {
                    blank.push(self.blank(self.ty(result), true));
                }
                self.join(&[(&vals, end), (&blank, before)])
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
        for (&result, vals) in data.results.iter().zip(found.unwrap_or_default()) {
            self.set(result, &vals);
        }
        Ok(())
    }
}
