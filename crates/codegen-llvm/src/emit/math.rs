//! Emits mathematical functions: one instruction where the machine has an exact one, else a call of a
//! function of `ir::library` or of the function that the interpreter uses.

use ir::{Math, Op, Scalar, Span, scalar};
use native::runtime::libm_name;

use super::{Emitter, Res, el, library};
use crate::text::{El, Val, Vals};

impl Emitter<'_, '_> {
    /// Emits a math function of numbers of one kind.
    pub(super) fn math(&mut self, m: Math, s: Scalar, args: &[Val], span: Span) -> Res<Val> {
        if !scalar::has_math(m, s) {
            return self.unsupported(&Op::Math(m), s.name(), span);
        }
        match s {
            Scalar::F16 => {
                if m == Math::Abs {
                    return Ok(self.w.binary("and", args[0], Val::bits(El::I16, 0x7fff)));
                }
                let wide: Vals = args.iter().map(|&a| self.widen(a)).collect();
                let r = self.float_math(m, &wide);
                Ok(if r.el == El::F32 { self.narrow(r) } else { r })
            }
            Scalar::F32 | Scalar::F64 => Ok(self.float_math(m, args)),
            _ => self.int_math(m, s, args, span),
        }
    }

    fn float_math(&mut self, m: Math, args: &[Val]) -> Val {
        let a = args[0];
        match m {
            Math::Sqrt => self.w.intrinsic("sqrt", args, ""),
            Math::Abs => self.w.intrinsic("fabs", args, ""),
            Math::Floor => self.w.intrinsic("floor", args, ""),
            Math::Ceil => self.w.intrinsic("ceil", args, ""),
            Math::Trunc => self.w.intrinsic("trunc", args, ""),
            Math::Round => self.w.intrinsic("roundeven", args, ""),
            Math::Fma => self.w.intrinsic("fma", args, ""),
            Math::Min | Math::Max => {
                let cc = if m == Math::Min { "fcmp olt" } else { "fcmp ogt" };
                let better = self.w.compare(cc, args[1], a);
                let nan = self.w.compare("fcmp uno", a, a);
                let second = self.w.binary("or", better, nan);
                self.w.select(second, args[1], a)
            }
            Math::IsNan => self.w.compare("fcmp uno", a, a),
            Math::IsInf => {
                let s = if a.el == El::F64 { Scalar::F64 } else { Scalar::F32 };
                let infinity = Val::bits(a.el, scalar::from_f64(s, f64::INFINITY));
                let a = self.w.intrinsic("fabs", &[a], "");
                self.w.compare("fcmp oeq", a, infinity)
            }
            _ if self.cx.library && library::has(m) => self.library(m, args),
            _ => {
                let (name, ty) = (libm_name(m, a.el == El::F64), a.el.name());
                let types = vec![ty; args.len()].join(", ");
                self.w.declare(ty, &name, &types, " nounwind willreturn memory(none)");
                self.by_lane(a.el, args, &mut |e, args| {
                    e.call_text(&name, Some(args[0].el), args).expect("a math function has a result")
                })
            }
        }
    }

    /// Calls a function of `ir::library`.
    fn library(&mut self, m: Math, args: &[Val]) -> Val {
        let el = args[0].el;
        let var = args.iter().any(|a| a.var);
        let args: Vals = args.iter().map(|&a| self.w.fit(a, var)).collect();
        let lanes = if var { self.lanes } else { 1 };
        self.cx.used_library.insert((m, el, lanes));
        let list: Vec<String> = args.iter().map(|&a| self.w.typed(a)).collect();
        let out = self.w.reg(el, var);
        let (o, ty) = (self.w.operand(out, false), self.w.ty(el, var));
        let name = library::name(m, el, lanes);
        self.w.calls(&name);
        self.w.line(format_args!("{o} = call fastcc {ty} @{name}({})", list.join(", ")));
        out
    }

    fn int_math(&mut self, m: Math, s: Scalar, args: &[Val], span: Span) -> Res<Val> {
        let (ty, signed, a) = (el(s), s.is_signed_int(), args[0]);
        let bits = s.bits() as u64;
        let zero = Val::bits(ty, 0);
        Ok(match m {
            Math::Min | Math::Max => {
                let cc = match (m == Math::Min, signed) {
                    (true, true) => "icmp slt",
                    (true, false) => "icmp ult",
                    (false, true) => "icmp sgt",
                    (false, false) => "icmp ugt",
                };
                let second = self.w.compare(cc, args[1], a);
                self.w.select(second, args[1], a)
            }
            Math::Abs if signed => {
                let below = self.w.compare("icmp slt", a, zero);
                let negated = self.w.binary("sub", zero, a);
                self.w.select(below, negated, a)
            }
            Math::Abs => a,
            Math::CountBits => self.w.intrinsic("ctpop", &[a], ""),
            Math::ReverseBits => self.w.intrinsic("bitreverse", &[a], ""),
            Math::FirstBitLow | Math::FirstBitHigh => {
                let x = if m == Math::FirstBitHigh && signed {
                    let sign = self.w.binary("ashr", a, Val::bits(ty, bits - 1));
                    self.w.binary("xor", a, sign)
                } else {
                    a
                };
                let none = self.w.compare("icmp eq", x, zero);
                let at = if m == Math::FirstBitLow {
                    self.w.intrinsic("cttz", &[x], ", i1 false")
                } else {
                    let zeros = self.w.intrinsic("ctlz", &[x], ", i1 false");
                    self.w.binary("sub", Val::bits(ty, bits - 1), zeros)
                };
                self.w.select(none, Val::bits(ty, u64::MAX), at)
            }
            _ => return self.unsupported(&Op::Math(m), s.name(), span),
        })
    }
}
