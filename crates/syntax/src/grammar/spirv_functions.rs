//! Gives functions that stand for an instruction of SPIR-V a body, in which the parameters are the operands:
//! `[[vk::spirv_instruction(128)]] uint add(uint a, uint b);` is `{ return spirv_asm { result : $$uint = OpIAdd $a $b }; }`.
//! With `"GLSL.std.450"` as the second argument, the number is that of an extended instruction.

use crate::ast::*;
use crate::parser::Parser;

/// The extended instructions of GLSL with their numbers.
const EXTENDED: &[(&str, u32)] = &[
    ("Round", 1),
    ("RoundEven", 2),
    ("Trunc", 3),
    ("FAbs", 4),
    ("SAbs", 5),
    ("FSign", 6),
    ("SSign", 7),
    ("Floor", 8),
    ("Ceil", 9),
    ("Fract", 10),
    ("Radians", 11),
    ("Degrees", 12),
    ("Sin", 13),
    ("Cos", 14),
    ("Tan", 15),
    ("Asin", 16),
    ("Acos", 17),
    ("Atan", 18),
    ("Sinh", 19),
    ("Cosh", 20),
    ("Tanh", 21),
    ("Asinh", 22),
    ("Acosh", 23),
    ("Atanh", 24),
    ("Atan2", 25),
    ("Pow", 26),
    ("Exp", 27),
    ("Log", 28),
    ("Exp2", 29),
    ("Log2", 30),
    ("Sqrt", 31),
    ("InverseSqrt", 32),
    ("Determinant", 33),
    ("MatrixInverse", 34),
    ("FMin", 37),
    ("UMin", 38),
    ("SMin", 39),
    ("FMax", 40),
    ("UMax", 41),
    ("SMax", 42),
    ("FClamp", 43),
    ("UClamp", 44),
    ("SClamp", 45),
    ("FMix", 46),
    ("Step", 48),
    ("Fma", 50),
    ("Ldexp", 53),
    ("PackSnorm4x8", 54),
    ("PackUnorm4x8", 55),
    ("PackSnorm2x16", 56),
    ("PackUnorm2x16", 57),
    ("PackHalf2x16", 58),
    ("UnpackSnorm2x16", 60),
    ("UnpackUnorm2x16", 61),
    ("UnpackHalf2x16", 62),
    ("UnpackSnorm4x8", 63),
    ("UnpackUnorm4x8", 64),
    ("Length", 66),
    ("Distance", 67),
    ("Cross", 68),
    ("Normalize", 69),
    ("FaceForward", 70),
    ("Reflect", 71),
    ("Refract", 72),
    ("FindILsb", 73),
    ("FindSMsb", 74),
    ("FindUMsb", 75),
    ("NMin", 79),
    ("NMax", 80),
    ("NClamp", 81),
];

impl Parser<'_> {
    /// The body of a function without one that an attribute makes an instruction of SPIR-V.
    pub(crate) fn spirv_function(
        &mut self,
        id: DeclId,
        params: &[DeclId],
        result: Option<ExprId>,
    ) -> Option<StmtId> {
        let is_named = |name: &str| matches!(name, "vk::spirv_instruction" | "spv::instruction");
        let attribute =
            self.ast.decls[id].attributes.iter().find(|a| is_named(self.ast.name(a.name))).cloned()?;
        let refuse = |p: &mut Self, what: String| {
            p.report(crate::Diagnostic::error("E29100", attribute.span, what));
            None
        };
        let number = attribute.args.first().map(|&arg| &self.ast.exprs[arg].kind);
        let Some(&ExprKind::Int { value: number, .. }) = number else {
            return refuse(self, "this attribute needs the number of an instruction of SPIR-V".into());
        };
        let set = attribute.args.get(1).map(|&arg| self.ast.exprs[arg].kind.clone());
        let instruction = match set {
            None => number.to_string(),
            Some(ExprKind::String(set)) if set == "GLSL.std.450" => {
                match EXTENDED.iter().find(|row| u64::from(row.1) == number) {
                    Some(row) => format!("OpExtInst glsl450 {}", row.0),
                    None => return refuse(self, format!("unknown instruction {number} of `GLSL.std.450`")),
                }
            }
            Some(_) => {
                return refuse(
                    self,
                    "this set of instructions is not supported: only `GLSL.std.450` is".into(),
                );
            }
        };
        let operands: String =
            params.iter().map(|&p| format!(" ${}", self.ast.name(self.ast.decls[p].name))).collect();
        let ty: Vec<_> = match result {
            Some(result) => {
                let span = self.ast.exprs[result].span;
                let tokens = (0..self.pos()).map(|pos| *self.at(pos));
                tokens
                    .filter(|t| {
                        t.span.file == span.file && span.start <= t.span.start && t.span.end <= span.end
                    })
                    .collect()
            }
            None => Vec::new(),
        };
        let is_void = matches!(&ty[..], [word] if self.ast.name(word.symbol) == "void") || ty.is_empty();
        Some(self.spirv_text(id, &instruction, &operands, (!is_void).then_some(&ty[..]), attribute.span))
    }
}
