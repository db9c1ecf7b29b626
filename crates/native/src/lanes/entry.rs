//! Emits whole functions, and the functions that Rust calls:
//!
//! - `span(ctx, start, end)` runs the threads with these numbers in a row of groups that begins at the group
//!   in the context and continues along x. It runs as many threads at a time as there are lanes. Fewer that are
//!   left over run under a mask; in code without that, `end - start` is a multiple of the number of lanes.
//! - `raw(ctx, args, results)` calls a function with each word of its arguments and results in eight bytes.
//!   An array argument is a pointer to the array, an array result a pointer to the memory that receives it.

use crate::emit::{
    Assembler, Binary, Cast, Compare, Instructions, Memory, Odds, UNIFORM, VARYING, functions,
};
use crate::runtime::{Word, offsets};
use crate::types::is_array;
use ir::{Func, Op};

use super::calls::PASSED;
use super::operand::{El, Id, Lin, Val, Vals};
use super::uniform::{Dealing, Facts};
use super::{Backend, Emitter, Head, Kind, ModuleCx, Numbers, Res, Version, Writer, slot_types};

/// No other parameter refers to the memory of this one.
const ALONE: bool = true;
pub(super) const SHARED: bool = false;

/// The threads of a row of groups that are left over, fewer than there are lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOver {
    /// There are none, or they run elsewhere.
    Elsewhere,
    /// They run in lanes, of which the others are idle.
    Masked,
}

/// The assignment of the threads of groups of this size to lanes.
pub(crate) fn dealing(size: [u32; 3], lanes: u32) -> Dealing {
    let all: u64 = size.iter().map(|&n| n as u64).product();
    let lanes = lanes as u64;
    let flat = size[1] == 1 && size[2] == 1;
    Dealing { rows: flat || (size[0] as u64).is_multiple_of(lanes), packed: !all.is_multiple_of(lanes) }
}

impl<B: Backend> Emitter<'_, '_, B> {
    /// Emits a version of the function.
    pub(crate) fn function(mut self, number: usize, version: &Version) -> Res {
        let (f, func) = (self.f, version.func);
        let recursive = self.cx.plan.facts[func].recursive;
        let body = f.body();
        let mut parts = Vals::new();
        let mut counts = Vec::with_capacity(version.params.len());
        for (&param, &varying) in f.regions[body].params.iter().zip(&version.params) {
            let blank = self.blanks(self.ty(param), varying);
            counts.push(blank.len());
            parts.extend(blank);
            self.facts.varying[param] |= varying;
        }
        let passed = if parts.len() > PASSED {
            let from = self.w.param(El::Ptr, UNIFORM, ALONE);
            self.load_words(from, &parts)
        } else {
            let w = &mut self.w;
            parts.iter().map(|part| Val { wide: part.wide, ..w.param(part.el, part.var, SHARED) }).collect()
        };
        let mut passed = &passed[..];
        for (&param, n) in f.regions[body].params.iter().zip(counts) {
            let (vals, rest) = passed.split_at(n);
            self.set(param, vals);
            passed = rest;
        }
        let mut destinations = Vals::new();
        for (ty, varying) in slot_types(&f.results).zip(self.results_vary(None)?) {
            if is_array(self.ts, ty) {
                let v = self.w.param(El::Ptr, UNIFORM, ALONE);
                destinations.push(self.widened(v, varying));
            }
        }
        if version.masked {
            let mask = self.w.param(El::I1, VARYING, SHARED);
            self.set_mask(Some(mask));
        }
        let mut returned = functions::function(&mut self, func, destinations)?;
        if B::Writer::is_by_memory(&returned, self.lanes) {
            let to = self.w.param(El::Ptr, UNIFORM, ALONE);
            self.store_words(to, &returned);
            returned.clear();
        }
        self.w.give(&returned);
        self.cx.backend.define(Head { name: format!("f{number}"), kind: version_kind(f, recursive) }, self.w);
        Ok(())
    }

    /// Emits `span(ctx, start, end)` of an entry point.
    pub(crate) fn span(mut self, func: Func, name: &str, size: [u32; 3], left: LeftOver) -> Res {
        let (start, end) = (Val::name(El::I64, "%start"), Val::name(El::I64, "%end"));
        let group: Vals = (0..3).map(|k| self.context(Word::I32, offsets::GROUP + 4 * k)).collect();
        let (head, body, exit) = (self.w.block(&[start]), self.w.block(&[]), self.w.block(&[]));
        self.w.jump(head, &[start]);
        let t = self.w.enter(head)[0];
        let more = self.w.compare(Compare::LessUnsigned, t, end);
        self.w.branch(more, (body, &[]), (exit, &[]), Odds::Even);
        self.w.enter(body);
        let numbers = self.deal(size, t, &group);
        self.keep_numbers(func, &numbers);
        self.numbers = Some(numbers);
        crate::emit::world::init_private(&mut self)?;
        self.begin_path(func);
        if left == LeftOver::Masked {
            let (all, some) = (self.w.block(&[]), self.w.block(&[]));
            let left = self.w.binary(Binary::Sub, end, t);
            let lanes = Val::i64(i64::from(self.lanes));
            let enough = self.w.compare(Compare::MoreOrEqualUnsigned, left, lanes);
            self.w.branch(enough, (all, &[]), (some, &[]), Odds::Likely);
            self.w.enter(some);
            let here = self.w.compare(Compare::LessUnsigned, self.iota(El::I64), left);
            self.set_mask(Some(here));
            functions::thread(&mut self)?;
            self.set_mask(None);
            self.w.jump(exit, &[]);
            self.w.enter(all);
        }
        functions::thread(&mut self)?;
        let next = self.w.binary(Binary::AddNoWrap, t, Val::i64(self.lanes as i64));
        self.w.jump(head, &[next]);
        self.w.enter(exit);
        self.ret();
        self.cx.backend.define(Head { name: name.to_string(), kind: Kind::Span }, self.w);
        Ok(())
    }

    /// `base + lane`.
    fn rising(&mut self, base: Val) -> Val {
        if self.lanes == 1 {
            return base;
        }
        let iota = self.iota(base.el);
        let v = self.w.binary(Binary::Add, base, iota);
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
        let g = self.w.binary(Binary::DivUnsigned, t_all, wide);
        let g = self.w.cast(Cast::Truncate, g, El::I32);
        let index = self.w.binary(Binary::RemUnsigned, t_all, wide);
        let index = self.w.cast(Cast::Truncate, index, El::I32);
        let gx = self.w.binary(Binary::Add, first[0], g);
        let index_all = if packed { index } else { self.rising(index) };
        let zero = n(0);
        let local = if flat {
            [index_all, zero, zero]
        } else {
            let in_rows = dealing.rows && !packed;
            let from = if in_rows { index } else { index_all };
            let x = self.w.binary(Binary::RemUnsigned, from, n(size[0]));
            let rest = self.w.binary(Binary::DivUnsigned, from, n(size[0]));
            let y = self.w.binary(Binary::RemUnsigned, rest, n(size[1]));
            let z = self.w.binary(Binary::DivUnsigned, rest, n(size[1]));
            [if in_rows { self.rising(x) } else { x }, y, z]
        };
        let group = [gx, first[1], first[2]];
        let mut thread = [zero; 3];
        for k in 0..3 {
            let base = self.w.binary(Binary::Mul, group[k], n(size[k]));
            thread[k] = self.add_ints(local[k], base);
        }
        if flat {
            // The threads are consecutive, whatever groups they belong to.
            let base = self.w.binary(Binary::Mul, first[0], n(size[0]));
            let t = self.w.cast(Cast::Truncate, t, El::I32);
            let base = self.w.binary(Binary::Add, base, t);
            thread[0] = self.rising(base);
        }
        Numbers { thread, group, local, index: index_all }
    }

    /// Stores the IDs in the context: those of lane 0 for messages, and all of them if other functions read
    /// them.
    fn keep_numbers(&mut self, func: Func, numbers: &Numbers) {
        let module = self.cx.ir;
        let asks = |f: Func| module.funcs[f].insts.values().any(|d| matches!(d.op, Op::Builtin(_)));
        let inits = module.globals.values().filter_map(|g| g.init);
        let order = self.cx.plan.order.iter();
        let called = order.flat_map(|&f| module.funcs[f].insts.values().filter_map(|d| d.op.callee()));
        let others: Vec<Func> = called.chain(inits).collect();
        let all = others.iter().any(|&f| asks(f));
        let in_lanes = self.lanes > 1 && !others.is_empty();
        let waits = self.cx.plan.facts[func].waits();
        let ids = [
            (offsets::THREAD, numbers.thread),
            (offsets::GROUP, numbers.group),
            (offsets::LOCAL, numbers.local),
        ];
        let parts = ids.into_iter().flat_map(|(at, id)| (0..3).map(move |k| (at + 4 * k, id[k as usize])));
        for (row, (at, v)) in (0..).zip(parts.chain([(offsets::INDEX, numbers.index)])) {
            let is_thread = row < 3;
            if is_thread || all || waits {
                let first = self.w.lane(v, Val::i32(0));
                self.set_context(first, at);
            }
            if in_lanes && (is_thread || all || at == offsets::INDEX) {
                let v = self.w.spread(v);
                self.set_context(v, offsets::LANES + 4 * crate::MOST_LANES as i32 * row);
            }
        }
    }

    /// Emits `raw(ctx, args, results)` of a function; `self.f` is the function.
    pub(crate) fn raw(mut self, func: Func, name: &str) -> Res {
        let (args, results) = (Val::name(El::Ptr, "%args"), Val::name(El::Ptr, "%results"));
        functions::raw(&mut self, func, args, results)?;
        self.cx.backend.define(Head { name: name.to_string(), kind: Kind::Raw }, self.w);
        Ok(())
    }
}

/// How a version of a function is called.
fn version_kind(f: &ir::Function, recursive: bool) -> Kind {
    Kind::Version(if recursive { ir::Inline::Auto } else { f.inline })
}

/// Emits all versions that are called but not yet emitted.
pub(crate) fn emit_versions<B: Backend>(cx: &mut ModuleCx<'_, B>) -> Res {
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
        let kind = version_kind(f, cx.plan.facts[version.func].recursive);
        Emitter::new(cx, f, kind, version.lanes, version.dealing, facts).function(number, &version)?;
    }
    Ok(())
}
