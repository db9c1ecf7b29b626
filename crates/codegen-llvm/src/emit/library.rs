//! Emits mathematical functions as LLVM's text: those of `ir::library`, on scalars or on vectors.

use std::cell::{Cell, RefCell, RefMut};

use ir::library::{Ops, far_angle, function, is_single};
use ir::{Math, Op};
use native::emit::{Odds, UNIFORM};

use super::ModuleCx;
use super::entry::VECTORS;
use crate::operand::{El, Val};
use crate::text::Writer;
use crate::unit::Function;

/// The name of a function for an element type and a number of lanes.
pub(crate) fn name(m: Math, el: El, lanes: u32) -> String {
    format!("m_{}_{}_{lanes}", m.name(), el.bits())
}

/// The name of the function of large angles, which is one of doubles.
fn far_name(m: Math) -> String {
    format!("m_{}_far", m.name())
}

/// Defines the functions that are used, for `f64` or `f32`, on scalars or vectors, and the functions that they
/// call for rare arguments.
pub(crate) fn define(cx: &mut ModuleCx<'_>) {
    let used = std::mem::take(&mut cx.used_library);
    for &(m, el, lanes) in &used {
        define_one(cx, m, el, lanes);
    }
    for m in [Math::Sin, Math::Cos, Math::Tan].into_iter().filter(|&m| used.iter().any(|used| used.0 == m)) {
        let mut w = Writer::new(1);
        let x = w.reg(El::F64, UNIFORM);
        let emit = Emit::new(w, far_name(m), El::F64, 1, false);
        let r = far_angle(&emit, m, x);
        emit.finish(cx, &[x], r, "noinline cold ");
    }
}

fn define_one(cx: &mut ModuleCx<'_>, m: Math, el: El, lanes: u32) {
    let mut w = Writer::new(lanes);
    let params: Vec<Val> = (0..m.arity()).map(|_| w.reg(el, lanes > 1)).collect();
    let converts = el == El::F32 && !is_single(m);
    let of = if converts { El::F64 } else { el };
    let args: Vec<Val> =
        params.iter().map(|&p| if converts { w.cast("fpext", p, El::F64) } else { p }).collect();
    let emit = Emit::new(w, name(m, el, lanes), of, lanes, converts);
    let r = function(&emit, m, &args);
    let r = if converts { emit.w().cast("fptrunc", r, El::F32) } else { r };
    emit.finish(cx, &params, r, "");
}

/// Emits the operations of a function.
struct Emit {
    w: RefCell<Writer>,
    lanes: u32,
    /// The type that the function computes with.
    el: El,
    /// True if the result is rounded to a float.
    rounds: bool,
    /// The function's name.
    name: String,
    /// The functions for rare arguments.
    far: RefCell<Vec<(Function, Writer)>>,
    /// The table that the function refers to.
    table: Cell<&'static [f64]>,
}

impl Emit {
    fn new(w: Writer, name: String, el: El, lanes: u32, rounds: bool) -> Emit {
        let far = RefCell::default();
        Emit { w: RefCell::new(w), lanes, el, rounds, name, far, table: Cell::new(&[]) }
    }

    fn w(&self) -> RefMut<'_, Writer> {
        self.w.borrow_mut()
    }

    fn var(&self) -> bool {
        self.lanes > 1
    }

    fn int_el(&self) -> El {
        if self.single() { El::I32 } else { El::I64 }
    }

    /// Ends the function's text by returning `r`; gives its head.
    fn end(&self, name: String, params: &[Val], r: Val, about: &str) -> Function {
        let mut w = self.w();
        let params = w.list(params);
        let r = w.fit(r, self.var());
        let result = format!("fastcc {}", w.give(&[r]));
        let about = format!("{about}nounwind willreturn memory(none) {VECTORS}");
        Function { name, result, params, about, is_copied: true, ..Function::default() }
    }

    /// Adds the function, which returns `r`, to the module.
    fn finish(self, cx: &mut ModuleCx<'_>, params: &[Val], r: Val, about: &str) {
        let function = self.end(self.name.clone(), params, r, about);
        for (mut function, w) in self.far.into_inner().into_iter().chain([(function, self.w.into_inner())]) {
            function.body = w.finish();
            function.callees = w.callees.clone();
            cx.frames += w.frame();
            cx.unit.functions.push(function);
            cx.unit.declared.extend(w.declared);
        }
        let table = self.table.get();
        if !table.is_empty() {
            let list: Vec<String> = table.iter().map(|x| format!("double 0x{:016X}", x.to_bits())).collect();
            let list = format!("internal constant [{} x double] [{}], align 8", list.len(), list.join(", "));
            cx.unit.global("library_table", list);
        }
    }
}

impl Ops for Emit {
    type V = Val;

    fn single(&self) -> bool {
        self.el == El::F32
    }

    fn rounds(&self) -> bool {
        self.rounds
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
        let name = match op {
            Op::Bitcast => return self.w().cast("bitcast", a, self.int_el()),
            Op::Neg => return self.w().unary("fneg", a),
            Op::Math(Math::IsNan) => return self.w().compare("fcmp uno", a, a),
            Op::Math(Math::Abs) => return self.w().intrinsic("fabs", &[a]),
            Op::Math(Math::Round) => return self.w().intrinsic("roundeven", &[a]),
            Op::Math(m) => return self.w().intrinsic(m.name(), &[a]),
            Op::Eq => return self.w().compare("fcmp oeq", a, b),
            Op::Lt => return self.w().compare("fcmp olt", a, b),
            Op::Le => return self.w().compare("fcmp ole", a, b),
            Op::Ge => return self.w().compare("fcmp oge", a, b),
            Op::Add => "fadd",
            Op::Sub => "fsub",
            Op::Mul => "fmul",
            _ => "fdiv",
        };
        self.w().binary(name, a, b)
    }

    fn of_integers(&self, op: &Op, args: &[Val]) -> Val {
        let (a, b) = (args[0], args[args.len() - 1]);
        let name = match op {
            Op::Bitcast => return self.w().cast("bitcast", a, self.el),
            Op::Convert => return self.w().cast("sitofp", a, self.el),
            Op::Ne => return self.w().compare("icmp ne", a, b),
            Op::Lt => return self.w().compare("icmp slt", a, b),
            Op::Add => "add",
            Op::Sub => "sub",
            Op::And => "and",
            Op::Shl => "shl",
            _ => "ashr",
        };
        self.w().binary(name, a, b)
    }

    fn of_truths(&self, op: &Op, args: &[Val]) -> Val {
        match op {
            Op::And => self.w().binary("and", args[0], args[1]),
            Op::Or => self.w().binary("or", args[0], args[1]),
            Op::Not => self.w().binary("xor", args[0], Val::bool(true)),
            _ => self.w().select(args[0], args[1], args[2]),
        }
    }

    fn copy_sign(&self, a: Val, b: Val) -> Val {
        self.w().intrinsic("copysign", &[a, b])
    }

    fn fma(&self, a: Val, b: Val, c: Val) -> Val {
        self.w().intrinsic("fma", &[a, b, c])
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
            let all = w.reduce("and", is_near);
            let (rare, usual, done) = (w.block(&[]), w.block(&[]), w.block(&x[..1]));
            w.branch(all, (usual, &[]), (rare, &[]), Odds::Likely);
            w.enter(usual);
            (rare, done)
        };
        let found = near(x);
        // The rare case is a function of its own, so that the usual case stays small and is inlined.
        let outer = self.w.replace(Writer::new(self.lanes));
        let params = x.map(|_| self.w().reg(self.el, self.var()));
        let r = far(params);
        let name = format!("{}_far{}", self.name, self.far.borrow().len());
        let function = self.end(name.clone(), &params, r, "noinline cold ");
        self.far.borrow_mut().push((function, self.w.replace(outer)));
        let w = &mut *self.w();
        w.jump(done, &[found]);
        w.enter(rare);
        let other = w.call_own(&name, &params[..1], &x);
        w.jump(done, &other);
        w.enter(done)[0]
    }

    fn elsewhere(&self, m: Math, near: Val, x: Val, found: Val) -> Val {
        let w = &mut *self.w();
        let all = w.reduce("and", near);
        let (some, done) = (w.block(&[]), w.block(&[found]));
        w.branch(all, (done, &[found]), (some, &[]), Odds::Likely);
        w.enter(some);
        let mut other = Val { var: self.var(), ..Val::bits(self.el, 0) };
        for k in 0..self.lanes {
            let lane = Val::i32(i64::from(k));
            let one = w.lane(x, lane);
            let one = if self.single() { w.cast("fpext", one, El::F64) } else { one };
            let r = w.call_own(&far_name(m), &[Val::bits(El::F64, 0)], &[one])[0];
            let r = if self.single() { w.cast("fptrunc", r, self.el) } else { r };
            other = if self.var() { w.with_lane(other, lane, r) } else { r };
        }
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
        self.table.set(table);
        let (zero, trips) = (self.number(0.0), Val::i64(8 * n as i64));
        let (repeat, done, at, i, sums) = {
            let w = &mut *self.w();
            let (repeat, done) = (w.block(&[trips, zero, zero]), w.block(&[zero, zero]));
            let first = w.cast("fptosi", first, El::I64);
            let first = w.binary("shl", first, Val::i64(3));
            let table = w.offset(Val::name(El::Ptr, "@library_table"), first);
            w.jump(repeat, &[Val::i64(0), zero, zero]);
            let params = w.enter(repeat);
            let at = w.offset(table, params[0]);
            (repeat, done, at, params[0], [params[1], params[2]])
        };
        let element = self.w().load(El::F64, UNIFORM, at, ", align 8");
        let [a, b] = step(element, sums);
        let w = &mut *self.w();
        let next = w.binary("add", i, Val::i64(8));
        let again = w.compare("icmp ult", next, trips);
        w.branch(again, (repeat, &[next, a, b]), (done, &[a, b]), Odds::Even);
        let sums = w.enter(done);
        [sums[0], sums[1]]
    }
}
