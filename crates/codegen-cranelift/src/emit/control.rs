//! Emits calls, `if` and `switch`.

use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Switch;
use cranelift_module::FuncId;
use ir::{Func, InstData, Op, Span, Type, scalar};

use super::{Emitter, Res, Vals, plain, slot_types};
use crate::types::{parts, returns};
use native::emit::Assembler;
use native::types::{is_array, size};

impl<'m> Emitter<'_, 'm> {
    /// Emits calls and the ops that hold regions.
    pub(super) fn control(&mut self, data: &'m InstData) -> Res {
        match &data.op {
            Op::Call(func) => self.call(data, *func),
            Op::If => self.if_op(data),
            Op::Switch(cases) => self.switch(data, cases),
            Op::For(info) => self.for_op(data, *info),
            Op::Loop(info) => self.loop_op(data, *info),
            _ => self.unsupported(&data.op, "a derivative that was not generated", data.span),
        }
    }

    fn call(&mut self, data: &InstData, func: Func) -> Res {
        let mut args = Vals::new();
        for &arg in &data.args {
            args.extend(self.get(arg));
        }
        let results = self.call_func(func, &args, data.span)?;
        for (&result, vals) in data.results.iter().zip(results) {
            self.set(result, &vals);
        }
        Ok(())
    }

    /// Calls a function of the module; returns the values of each result.
    pub(super) fn call_func(&mut self, func: Func, args: &[Value], span: Span) -> Res<Vec<Vals>> {
        let Some(id) = self.cx.funcs[func] else {
            return self.unsupported(&Op::Call(func), "a function without a body", span);
        };
        let results: &[Type] = &slot_types(&self.cx.ir.funcs[func].results).collect::<Vec<_>>();
        let mut all = Vals::from_slice(&[self.ctx]);
        all.extend_from_slice(args);
        let mut arrays = Vals::new();
        for &ty in results {
            if is_array(self.ts, ty) {
                let to = self.memory(size(self.ts, ty));
                arrays.push(to);
                all.push(to);
            }
        }
        let returned = self.call_parts(id, all, results);
        let (mut arrays, mut returned) = (arrays.into_iter(), returned.into_iter());
        Ok(results
            .iter()
            .map(|&ty| {
                if is_array(self.ts, ty) {
                    arrays.by_ref().take(1).collect()
                } else {
                    returned.by_ref().take(parts(self.ts, ty).len()).collect()
                }
            })
            .collect())
    }

    /// Calls a declared function; returns the parts of its results other than arrays.
    pub(super) fn call_parts(&mut self, id: FuncId, mut args: Vals, results: &[Type]) -> Vals {
        let (all, spilled) = returns(self.ts, results.iter().copied());
        let rest = (spilled > 0).then(|| self.memory(8 * spilled));
        args.extend(rest);
        let callee = self.func_ref(id);
        let call = self.b.ins().call(callee, &args);
        let mut registers = Vals::from_slice(self.b.inst_results(call)).into_iter();
        let mut at = 0;
        let mut parts = Vals::new();
        for (ty, in_register) in all {
            parts.push(match rest {
                Some(rest) if !in_register => {
                    at += 8;
                    self.b.ins().load(ty, plain(), rest, at - 8)
                }
                _ => registers.next().expect("as many registers as the signature says"),
            });
        }
        parts
    }

    /// Makes a block with parameters for values of the types.
    pub(super) fn block_for(&mut self, types: &[Type]) -> Block {
        let block = self.b.create_block();
        for &ty in types {
            for part in parts(self.ts, ty) {
                self.b.append_block_param(block, part);
            }
        }
        block
    }

    /// Binds IR values to the block's parameters from number `from` on; returns the number after the last
    /// one.
    pub(super) fn bind_params(&mut self, block: Block, from: usize, values: &[ir::Value]) -> usize {
        let mut at = from;
        for &v in values {
            let n = parts(self.ts, self.ty(v)).len();
            let vals = Vals::from_slice(&self.b.block_params(block)[at..at + n]);
            self.set(v, &vals);
            at += n;
        }
        at
    }

    /// The concatenated values that hold these IR values.
    pub(super) fn get_all(&self, values: &[ir::Value]) -> Vals {
        values.iter().flat_map(|&v| self.get(v)).collect()
    }

    fn result_types(&self, data: &InstData) -> Vec<Type> {
        data.results.iter().map(|&r| self.ty(r)).collect()
    }

    /// Emits an arm and passes its results to the block `after`.
    fn arm(&mut self, block: Block, region: ir::Region, after: Block) -> Res {
        self.b.switch_to_block(block);
        native::emit::path_arm(self, region);
        self.region(region)?;
        let results = self.get_all(&self.f.regions[region].results);
        self.jump(after, &results);
        Ok(())
    }

    fn if_op(&mut self, data: &InstData) -> Res {
        let types = self.result_types(data);
        let after = self.block_for(&types);
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        let c = self.one(data.args[0]);
        self.branch(c, (yes, &[]), (no, &[]));
        self.arm(yes, data.regions[0], after)?;
        self.arm(no, data.regions[1], after)?;
        self.b.switch_to_block(after);
        self.bind_params(after, 0, &data.results);
        Ok(())
    }

    fn switch(&mut self, data: &InstData, cases: &[i64]) -> Res {
        let types = self.result_types(data);
        let after = self.block_for(&types);
        let s = self.scalar_of(data.args[0]);
        let tag = self.one(data.args[0]);
        let blocks: Vec<Block> = data.regions.iter().map(|_| self.b.create_block()).collect();
        let mut switch = Switch::new();
        let mut seen = rustc_hash::FxHashSet::default();
        for (&case, &block) in cases.iter().zip(&blocks) {
            let bits = scalar::from_i64(s, case);
            // A case that the tag's type cannot represent is never taken; of equal cases, the first one is.
            if scalar::to_i64(s, bits) == case && seen.insert(bits) {
                switch.set_entry(bits as u128, block);
            }
        }
        switch.emit(&mut self.b, tag, blocks[cases.len()]);
        for (&block, &region) in blocks.iter().zip(&data.regions) {
            self.arm(block, region, after)?;
        }
        self.b.switch_to_block(after);
        self.bind_params(after, 0, &data.results);
        Ok(())
    }
}
