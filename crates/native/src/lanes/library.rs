//! Emits mathematical functions: those of `ir::library`, on scalars or on vectors.

use std::cell::{RefCell, RefMut};

use super::entry::SHARED;
use super::operand::{El, Val, Vals};
use super::{Backend, Class, Emitter, Head, Kind, ModuleCx, Writer};
use crate::emit::{Binary, Cast, Compare, Odds, UNIFORM, Unary, VARYING, notes};
use crate::profile::Event;
use ir::analysis::Use;
use ir::library::{Ops, estimate, far_angle, function, sine_and_cosine};
use ir::{Inst, Math, Op, Scalar};

/// Operations on floats are neither reordered nor fused: see [`Backend::writer`].
const EXACT: bool = false;

/// A function of the library as the module defines it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Routine {
    pub(crate) what: What,
    pub(crate) el: El,
    pub(crate) lanes: u32,
}

/// The result of a function of the library.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    One(Math),
    /// See [`ir::library::estimate`].
    Estimate(Math),
    SineAndCosine,
}

impl Routine {
    pub(crate) fn name(self) -> String {
        let name = match self.what {
            What::One(m) | What::Estimate(m) => m.name(),
            What::SineAndCosine => "sincos",
        };
        let kind = if let What::Estimate(_) = self.what { "estimate_" } else { "" };
        format!("m_{kind}{name}_{}_{}", self.el.bits(), self.lanes)
    }

    /// Returns true if the function calls that of large angles.
    fn needs_far(self, m: Math) -> bool {
        self.what == What::One(m) || self.what == What::SineAndCosine && m != Math::Tan
    }
}

/// The name of the function of large angles, which is one of doubles.
fn far_name(m: Math) -> String {
    format!("m_{}_far", m.name())
}

/// Defines the functions that are used, for `f64` or `f32`, on scalars or vectors, and the functions that they
/// call for rare arguments.
pub fn define<B: Backend>(cx: &mut ModuleCx<'_, B>) {
    let used = std::mem::take(&mut cx.used_library);
    for &routine in &used {
        define_one(&mut cx.backend, routine);
    }
    for m in [Math::Sin, Math::Cos, Math::Tan].into_iter().filter(|&m| used.iter().any(|r| r.needs_far(m))) {
        let mut w = cx.backend.writer(Kind::RareMath, 1, EXACT);
        let x = w.param(El::F64, UNIFORM, SHARED);
        let emit = Emit::new(&cx.backend, w, far_name(m), El::F64);
        let r = far_angle(&emit, m, x);
        let all = emit.finish(&[r], Kind::RareMath);
        all.into_iter().for_each(|(head, w)| cx.backend.define(head, w));
    }
}

fn define_one<B: Backend>(backend: &mut B, routine: Routine) {
    let Routine { what, el, lanes } = routine;
    let mut w = backend.writer(Kind::Math, lanes, EXACT);
    let arity = if let What::One(m) | What::Estimate(m) = what { m.arity() } else { 1 };
    let params: Vec<Val> = (0..arity).map(|_| w.param(el, lanes > 1, SHARED)).collect();
    let emit = Emit::new(backend, w, routine.name(), el);
    let found: Vals = match what {
        What::One(m) => std::iter::once(function(&emit, m, &params)).collect(),
        What::Estimate(m) => std::iter::once(estimate(&emit, m, &params)).collect(),
        What::SineAndCosine => sine_and_cosine(&emit, params[0]).into_iter().collect(),
    };
    let all = emit.finish(&found, Kind::Math);
    all.into_iter().for_each(|(head, w)| backend.define(head, w));
}

impl<B: Backend> Emitter<'_, '_, B> {
    /// Calls a function of `ir::library`.
    pub(crate) fn library_call(&mut self, what: What, args: &[Val]) -> Vals {
        let el = args[0].el;
        let var = args.iter().any(|a| a.var);
        // The arguments of idle lanes are never rare.
        let one = Val::bits(el, if el == El::F32 { u64::from(1f32.to_bits()) } else { 1f64.to_bits() });
        let args: Vals =
            args.iter().map(|&a| if a.var { self.or_in_idle_lanes(a, one) } else { a }).collect();
        let args: Vals = args.iter().map(|&a| self.w.fit(a, var)).collect();
        let routine = Routine { what, el, lanes: if var { self.lanes } else { 1 } };
        self.cx.used_library.insert(routine);
        let like = Val { var, ..Val::bits(el, 0) };
        let results: &[Val] = if what == What::SineAndCosine { &[like, like] } else { &[like] };
        self.w.call_own(&routine.name(), results, &args)
    }

    /// Emits a sine or a cosine of which the other function of the same angle has been computed in the region, or will be:
    /// one call gives both. Returns false for any other instruction.
    pub(crate) fn angle(&mut self, inst: Inst) -> bool {
        let f = self.f;
        let data = &f.insts[inst];
        let other = match data.op {
            Op::Math(Math::Sin) => Math::Cos,
            Op::Math(Math::Cos) => Math::Sin,
            _ => return false,
        };
        if let Some(known) = self.angles.remove(&data.results[0]) {
            self.set(data.results[0], &known);
            return true;
        }
        let x = data.args[0];
        let is_paired = match self.ts.scalar_of(f.ty(x)) {
            Some(s @ (Scalar::F32 | Scalar::F64)) => 2 * self.lanes * s.bits() / 8 <= B::PAIRED_BYTES,
            _ => false,
        };
        let all = &self.nesting.analyses;
        let partner = all.uses().of_value(x).iter().find_map(|at| match *at {
            Use::Operand(i, _) => {
                (f.insts[i].op == Op::Math(other) && all.home(i) == all.home(inst)).then_some(i)
            }
            Use::Result(..) => None,
        });
        let Some(partner) = partner.filter(|_| is_paired) else { return false };
        let angles = self.get(x);
        notes::event(self, Event::Mathematics, 2 * angles.len() as u64);
        let pairs: Vec<Vals> =
            angles.into_iter().map(|x| self.library_call(What::SineAndCosine, &[x])).collect();
        let is_sine = data.op == Op::Math(Math::Sin);
        let own = pairs.iter().map(|pair| pair[usize::from(!is_sine)]).collect::<Vals>();
        let others = pairs.iter().map(|pair| pair[usize::from(is_sine)]).collect();
        self.angles.insert(f.insts[partner].results[0], others);
        self.set(data.results[0], &own);
        true
    }
}

/// Emits the operations of a function.
struct Emit<'b, B: Backend> {
    backend: &'b B,
    w: RefCell<B::Writer>,
    lanes: u32,
    /// The type that the function computes with.
    el: El,
    /// The function's name.
    name: String,
    /// The functions for rare arguments.
    far: RefCell<Vec<(Head, B::Writer)>>,
}

impl<'b, B: Backend> Emit<'b, B> {
    fn new(backend: &'b B, w: B::Writer, name: String, el: El) -> Emit<'b, B> {
        let lanes = w.lanes();
        Emit { backend, w: RefCell::new(w), lanes, el, name, far: RefCell::default() }
    }

    fn w(&self) -> RefMut<'_, B::Writer> {
        self.w.borrow_mut()
    }

    fn var(&self) -> bool {
        self.lanes > 1
    }

    fn int_el(&self) -> El {
        if self.single() { El::I32 } else { El::I64 }
    }

    /// Returns numbers from the function that is being written.
    fn end(&self, found: &[Val]) {
        let mut w = self.w();
        let found: Vals = found.iter().map(|&r| w.fit(r, self.var())).collect();
        w.give(&found);
    }

    /// The function of a large angle, which is one number.
    fn far_angle(&self, m: Math, x: Val) -> Val {
        let w = &mut *self.w();
        let x = if self.single() { w.cast(Cast::Promote, x, El::F64) } else { x };
        let r = w.call_own(&far_name(m), &[Val::bits(El::F64, 0)], &[x])[0];
        if self.single() { w.cast(Cast::Demote, r, self.el) } else { r }
    }

    /// The function of a large angle in each lane: a function of its own, so that the usual case stays small and
    /// is inlined.
    fn far_lanes(&self, m: Math, x: Val) -> Val {
        let outer = self.w.replace(self.backend.writer(Kind::RareMath, self.lanes, EXACT));
        let param = self.w().param(self.el, VARYING, SHARED);
        let mut all = Val { var: true, ..Val::bits(self.el, 0) };
        for k in 0..self.lanes {
            let lane = Val::i32(i64::from(k));
            let one = self.w().lane(param, lane);
            let r = self.far_angle(m, one);
            all = self.w().with_lane(all, lane, r);
        }
        self.end(&[all]);
        let name = format!("{}_{}_elsewhere", self.name, m.name());
        let head = Head { name: name.clone(), kind: Kind::RareMath };
        self.far.borrow_mut().push((head, self.w.replace(outer)));
        let like = Val { var: true, ..Val::bits(self.el, 0) };
        self.w().call_own(&name, &[like], &[x])[0]
    }

    /// Ends the function, which returns these numbers; gives the functions to define.
    fn finish(self, found: &[Val], kind: Kind) -> Vec<(Head, B::Writer)> {
        self.end(found);
        let mut all = self.far.into_inner();
        all.push((Head { name: self.name, kind }, self.w.into_inner()));
        all
    }
}

impl<B: Backend> Ops for Emit<'_, B> {
    type V = Val;

    fn single(&self) -> bool {
        self.el == El::F32
    }

    fn number(&self, x: f64) -> Val {
        let bits = if self.single() { u64::from((x as f32).to_bits()) } else { x.to_bits() };
        Val::bits(self.el, bits)
    }

    fn integer(&self, n: i64) -> Val {
        if self.single() { Val::i32(n) } else { Val::i64(n) }
    }

    fn of_numbers(&self, op: &Op, args: &[Val]) -> Val {
        let (a, b) = (args[0], args[args.len() - 1]);
        let op = match op {
            Op::Bitcast => return self.w().cast(Cast::Bits, a, self.int_el()),
            Op::Neg => return self.w().unary(Unary::NegF, a),
            Op::Math(Math::IsNan) => return self.w().compare(Compare::UnorderedF, a, a),
            Op::Math(m) => return self.w().math(*m, &[a]),
            Op::Eq => return self.w().compare(Compare::EqualF, a, b),
            Op::Lt => return self.w().compare(Compare::LessF, a, b),
            Op::Le => return self.w().compare(Compare::LessOrEqualF, a, b),
            Op::Ge => return self.w().compare(Compare::MoreOrEqualF, a, b),
            Op::Add => Binary::AddF,
            Op::Sub => Binary::SubF,
            Op::Mul => Binary::MulF,
            _ => Binary::DivF,
        };
        self.w().binary(op, a, b)
    }

    fn of_integers(&self, op: &Op, args: &[Val]) -> Val {
        let (a, b) = (args[0], args[args.len() - 1]);
        let op = match op {
            Op::Bitcast => return self.w().cast(Cast::Bits, a, self.el),
            Op::Convert => return self.w().cast(Cast::OfSigned, a, self.el),
            Op::Ne => return self.w().compare(Compare::NotEqual, a, b),
            Op::Lt => return self.w().compare(Compare::LessSigned, a, b),
            Op::Add => Binary::Add,
            Op::Sub => Binary::Sub,
            Op::And => Binary::And,
            Op::Xor => Binary::Xor,
            Op::Shl => Binary::Shl,
            _ => Binary::ShrSigned,
        };
        self.w().binary(op, a, b)
    }

    fn of_truths(&self, op: &Op, args: &[Val]) -> Val {
        match op {
            Op::And => self.w().binary(Binary::And, args[0], args[1]),
            Op::Or => self.w().binary(Binary::Or, args[0], args[1]),
            Op::Not => self.w().binary(Binary::Xor, args[0], Val::bool(true)),
            _ => self.w().select(args[0], args[1], args[2]),
        }
    }

    fn copy_sign(&self, a: Val, b: Val) -> Val {
        self.w().copy_sign(a, b)
    }

    fn fma(&self, a: Val, b: Val, c: Val) -> Val {
        self.w().math(Math::Fma, &[a, b, c])
    }

    fn scales(&self) -> bool {
        self.w().scales(self.el)
    }

    fn scale(&self, p: Val, k: Val) -> Val {
        self.w().scale(p, k)
    }

    fn either<const N: usize>(
        &self,
        is_near: Val,
        x: [Val; N],
        near: impl FnOnce([Val; N]) -> Val,
        far: impl FnOnce([Val; N]) -> Val,
    ) -> Val {
        let (rare, done) = {
            let w = &mut *self.w();
            let all = w.reduce(Binary::And, is_near);
            let (rare, usual, done) = (w.block(&[]), w.block(&[]), w.block(&x[..1]));
            w.branch(all, (usual, &[]), (rare, &[]), Odds::Likely);
            w.enter(usual);
            (rare, done)
        };
        let found = near(x);
        // The rare case is a function of its own, so that the usual case stays small and is inlined.
        let outer = self.w.replace(self.backend.writer(Kind::RareMath, self.lanes, EXACT));
        let params = x.map(|_| self.w().param(self.el, self.var(), SHARED));
        let r = far(params);
        let name = format!("{}_far{}", self.name, self.far.borrow().len());
        self.end(&[r]);
        let head = Head { name: name.clone(), kind: Kind::RareMath };
        self.far.borrow_mut().push((head, self.w.replace(outer)));
        let w = &mut *self.w();
        w.jump(done, &[found]);
        w.enter(rare);
        let other = {
            let like = Val { var: self.var(), ..Val::bits(self.el, 0) };
            w.call_own(&name, &[like], &x)
        };
        w.jump(done, &other);
        w.enter(done)[0]
    }

    fn elsewhere(&self, m: Math, near: Val, x: Val, found: Val) -> Val {
        let done = {
            let w = &mut *self.w();
            let all = w.reduce(Binary::And, near);
            let (some, done) = (w.block(&[]), w.block(&[found]));
            w.branch(all, (done, &[found]), (some, &[]), Odds::Likely);
            w.enter(some);
            done
        };
        let other = if self.var() { self.far_lanes(m, x) } else { self.far_angle(m, x) };
        let w = &mut *self.w();
        let other = w.select(near, found, other);
        w.jump(done, &[other]);
        w.enter(done)[0]
    }

    fn sums(
        &self,
        table: &'static [f64],
        first: Val,
        n: usize,
        step: impl Fn(Val, [Val; 2]) -> [Val; 2],
    ) -> [Val; 2] {
        let (zero, trips) = (self.number(0.0), Val::i64(8 * n as i64));
        let (repeat, done, at, i, sums) = {
            let w = &mut *self.w();
            let (repeat, done) = (w.block(&[trips, zero, zero]), w.block(&[zero, zero]));
            let first = w.float_to_int(first, El::I64, true);
            let first = w.binary(Binary::Shl, first, Val::i64(3));
            let table = w.table(table);
            let table = w.offset(table, first);
            w.jump(repeat, &[Val::i64(0), zero, zero]);
            let params = w.enter(repeat);
            let at = w.offset(table, params[0]);
            (repeat, done, at, params[0], [params[1], params[2]])
        };
        let element = self.w().load(El::F64, UNIFORM, at, Class::Constant);
        let [a, b] = step(element, sums);
        let w = &mut *self.w();
        let next = w.binary(Binary::Add, i, Val::i64(8));
        let again = w.compare(Compare::LessUnsigned, next, trips);
        w.branch(again, (repeat, &[next, a, b]), (done, &[a, b]), Odds::Even);
        let sums = w.enter(done);
        [sums[0], sums[1]]
    }
}
