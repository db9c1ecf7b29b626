//! Emits whole functions, and the functions that Rust calls:
//!
//! - `span(ctx, start, end)` runs the threads with these numbers in a row of groups that begins at the group
//!   in the context and continues along x. It runs as many threads at a time as there are lanes, and
//!   `end - start` is a multiple of that number.
//! - `raw(ctx, args, results)` calls a function with each word of its arguments and results in eight bytes.
//!   An array argument is a pointer to the array, an array result a pointer to the memory that receives it.

use ir::{Builtin, Func, Op};
use native::runtime::{Site, offsets};
use native::types::{is_array, size, words};

use super::control::{PASSED, is_by_memory};
use super::local::{Class, Place};
use super::{Emitter, ModuleCx, Res, Version, slot_types};
use crate::pieces;
use crate::text::{El, Id, Lin, Val, Vals};
use crate::uniform::{Dealing, Facts};
use crate::unit::Function;

/// The IDs of the threads that run in the lanes.
pub(crate) struct Numbers {
    thread: [Val; 3],
    group: [Val; 3],
    local: [Val; 3],
    index: Val,
}

impl Numbers {
    /// Component `k` of an ID.
    pub(super) fn part(&self, builtin: Builtin, k: usize) -> Val {
        match builtin {
            Builtin::DispatchThreadId => self.thread[k],
            Builtin::GroupId => self.group[k],
            Builtin::GroupThreadId => self.local[k],
            _ => self.index,
        }
    }
}

/// The assignment of the threads of groups of this size to lanes.
pub(crate) fn dealing(size: [u32; 3], lanes: u32) -> Dealing {
    let all: u64 = size.iter().map(|&n| n as u64).product();
    let lanes = lanes as u64;
    let flat = size[1] == 1 && size[2] == 1;
    Dealing { rows: flat || (size[0] as u64).is_multiple_of(lanes), packed: !all.is_multiple_of(lanes) }
}

/// The attributes of every function.
const ABOUT: &str = "nounwind \"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\"";
/// Those of them that are about vectors.
pub(super) const VECTORS: &str = "\"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\"";

impl Emitter<'_, '_> {
    /// Emits a version of the function.
    pub(crate) fn function(mut self, number: usize, version: &Version) -> Res {
        let (f, func) = (self.f, version.func);
        let mut list = vec!["ptr %ctx".to_string()];
        let body = f.body();
        let mut parts = Vals::new();
        let mut counts = Vec::with_capacity(version.params.len());
        for (&param, &varying) in f.regions[body].params.iter().zip(&version.params) {
            let blank = self.blank(self.ty(param), varying);
            counts.push(blank.len());
            parts.extend(blank);
            self.facts.varying[param] |= varying;
        }
        let passed = if parts.len() > PASSED {
            let from = self.w.reg(El::Ptr, false);
            list.push(format!("ptr noalias {}", self.w.operand(from, false)));
            self.load_words(from, &parts)
        } else {
            let regs = parts.iter().map(|part| Val { wide: part.wide, ..self.w.reg(part.el, part.var) });
            let regs: Vals = regs.collect();
            list.extend(regs.iter().map(|&v| self.w.typed(v)));
            regs
        };
        let mut passed = &passed[..];
        for (&param, n) in f.regions[body].params.iter().zip(counts) {
            let (vals, rest) = passed.split_at(n);
            self.set(param, vals);
            passed = rest;
        }
        let mut destinations = Vals::new();
        let results = if self.lanes > 1 { self.facts.results.clone() } else { vec![false; f.results.len()] };
        for (ty, &varying) in slot_types(&f.results).zip(&results) {
            if is_array(self.ts, ty) {
                let v = self.w.reg(El::Ptr, false);
                let v_text = self.w.operand(v, false);
                list.push(format!("ptr noalias {v_text}"));
                destinations.push(Val { wide: varying, ..v });
            }
        }
        if version.masked {
            let mask = self.w.reg(El::I1, true);
            list.push(self.w.typed(mask));
            self.mask = Some(mask);
            self.note_full();
        }
        if self.cx.plan.facts[func].recursive {
            self.w.declare("ptr", "llvm.frameaddress.p0", "i32", "");
            let sp = self.w.reg(El::Ptr, false);
            let s = self.w.operand(sp, false);
            self.w.line(format_args!("{s} = call ptr @llvm.frameaddress.p0(i32 0)"));
            let sp = self.w.cast("ptrtoint", sp, El::I64);
            let limit = self.field_of(El::I64, offsets::STACK_LIMIT);
            let deep = self.w.compare("icmp ult", sp, limit);
            native::emit::world::fail_if(&mut self, deep, Site::NoStack(f.span));
            let depth = self.context_word(offsets::DEPTH);
            let most = Val::i32(ir::interp::MAX_DEPTH as i64);
            let deep = self.w.compare("icmp uge", depth, most);
            native::emit::world::fail_if(&mut self, deep, Site::TooDeep(f.span));
            self.count_depth(depth, 1);
        }
        self.begin_path(func);
        let mark = self.releases_body(body).then(|| self.mark());
        self.region(body)?;
        let mut returned = Vals::new();
        let mut destinations = destinations.into_iter();
        for (k, &v) in f.regions[body].results.iter().enumerate() {
            let ty = self.ty(v);
            let vals = self.get(v);
            let vals = self.fit_all(ty, vals, results[k], f.span)?;
            if is_array(self.ts, ty) {
                let to = destinations.next().expect("a destination for each array");
                self.store(ty, &vals, Place::local(to), f.span)?;
            } else {
                returned.extend(vals);
            }
        }
        self.release(mark);
        if self.cx.plan.facts[func].recursive {
            let depth = self.context_word(offsets::DEPTH);
            self.count_depth(depth, -1);
        }
        if is_by_memory(&returned) {
            let to = self.w.reg(El::Ptr, false);
            let to_text = self.w.operand(to, false);
            list.push(format!("ptr noalias {to_text}"));
            self.store_words(to, &returned);
            returned.clear();
        }
        let types: Vec<String> = returned.iter().map(|&v| self.w.ty(v.el, v.var)).collect();
        let ret = match &types[..] {
            [] => {
                self.w.line(format_args!("ret void"));
                "void".to_string()
            }
            [ty] => {
                let v = self.w.typed(returned[0]);
                self.w.line(format_args!("ret {v}"));
                ty.clone()
            }
            _ => {
                let ty = format!("{{ {} }}", types.join(", "));
                let mut all = "poison".to_string();
                for (k, &v) in returned.iter().enumerate() {
                    let next = self.w.reg(El::Ptr, false);
                    let (n, v) = (self.w.operand(next, false), self.w.typed(v));
                    self.w.line(format_args!("{n} = insertvalue {ty} {all}, {v}, {k}"));
                    all = n;
                }
                self.w.line(format_args!("ret {ty} {all}"));
                ty
            }
        };
        let inline = match f.inline {
            ir::Inline::Always => " alwaysinline",
            ir::Inline::Never => " noinline",
            ir::Inline::Auto => "",
        };
        let inline = if self.cx.plan.facts[func].recursive { "" } else { inline };
        self.done(Function {
            name: format!("f{number}"),
            result: format!("fastcc {ret}"),
            params: list.join(", "),
            about: format!("{ABOUT}{inline}"),
            ..Function::default()
        });
        Ok(())
    }

    fn count_depth(&mut self, depth: Val, by: i64) {
        let depth = self.w.binary("add", depth, Val::i32(by));
        let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offsets::DEPTH.into()));
        let note = self.note(Class::Context, 4);
        self.w.store(depth, at, &note);
    }

    fn field_of(&mut self, el: El, offset: i32) -> Val {
        self.field(el, offset)
    }

    /// Ends the function, of which all but the body is given.
    fn done(mut self, mut function: Function) {
        let frame = self.w.frame();
        self.cx.frames = self.cx.frames.saturating_add(frame);
        let registers = self.w.registers();
        function.body = self.w.finish();
        function.callees = self.w.callees;
        match pieces::split(&function, &registers, ABOUT, self.cx.piece) {
            Some(all) => self.cx.unit.functions.extend(all),
            None => self.cx.unit.functions.push(function),
        }
        self.cx.unit.declared.extend(self.w.declared);
    }

    /// Emits `span(ctx, start, end)` of an entry point.
    pub(crate) fn span(mut self, func: Func, name: &str, size: [u32; 3]) -> Res {
        let (start, end) = (Val::name(El::I64, "%start"), Val::name(El::I64, "%end"));
        let group: Vals = (0..3).map(|k| self.context_word(offsets::GROUP + 4 * k)).collect();
        let before = self.w.block;
        let (head, body, exit) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        self.w.jump(head);
        self.w.enter(head);
        let (phi, t) = self.w.phi(El::I64, false, false);
        self.w.flow(phi, start, before);
        let more = self.w.compare("icmp ult", t, end);
        self.w.branch(more, body, exit, "");
        self.w.enter(body);
        let numbers = self.deal(size, t, &group);
        self.keep_numbers(func, &numbers);
        self.numbers = Some(numbers);
        native::emit::world::init_private(&mut self)?;
        self.begin_path(func);
        let region = self.f.body();
        let mark = self.releases_body(region).then(|| self.mark());
        self.region(region)?;
        self.release(mark);
        let next = self.w.binary("add nuw", t, Val::i64(self.lanes as i64));
        let here = self.w.block;
        self.w.flow(phi, next, here);
        self.w.jump(head);
        self.w.enter(exit);
        self.w.line(format_args!("ret void"));
        self.done(Function::external(name, "ptr %ctx, i64 %start, i64 %end", ABOUT));
        Ok(())
    }

    fn context_word(&mut self, offset: i32) -> Val {
        let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset as i64));
        let note = self.note(Class::Context, 4);
        self.w.load(El::I32, false, at, &note)
    }

    /// `base + lane`.
    fn rising(&mut self, base: Val) -> Val {
        if self.lanes == 1 {
            return base;
        }
        let iota = self.iota(base.el);
        let v = self.w.binary("add", base, iota);
        Val { lin: Some(Lin { base: base.id, step: 1, holds: Id::Bits(1) }), ..v }
    }

    /// Computes the IDs of the threads from number `t` of the row on.
    fn deal(&mut self, size: [u32; 3], t: Val, first: &[Val]) -> Numbers {
        let n = |k: u32| Val::bits(El::I32, k as u64);
        let all: u64 = size.iter().map(|&n| n as u64).product();
        let wide = Val::i64(all as i64);
        let dealing = self.dealing;
        let flat = size[1] == 1 && size[2] == 1;
        // The group and the index in the group, for each lane or for lane 0.
        let (t_all, packed) =
            if dealing.packed && self.lanes > 1 { (self.rising(t), true) } else { (t, false) };
        let g = self.w.binary("udiv", t_all, wide);
        let g = self.w.cast("trunc", g, El::I32);
        let index = self.w.binary("urem", t_all, wide);
        let index = self.w.cast("trunc", index, El::I32);
        let gx = self.w.binary("add", first[0], g);
        let index_all = if packed { index } else { self.rising(index) };
        let zero = n(0);
        let local = if flat {
            [index_all, zero, zero]
        } else if dealing.rows && !packed {
            let x = self.w.binary("urem", index, n(size[0]));
            let rest = self.w.binary("udiv", index, n(size[0]));
            let y = self.w.binary("urem", rest, n(size[1]));
            let z = self.w.binary("udiv", rest, n(size[1]));
            [self.rising(x), y, z]
        } else {
            let x = self.w.binary("urem", index_all, n(size[0]));
            let rest = self.w.binary("udiv", index_all, n(size[0]));
            let y = self.w.binary("urem", rest, n(size[1]));
            let z = self.w.binary("udiv", rest, n(size[1]));
            [x, y, z]
        };
        let group = [gx, first[1], first[2]];
        let mut thread = [zero; 3];
        for k in 0..3 {
            let base = self.w.binary("mul", group[k], n(size[k]));
            thread[k] = self.add_ints(local[k], base);
        }
        if flat {
            // The threads are consecutive, whatever groups they belong to.
            let base = self.w.binary("mul", first[0], n(size[0]));
            let t = self.w.cast("trunc", t, El::I32);
            let base = self.w.binary("add", base, t);
            thread[0] = self.rising(base);
        }
        Numbers { thread, group, local, index: index_all }
    }

    /// Stores the IDs in the context: those of lane 0 for messages, and all of them if other functions read
    /// them.
    fn keep_numbers(&mut self, func: Func, numbers: &Numbers) {
        let module = self.cx.ir;
        let asks = |f: Func| module.funcs[f].insts.values().any(|d| matches!(d.op, Op::Builtin(_)));
        let called = |d: &ir::InstData| if let Op::Call(callee) = d.op { Some(callee) } else { None };
        let inits = module.globals.values().filter_map(|g| g.init);
        let order = self.cx.plan.order.iter();
        let others: Vec<Func> =
            order.flat_map(|&f| module.funcs[f].insts.values().filter_map(called)).chain(inits).collect();
        let all = others.iter().any(|&f| asks(f));
        let mut keep: Vec<(i32, Val)> =
            (0..3).map(|k| (offsets::THREAD + 4 * k as i32, numbers.thread[k])).collect();
        if all || self.cx.plan.facts[func].waits() {
            for k in 0..3 {
                keep.push((offsets::LOCAL + 4 * k as i32, numbers.local[k]));
                keep.push((offsets::GROUP + 4 * k as i32, numbers.group[k]));
            }
            keep.push((offsets::INDEX, numbers.index));
        }
        let note = self.note(Class::Context, 4);
        for (offset, v) in keep {
            let v = self.w.lane(v, Val::i32(0));
            let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset as i64));
            self.w.store(v, at, &note);
        }
        if self.lanes > 1 && !others.is_empty() {
            let mut rows: Vec<(i32, Val)> = Vec::new();
            for k in 0..3 {
                rows.push((k as i32, numbers.thread[k]));
                if all {
                    rows.push((3 + k as i32, numbers.group[k]));
                    rows.push((6 + k as i32, numbers.local[k]));
                }
            }
            rows.push((9, numbers.index));
            for (row, v) in rows {
                let v = self.w.spread(v);
                let offset = offsets::LANES + 64 * row;
                let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset as i64));
                self.w.store(v, at, &note);
            }
        }
    }

    /// Emits `raw(ctx, args, results)` of a function; `self.f` is the function.
    pub(crate) fn raw(mut self, func: Func, name: &str) -> Res {
        if self.cx.plan.facts[func].private {
            native::emit::world::init_private(&mut self)?;
        }
        let (args, results) = (Val::name(El::Ptr, "%args"), Val::name(El::Ptr, "%results"));
        let note = self.note(Class::Local, 8);
        let mut at = 0;
        let f = self.f;
        let params = f.regions[f.body()].params.clone();
        for &param in &params {
            let mut vals = Vals::new();
            for part in self.parts(self.ty(param)) {
                let place = self.w.offset(args, Val::i64(at));
                let x = if part.el == El::I1 {
                    let byte = self.w.load(El::I8, false, place, &note);
                    self.w.cast("trunc", byte, El::I1)
                } else {
                    self.w.load(part.el, false, place, &note)
                };
                vals.push(x);
                at += 8;
            }
            self.set(param, &vals);
        }
        let returned = self.call_func(func, &params, f.span)?;
        at = 0;
        for (ty, vals) in slot_types(&f.results).zip(returned) {
            let place = self.w.offset(results, Val::i64(at));
            if is_array(self.ts, ty) {
                // The word holds the destination of the array.
                let to = self.w.load(El::Ptr, false, place, &note);
                self.copy_from(to, vals[0], size(self.ts, ty), 1);
            } else {
                for (k, &x) in vals.iter().enumerate() {
                    let place = self.w.offset(place, Val::i64(8 * k as i64));
                    let x = if x.el == El::I1 { self.w.cast("zext", x, El::I8) } else { x };
                    self.w.store(x, place, &note);
                }
            }
            at += 8 * words(self.ts, ty) as i64;
        }
        self.w.line(format_args!("ret void"));
        self.done(Function::external(name, "ptr %ctx, ptr %args, ptr %results", ABOUT));
        Ok(())
    }
}

/// Emits all versions that are called but not yet emitted.
pub(crate) fn emit_versions(cx: &mut ModuleCx<'_>) -> Res {
    while cx.emitted < cx.versions.len() {
        let number = cx.emitted;
        let version = cx.versions[number].clone();
        cx.emitted += 1;
        let facts = if version.lanes > 1 {
            cx.facts(version.dealing, version.func, &version.params)?
        } else {
            Facts::default()
        };
        let module = cx.ir;
        let f = &module.funcs[version.func];
        Emitter::new(cx, f, version.lanes, version.dealing, facts).function(number, &version)?;
    }
    Ok(())
}
