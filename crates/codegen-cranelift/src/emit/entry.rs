//! Emits whole functions, and the functions that Rust calls:
//!
//! - `group(ctx)` runs all threads of the group whose ID is in the context, one after the other.
//! - `thread(ctx)` runs the thread whose IDs are in the context; for groups with barriers.
//! - `raw(ctx, args, results)` calls a function with each word of its arguments and results in eight bytes.
//!   An array argument is a pointer to the array, an array result a pointer to the memory that receives it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, types::*};
use cranelift_module::Module as _;
use ir::{Func, Op};

use super::{Emitter, Res, Vals, plain, slot_types};
use crate::types::{parts, returns};
use native::emit::Assembler;
use native::runtime::{Site, offsets};
use native::types::{is_array, size};

impl Emitter<'_, '_> {
    /// Emits the function itself.
    pub(crate) fn function(mut self, func: Func) -> Res {
        let f = self.f;
        if self.cx.plan.facts[func].recursive {
            let sp = self.b.ins().get_stack_pointer(I64);
            let limit = self.field(I64, offsets::STACK_LIMIT);
            let deep = self.b.ins().icmp(IntCC::UnsignedLessThan, sp, limit);
            native::emit::world::fail_if(&mut self, deep, Site::NoStack(f.span));
            let depth = self.b.ins().load(I32, plain(), self.ctx, offsets::DEPTH);
            let most = ir::interp::MAX_DEPTH as i64;
            let deep = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, depth, most);
            native::emit::world::fail_if(&mut self, deep, Site::TooDeep(f.span));
            let deeper = self.b.ins().iadd_imm_s(depth, 1);
            self.b.ins().store(plain(), deeper, self.ctx, offsets::DEPTH);
        }
        native::emit::begin_path(&mut self, func);
        let body = f.body();
        let entry = self.entry;
        let params = &f.regions[body].params;
        let after = self.bind_params(entry, 1, params);
        let destinations = Vals::from_slice(&self.b.block_params(entry)[after..]);
        self.place_results(body, &destinations);
        let mark = self.releases_body(body).then(|| self.mark());
        self.region(body)?;
        let mut returned = Vals::new();
        let mut destinations = destinations.into_iter();
        for &v in &f.regions[body].results {
            let (ty, vals) = (self.ty(v), self.get(v));
            if is_array(self.ts, ty) {
                let to = destinations.next().expect("a destination for each array");
                if to != vals[0] {
                    self.copy(to, vals[0], size(self.ts, ty));
                }
            } else {
                returned.extend(vals);
            }
        }
        self.release(mark);
        let (all, _) = returns(self.ts, slot_types(&f.results));
        let mut registers = Vals::new();
        let (mut at, rest) = (0, destinations.next());
        for (&x, (_, in_register)) in returned.iter().zip(all) {
            match rest {
                Some(rest) if !in_register => {
                    self.b.ins().store(plain(), x, rest, at);
                    at += 8;
                }
                _ => registers.push(x),
            }
        }
        if self.cx.plan.facts[func].recursive {
            let depth = self.b.ins().load(I32, plain(), self.ctx, offsets::DEPTH);
            let before = self.b.ins().iadd_imm_s(depth, -1);
            self.b.ins().store(plain(), before, self.ctx, offsets::DEPTH);
        }
        self.b.ins().return_(&registers);
        self.done();
        Ok(())
    }

    /// A result that is the final content of a cell of the body is built directly in the caller's
    /// destination. No argument overlaps it: callers pass memory that nothing else refers to.
    fn place_results(&mut self, body: ir::Region, destinations: &[cranelift_codegen::ir::Value]) {
        let (f, ts) = (self.f, self.ts);
        let arrays = f.regions[body].results.iter().filter(|&&v| is_array(ts, f.ty(v)));
        for (&v, &to) in arrays.zip(destinations) {
            let Some(inst) = self.nesting.inst_of(v) else { continue };
            let data = &self.f.insts[inst];
            if data.op == Op::Load && data.args.len() == 1 && self.nesting.last_use(inst, data.args[0]) {
                self.wanted.entry(data.args[0]).or_insert(to);
            }
        }
    }

    /// Ends the function.
    fn done(mut self) {
        self.b.seal_all_blocks();
        let config = self.cx.jit.isa().frontend_config();
        self.b.finalize(config);
    }

    /// Emits `thread(ctx)` of an entry point.
    pub(crate) fn thread(mut self, func: Func) -> Res {
        native::emit::world::init_private(&mut self)?;
        native::emit::begin_path(&mut self, func);
        self.region(self.f.body())?;
        self.b.ins().return_(&[]);
        self.done();
        Ok(())
    }

    /// Emits `group(ctx)` of an entry point.
    pub(crate) fn group(mut self, size: [u32; 3]) -> Res {
        let group: Vals =
            (0..3).map(|k| self.b.ins().load(I32, plain(), self.ctx, offsets::GROUP + 4 * k)).collect();
        let first: Vals = group
            .iter()
            .zip(size)
            .map(|(&g, n)| {
                let n = self.b.ins().iconst(I32, n as i64);
                self.b.ins().imul(g, n)
            })
            .collect();
        // The body is one loop whose block parameters are the counters x, y and z, and the index of the
        // thread.
        let zero = self.b.ins().iconst(I32, 0);
        let one = self.b.ins().iconst(I32, 1);
        let limits: Vals = size.iter().map(|&n| self.b.ins().iconst(I32, n as i64)).collect();
        let body = self.b.create_block();
        let done = self.b.create_block();
        for _ in 0..4 {
            self.b.append_block_param(body, I32);
        }
        self.jump(body, &[zero; 4]);
        self.b.switch_to_block(body);
        let now = Vals::from_slice(self.b.block_params(body));
        for k in 0..3 {
            let at = self.b.ins().iadd(first[k], now[k]);
            let k4 = 4 * k as i32;
            self.b.ins().store(plain(), at, self.ctx, offsets::THREAD + k4);
            self.b.ins().store(plain(), now[k], self.ctx, offsets::LOCAL + k4);
        }
        self.b.ins().store(plain(), now[3], self.ctx, offsets::INDEX);
        native::emit::world::init_private(&mut self)?;
        let region = self.f.body();
        let mark = self.releases_body(region).then(|| self.mark());
        self.region(region)?;
        self.release(mark);
        // Advance to the next thread: first along x, then y, then z.
        let index = self.b.ins().iadd(now[3], one);
        let mut counters = [now[0], now[1], now[2]];
        let mut carry = None;
        for k in 0..3 {
            let next = match carry {
                None => self.b.ins().iadd(counters[k], one),
                Some(c) => {
                    let step = self.b.ins().uextend(I32, c);
                    self.b.ins().iadd(counters[k], step)
                }
            };
            let over = self.b.ins().icmp(IntCC::Equal, next, limits[k]);
            counters[k] = if k < 2 { self.b.ins().select(over, zero, next) } else { next };
            carry = Some(over);
        }
        let end = carry.expect("three counters");
        self.branch(end, (done, &[]), (body, &[counters[0], counters[1], counters[2], index]));
        self.b.switch_to_block(done);
        self.b.ins().return_(&[]);
        self.done();
        Ok(())
    }

    /// Emits `raw(ctx, args, results)` of a function; `self.f` is the function.
    pub(crate) fn raw(mut self, func: Func, private: bool) -> Res {
        if private {
            native::emit::world::init_private(&mut self)?;
        }
        let entry = self.entry;
        let (args, results) = (self.b.block_params(entry)[1], self.b.block_params(entry)[2]);
        let mut at = 0;
        let mut vals = Vals::from_slice(&[self.ctx]);
        for ty in slot_types(&self.f.params) {
            for part in parts(self.ts, ty) {
                vals.push(self.b.ins().load(part, plain(), args, at));
                at += 8;
            }
        }
        // The word of an array result holds its destination.
        at = 0;
        for ty in slot_types(&self.f.results) {
            if is_array(self.ts, ty) {
                vals.push(self.b.ins().load(I64, plain(), results, at));
            }
            at += 8 * parts(self.ts, ty).len() as i32;
        }
        let Some(id) = self.cx.funcs[func] else {
            return self.unsupported(&Op::Call(func), "a function without a body", self.f.span);
        };
        let types: Vec<ir::Type> = slot_types(&self.f.results).collect();
        let mut returned = self.call_parts(id, vals, &types).into_iter();
        at = 0;
        for ty in slot_types(&self.f.results) {
            let n = parts(self.ts, ty).len();
            if !is_array(self.ts, ty) {
                for (k, x) in returned.by_ref().take(n).enumerate() {
                    self.b.ins().store(plain(), x, results, at + 8 * k as i32);
                }
            }
            at += 8 * n as i32;
        }
        self.b.ins().return_(&[]);
        self.done();
        Ok(())
    }

    /// The signature of `group` and `thread`, or of `raw`.
    pub(crate) fn entry_signature(call_conv: cranelift_codegen::isa::CallConv, raw: bool) -> Signature {
        let mut sig = Signature::new(call_conv);
        for _ in 0..if raw { 3 } else { 1 } {
            sig.params.push(AbiParam::new(I64));
        }
        sig
    }
}
