//! Parses expressions by precedence climbing. Chains of operators of the same level are parsed in a loop, so
//! a sum of a million terms needs no stack.

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::literal;
use crate::parser::Parser;
use crate::source::Span;
use crate::token::{Token, TokenKind as T};

/// The level of the binary operator that binds weakest.
const LOWEST: u8 = 1;
/// The level of `<` and the other comparisons, `is` and `as`.
const RELATIONAL: u8 = 7;
/// The level of `<<` and `>>`.
const SHIFT: u8 = 8;

/// The binary operator of a token and its level: a higher level binds tighter. `>>` is two tokens.
fn infix(kind: T) -> Option<(BinaryOp, u8)> {
    Some(match kind {
        T::OrOr => (BinaryOp::Or, LOWEST),
        T::AndAnd => (BinaryOp::And, 2),
        T::Pipe => (BinaryOp::BitOr, 3),
        T::Caret => (BinaryOp::BitXor, 4),
        T::Amp => (BinaryOp::BitAnd, 5),
        T::EqEq => (BinaryOp::Eq, 6),
        T::Ne => (BinaryOp::Ne, 6),
        T::Lt => (BinaryOp::Lt, RELATIONAL),
        T::Le => (BinaryOp::Le, RELATIONAL),
        T::Gt => (BinaryOp::Gt, RELATIONAL),
        T::Ge => (BinaryOp::Ge, RELATIONAL),
        T::Shl => (BinaryOp::Shl, SHIFT),
        T::Plus => (BinaryOp::Add, 9),
        T::Minus => (BinaryOp::Sub, 9),
        T::Star => (BinaryOp::Mul, 10),
        T::Slash => (BinaryOp::Div, 10),
        T::Percent => (BinaryOp::Rem, 10),
        _ => return None,
    })
}

impl Parser<'_> {
    /// `a, b`
    pub(crate) fn comma_expr(&mut self) -> ExprId {
        let start = self.span();
        let mut left = self.any_expr();
        while self.eat(T::Comma) {
            let right = self.any_expr();
            left = self.expr(start, ExprKind::Binary(BinaryOp::Comma, left, right));
        }
        left
    }

    /// Parses an expression without a comma operator: assignments and everything that binds tighter.
    pub(crate) fn any_expr(&mut self) -> ExprId {
        self.nested(|p| {
            let start = p.span();
            let left = p.ternary_expr();
            let op = match p.kind() {
                T::Eq if !p.in_angle => None,
                T::PlusEq => Some(BinaryOp::Add),
                T::MinusEq => Some(BinaryOp::Sub),
                T::StarEq => Some(BinaryOp::Mul),
                T::SlashEq => Some(BinaryOp::Div),
                T::PercentEq => Some(BinaryOp::Rem),
                T::AmpEq => Some(BinaryOp::BitAnd),
                T::PipeEq => Some(BinaryOp::BitOr),
                T::CaretEq => Some(BinaryOp::BitXor),
                T::ShlEq => Some(BinaryOp::Shl),
                T::ShrEq if !p.in_angle => Some(BinaryOp::Shr),
                _ => return left,
            };
            p.bump();
            let right = p.any_expr();
            p.expr(start, ExprKind::Assign(op, left, right))
        })
    }

    /// Parses an expression without assignment, such as the value of a `case`.
    pub(crate) fn ternary_expr(&mut self) -> ExprId {
        let start = self.span();
        let cond = self.binary_expr(LOWEST);
        if !self.is(T::Question) {
            return cond;
        }
        if !self.enter() {
            return cond;
        }
        self.bump();
        let then = self.without_try(|p| p.bracketed(Self::any_expr));
        self.expect(T::Colon);
        let otherwise = self.without_try(Self::any_expr);
        self.leave();
        self.expr(start, ExprKind::Ternary(cond, then, otherwise))
    }

    /// Parses a part of an expression that may not be evaluated, or more than once: a `try` cannot run before
    /// it.
    pub(crate) fn without_try<R>(&mut self, part: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.tries.len();
        let result = part(self);
        if let Some(&span) = self.tries.get(before) {
            self.error("E0014", span, "`try` is not allowed here: move the call to a statement of its own");
            self.tries.truncate(before);
        }
        result
    }

    /// Parses a generic argument: binary operators and `c ? a : b`.
    pub(crate) fn conditional_operand(&mut self) -> ExprId {
        self.nested(Self::ternary_expr)
    }

    /// Parses one side of a `where` constraint, which contains no comparison.
    pub(crate) fn constraint_side(&mut self) -> ExprId {
        self.nested(|p| {
            let outer = std::mem::replace(&mut p.in_constraint, true);
            let expr = p.binary_expr(RELATIONAL + 1);
            p.in_constraint = outer;
            expr
        })
    }

    /// The binary operator that starts here, its level and the number of its tokens.
    fn binary_op(&self) -> Option<(BinaryOp, u8, usize)> {
        let next = self.at(self.pos() + 1);
        match self.kind() {
            T::Gt | T::Ge if self.in_angle => None,
            T::Gt if next.kind == T::Gt && next.joined() => Some((BinaryOp::Shr, SHIFT, 2)),
            kind => infix(kind).map(|(op, level)| (op, level, 1)),
        }
    }

    fn binary_expr(&mut self, min: u8) -> ExprId {
        let start = self.span();
        let mut left = self.unary_expr();
        loop {
            if self.kind() == T::Ident {
                let is = match self.word() {
                    kw::IS => true,
                    kw::AS => false,
                    _ => return left,
                };
                if min > RELATIONAL {
                    return left;
                }
                self.bump();
                let ty = self.ty();
                let kind = if is { ExprKind::Is(left, ty) } else { ExprKind::As(left, ty) };
                left = self.expr(start, kind);
                continue;
            }
            if self.is(T::Star)
                && let Some(stars) = self.pointer_stars()
            {
                for _ in 0..stars {
                    self.bump();
                    left = self.expr(start, ExprKind::Pointer(left));
                }
                continue;
            }
            let Some((op, precedence, length)) = self.binary_op() else { return left };
            if precedence < min {
                return left;
            }
            for _ in 0..length {
                self.bump();
            }
            let right = match op {
                BinaryOp::And | BinaryOp::Or => self.without_try(|p| p.binary_expr(precedence + 1)),
                _ => self.binary_expr(precedence + 1),
            };
            left = self.expr(start, ExprKind::Binary(op, left, right));
        }
    }

    /// Returns the number of stars if no operand follows them, so that they make a pointer type:
    /// `sizeof(T*)`, `A<T*>`.
    fn pointer_stars(&self) -> Option<usize> {
        let mut stars = 1;
        while self.nth(stars) == T::Star {
            stars += 1;
        }
        let ends = match self.nth(stars) {
            T::RParen | T::RBracket | T::RBrace | T::Comma | T::Semi => true,
            T::Gt => self.in_angle,
            _ => false,
        };
        ends.then_some(stars)
    }

    fn unary_expr(&mut self) -> ExprId {
        let start = self.span();
        let op = match self.kind() {
            T::Plus => UnaryOp::Plus,
            T::Minus => UnaryOp::Neg,
            T::Bang => UnaryOp::Not,
            T::Tilde => UnaryOp::BitNot,
            T::PlusPlus => UnaryOp::PreInc,
            T::MinusMinus => UnaryOp::PreDec,
            T::Star => UnaryOp::Deref,
            T::Amp => UnaryOp::AddressOf,
            T::LParen if self.cast_follows() => return self.nested(Self::cast),
            T::Ident if self.word_starts_operand() => match self.word() {
                kw::NO_DIFF => {
                    self.bump();
                    let inner = self.nested(Self::unary_expr);
                    return self.expr(start, ExprKind::NoDiff(inner));
                }
                kw::EACH => {
                    self.bump();
                    let inner = self.nested(Self::postfix_expr);
                    return self.expr(start, ExprKind::Each(inner));
                }
                kw::EXPAND => {
                    self.bump();
                    let inner = self.any_expr();
                    return self.expr(start, ExprKind::Expand(inner));
                }
                kw::TRY => {
                    let word = self.bump().span;
                    let call = self.nested(Self::unary_expr);
                    self.tries.push(word);
                    self.ast.has_try = true;
                    return self.expr_at(word, ExprKind::Try(call));
                }
                kw::NEW => {
                    self.bump();
                    self.nested(Self::postfix_expr);
                    return self.expr(start, ExprKind::Opaque(kw::NEW));
                }
                _ => return self.postfix_expr(),
            },
            _ => return self.postfix_expr(),
        };
        self.bump();
        let digits = (op == UnaryOp::Neg && self.kind() == T::Int).then(|| self.current().symbol);
        let inner = self.nested(Self::unary_expr);
        // The magnitude of a type's minimum exceeds its maximum, so the literal gets its type here.
        let least = match digits.map(|d| self.ast.name(d)) {
            Some("2147483648") => Some(kw::EMPTY),
            Some("9223372036854775808") => Some(kw::LL),
            _ => None,
        };
        if let (Some(least), &ExprKind::Int { value, .. }) = (least, &self.ast.exprs[inner].kind) {
            self.ast.exprs[inner].kind = ExprKind::Int { value, suffix: least };
        }
        self.expr(start, ExprKind::Unary(op, inner))
    }

    /// Returns true if the token after the current word can only start its operand: then the word is a
    /// prefix, not a name.
    fn word_starts_operand(&self) -> bool {
        match self.nth(1) {
            T::Ident => !matches!(self.word_at(self.pos() + 1), kw::IS | kw::AS),
            T::Int | T::Float | T::String | T::Char | T::LParen | T::LBrace => true,
            T::Bang | T::Tilde | T::ColonColon => true,
            T::Minus | T::Plus => self.is_word(kw::NO_DIFF),
            _ => false,
        }
    }

    /// Parses a part one level of nesting deeper.
    fn nested(&mut self, part: impl FnOnce(&mut Self) -> ExprId) -> ExprId {
        if !self.enter() {
            let span = self.span();
            return self.expr_at(span, ExprKind::Error);
        }
        let expr = part(self);
        self.leave();
        expr
    }

    /// Returns true if the parenthesis here holds the type of a cast. `(Name)(x)` is a cast only if the name
    /// is known to be a type; otherwise it is left to the checker as a call.
    fn cast_follows(&mut self) -> bool {
        let open = self.pos();
        let Some(close) = self.partner(open) else { return false };
        if self.at(open + 1).kind != T::Ident || self.skip_type(open + 1) != Some(close) {
            return false;
        }
        let first = self.word_at(open + 1);
        if first == kw::EACH && !self.is_known_type(self.word_at(open + 2)) {
            // In `(each x) + 1`, the parentheses hold an element, not a type.
            return false;
        }
        let known = self.is_builtin_type(first)
            || self.is_type_modifier(first)
            || (self.is_known_type(first)
                && (!matches!(self.at(open + 2).kind, T::Dot | T::ColonColon)
                    || self.is_known_type(self.word_at(close - 1))));
        let shaped = known || matches!(self.at(close - 1).kind, T::Star | T::Gt);
        match self.at(close + 1).kind {
            T::Ident => !matches!(self.word_at(close + 1), kw::IS | kw::AS | kw::WHERE),
            T::Int | T::Float | T::String | T::Char | T::Bang | T::Tilde => true,
            T::LParen | T::LBrace => shaped,
            T::Plus | T::Minus | T::PlusPlus | T::MinusMinus => known,
            T::Star | T::Amp => known || self.at(close - 1).kind == T::Star,
            _ => false,
        }
    }

    fn cast(&mut self) -> ExprId {
        let start = self.bump().span;
        let ty = self.bracketed(Self::ty);
        self.expect_close(T::RParen, start);
        let inner = self.unary_expr();
        self.expr(start, ExprKind::Cast(ty, inner))
    }

    /// `float`, `float3`, `float4x4`, `uint16_t`, `vector`, …
    fn is_builtin_type(&self, name: Symbol) -> bool {
        match name {
            kw::VOID | kw::BOOL | kw::INT | kw::UINT | kw::FLOAT | kw::HALF | kw::DOUBLE => true,
            kw::VECTOR | kw::MATRIX | kw::UNSIGNED | kw::THIS_TYPE => true,
            _ => {
                let text = self.ast.name(name);
                let stem = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'x');
                let stem = stem.strip_suffix("_t").unwrap_or(stem);
                let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
                text.len() > stem.len()
                    && matches!(
                        stem,
                        "float" | "int" | "uint" | "bool" | "half" | "double" | "intptr" | "uintptr"
                    )
            }
        }
    }

    fn postfix_expr(&mut self) -> ExprId {
        let start = self.span();
        let mut base = self.primary_expr();
        loop {
            let kind = match self.kind() {
                T::Dot | T::Arrow => {
                    let arrow = self.bump().kind == T::Arrow;
                    let (name, name_span) = self.member_name();
                    ExprKind::Member { base, name, name_span, arrow }
                }
                T::ColonColon => {
                    self.bump();
                    let (name, name_span) = self.member_name();
                    ExprKind::Static { base, name, name_span }
                }
                T::LBracket => ExprKind::Index { base, args: self.index_args() },
                T::LParen => ExprKind::Call { callee: base, args: self.call_args() },
                T::Lt if self.generic_follows(base) => ExprKind::Generic { base, args: self.generic_args() },
                T::PlusPlus | T::MinusMinus => {
                    let increment = self.bump().kind == T::PlusPlus;
                    ExprKind::Postfix(increment, base)
                }
                T::LBrace if !self.in_constraint && self.names_type(base) => {
                    ExprKind::TypedList(base, self.init_list())
                }
                _ => return base,
            };
            base = self.expr(start, kind);
        }
    }

    /// Returns true if an expression can only be a type, judging by its text.
    fn names_type(&self, expr: ExprId) -> bool {
        match self.ast.exprs[expr].kind {
            ExprKind::Generic { .. } | ExprKind::ThisType => true,
            ExprKind::Name(name) | ExprKind::Member { name, .. } | ExprKind::Static { name, .. } => {
                self.is_builtin_type(name) || self.is_known_type(name)
            }
            _ => false,
        }
    }

    fn member_name(&mut self) -> (Symbol, Span) {
        if self.is_word(kw::OPERATOR) {
            let start = self.bump().span;
            let name = self.operator_name();
            return (name, self.span_from(start));
        }
        self.expect_name("a member's name")
    }

    /// `(a, b)`, at its parenthesis
    pub(crate) fn call_args(&mut self) -> Vec<ExprId> {
        let close = self.partner(self.pos());
        let open = self.bump().span;
        let args = self.bracketed(|p| p.arg_list(T::RParen));
        if !self.expect_list_end(T::RParen, open)
            && let Some(close) = close.filter(|&close| close > self.pos())
        {
            self.rewind(close + 1);
        }
        args
    }

    /// Parses arguments up to `close`; a trailing comma is allowed.
    pub(crate) fn arg_list(&mut self, close: T) -> Vec<ExprId> {
        self.separated(|kind| kind == close || kind == T::Semi, Self::any_expr)
    }

    /// Returns true if the `<` after `base` opens generic arguments: a list that closes, followed by a token
    /// that no operand starts with.
    fn generic_follows(&mut self, base: ExprId) -> bool {
        let named = matches!(
            self.ast.exprs[base].kind,
            ExprKind::Name(_)
                | ExprKind::GlobalName(_)
                | ExprKind::Member { .. }
                | ExprKind::Static { .. }
                | ExprKind::OperatorName(_)
        );
        if !named {
            return false;
        }
        let Some(close) = self.angle_close(self.pos()) else { return false };
        let next = self.at(close + 1).kind;
        match next {
            T::ColonColon | T::Dot | T::LParen | T::RParen | T::LBracket | T::RBracket => true,
            T::Colon | T::Comma | T::Question | T::Semi | T::EqEq | T::Ne | T::Eof => true,
            // `a < b >> c` shifts.
            T::Gt => self.in_angle || !self.at(close + 1).joined(),
            T::LBrace | T::RBrace | T::AndAnd | T::OrOr => true,
            T::Star | T::Amp => self.in_angle,
            _ => false,
        }
    }

    fn primary_expr(&mut self) -> ExprId {
        let start = self.span();
        let kind = match self.kind() {
            T::Int => self.int(),
            T::Float => self.float(),
            T::String => self.string(),
            T::Char => self.char(),
            T::LBrace => return self.init_list(),
            T::LParen => {
                let close = self.partner(self.pos());
                if close.is_some_and(|c| self.at(c + 1).kind == T::FatArrow) {
                    return self.lambda();
                }
                self.bump();
                if self.ast.tuple_files.contains(&start.file) {
                    return self.parenthesis_or_tuple(start);
                }
                let inner = self.bracketed(Self::comma_expr);
                self.expect_close(T::RParen, start);
                ExprKind::Paren(inner)
            }
            T::ColonColon if self.nth(1) == T::Ident => {
                self.bump();
                ExprKind::GlobalName(self.bump().symbol)
            }
            T::Ident => return self.word_expr(),
            _ => {
                self.expected("an expression");
                return self.expr_at(start, ExprKind::Error);
            }
        };
        self.expr(start, kind)
    }

    /// `(a)` or `(a, b)`, after its parenthesis: a tuple is a call of `makeTuple`.
    fn parenthesis_or_tuple(&mut self, start: Span) -> ExprId {
        let first = self.bracketed(Self::any_expr);
        if !self.is(T::Comma) {
            self.expect_close(T::RParen, start);
            return self.expr(start, ExprKind::Paren(first));
        }
        self.bump();
        let mut args = vec![first];
        args.extend(self.bracketed(|p| p.arg_list(T::RParen)));
        self.expect_close(T::RParen, start);
        let make = self.ast.symbols.intern("makeTuple");
        let callee = self.expr(start, ExprKind::Name(make));
        self.expr(start, ExprKind::Call { callee, args })
    }

    fn word_expr(&mut self) -> ExprId {
        let start = self.span();
        let word = self.word();
        let called = self.nth(1) == T::LParen;
        let kind = match word {
            kw::FWD_DIFF | kw::FWD_DIFF_OLD if called => {
                ExprKind::Derivative(DiffOp::Fwd, self.operator_operand())
            }
            kw::BWD_DIFF | kw::BWD_DIFF_OLD if called => {
                ExprKind::Derivative(DiffOp::Bwd, self.operator_operand())
            }
            kw::APPLY if called => ExprKind::Derivative(DiffOp::Apply, self.operator_operand()),
            kw::LINEARIZE if called => ExprKind::Derivative(DiffOp::Linearize, self.operator_operand()),
            kw::DECISIONS if called => ExprKind::Derivative(DiffOp::Decisions, self.operator_operand()),
            kw::GET_ADDRESS if called => ExprKind::Unary(UnaryOp::GetAddress, self.operator_operand()),
            kw::SIZEOF if called => self.size_of(SizeOfKind::SizeOf),
            kw::ALIGNOF if called => self.size_of(SizeOfKind::AlignOf),
            kw::COUNTOF if called => self.size_of(SizeOfKind::CountOf),
            kw::SPIRV_ASM if self.nth(1) == T::LBrace => self.spirv_expression(),
            kw::FUNCTYPE if called => return self.ty(),
            _ if called && Self::is_pack_query(word) => return self.pack_query(),
            kw::IF | kw::ELSE | kw::FOR | kw::WHILE | kw::RETURN | kw::SWITCH | kw::CASE | kw::STRUCT => {
                self.expected("an expression");
                return self.expr_at(start, ExprKind::Error);
            }
            _ => {
                self.bump();
                match word {
                    kw::TRUE => ExprKind::Bool(true),
                    kw::FALSE => ExprKind::Bool(false),
                    kw::NONE => ExprKind::None,
                    kw::NULLPTR => ExprKind::NullPtr,
                    kw::THIS => ExprKind::This,
                    kw::THIS_TYPE => ExprKind::ThisType,
                    kw::OPERATOR => ExprKind::OperatorName(self.operator_name()),
                    kw::UNSIGNED if self.eat_word(kw::INT) => ExprKind::Name(kw::UINT),
                    _ => ExprKind::Name(word),
                }
            }
        };
        self.expr(start, kind)
    }

    /// `op(e)`: the function or type in parentheses
    fn operator_operand(&mut self) -> ExprId {
        self.operands_of_operator().0
    }

    /// `sizeof(T)`, `sizeof(T, L)`
    fn size_of(&mut self, kind: SizeOfKind) -> ExprKind {
        let (inner, layout) = self.operands_of_operator();
        ExprKind::SizeOf(kind, inner, layout)
    }

    fn operands_of_operator(&mut self) -> (ExprId, Option<ExprId>) {
        self.bump();
        let open = self.bump().span;
        let modifier = self.is_type_modifier(self.word()) && !matches!(self.word(), kw::EXPAND | kw::EACH);
        let inner = self.bracketed(|p| if modifier { p.ty() } else { p.any_expr() });
        let second = self.eat(T::Comma).then(|| self.bracketed(Self::any_expr));
        self.expect_close(T::RParen, open);
        (inner, second)
    }

    /// Returns true for the words of operators on packs, which may denote types.
    pub(crate) fn is_pack_query(word: Symbol) -> bool {
        matches!(
            word,
            kw::FIRST_OF_PACK
                | kw::LAST_OF_PACK
                | kw::TRIM_FIRST
                | kw::TRIM_LAST
                | kw::PACK_BRANCH
                | kw::SHAPE_PERMUTE
                | kw::SHAPE_REDUCE
                | kw::SHAPE_CONCAT
                | kw::SHAPE_SWAP
        )
    }

    /// `__first(pack)`, `__packBranch(pack, A, B)`, at the word
    pub(crate) fn pack_query(&mut self) -> ExprId {
        let start = self.span();
        let shape = match self.word() {
            kw::SHAPE_PERMUTE => Some(ShapeOp::Permute),
            kw::SHAPE_REDUCE => Some(ShapeOp::Reduce),
            kw::SHAPE_CONCAT => Some(ShapeOp::Concat),
            kw::SHAPE_SWAP => Some(ShapeOp::Swap),
            _ => None,
        };
        if let Some(op) = shape {
            self.bump();
            let args = self.call_args();
            return self.expr(start, ExprKind::Shape(op, args));
        }
        let part = match self.word() {
            kw::FIRST_OF_PACK => PackPart::First,
            kw::LAST_OF_PACK => PackPart::Last,
            kw::TRIM_FIRST => PackPart::TrimFirst,
            kw::TRIM_LAST => PackPart::TrimLast,
            _ => {
                self.bump();
                let args = self.call_args();
                let Ok(parts) = <[ExprId; 3]>::try_from(args) else {
                    let message =
                        "`__packBranch` takes a pack, the type for an empty pack, and the type for others";
                    self.error("E0001", start, message);
                    return self.expr(start, ExprKind::Error);
                };
                return self.expr(start, ExprKind::PackBranch(parts));
            }
        };
        let inner = self.operator_operand();
        self.expr(start, ExprKind::PackPart(part, inner))
    }

    /// Parses the operator after `operator` and returns a name such as `operator+`.
    pub(crate) fn operator_name(&mut self) -> Symbol {
        if self.is(T::Shl) && self.nth(1) == T::Ident {
            // `operator <<T>(…)` is `operator<` with generic parameters.
            self.use_half_shift();
            return self.ast.symbols.intern("operator<");
        }
        let pair = match self.kind() {
            T::LParen => Some(("()", T::RParen)),
            T::LBracket => Some(("[]", T::RBracket)),
            T::Gt if self.nth(1) == T::Gt && self.at(self.pos() + 1).joined() => Some((">>", T::Gt)),
            T::Question => Some(("?:", T::Colon)),
            _ => None,
        };
        let text = if let Some((text, second)) = pair {
            self.bump();
            self.expect(second);
            text
        } else {
            match self.kind() {
                T::Plus | T::Minus | T::Star | T::Slash | T::Percent | T::Amp | T::Pipe | T::Caret => {}
                T::Tilde | T::Bang | T::Shl | T::Lt | T::Gt | T::Le | T::Ge | T::EqEq | T::Ne => {}
                T::AndAnd | T::OrOr | T::PlusPlus | T::MinusMinus | T::Eq | T::Comma => {}
                T::PlusEq | T::MinusEq | T::StarEq | T::SlashEq | T::PercentEq => {}
                T::AmpEq | T::PipeEq | T::CaretEq | T::ShlEq | T::ShrEq => {}
                _ => {
                    self.expected("an operator");
                    return kw::OPERATOR;
                }
            }
            self.bump().kind.text()
        };
        self.ast.symbols.intern(&format!("operator{text}"))
    }

    /// `{a, b}`
    fn init_list(&mut self) -> ExprId {
        let start = self.bump().span;
        let items = self.bracketed(|p| p.arg_list(T::RBrace));
        if !self.expect_list_end(T::RBrace, start) && self.is(T::Semi) && self.nth(1) == T::RBrace {
            self.bump();
            self.bump();
        }
        self.expr(start, ExprKind::InitList(items))
    }

    /// `(int x) => e`, `(int x) => { … }`
    fn lambda(&mut self) -> ExprId {
        let start = self.span();
        let id = self.new_decl(start);
        let outer_labels = std::mem::take(&mut self.labels);
        let (params, body) = self.inside(id, |p| {
            p.bracketed(|p| {
                let params = p.params(id);
                let arrow = p.bump().span;
                let body = if p.is(T::LBrace) {
                    p.statement()
                } else {
                    let value = p.any_expr();
                    p.stmt(arrow, StmtKind::Return(Some(value)))
                };
                (params, body)
            })
        });
        self.labels = outer_labels;
        self.complete(id, start, DeclKind::Func { params, result: None, body: Some(body) });
        self.expr(start, ExprKind::Lambda(id))
    }

    // Literals.

    fn int(&mut self) -> ExprKind {
        let token = self.bump();
        let text = self.ast.name(token.symbol);
        let (value, suffix) = match literal::int_value(text) {
            Some((value, suffix)) => (
                value,
                literal::int_suffix(suffix).map(|s| literal::int_type(value, text.starts_with('0'), s)),
            ),
            None => return self.bad_number(token.span, "is not an integer of 64 bits"),
        };
        let is_unsigned = text.contains(['u', 'U']);
        let is_least = text.trim_end_matches(char::is_alphabetic) == "9223372036854775808"
            && self.pos() > 1
            && self.at(self.pos() - 2).kind == T::Minus;
        if value > i64::MAX as u64 && !text.starts_with('0') && !is_unsigned && !is_least {
            let message = "this number exceeds the signed types, so it is unsigned";
            let warning = Diagnostic::warning("E40004", token.span, message);
            self.warn(warning.help("say so by a suffix: `ull`"));
        }
        match suffix {
            Some(suffix) => ExprKind::Int { value, suffix },
            None => self.bad_number(token.span, "has an unknown suffix"),
        }
    }

    fn float(&mut self) -> ExprKind {
        let token = self.bump();
        match literal::float_value(self.ast.name(token.symbol)) {
            Some((value, suffix)) => {
                self.check_float(token);
                ExprKind::Float { value, suffix }
            }
            None => self.bad_number(token.span, "is malformed or has an unknown suffix"),
        }
    }

    /// Warns of a floating-point literal that is not what its type makes of it.
    fn check_float(&mut self, token: Token) {
        let text = self.ast.name(token.symbol);
        let Some((loss, ty)) = literal::float_loss(text) else { return };
        let (code, message) = match loss {
            literal::Loss::Range => {
                ("E40009", format!("`{text}` exceeds the range of `{ty}`: it becomes infinite"))
            }
            literal::Loss::Everything => {
                ("E40010", format!("`{text}` is smaller than any `{ty}`: it becomes 0"))
            }
            literal::Loss::Digits => {
                ("E40019", format!("`{text}` has more digits than a `{ty}`: it is rounded"))
            }
        };
        let wider = match ty {
            "half" => Some("a number with the suffix `f` is a `float`"),
            "float" => Some("a number with the suffix `lf` is a `double`"),
            _ => None,
        };
        let warning = Diagnostic::warning(code, token.span, message);
        self.warn(warning.help_if(wider));
    }

    fn bad_number(&mut self, span: Span, why: &str) -> ExprKind {
        let text = self.ast.name(self.at(self.pos() - 1).symbol).to_owned();
        self.error("E0006", span, format!("number `{text}` {why}"));
        ExprKind::Error
    }

    fn string(&mut self) -> ExprKind {
        ExprKind::String(self.string_text())
    }

    /// Parses a string literal, joining adjacent ones.
    pub(crate) fn string_text(&mut self) -> String {
        let mut text = String::new();
        while self.is(T::String) {
            let token = self.bump();
            match literal::unescape(self.ast.name(token.symbol)) {
                Some(part) => text.push_str(&part),
                None => self.error("E0011", token.span, "unknown escape in this string"),
            }
        }
        text
    }

    /// A character literal is an integer: its code point.
    fn char(&mut self) -> ExprKind {
        let token = self.bump();
        match literal::char_value(self.ast.name(token.symbol)) {
            Some(value) => ExprKind::Int { value, suffix: kw::EMPTY },
            None => {
                self.error("E0011", token.span, "expected one character between the quotes");
                ExprKind::Error
            }
        }
    }
}
