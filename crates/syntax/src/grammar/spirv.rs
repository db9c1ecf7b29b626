//! Translates `spirv_asm { … }` to statements of this language, so that every backend runs it.
//!
//! An instruction is looked up in a table, whose last column is what it means: `A`, `B`, … are its operands, `T` is
//! the type of its result, and `P` the place that its first operand points to. A result `%x` becomes a variable; the
//! `result` of the whole block is what it gives: as an expression, the block is a lambda that is called.
//!
//! | operand | meaning |
//! | --- | --- |
//! | `%x` | a result of this block |
//! | `$e`, `$(e)` | a value of the program |
//! | `$$T` | a type of the program |
//! | `&e` | the address of a place of the program |
//! | `Device`, `Acquire \| 64` | a number that SPIR-V has a name for |
//!
//! Instructions that say something of the module (names, decorations, capabilities) have no meaning here. Those that
//! are not in the table are refused by name where the block is used.

use std::collections::BTreeMap;

use crate::ast::*;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::source::Span;
use crate::token::{Token, TokenKind as T, lex};

/// How an instruction begins, and what becomes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It has a result type and a result.
    Value,
    /// It has neither.
    Effect,
    /// It has no effect when the program runs; nothing of it is translated.
    Nothing,
}

/// An instruction: its name, its number, its form, its largest number of operands behind the result, its meaning.
type Row = (&'static str, u32, Form, usize, &'static str);

const ROWS: &[Row] = &[
    ("OpNop", 0, Form::Nothing, 0, ""),
    ("OpSource", 3, Form::Nothing, 9, ""),
    ("OpName", 5, Form::Nothing, 2, ""),
    ("OpMemberName", 6, Form::Nothing, 3, ""),
    ("OpExtension", 10, Form::Nothing, 1, ""),
    ("OpCapability", 17, Form::Nothing, 1, ""),
    ("OpDecorate", 71, Form::Nothing, 9, ""),
    ("OpMemberDecorate", 72, Form::Nothing, 9, ""),
    ("OpUndef", 1, Form::Value, 0, "{}"),
    ("OpConstantTrue", 41, Form::Value, 0, "true"),
    ("OpConstantFalse", 42, Form::Value, 0, "false"),
    ("OpConstant", 43, Form::Value, 1, "(T)(A)"),
    ("OpConstantNull", 46, Form::Value, 0, "{}"),
    ("OpLoad", 61, Form::Value, 2, "__spirvLoad(P)"),
    ("OpStore", 62, Form::Effect, 3, "P = B"),
    ("OpVectorExtractDynamic", 77, Form::Value, 2, "A[B]"),
    ("OpCopyObject", 83, Form::Value, 1, "(T)(A)"),
    ("OpTranspose", 84, Form::Value, 1, "transpose(A)"),
    ("OpConvertFToU", 109, Form::Value, 1, "(T)(A)"),
    ("OpConvertFToS", 110, Form::Value, 1, "(T)(A)"),
    ("OpConvertSToF", 111, Form::Value, 1, "(T)(A)"),
    ("OpConvertUToF", 112, Form::Value, 1, "(T)(A)"),
    ("OpUConvert", 113, Form::Value, 1, "(T)(A)"),
    ("OpSConvert", 114, Form::Value, 1, "(T)(A)"),
    ("OpFConvert", 115, Form::Value, 1, "(T)(A)"),
    ("OpBitcast", 124, Form::Value, 1, "bit_cast<T>(A)"),
    ("OpSNegate", 126, Form::Value, 1, "(T)(-A)"),
    ("OpFNegate", 127, Form::Value, 1, "-A"),
    ("OpIAdd", 128, Form::Value, 2, "(T)((T)(A) + (T)(B))"),
    ("OpFAdd", 129, Form::Value, 2, "A + B"),
    ("OpISub", 130, Form::Value, 2, "(T)((T)(A) - (T)(B))"),
    ("OpFSub", 131, Form::Value, 2, "A - B"),
    ("OpIMul", 132, Form::Value, 2, "(T)((T)(A) * (T)(B))"),
    ("OpFMul", 133, Form::Value, 2, "A * B"),
    ("OpUDiv", 134, Form::Value, 2, "(T)(asuint(A) / asuint(B))"),
    ("OpSDiv", 135, Form::Value, 2, "(T)(asint(A) / asint(B))"),
    ("OpFDiv", 136, Form::Value, 2, "A / B"),
    ("OpUMod", 137, Form::Value, 2, "(T)(asuint(A) % asuint(B))"),
    ("OpSRem", 138, Form::Value, 2, "(T)(asint(A) % asint(B))"),
    ("OpSMod", 139, Form::Value, 2, "(T)((asint(A) % asint(B) + asint(B)) % asint(B))"),
    ("OpFRem", 140, Form::Value, 2, "fmod(A, B)"),
    ("OpFMod", 141, Form::Value, 2, "A - B * floor(A / B)"),
    ("OpVectorTimesScalar", 142, Form::Value, 2, "A * B"),
    ("OpMatrixTimesScalar", 143, Form::Value, 2, "A * B"),
    // The columns of SPIR-V are the rows of this language.
    ("OpVectorTimesMatrix", 144, Form::Value, 2, "mul(B, A)"),
    ("OpMatrixTimesVector", 145, Form::Value, 2, "mul(B, A)"),
    ("OpMatrixTimesMatrix", 146, Form::Value, 2, "mul(B, A)"),
    ("OpDot", 148, Form::Value, 2, "dot(A, B)"),
    ("OpAny", 154, Form::Value, 1, "any(A)"),
    ("OpAll", 155, Form::Value, 1, "all(A)"),
    ("OpIsNan", 156, Form::Value, 1, "isnan(A)"),
    ("OpIsInf", 157, Form::Value, 1, "isinf(A)"),
    ("OpLogicalEqual", 164, Form::Value, 2, "A == B"),
    ("OpLogicalNotEqual", 165, Form::Value, 2, "A != B"),
    ("OpLogicalOr", 166, Form::Value, 2, "A | B"),
    ("OpLogicalAnd", 167, Form::Value, 2, "A & B"),
    ("OpLogicalNot", 168, Form::Value, 1, "!A"),
    ("OpSelect", 169, Form::Value, 3, "select(A, B, C)"),
    ("OpIEqual", 170, Form::Value, 2, "A == B"),
    ("OpINotEqual", 171, Form::Value, 2, "A != B"),
    ("OpUGreaterThan", 172, Form::Value, 2, "asuint(A) > asuint(B)"),
    ("OpSGreaterThan", 173, Form::Value, 2, "asint(A) > asint(B)"),
    ("OpUGreaterThanEqual", 174, Form::Value, 2, "asuint(A) >= asuint(B)"),
    ("OpSGreaterThanEqual", 175, Form::Value, 2, "asint(A) >= asint(B)"),
    ("OpULessThan", 176, Form::Value, 2, "asuint(A) < asuint(B)"),
    ("OpSLessThan", 177, Form::Value, 2, "asint(A) < asint(B)"),
    ("OpULessThanEqual", 178, Form::Value, 2, "asuint(A) <= asuint(B)"),
    ("OpSLessThanEqual", 179, Form::Value, 2, "asint(A) <= asint(B)"),
    ("OpFOrdEqual", 180, Form::Value, 2, "A == B"),
    ("OpFUnordNotEqual", 183, Form::Value, 2, "A != B"),
    ("OpFOrdLessThan", 184, Form::Value, 2, "A < B"),
    ("OpFOrdGreaterThan", 186, Form::Value, 2, "A > B"),
    ("OpFOrdLessThanEqual", 188, Form::Value, 2, "A <= B"),
    ("OpFOrdGreaterThanEqual", 190, Form::Value, 2, "A >= B"),
    ("OpShiftRightLogical", 194, Form::Value, 2, "(T)(asuint(A) >> asuint(B))"),
    ("OpShiftRightArithmetic", 195, Form::Value, 2, "(T)(asint(A) >> asint(B))"),
    ("OpShiftLeftLogical", 196, Form::Value, 2, "(T)(A << B)"),
    ("OpBitwiseOr", 197, Form::Value, 2, "(T)((T)(A) | (T)(B))"),
    ("OpBitwiseXor", 198, Form::Value, 2, "(T)((T)(A) ^ (T)(B))"),
    ("OpBitwiseAnd", 199, Form::Value, 2, "(T)((T)(A) & (T)(B))"),
    ("OpNot", 200, Form::Value, 1, "(T)(~A)"),
    ("OpBitReverse", 204, Form::Value, 1, "(T)(reversebits(asuint(A)))"),
    ("OpBitCount", 205, Form::Value, 1, "(T)(countbits(asuint(A)))"),
    ("OpControlBarrier", 224, Form::Effect, 3, "AllMemoryBarrierWithGroupSync()"),
    ("OpMemoryBarrier", 225, Form::Effect, 2, "AllMemoryBarrier()"),
    ("OpAtomicLoad", 227, Form::Value, 3, "__spirvLoad(P)"),
    ("OpAtomicExchange", 229, Form::Value, 4, "__spirvExchange(P, (T)(D))"),
    ("OpAtomicIAdd", 234, Form::Value, 4, "__spirvAdd(P, (T)(D))"),
    ("OpAtomicISub", 235, Form::Value, 4, "__spirvAdd(P, (T)(0 - D))"),
    ("OpAtomicAnd", 240, Form::Value, 4, "__spirvAnd(P, (T)(D))"),
    ("OpAtomicOr", 241, Form::Value, 4, "__spirvOr(P, (T)(D))"),
    ("OpAtomicXor", 242, Form::Value, 4, "__spirvXor(P, (T)(D))"),
    ("OpAtomicFAddEXT", 6035, Form::Value, 4, "__spirvAdd(P, D)"),
    // These have any number of operands, and `operands` makes their meaning.
    ("OpExtInst", 12, Form::Value, 9, ""),
    ("OpConstantComposite", 44, Form::Value, 99, ""),
    ("OpAccessChain", 65, Form::Value, 99, ""),
    ("OpInBoundsAccessChain", 66, Form::Value, 99, ""),
    ("OpCompositeConstruct", 80, Form::Value, 99, ""),
    ("OpCompositeExtract", 81, Form::Value, 99, ""),
];

/// The functions of the extended instructions of GLSL, where the names differ by more than their case.
const EXTENDED: &[(&str, &str)] = &[
    ("RoundEven", "round"),
    ("FAbs", "abs"),
    ("SAbs", "abs"),
    ("FSign", "sign"),
    ("SSign", "sign"),
    ("Fract", "frac"),
    ("Atan2", "atan2"),
    ("InverseSqrt", "rsqrt"),
    ("FMin", "min"),
    ("UMin", "min"),
    ("SMin", "min"),
    ("FMax", "max"),
    ("UMax", "max"),
    ("SMax", "max"),
    ("FClamp", "clamp"),
    ("UClamp", "clamp"),
    ("SClamp", "clamp"),
    ("FMix", "lerp"),
    ("FaceForward", "faceforward"),
    ("MatrixInverse", "__spirvInverse"),
    ("NMin", "min"),
    ("NMax", "max"),
    ("NClamp", "clamp"),
    ("Ldexp", "ldexp"),
    ("FindILsb", "__spirvLowestBit"),
    ("FindSMsb", "__spirvHighestBitOfSigned"),
    ("FindUMsb", "__spirvHighestBit"),
    ("PackSnorm4x8", "packSnorm4x8"),
    ("PackUnorm4x8", "packUnorm4x8"),
    ("PackSnorm2x16", "packSnorm2x16"),
    ("PackUnorm2x16", "packUnorm2x16"),
    ("PackHalf2x16", "packHalf2x16"),
    ("UnpackSnorm2x16", "unpackSnorm2x16"),
    ("UnpackUnorm2x16", "unpackUnorm2x16"),
    ("UnpackHalf2x16", "unpackHalf2x16"),
    ("UnpackSnorm4x8", "unpackSnorm4x8"),
    ("UnpackUnorm4x8", "unpackUnorm4x8"),
];

/// The extended instructions whose functions have the same name but for the first letter's case.
const SAME: &str = "Round Trunc Floor Ceil Radians Degrees Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh \
    Pow Exp Log Exp2 Log2 Sqrt Determinant Step Fma Length Distance Cross Normalize Reflect Refract";

/// Numbers with names: of scopes, and of what a barrier or an atomic operation orders.
const NUMBERS: &[(&str, u32)] = &[
    ("CrossDevice", 0),
    ("Device", 1),
    ("Workgroup", 2),
    ("Subgroup", 3),
    ("Invocation", 4),
    ("QueueFamily", 5),
    ("None", 0),
    ("Relaxed", 0),
    ("Acquire", 2),
    ("Release", 4),
    ("AcquireRelease", 8),
    ("SequentiallyConsistent", 16),
    ("UniformMemory", 64),
    ("SubgroupMemory", 128),
    ("WorkgroupMemory", 256),
    ("CrossWorkgroupMemory", 512),
    ("AtomicCounterMemory", 1024),
    ("ImageMemory", 2048),
    ("OutputMemory", 4096),
];

/// The calls that give the values of `builtin(X : T)`, which is a place of its value.
const BUILT_IN: &[(&str, &str)] = &[
    ("WorkgroupSize", "(WorkgroupSize())"),
    ("NumWorkgroups", "(WorkgroupCount())"),
    ("LocalInvocationIndex", "(__groupIndex())"),
    ("SubgroupSize", "(WaveGetLaneCount())"),
    ("SubgroupLocalInvocationId", "(WaveGetLaneIndex())"),
    ("SubgroupId", "(WaveGetWaveIndex())"),
    ("NumSubgroups", "(WaveGetNumWaves())"),
    // What a stage is given that no kernel has.
    ("DrawIndex", "(__spirvDrawIndex())"),
    ("BaseInstance", "(__spirvBaseInstance())"),
    ("BaseVertex", "(__spirvBaseVertex())"),
    ("InstanceIndex", "(__spirvInstanceIndex())"),
    ("VertexIndex", "(__spirvVertexIndex())"),
    ("ViewIndex", "(__spirvViewIndex())"),
    ("DeviceIndex", "(__spirvDeviceIndex())"),
    ("PrimitiveId", "(__spirvPrimitiveId())"),
];

/// An operand: its tokens, as an expression or a type.
struct Operand {
    tokens: Vec<Token>,
    /// It is `&e`: the tokens are those of the place.
    is_place: bool,
    /// It stands for a place with the value of the tokens.
    is_value: bool,
    /// It is `result`.
    is_result: bool,
    /// The name after `%`, if it is one, or the plain word.
    word: Option<Symbol>,
    is_id: bool,
    span: Span,
}

/// The translation of a block so far.
#[derive(Default)]
struct Block {
    out: Vec<Token>,
    /// The results so far.
    ids: BTreeMap<Symbol, Span>,
    gives: bool,
    /// An instruction that is not supported.
    unsupported: Option<Symbol>,
}

impl Parser<'_> {
    /// `spirv_asm { … }` as a statement
    pub(crate) fn spirv_statement(&mut self) -> StmtKind {
        let start = self.span();
        let block = self.spirv_block();
        self.eat(T::Semi);
        if let Some(name) = block.unsupported {
            return StmtKind::Unsupported(name);
        }
        let body = self.spirv_body(block.out, start);
        self.ast.stmts[body].kind.clone()
    }

    /// `spirv_asm { … }` as an expression: a lambda without parameters that is called
    pub(crate) fn spirv_expression(&mut self) -> ExprKind {
        let start = self.span();
        let block = self.spirv_block();
        if let Some(name) = block.unsupported {
            return ExprKind::Opaque(name);
        }
        if !block.gives {
            let message = "this `spirv_asm` gives no value: its last instruction must define `result`";
            self.report(crate::Diagnostic::error("E29103", start, message));
            return ExprKind::Error;
        }
        let id = self.new_decl(start);
        let body = self.inside(id, |p| p.spirv_body(block.out, start));
        self.complete(id, start, DeclKind::Func { params: Vec::new(), result: None, body: Some(body) });
        let callee = self.expr(start, ExprKind::Lambda(id));
        ExprKind::Call { callee, args: Vec::new() }
    }

    /// The body of the function `id` that does an instruction, given as text with its operands, and returns its result.
    pub(super) fn spirv_text(
        &mut self,
        id: DeclId,
        instruction: &str,
        operands: &str,
        ty: Option<&[Token]>,
        span: Span,
    ) -> StmtId {
        let mut tokens = Vec::new();
        let symbols = &mut self.ast.symbols;
        match ty {
            Some(ty) => {
                tokens.extend(words(symbols, "return spirv_asm { result : $$", span));
                tokens.extend(ty.iter().copied());
                tokens.extend(words(symbols, &format!("= {instruction}{operands}; }};"), span));
            }
            None => tokens.extend(words(symbols, &format!("spirv_asm {{ {instruction}{operands}; }}"), span)),
        }
        self.inside(id, |p| p.spirv_body(tokens, span))
    }

    /// Parses what a block was translated to.
    fn spirv_body(&mut self, out: Vec<Token>, span: Span) -> StmtId {
        let mut tokens = words(&mut self.ast.symbols, "{", span);
        tokens.extend(out);
        tokens.extend(words(&mut self.ast.symbols, "}", span));
        let eof = lex(&mut self.ast.symbols, span.file, "").tokens;
        tokens.extend(eof.into_iter().map(|token| Token { span, ..token }));
        let mut found = Vec::new();
        let mut inner = Parser::new(self.ast, tokens, Vec::new(), &mut found);
        inner.parent = self.parent;
        inner.type_params = self.type_params.clone();
        let body = inner.block();
        for diagnostic in found {
            self.report(diagnostic);
        }
        body
    }

    fn spirv_block(&mut self) -> Block {
        self.bump();
        let open = self.bump().span;
        let mut block = Block::default();
        while !matches!(self.kind(), T::RBrace | T::Eof) {
            let before = self.pos();
            if !self.eat(T::Semi) {
                self.instruction(&mut block);
            }
            if self.pos() == before {
                self.bump();
            }
        }
        self.expect_close(T::RBrace, open);
        block
    }

    /// `%x : $$T = OpX a b;`, `OpX $$T %x a b;`
    fn instruction(&mut self, block: &mut Block) {
        let errors = self.n_errors();
        if let (true, Some(&last)) = (block.gives, block.out.last()) {
            self.error("E29102", last.span, "`result` belongs to the last instruction of a block");
            block.gives = false;
        }
        let mut result = None;
        let mut ty = None;
        let assigned =
            self.is(T::Percent) || self.is_word(kw::RESULT) && matches!(self.nth(1), T::Colon | T::Eq);
        if assigned {
            result = self.operand(block, true);
            if self.eat(T::Colon) {
                if self.is(T::Semi) {
                    return self.expected("a type");
                }
                ty = self.operand(block, false);
            }
            if !self.eat(T::Eq) {
                self.expected("`=`");
                return self.skip_to_semicolon();
            }
        }
        let word = *self.current();
        let (name, number) = match word.kind {
            T::Ident => (self.ast.name(word.symbol).to_owned(), None),
            T::Int => {
                let text = self.ast.name(word.symbol).to_owned();
                (text.clone(), text.parse::<u32>().ok())
            }
            _ => {
                self.expected("an instruction of SPIR-V");
                return self.skip_to_semicolon();
            }
        };
        self.bump();
        let row = ROWS.iter().find(|row| row.0 == name || Some(row.1) == number).copied();
        let Some((name, _, form, most, meaning)) = row else {
            let is_known =
                name.strip_prefix("Op").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_uppercase()));
            match is_known {
                _ if name == "__truncate" => return self.truncate(block),
                true => block.unsupported = block.unsupported.or(Some(word.symbol)),
                false => self.error("E29100", word.span, format!("unknown instruction `{name}` of SPIR-V")),
            }
            return self.skip_to_semicolon();
        };
        if assigned && form != Form::Value {
            self.error("E29104", word.span, format!("`{name}` has no result"));
            return self.skip_to_semicolon();
        }
        if form == Form::Nothing {
            return self.skip_to_semicolon();
        }
        if form == Form::Value {
            if ty.is_none() {
                ty = self.operand(block, false);
            }
            if result.is_none() {
                result = self.operand(block, true);
            }
        }
        let mut operands = Vec::new();
        while !matches!(self.kind(), T::Semi | T::RBrace | T::Eof) {
            if operands.len() == most {
                let warning = format!("`{name}` has at most {most} operands: is a `;` missing before this?");
                self.report(crate::Diagnostic::warning("E29106", self.span(), warning));
                break;
            }
            let Some(operand) = self.operand(block, false) else { return self.skip_to_semicolon() };
            operands.push(operand);
        }
        self.eat(T::Semi);
        if self.n_errors() > errors {
            return;
        }
        let template = match name {
            "OpExtInst" => match self.extended(&mut operands) {
                Ok(template) => template,
                Err(unsupported) => {
                    block.unsupported = block.unsupported.or(Some(unsupported));
                    return;
                }
            },
            "OpLoad" if operands.first().is_some_and(|operand| operand.is_value) => "(T)(A)".to_owned(),
            "OpConstantComposite" | "OpCompositeConstruct" => {
                format!("T({})", letters(operands.len(), 0).join(", "))
            }
            "OpCompositeExtract" => format!("A{}", indices(operands.len())),
            "OpAccessChain" | "OpInBoundsAccessChain" => format!("&P{}", indices(operands.len())),
            _ => meaning.to_owned(),
        };
        let needed = (0..most.min(15)).filter(|&k| has_letter(&template, k)).max().map_or(0, |k| k + 1);
        if operands.len() < needed {
            return self.error("E29101", word.span, format!("`{name}` needs {needed} operands"));
        }
        self.emit(block, result, ty, &operands, &template, word.span);
    }

    /// `__truncate $$T %x $$U v`: the first components of a vector
    fn truncate(&mut self, block: &mut Block) {
        let span = self.span();
        let ty = self.operand(block, false);
        let result = self.operand(block, true);
        let _ = self.operand(block, false);
        let value = self.operand(block, false);
        self.eat(T::Semi);
        let Some(value) = value else { return };
        self.emit(block, result, ty, &[value], "__spirvTruncate<T>(A)", span);
    }

    /// Appends what an instruction means.
    fn emit(
        &mut self,
        block: &mut Block,
        result: Option<Operand>,
        ty: Option<Operand>,
        operands: &[Operand],
        template: &str,
        span: Span,
    ) {
        let mut out = Vec::new();
        if let (Some(result), Some(ty)) = (&result, &ty) {
            let name = match result.word {
                Some(word) if !result.is_result => id_name(self.ast.name(word)),
                _ => "__spirv_result".to_owned(),
            };
            out.extend(words(&mut self.ast.symbols, &format!("var {name} :"), span));
            out.extend(ty.tokens.iter().copied());
            out.extend(words(&mut self.ast.symbols, "=", span));
        }
        for token in words(&mut self.ast.symbols, template, span) {
            let letter = match token.kind {
                T::Ident => self.ast.name(token.symbol).to_owned(),
                _ => String::new(),
            };
            match letter.as_bytes() {
                [b'T'] => out.extend(ty.iter().flat_map(|ty| ty.tokens.iter().copied())),
                [b'P'] => {
                    let Some(at) = operands.first() else { continue };
                    let star = if at.is_place { "(" } else { "(*" };
                    out.extend(words(&mut self.ast.symbols, star, at.span));
                    out.extend(at.tokens.iter().copied());
                    out.extend(words(&mut self.ast.symbols, ")", at.span));
                }
                [letter @ b'A'..=b'O'] => {
                    let Some(operand) = operands.get(usize::from(letter - b'A')) else { continue };
                    let is_one = operand.tokens.len() == 1 && !operand.is_place;
                    let (before, after) = match (is_one, operand.is_place) {
                        (true, _) => ("", ""),
                        (false, true) => ("(&", ")"),
                        (false, false) => ("(", ")"),
                    };
                    out.extend(words(&mut self.ast.symbols, before, operand.span));
                    out.extend(operand.tokens.iter().copied());
                    out.extend(words(&mut self.ast.symbols, after, operand.span));
                }
                _ => out.push(token),
            }
        }
        let gives = result.as_ref().is_some_and(|result| result.is_result);
        let end = if gives { "; return __spirv_result;" } else { ";" };
        let end_span = result.as_ref().filter(|_| gives).map_or(span, |result| result.span);
        out.extend(words(&mut self.ast.symbols, end, end_span));
        block.out.append(&mut out);
        block.gives = gives;
    }

    /// The function for an extended instruction; its set and its name are no longer operands then.
    fn extended(&mut self, operands: &mut Vec<Operand>) -> Result<String, Symbol> {
        let op = self.ast.symbols.intern("OpExtInst");
        if operands.len() < 2 {
            return Err(op);
        }
        let name = operands[1].word.ok_or(op)?;
        let set = operands[0].word.map(|word| self.ast.name(word).to_ascii_lowercase());
        let text = self.ast.name(name).to_owned();
        operands.drain(..2);
        if set.as_deref() != Some("glsl450") {
            return Err(op);
        }
        let special = EXTENDED.iter().find(|row| row.0 == text).map(|row| row.1.to_owned());
        let same = || SAME.split_whitespace().any(|same| same == text).then(|| text.to_ascii_lowercase());
        let function = special.or_else(same).ok_or(name)?;
        Ok(format!("{function}({})", letters(operands.len(), 0).join(", ")))
    }

    /// Parses an operand; `defines` is true for the result of an instruction.
    fn operand(&mut self, block: &mut Block, defines: bool) -> Option<Operand> {
        let start = self.span();
        let mut operand = Operand {
            tokens: Vec::new(),
            is_place: false,
            is_value: false,
            is_result: false,
            word: None,
            is_id: false,
            span: start,
        };
        match self.kind() {
            T::Percent => {
                self.bump();
                let word = *self.current();
                if !matches!(word.kind, T::Ident | T::Int) {
                    self.expected("the name of a result");
                    return None;
                }
                self.bump();
                operand.span = self.span_from(start);
                operand.word = Some(word.symbol);
                operand.is_id = true;
                let text = self.ast.name(word.symbol).to_owned();
                if defines {
                    block.ids.insert(word.symbol, operand.span);
                } else if !block.ids.contains_key(&word.symbol) {
                    self.error("E29105", operand.span, format!("`%{text}` is not defined in this block"));
                }
                operand.tokens = words(&mut self.ast.symbols, &id_name(&text), operand.span);
            }
            T::Dollar | T::Amp => {
                operand.is_place = self.bump().kind == T::Amp;
                let is_type = self.eat(T::Dollar);
                let from = self.pos();
                match self.kind() {
                    T::LParen => self.skip_brackets(),
                    T::Ident if is_type => {
                        let end = self.skip_type(from).unwrap_or(from + 1);
                        while self.pos() < end {
                            self.bump();
                        }
                    }
                    T::Ident | T::Int | T::Float => {
                        self.bump();
                        while matches!(self.kind(), T::Dot | T::ColonColon) && self.nth(1) == T::Ident {
                            self.bump();
                            self.bump();
                        }
                    }
                    _ => {
                        self.expected("a name");
                        return None;
                    }
                }
                operand.tokens = (from..self.pos()).map(|pos| *self.at(pos)).collect();
                operand.span = self.span_from(start);
            }
            T::Ident if self.is_word(kw::RESULT) => {
                self.bump();
                operand.is_result = true;
                if !defines {
                    self.error("E29102", start, "`result` is what the last instruction defines");
                    return None;
                }
            }
            // `builtin(SubgroupId:uint)`
            T::Ident if self.built_in().is_some() => {
                let call = self.built_in().unwrap_or_default();
                self.bump();
                self.skip_brackets();
                operand.span = self.span_from(start);
                operand.tokens = words(&mut self.ast.symbols, call, operand.span);
                operand.is_value = true;
            }
            // `glslang(…)` and the like have no meaning here.
            T::Ident if self.nth(1) == T::LParen => {
                block.unsupported = block.unsupported.or(Some(self.bump().symbol));
                self.skip_brackets();
            }
            T::Ident => {
                operand.word = Some(self.current().symbol);
                let number = self.named_number();
                operand.tokens = words(&mut self.ast.symbols, &number.unwrap_or(0).to_string(), start);
            }
            T::Int if self.nth(1) == T::Pipe => {
                let number = self.named_number();
                operand.tokens = words(&mut self.ast.symbols, &number.unwrap_or(0).to_string(), start);
            }
            T::Int | T::Float | T::String => {
                operand.tokens.push(self.bump());
            }
            T::Minus if matches!(self.nth(1), T::Int | T::Float) => {
                operand.tokens.push(self.bump());
                operand.tokens.push(self.bump());
            }
            _ => {
                block.unsupported = block.unsupported.or(Some(kw::SPIRV_ASM));
                return None;
            }
        }
        Some(operand)
    }

    /// The call that has the value of `builtin(SubgroupId:uint)`, if this is one that is known.
    fn built_in(&self) -> Option<&'static str> {
        if self.nth(1) != T::LParen || self.ast.name(self.current().symbol) != "builtin" {
            return None;
        }
        let name = self.ast.name(self.at(self.pos() + 2).symbol);
        BUILT_IN.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// `Acquire | 64`; `None` if a name stands for no number that is known here
    fn named_number(&mut self) -> Option<u32> {
        let mut sum = Some(0);
        loop {
            let token = self.bump();
            let text = self.ast.name(token.symbol);
            let number = match token.kind {
                T::Int => match text.strip_prefix("0x") {
                    Some(hex) => u32::from_str_radix(hex, 16).ok(),
                    None => text.parse().ok(),
                },
                _ => {
                    let bare =
                        text.strip_prefix("MemorySemantics").or(text.strip_prefix("Scope")).unwrap_or(text);
                    NUMBERS.iter().find(|row| row.0 == bare).map(|row| row.1)
                }
            };
            sum = sum.zip(number).map(|(a, b)| a | b);
            if !self.is(T::Pipe) || !matches!(self.nth(1), T::Ident | T::Int) {
                return sum;
            }
            self.bump();
        }
    }

    /// Skips to the end of an instruction.
    fn skip_to_semicolon(&mut self) {
        while !matches!(self.kind(), T::Semi | T::RBrace | T::Eof) {
            if matches!(self.kind(), T::LParen | T::LBrace | T::LBracket) {
                self.skip_brackets();
            } else {
                self.bump();
            }
        }
    }
}

/// The variable for a result.
fn id_name(name: &str) -> String {
    format!("__spirv_{name}")
}

/// The tokens of a text, all at one place.
fn words(symbols: &mut Symbols, text: &str, span: Span) -> Vec<Token> {
    let tokens = lex(symbols, span.file, text).tokens;
    tokens.into_iter().filter(|t| t.kind != T::Eof).map(|token| Token { span, flags: 0, ..token }).collect()
}

/// The names of operands in a template, from one of them on.
fn letters(n: usize, from: usize) -> Vec<String> {
    (from..n.min(15)).map(|k| char::from(b'A' + k as u8).to_string()).collect()
}

/// `[B][C]…`: all operands but the first, as indices
fn indices(n: usize) -> String {
    letters(n, 1).iter().map(|letter| format!("[{letter}]")).collect()
}

fn has_letter(template: &str, k: usize) -> bool {
    let wanted = char::from(b'A' + k as u8);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut parts = template.split(|c| !is_word(c));
    let place = k == 0;
    parts.any(|part| part.len() == 1 && (part.starts_with(wanted) || place && part == "P"))
}
