//! Emits whole functions, and the functions that Rust calls:
//!
//! - `group(ctx)` runs all threads of the group whose ID is in the context, one after the other.
//! - `thread(ctx)` runs the thread whose IDs are in the context; for groups with barriers.
//! - `span(ctx, start, end)` runs the threads with these numbers in a row of groups that begins at the group in the
//!   context: those that are left over by code for lanes.
//! - `raw(ctx, args, results)` calls a function with each word of its arguments and results in eight bytes.
//!   An array argument is a pointer to the array, an array result a pointer to the memory that receives it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, types::*};
use cranelift_module::Module as _;
use ir::Func;

use super::{Emitter, Res, Vals, slot_types};
use crate::common::plain;
use crate::types::returns;
use native::emit::{Assembler, Instructions, functions, world};
use native::runtime::offsets;
use native::types::{is_array, words};

impl Emitter<'_, '_> {
    /// Emits the function itself.
    pub(crate) fn function(mut self, func: Func) -> Res {
        let f = self.f;
        let mut given = Vals::from_slice(&self.b.block_params(self.entry)[1..]).into_iter();
        for &param in &f.regions[f.body()].params {
            let vals: Vals = given.by_ref().take(words(self.ts, self.ty(param))).collect();
            self.set(param, &vals);
        }
        let n_arrays = f.results.iter().filter(|slot| is_array(self.ts, slot.ty)).count();
        let destinations: Vals = given.by_ref().take(n_arrays).collect();
        let returned = functions::function(&mut self, func, destinations)?;
        let (all, _) = returns(self.ts, slot_types(&f.results));
        let mut registers = Vals::new();
        let (mut at, rest) = (0, given.next());
        for (&x, (_, in_register)) in returned.iter().zip(all) {
            match rest {
                Some(rest) if !in_register => {
                    self.b.ins().store(plain(), x, rest, at);
                    at += 8;
                }
                _ => registers.push(x),
            }
        }
        self.b.ins().return_(&registers);
        self.done();
        Ok(())
    }

    /// Ends the function.
    fn done(mut self) {
        self.b.seal_all_blocks();
        let config = self.cx.jit.isa().frontend_config();
        self.b.finalize(config);
    }

    /// Emits `thread(ctx)` of an entry point.
    pub(crate) fn thread(mut self, func: Func) -> Res {
        world::init_private(&mut self)?;
        self.begin_path(func);
        self.region(self.f.body())?;
        self.ret();
        self.done();
        Ok(())
    }

    /// Emits `group(ctx)` of an entry point.
    pub(crate) fn group(mut self, size: [u32; 3]) -> Res {
        let first: Vals = (0..)
            .zip(size)
            .map(|(k, n)| {
                let group = self.b.ins().load(I32, plain(), self.ctx, offsets::GROUP + 4 * k);
                let n = self.b.ins().iconst(I32, n as i64);
                self.b.ins().imul(group, n)
            })
            .collect();
        // The body is one loop whose block parameters are the counters x, y and z, and the index of the
        // thread.
        let zero = self.b.ins().iconst(I32, 0);
        let one = self.b.ins().iconst(I32, 1);
        let limits: Vals = size.iter().map(|&n| self.b.ins().iconst(I32, n as i64)).collect();
        let (body, done) = (self.block(&[zero; 4]), self.block(&[]));
        self.jump(body, &[zero; 4]);
        let now = self.enter(body);
        for k in 0..3 {
            let at = self.b.ins().iadd(first[k], now[k]);
            let k4 = 4 * k as i32;
            self.set_context(at, offsets::THREAD + k4);
            self.set_context(now[k], offsets::LOCAL + k4);
        }
        self.set_context(now[3], offsets::INDEX);
        world::init_private(&mut self)?;
        functions::thread(&mut self)?;
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
        let next = [counters[0], counters[1], counters[2], index];
        self.branch(end, (done, &[]), (body, &next), native::emit::Odds::Even);
        self.enter(done);
        self.ret();
        self.done();
        Ok(())
    }

    /// Emits `span(ctx, start, end)` of an entry point.
    pub(crate) fn span(mut self, func: Func, size: [u32; 3]) -> Res {
        let (start, end) = (self.b.block_params(self.entry)[1], self.b.block_params(self.entry)[2]);
        let group: Vals =
            (0..3).map(|k| self.b.ins().load(I32, plain(), self.ctx, offsets::GROUP + 4 * k)).collect();
        let (head, body, exit) = (self.block(&[start]), self.block(&[]), self.block(&[]));
        self.jump(head, &[start]);
        let t = self.enter(head)[0];
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, t, end);
        self.branch(more, (body, &[]), (exit, &[]), native::emit::Odds::Even);
        self.enter(body);
        let all = self.i64(size.iter().map(|&n| i64::from(n)).product());
        let (g, index) = (self.b.ins().udiv(t, all), self.b.ins().urem(t, all));
        let [g, index] = [g, index].map(|x| self.b.ins().ireduce(I32, x));
        let [x, y] = [size[0], size[1]].map(|n| self.b.ins().iconst(I32, i64::from(n)));
        let rest = self.b.ins().udiv(index, x);
        let local = [self.b.ins().urem(index, x), self.b.ins().urem(rest, y), self.b.ins().udiv(rest, y)];
        let group = [self.b.ins().iadd(group[0], g), group[1], group[2]];
        for (k, n) in size.into_iter().enumerate() {
            let n = self.b.ins().iconst(I32, i64::from(n));
            let first = self.b.ins().imul(group[k], n);
            let at = self.b.ins().iadd(first, local[k]);
            let k4 = 4 * k as i32;
            self.set_context(at, offsets::THREAD + k4);
            self.set_context(group[k], offsets::GROUP + k4);
            self.set_context(local[k], offsets::LOCAL + k4);
        }
        self.set_context(index, offsets::INDEX);
        world::init_private(&mut self)?;
        self.begin_path(func);
        functions::thread(&mut self)?;
        let next = self.add_imm(t, 1);
        self.jump(head, &[next]);
        self.enter(exit);
        self.ret();
        self.done();
        Ok(())
    }

    /// Emits `raw(ctx, args, results)` of a function; `self.f` is the function.
    pub(crate) fn raw(mut self, func: Func) -> Res {
        let (args, results) = (self.b.block_params(self.entry)[1], self.b.block_params(self.entry)[2]);
        functions::raw(&mut self, func, args, results)?;
        self.done();
        Ok(())
    }

    /// The signature of a function that Rust calls with this number of pointers.
    pub(crate) fn entry_signature(call_conv: cranelift_codegen::isa::CallConv, n: usize) -> Signature {
        let mut sig = Signature::new(call_conv);
        sig.params = vec![AbiParam::new(I64); n];
        sig
    }
}
