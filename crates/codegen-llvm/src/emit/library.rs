//! Emits mathematical functions as LLVM's text: those of `native::library`, on scalars or on vectors.

use ir::Math;
use native::library::{Binary, Compare, Ops, Unary, function, is_single};
use native::runtime::libm_name;

use crate::text::{El, Id, Val, Writer};

pub(crate) use native::library::has;

/// The name of a function for an element type and a number of lanes.
pub(crate) fn name(m: Math, el: El, lanes: u32) -> String {
    format!("m_{}_{}_{lanes}", m.name(), el.bits())
}

/// The text of a function for `f64` or `f32`, on scalars or vectors, and of the functions that it calls for
/// rare arguments: heads and bodies.
pub(crate) fn define(m: Math, el: El, lanes: u32) -> Vec<(String, Writer)> {
    let var = lanes > 1;
    let mut w = Writer::new(lanes);
    let params: Vec<Val> = (0..m.arity()).map(|_| w.reg(el, var)).collect();
    let list: Vec<String> = params.iter().map(|&p| w.typed(p)).collect();
    let converts = el == El::F32 && !is_single(m);
    let name = name(m, el, lanes);
    let of = if converts { El::F64 } else { el };
    let mut emit = Emit { w, var, el: of, rounds: converts, name: name.clone(), far: Vec::new() };
    let args: Vec<Val> =
        params.iter().map(|&p| if converts { emit.w.cast("fpext", p, El::F64) } else { p }).collect();
    let r = function(&mut emit, m, &args);
    let r = if converts { emit.w.cast("fptrunc", r, El::F32) } else { r };
    let Emit { mut w, far: mut all, .. } = emit;
    let (ty, r) = (w.ty(el, var), w.typed(r));
    w.line(format_args!("ret {r}"));
    let head =
        format!("define internal fastcc {ty} @{name}({}) nounwind willreturn memory(none)", list.join(", "));
    all.push((head, w));
    all
}

/// Emits the operations of a function.
struct Emit {
    w: Writer,
    var: bool,
    /// The type that the function computes with.
    el: El,
    /// True if the result is rounded to a float.
    rounds: bool,
    /// The function's name.
    name: String,
    /// The functions that it calls for rare arguments.
    far: Vec<(String, Writer)>,
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

    fn float(&mut self, x: f64) -> Val {
        let bits = if self.single() { u64::from((x as f32).to_bits()) } else { x.to_bits() };
        Val::bits(self.el, bits)
    }

    fn int(&mut self, n: i64) -> Val {
        if self.single() { Val::i32(n) } else { Val::i64(n) }
    }

    fn yes(&mut self) -> Val {
        Val::bool(true)
    }

    fn unary(&mut self, op: Unary, a: Val) -> Val {
        match op {
            Unary::Neg => self.w.unary("fneg", a),
            Unary::Abs => self.w.intrinsic("fabs", &[a], ""),
            Unary::Round => self.w.intrinsic("roundeven", &[a], ""),
            Unary::Trunc => self.w.intrinsic("trunc", &[a], ""),
            Unary::Sqrt => self.w.intrinsic("sqrt", &[a], ""),
            Unary::Bits => self.w.cast("bitcast", a, self.int_el()),
            Unary::OfBits => self.w.cast("bitcast", a, self.el),
            Unary::OfInt => self.w.cast("sitofp", a, self.el),
        }
    }

    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        let name = match op {
            Binary::CopySign => return self.w.intrinsic("copysign", &[a, b], ""),
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
        self.w.binary(name, a, b)
    }

    fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        let name = match op {
            Compare::Less => "fcmp olt",
            Compare::LessOrSame => "fcmp ole",
            Compare::Same => "fcmp oeq",
            Compare::MoreOrSame => "fcmp oge",
            Compare::Unordered => "fcmp uno",
            Compare::Differ => "icmp ne",
            Compare::Below => "icmp slt",
        };
        self.w.compare(name, a, b)
    }

    fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        self.w.intrinsic("fma", &[a, b, c], "")
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        self.w.select(c, a, b)
    }

    fn either(
        &mut self,
        is_near: Val,
        x: Val,
        near: impl FnOnce(&mut Self, Val) -> Val,
        far: impl FnOnce(&mut Self, Val) -> Val,
    ) -> Val {
        let all = self.w.reduce("and", is_near);
        let (rare, usual, done) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        self.w.branch(all, usual, rare, ", !prof !8");
        self.w.enter(usual);
        let found = near(self, x);
        let found_at = self.w.block;
        self.w.jump(done);
        self.w.enter(rare);
        // The rare case is a function of its own, so that the usual case stays small and is inlined.
        let name = format!("{}_far{}", self.name, self.far.len());
        let mut inner = Writer::new(self.w.lanes);
        std::mem::swap(&mut self.w, &mut inner);
        let outer = inner;
        let param = self.w.reg(self.el, self.var);
        let list = self.w.typed(param);
        let r = far(self, param);
        let (ty, r) = (self.w.ty(self.el, self.var), self.w.typed(r));
        self.w.line(format_args!("ret {r}"));
        let w = std::mem::replace(&mut self.w, outer);
        let about = "noinline cold nounwind willreturn memory(none)";
        self.far.push((format!("define internal fastcc {ty} @{name}({list}) {about}"), w));
        let other = self.w.reg(self.el, self.var);
        let (o, a) = (self.w.operand(other, false), self.w.typed(x));
        self.w.line(format_args!("{o} = call fastcc {ty} @{name}({a})"));
        self.w.jump(done);
        self.w.enter(done);
        let (phi, v) = self.w.phi(self.el, self.var, false);
        self.w.flow(phi, found, found_at);
        self.w.flow(phi, other, rare);
        v
    }

    fn elsewhere(&mut self, m: Math, near: Val, x: Val, found: Val) -> Val {
        let all = self.w.reduce("and", near);
        let before = self.w.block;
        let (some, done) = (self.w.new_block(), self.w.new_block());
        self.w.branch(all, done, some, ", !prof !8");
        self.w.enter(some);
        let (el, ty) = (self.el, self.el.name());
        let helper = libm_name(m, !self.single());
        self.w.declare(format!("declare {ty} @{helper}({ty}) nounwind willreturn memory(none)"));
        let mut other = Val { id: Id::Bits(0), el, var: self.var, wide: false, lin: None };
        let lanes = if self.var { self.w.lanes } else { 1 };
        for k in 0..lanes {
            let lane = Val::i32(i64::from(k));
            let one = self.w.lane(x, lane);
            let r = self.w.reg(el, false);
            let (o, a) = (self.w.operand(r, false), self.w.typed(one));
            self.w.line(format_args!("{o} = call {ty} @{helper}({a})"));
            other = if self.var { self.w.with_lane(other, lane, r) } else { r };
        }
        let other = self.w.select(near, found, other);
        let end = self.w.block;
        self.w.jump(done);
        self.w.enter(done);
        let (phi, v) = self.w.phi(self.el, self.var, false);
        self.w.flow(phi, found, before);
        self.w.flow(phi, other, end);
        v
    }
}
