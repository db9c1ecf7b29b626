//! Arithmetic, comparisons, conversions and selections.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Opcode, Type as ClifType, Value, types};
use wasm_encoder::{Instruction as I, ValType};

use super::{Body, mask};
use crate::values::val_type;

impl Body<'_> {
    pub(super) fn unary(&mut self, opcode: Opcode, arg: Value, ty: ClifType) {
        let from = self.type_of(arg);
        match opcode {
            Opcode::Ineg => return self.negate(arg, ty),
            Opcode::Bnot => return self.complement(arg, ty),
            Opcode::Sextend => {
                self.get_signed(arg);
                return match ty {
                    types::I64 => self.put(&I::I64ExtendI32S),
                    _ => self.cut(ty),
                };
            }
            Opcode::Uextend => {
                self.get(arg);
                if ty == types::I64 {
                    self.put(&I::I64ExtendI32U);
                }
                return;
            }
            Opcode::Ireduce => {
                if from == types::I64 {
                    self.get_low(arg)
                } else {
                    self.get(arg)
                }
                return self.cut(ty);
            }
            Opcode::Bitcast => {
                self.get(arg);
                return match (from, ty) {
                    (types::F32, types::I32) => self.put(&I::I32ReinterpretF32),
                    (types::I32, types::F32) => self.put(&I::F32ReinterpretI32),
                    (types::F64, types::I64) => self.put(&I::I64ReinterpretF64),
                    (types::I64, types::F64) => self.put(&I::F64ReinterpretI64),
                    _ => {}
                };
            }
            Opcode::FcvtFromSint | Opcode::FcvtFromUint => {
                return self.float_of(opcode == Opcode::FcvtFromSint, arg, ty);
            }
            Opcode::ScalarToVector => {
                self.put(&I::V128Const(0));
                self.get(arg);
                return self.put(&match ty {
                    types::I32X4 => I::I32x4ReplaceLane(0),
                    types::I64X2 => I::I64x2ReplaceLane(0),
                    types::F32X4 => I::F32x4ReplaceLane(0),
                    _ => I::F64x2ReplaceLane(0),
                });
            }
            Opcode::Bitrev => {
                self.get(arg);
                self.call_runtime(if ty == types::I64 { "bitrev_i64" } else { "bitrev_i32" });
                // The bits of a narrow integer end up at the top.
                if mask(ty).is_some() {
                    self.put(&I::I32Const(32 - ty.bits() as i32));
                    self.put(&I::I32ShrU);
                }
                return;
            }
            _ => {}
        }
        self.get(arg);
        let op = match (opcode, ty) {
            (Opcode::Fneg, types::F32) => I::F32Neg,
            (Opcode::Fneg, types::F64) => I::F64Neg,
            (Opcode::Fneg, types::F32X4) => I::F32x4Neg,
            (Opcode::Fneg, types::F64X2) => I::F64x2Neg,
            (Opcode::Fabs, types::F32) => I::F32Abs,
            (Opcode::Fabs, types::F64) => I::F64Abs,
            (Opcode::Fabs, types::F32X4) => I::F32x4Abs,
            (Opcode::Fabs, types::F64X2) => I::F64x2Abs,
            (Opcode::Sqrt, types::F32) => I::F32Sqrt,
            (Opcode::Sqrt, types::F64) => I::F64Sqrt,
            (Opcode::Sqrt, types::F32X4) => I::F32x4Sqrt,
            (Opcode::Sqrt, types::F64X2) => I::F64x2Sqrt,
            (Opcode::Floor, types::F32) => I::F32Floor,
            (Opcode::Floor, types::F64) => I::F64Floor,
            (Opcode::Floor, types::F32X4) => I::F32x4Floor,
            (Opcode::Floor, types::F64X2) => I::F64x2Floor,
            (Opcode::Ceil, types::F32) => I::F32Ceil,
            (Opcode::Ceil, types::F64) => I::F64Ceil,
            (Opcode::Ceil, types::F32X4) => I::F32x4Ceil,
            (Opcode::Ceil, types::F64X2) => I::F64x2Ceil,
            (Opcode::Trunc, types::F32) => I::F32Trunc,
            (Opcode::Trunc, types::F64) => I::F64Trunc,
            (Opcode::Trunc, types::F32X4) => I::F32x4Trunc,
            (Opcode::Trunc, types::F64X2) => I::F64x2Trunc,
            (Opcode::Nearest, types::F32) => I::F32Nearest,
            (Opcode::Nearest, types::F64) => I::F64Nearest,
            (Opcode::Nearest, types::F32X4) => I::F32x4Nearest,
            (Opcode::Nearest, types::F64X2) => I::F64x2Nearest,
            (Opcode::Fpromote, _) => I::F64PromoteF32,
            (Opcode::Fdemote, _) => I::F32DemoteF64,
            (Opcode::FvpromoteLow, _) => I::F64x2PromoteLowF32x4,
            (Opcode::Fvdemote, _) => I::F32x4DemoteF64x2Zero,
            (Opcode::SwidenLow, types::I64X2) => I::I64x2ExtendLowI32x4S,
            (Opcode::SwidenHigh, types::I64X2) => I::I64x2ExtendHighI32x4S,
            (Opcode::UwidenLow, types::I64X2) => I::I64x2ExtendLowI32x4U,
            (Opcode::UwidenHigh, types::I64X2) => I::I64x2ExtendHighI32x4U,
            (Opcode::FcvtToSintSat, types::I32) if from == types::F32 => I::I32TruncSatF32S,
            (Opcode::FcvtToSintSat, types::I32) => I::I32TruncSatF64S,
            (Opcode::FcvtToUintSat, types::I32) if from == types::F32 => I::I32TruncSatF32U,
            (Opcode::FcvtToUintSat, types::I32) => I::I32TruncSatF64U,
            (Opcode::FcvtToSintSat, types::I64) if from == types::F32 => I::I64TruncSatF32S,
            (Opcode::FcvtToSintSat, types::I64) => I::I64TruncSatF64S,
            (Opcode::FcvtToUintSat, types::I64) if from == types::F32 => I::I64TruncSatF32U,
            (Opcode::FcvtToUintSat, types::I64) => I::I64TruncSatF64U,
            (Opcode::FcvtToSintSat, types::I32X4) => I::I32x4TruncSatF32x4S,
            (Opcode::FcvtToUintSat, types::I32X4) => I::I32x4TruncSatF32x4U,
            (Opcode::Popcnt, types::I64) => I::I64Popcnt,
            (Opcode::Popcnt, _) => I::I32Popcnt,
            (Opcode::Clz, types::I64) => I::I64Clz,
            (Opcode::Clz, types::I32) => I::I32Clz,
            (Opcode::Ctz, types::I64) => I::I64Ctz,
            (Opcode::Ctz, types::I32) => I::I32Ctz,
            (Opcode::Splat, types::I8X16) => I::I8x16Splat,
            (Opcode::Splat, types::I32X4) => I::I32x4Splat,
            (Opcode::Splat, types::I64X2) => I::I64x2Splat,
            (Opcode::Splat, types::F32X4) => I::F32x4Splat,
            (Opcode::Splat, types::F64X2) => I::F64x2Splat,
            (Opcode::VanyTrue, _) => I::V128AnyTrue,
            (Opcode::VallTrue, _) if from == types::I64X2 => I::I64x2AllTrue,
            (Opcode::VallTrue, _) => I::I32x4AllTrue,
            (Opcode::VhighBits, _) if from == types::I64X2 => I::I64x2Bitmask,
            (Opcode::VhighBits, _) => I::I32x4Bitmask,
            _ => return self.lacks(format!("{opcode}.{ty}")),
        };
        self.put(&op);
    }

    fn negate(&mut self, arg: Value, ty: ClifType) {
        match ty {
            types::I32X4 => {
                self.get(arg);
                self.put(&I::I32x4Neg);
            }
            types::I64X2 => {
                self.get(arg);
                self.put(&I::I64x2Neg);
            }
            types::I64 => {
                self.put(&I::I64Const(0));
                self.get(arg);
                self.put(&I::I64Sub);
            }
            _ => {
                self.put(&I::I32Const(0));
                self.get(arg);
                self.put(&I::I32Sub);
                self.cut(ty);
            }
        }
    }

    fn complement(&mut self, arg: Value, ty: ClifType) {
        self.get(arg);
        if ty.is_vector() {
            self.put(&I::V128Not);
        } else if ty == types::I64 {
            self.put(&I::I64Const(-1));
            self.put(&I::I64Xor);
        } else {
            self.put(&I::I32Const(mask(ty).unwrap_or(-1)));
            self.put(&I::I32Xor);
        }
    }

    fn float_of(&mut self, signed: bool, arg: Value, ty: ClifType) {
        let from = self.type_of(arg);
        if from == types::I64X2 {
            // There is no instruction for two of them.
            let local = self.scratch(ValType::V128, 0);
            self.get(arg);
            self.put(&I::LocalTee(local));
            let convert = if signed { I::F64ConvertI64S } else { I::F64ConvertI64U };
            self.put(&I::I64x2ExtractLane(0));
            self.put(&convert);
            self.put(&I::F64x2Splat);
            self.put(&I::LocalGet(local));
            self.put(&I::I64x2ExtractLane(1));
            self.put(&convert);
            return self.put(&I::F64x2ReplaceLane(1));
        }
        if signed {
            self.get_signed(arg)
        } else {
            self.get(arg)
        }
        let wide = from == types::I64;
        self.put(&match (ty, wide, signed) {
            (types::F32, false, true) => I::F32ConvertI32S,
            (types::F32, false, false) => I::F32ConvertI32U,
            (types::F32, true, true) => I::F32ConvertI64S,
            (types::F32, true, false) => I::F32ConvertI64U,
            (types::F64, false, true) => I::F64ConvertI32S,
            (types::F64, false, false) => I::F64ConvertI32U,
            (types::F64, true, true) => I::F64ConvertI64S,
            (types::F64, true, false) => I::F64ConvertI64U,
            (types::F32X4, _, true) => I::F32x4ConvertI32x4S,
            (types::F32X4, _, false) => I::F32x4ConvertI32x4U,
            _ => return self.lacks(format!("a conversion to {ty}")),
        });
    }

    pub(super) fn binary(&mut self, opcode: Opcode, a: Value, b: Value, ty: ClifType) {
        match opcode {
            Opcode::Ishl | Opcode::Ushr | Opcode::Sshr => return self.shift(opcode, a, b, ty),
            Opcode::Smin | Opcode::Smax | Opcode::Umin | Opcode::Umax if !ty.is_vector() => {
                return self.extreme(opcode, a, b, ty);
            }
            Opcode::Sdiv | Opcode::Srem => {
                self.get_signed(a);
                self.get_signed(b);
            }
            _ => {
                self.get(a);
                self.get(b);
            }
        }
        let op = match (opcode, ty) {
            (Opcode::Fadd, types::F32) => I::F32Add,
            (Opcode::Fadd, types::F64) => I::F64Add,
            (Opcode::Fadd, types::F32X4) => I::F32x4Add,
            (Opcode::Fadd, types::F64X2) => I::F64x2Add,
            (Opcode::Fsub, types::F32) => I::F32Sub,
            (Opcode::Fsub, types::F64) => I::F64Sub,
            (Opcode::Fsub, types::F32X4) => I::F32x4Sub,
            (Opcode::Fsub, types::F64X2) => I::F64x2Sub,
            (Opcode::Fmul, types::F32) => I::F32Mul,
            (Opcode::Fmul, types::F64) => I::F64Mul,
            (Opcode::Fmul, types::F32X4) => I::F32x4Mul,
            (Opcode::Fmul, types::F64X2) => I::F64x2Mul,
            (Opcode::Fdiv, types::F32) => I::F32Div,
            (Opcode::Fdiv, types::F64) => I::F64Div,
            (Opcode::Fdiv, types::F32X4) => I::F32x4Div,
            (Opcode::Fdiv, types::F64X2) => I::F64x2Div,
            (Opcode::Fcopysign, types::F32) => I::F32Copysign,
            (Opcode::Fcopysign, types::F64) => I::F64Copysign,
            (Opcode::Iadd, types::I64) => I::I64Add,
            (Opcode::Iadd, types::I32X4) => I::I32x4Add,
            (Opcode::Iadd, types::I64X2) => I::I64x2Add,
            (Opcode::Iadd, _) => I::I32Add,
            (Opcode::Isub, types::I64) => I::I64Sub,
            (Opcode::Isub, types::I32X4) => I::I32x4Sub,
            (Opcode::Isub, types::I64X2) => I::I64x2Sub,
            (Opcode::Isub, _) => I::I32Sub,
            (Opcode::Imul, types::I64) => I::I64Mul,
            (Opcode::Imul, types::I32X4) => I::I32x4Mul,
            (Opcode::Imul, types::I64X2) => I::I64x2Mul,
            (Opcode::Imul, _) => I::I32Mul,
            (Opcode::Sdiv, types::I64) => I::I64DivS,
            (Opcode::Sdiv, _) => I::I32DivS,
            (Opcode::Udiv, types::I64) => I::I64DivU,
            (Opcode::Udiv, _) => I::I32DivU,
            (Opcode::Srem, types::I64) => I::I64RemS,
            (Opcode::Srem, _) => I::I32RemS,
            (Opcode::Urem, types::I64) => I::I64RemU,
            (Opcode::Urem, _) => I::I32RemU,
            (Opcode::Band, ty) if ty.is_vector() => I::V128And,
            (Opcode::Band, types::I64) => I::I64And,
            (Opcode::Band, _) => I::I32And,
            (Opcode::Bor, ty) if ty.is_vector() => I::V128Or,
            (Opcode::Bor, types::I64) => I::I64Or,
            (Opcode::Bor, _) => I::I32Or,
            (Opcode::Bxor, ty) if ty.is_vector() => I::V128Xor,
            (Opcode::Bxor, types::I64) => I::I64Xor,
            (Opcode::Bxor, _) => I::I32Xor,
            (Opcode::Smin, types::I32X4) => I::I32x4MinS,
            (Opcode::Umin, types::I32X4) => I::I32x4MinU,
            (Opcode::Smax, types::I32X4) => I::I32x4MaxS,
            (Opcode::Umax, types::I32X4) => I::I32x4MaxU,
            _ => return self.lacks(format!("{opcode}.{ty}")),
        };
        self.put(&op);
        let narrows =
            matches!(opcode, Opcode::Iadd | Opcode::Isub | Opcode::Imul | Opcode::Sdiv | Opcode::Srem);
        if narrows {
            self.cut(ty);
        }
    }

    fn shift(&mut self, opcode: Opcode, a: Value, b: Value, ty: ClifType) {
        if opcode == Opcode::Sshr {
            self.get_signed(a)
        } else {
            self.get(a)
        }
        // Amounts are taken modulo the width; those of vectors have 32 bits.
        let wide_amount = self.type_of(b) == types::I64;
        match ty {
            types::I64 => {
                self.get(b);
                if !wide_amount {
                    self.put(&I::I64ExtendI32U);
                }
            }
            _ if wide_amount => self.get_low(b),
            _ => self.get(b),
        }
        if mask(ty).is_some() {
            self.put(&I::I32Const(ty.bits() as i32 - 1));
            self.put(&I::I32And);
        }
        self.put(&match (opcode, ty) {
            (Opcode::Ishl, types::I64) => I::I64Shl,
            (Opcode::Ishl, types::I32X4) => I::I32x4Shl,
            (Opcode::Ishl, types::I64X2) => I::I64x2Shl,
            (Opcode::Ishl, _) => I::I32Shl,
            (Opcode::Ushr, types::I64) => I::I64ShrU,
            (Opcode::Ushr, types::I32X4) => I::I32x4ShrU,
            (Opcode::Ushr, types::I64X2) => I::I64x2ShrU,
            (Opcode::Ushr, _) => I::I32ShrU,
            (_, types::I64) => I::I64ShrS,
            (_, types::I32X4) => I::I32x4ShrS,
            (_, types::I64X2) => I::I64x2ShrS,
            _ => I::I32ShrS,
        });
        if opcode != Opcode::Ushr {
            self.cut(ty);
        }
    }

    /// The smaller or larger of two integers.
    fn extreme(&mut self, opcode: Opcode, a: Value, b: Value, ty: ClifType) {
        let vt = val_type(ty);
        let (x, y) = (self.scratch(vt, 1), self.scratch(vt, 2));
        let signed = matches!(opcode, Opcode::Smin | Opcode::Smax);
        for v in [a, b] {
            if signed { self.get_signed(v) } else { self.get(v) }
        }
        self.put(&I::LocalSet(y));
        self.put(&I::LocalTee(x));
        for local in [y, x, y] {
            self.put(&I::LocalGet(local));
        }
        let wide = ty == types::I64;
        self.put(&match (opcode, wide) {
            (Opcode::Smin, false) => I::I32LtS,
            (Opcode::Smin, true) => I::I64LtS,
            (Opcode::Umin, false) => I::I32LtU,
            (Opcode::Umin, true) => I::I64LtU,
            (Opcode::Smax, false) => I::I32GtS,
            (Opcode::Smax, true) => I::I64GtS,
            (_, false) => I::I32GtU,
            (_, true) => I::I64GtU,
        });
        self.put(&I::Select);
        if signed {
            self.cut(ty);
        }
    }

    pub(super) fn ternary(&mut self, opcode: Opcode, a: Value, b: Value, c: Value, ty: ClifType) {
        match opcode {
            Opcode::Select => {
                self.get(b);
                self.get(c);
                self.condition(a);
                match val_type(ty) {
                    ValType::V128 => self.put(&I::TypedSelect(ValType::V128)),
                    _ => self.put(&I::Select),
                }
            }
            Opcode::Bitselect if ty.is_vector() => {
                self.get(b);
                self.get(c);
                self.get(a);
                self.put(&I::V128Bitselect);
            }
            Opcode::Fma if self.relaxed => {
                for v in [a, b, c] {
                    self.get(v);
                    match ty {
                        types::F32 => self.put(&I::F32x4Splat),
                        types::F64 => self.put(&I::F64x2Splat),
                        _ => {}
                    }
                }
                let is_double = matches!(ty, types::F64 | types::F64X2);
                self.put(&if is_double { I::F64x2RelaxedMadd } else { I::F32x4RelaxedMadd });
                match ty {
                    types::F32 => self.put(&I::F32x4ExtractLane(0)),
                    types::F64 => self.put(&I::F64x2ExtractLane(0)),
                    _ => {}
                }
            }
            Opcode::Fma => {
                [a, b, c].into_iter().for_each(|v| self.get(v));
                self.call_runtime(match ty {
                    types::F32 => "fma_f32",
                    types::F64 => "fma_f64",
                    types::F32X4 => "fma_f32x4",
                    _ => "fma_f64x2",
                });
            }
            _ => self.lacks(format!("{opcode}.{ty}")),
        }
    }

    pub(super) fn compare(&mut self, cond: IntCC, a: Value, b: Value) {
        let ty = self.type_of(a);
        let signed = matches!(
            cond,
            IntCC::SignedLessThan
                | IntCC::SignedLessThanOrEqual
                | IntCC::SignedGreaterThan
                | IntCC::SignedGreaterThanOrEqual
        );
        let by_sign = ty == types::I64X2 && !signed && !matches!(cond, IntCC::Equal | IntCC::NotEqual);
        for v in [a, b] {
            if signed {
                self.get_signed(v)
            } else {
                self.get(v)
            }
            if by_sign {
                // Without its sign bit an unsigned integer compares as a signed one.
                self.put(&I::V128Const(((1i128 << 63) << 64) | (1i128 << 63)));
                self.put(&I::V128Xor);
            }
        }
        let cond = if by_sign {
            match cond {
                IntCC::UnsignedLessThan => IntCC::SignedLessThan,
                IntCC::UnsignedLessThanOrEqual => IntCC::SignedLessThanOrEqual,
                IntCC::UnsignedGreaterThan => IntCC::SignedGreaterThan,
                _ => IntCC::SignedGreaterThanOrEqual,
            }
        } else {
            cond
        };
        let ops = match cond {
            IntCC::Equal => [I::I32Eq, I::I64Eq, I::I32x4Eq, I::I64x2Eq],
            IntCC::NotEqual => [I::I32Ne, I::I64Ne, I::I32x4Ne, I::I64x2Ne],
            IntCC::SignedLessThan => [I::I32LtS, I::I64LtS, I::I32x4LtS, I::I64x2LtS],
            IntCC::SignedLessThanOrEqual => [I::I32LeS, I::I64LeS, I::I32x4LeS, I::I64x2LeS],
            IntCC::SignedGreaterThan => [I::I32GtS, I::I64GtS, I::I32x4GtS, I::I64x2GtS],
            IntCC::SignedGreaterThanOrEqual => [I::I32GeS, I::I64GeS, I::I32x4GeS, I::I64x2GeS],
            IntCC::UnsignedLessThan => [I::I32LtU, I::I64LtU, I::I32x4LtU, I::Nop],
            IntCC::UnsignedLessThanOrEqual => [I::I32LeU, I::I64LeU, I::I32x4LeU, I::Nop],
            IntCC::UnsignedGreaterThan => [I::I32GtU, I::I64GtU, I::I32x4GtU, I::Nop],
            IntCC::UnsignedGreaterThanOrEqual => [I::I32GeU, I::I64GeU, I::I32x4GeU, I::Nop],
        };
        let [narrow, wide, four, two] = ops;
        self.put(&match ty {
            types::I64 => wide,
            types::I32X4 => four,
            types::I64X2 => two,
            _ => narrow,
        });
    }

    pub(super) fn compare_floats(&mut self, cond: FloatCC, a: Value, b: Value) {
        let ty = self.type_of(a);
        let pick = |[single, double, four, two]: [I<'static>; 4]| match ty {
            types::F32 => single,
            types::F64 => double,
            types::F32X4 => four,
            _ => two,
        };
        let not_equal = || pick([I::F32Ne, I::F64Ne, I::F32x4Ne, I::F64x2Ne]);
        if cond == FloatCC::Unordered {
            // A NaN differs from itself.
            for (k, v) in [a, b].into_iter().enumerate() {
                let local = self.scratch(val_type(ty), 3);
                self.get(v);
                self.put(&I::LocalTee(local));
                self.put(&I::LocalGet(local));
                self.put(&not_equal());
                if k == 1 {
                    self.put(&if ty.is_vector() { I::V128Or } else { I::I32Or });
                }
            }
            return;
        }
        self.get(a);
        self.get(b);
        let op = match cond {
            FloatCC::Equal => pick([I::F32Eq, I::F64Eq, I::F32x4Eq, I::F64x2Eq]),
            FloatCC::NotEqual => not_equal(),
            FloatCC::LessThan => pick([I::F32Lt, I::F64Lt, I::F32x4Lt, I::F64x2Lt]),
            FloatCC::LessThanOrEqual => pick([I::F32Le, I::F64Le, I::F32x4Le, I::F64x2Le]),
            FloatCC::GreaterThan => pick([I::F32Gt, I::F64Gt, I::F32x4Gt, I::F64x2Gt]),
            FloatCC::GreaterThanOrEqual => pick([I::F32Ge, I::F64Ge, I::F32x4Ge, I::F64x2Ge]),
            _ => return self.lacks(format!("a comparison {cond}")),
        };
        self.put(&op);
    }
}
