//! Emits mathematical functions as LLVM's text: those of `ir::library`, on scalars or on vectors.

use std::cell::RefCell;

use ir::Math;
use ir::library::{Binary, Compare, Ops, Unary, function, is_single};
use native::emit::Odds;
use native::runtime::libm_name;

use super::ModuleCx;
use super::entry::VECTORS;
use crate::text::{El, Val, Writer};
use crate::unit::Function;

/// The name of a function for an element type and a number of lanes.
pub(crate) fn name(m: Math, el: El, lanes: u32) -> String {
    format!("m_{}_{}_{lanes}", m.name(), el.bits())
}

/// Defines a function for `f64` or `f32`, on scalars or vectors, and the functions that it calls for rare
/// arguments.
pub(crate) fn define(cx: &mut ModuleCx<'_>, m: Math, el: El, lanes: u32) {
    let var = lanes > 1;
    let mut w = Writer::new(lanes);
    let params: Vec<Val> = (0..m.arity()).map(|_| w.reg(el, var)).collect();
    let list: Vec<String> = params.iter().map(|&p| w.typed(p)).collect();
    let converts = el == El::F32 && !is_single(m);
    let name = name(m, el, lanes);
    let of = if converts { El::F64 } else { el };
    let args: Vec<Val> =
        params.iter().map(|&p| if converts { w.cast("fpext", p, El::F64) } else { p }).collect();
    let far = RefCell::default();
    let emit = Emit { w: RefCell::new(w), var, el: of, rounds: converts, name: name.clone(), far };
    let r = function(&emit, m, &args);
    let (mut w, all) = (emit.w.into_inner(), emit.far.into_inner());
    let r = if converts { w.cast("fptrunc", r, El::F32) } else { r };
    let r = w.fit(r, var);
    let result = format!("fastcc {}", w.give(&[r]));
    let function = Function { name, result, params: list.join(", "), ..Function::default() };
    for (mut function, w, about) in all.into_iter().chain([(function, w, "")]) {
        function.about = format!("{about}nounwind willreturn memory(none) {VECTORS}");
        function.is_copied = true;
        function.body = w.finish();
        function.callees = w.callees.clone();
        cx.frames += w.frame();
        cx.unit.functions.push(function);
        cx.unit.declared.extend(w.declared);
    }
}

/// Emits the operations of a function.
struct Emit {
    w: RefCell<Writer>,
    var: bool,
    /// The type that the function computes with.
    el: El,
    /// True if the result is rounded to a float.
    rounds: bool,
    /// The function's name.
    name: String,
    /// The functions that it calls for rare arguments.
    far: RefCell<Vec<(Function, Writer, &'static str)>>,
}

impl Emit {
    fn int_el(&self) -> El {
        if self.single() { El::I32 } else { El::I64 }
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

    fn float(&self, x: f64) -> Val {
        let bits = if self.single() { u64::from((x as f32).to_bits()) } else { x.to_bits() };
        Val::bits(self.el, bits)
    }

    fn int(&self, n: i64) -> Val {
        if self.single() { Val::i32(n) } else { Val::i64(n) }
    }

    fn yes(&self) -> Val {
        Val::bool(true)
    }

    fn unary(&self, op: Unary, a: Val) -> Val {
        match op {
            Unary::Neg => self.w.borrow_mut().unary("fneg", a),
            Unary::Abs => self.w.borrow_mut().intrinsic("fabs", &[a]),
            Unary::Round => self.w.borrow_mut().intrinsic("roundeven", &[a]),
            Unary::Trunc => self.w.borrow_mut().intrinsic("trunc", &[a]),
            Unary::Sqrt => self.w.borrow_mut().intrinsic("sqrt", &[a]),
            Unary::Bits => self.w.borrow_mut().cast("bitcast", a, self.int_el()),
            Unary::OfBits => self.w.borrow_mut().cast("bitcast", a, self.el),
            Unary::OfInt => self.w.borrow_mut().cast("sitofp", a, self.el),
        }
    }

    fn binary(&self, op: Binary, a: Val, b: Val) -> Val {
        let name = match op {
            Binary::CopySign => return self.w.borrow_mut().intrinsic("copysign", &[a, b]),
            Binary::AddF => "fadd",
            Binary::SubF => "fsub",
            Binary::MulF => "fmul",
            Binary::DivF => "fdiv",
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::Shl => "shl",
            Binary::Ashr => "ashr",
        };
        self.w.borrow_mut().binary(name, a, b)
    }

    fn compare(&self, op: Compare, a: Val, b: Val) -> Val {
        let name = match op {
            Compare::Less => "fcmp olt",
            Compare::LessOrSame => "fcmp ole",
            Compare::Same => "fcmp oeq",
            Compare::MoreOrSame => "fcmp oge",
            Compare::Unordered => "fcmp uno",
            Compare::Differ => "icmp ne",
            Compare::Below => "icmp slt",
        };
        self.w.borrow_mut().compare(name, a, b)
    }

    fn fma(&self, a: Val, b: Val, c: Val) -> Val {
        self.w.borrow_mut().intrinsic("fma", &[a, b, c])
    }

    fn mul_add(&self, a: Val, b: Val, c: Val) -> Val {
        self.fma(a, b, c)
    }

    fn select(&self, c: Val, a: Val, b: Val) -> Val {
        self.w.borrow_mut().select(c, a, b)
    }

    fn either(
        &self,
        is_near: Val,
        x: Val,
        near: impl FnOnce(Val) -> Val,
        far: impl FnOnce(Val) -> Val,
    ) -> Val {
        let (rare, done) = {
            let w = &mut *self.w.borrow_mut();
            let all = w.reduce("and", is_near);
            let (rare, usual, done) = (w.block(&[]), w.block(&[]), w.block(&[x]));
            w.branch(all, (usual, &[]), (rare, &[]), Odds::Likely);
            w.enter(usual);
            (rare, done)
        };
        let found = near(x);
        // The rare case is a function of its own, so that the usual case stays small and is inlined.
        let lanes = self.w.borrow().lanes;
        let outer = self.w.replace(Writer::new(lanes));
        let param = self.w.borrow_mut().reg(self.el, self.var);
        let r = far(param);
        let mut inner = self.w.replace(outer);
        let (params, r) = (inner.typed(param), inner.fit(r, self.var));
        let result = format!("fastcc {}", inner.give(&[r]));
        let mut rest = self.far.borrow_mut();
        let name = format!("{}_far{}", self.name, rest.len());
        let function = Function { name: name.clone(), result, params, ..Function::default() };
        rest.push((function, inner, "noinline cold "));
        let w = &mut *self.w.borrow_mut();
        w.jump(done, &[found]);
        w.enter(rare);
        let other = w.call_own(&name, &[param], &[x]);
        w.jump(done, &other);
        w.enter(done)[0]
    }

    fn turns(&self, _: Val, _: Val, found: [Val; 3]) -> [Val; 3] {
        found
    }

    fn elsewhere(&self, m: Math, near: Val, x: Val, found: Val) -> Val {
        let w = &mut *self.w.borrow_mut();
        let all = w.reduce("and", near);
        let (some, done) = (w.block(&[]), w.block(&[found]));
        w.branch(all, (done, &[found]), (some, &[]), Odds::Likely);
        w.enter(some);
        let (helper, about) = (libm_name(m, !self.single()), " nounwind willreturn memory(none)");
        let mut other = Val { var: self.var, ..Val::bits(self.el, 0) };
        let lanes = if self.var { w.lanes } else { 1 };
        for k in 0..lanes {
            let lane = Val::i32(i64::from(k));
            let one = w.lane(x, lane);
            let r = w.call_external(&helper, Some(self.el), &[one], about).expect("it has a result");
            other = if self.var { w.with_lane(other, lane, r) } else { r };
        }
        let other = w.select(near, found, other);
        w.jump(done, &[other]);
        w.enter(done)[0]
    }
}
