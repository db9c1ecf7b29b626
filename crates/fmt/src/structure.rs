//! A light parse of the pieces: what each bracket is, where statements begin and end, what each operator means.
//!
//! It needs no grammar of expressions or declarations, so it works in macros, in files that do not parse, and before
//! preprocessing. Where the text could be read in two ways, the piece has a role that keeps the spaces of the source.

use syntax::token::TokenKind as T;

use crate::branches::Branches;
use crate::pieces::Piece;

/// The role of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// An operator before its operand.
    Prefix,
    /// `++` or `--` after its operand.
    Postfix,
    /// An operator between two operands, or an assignment.
    Binary,
    /// An operator or a part of a type: spaces are kept.
    Either,
    /// `<` and `>` around generic parameters or arguments.
    Angle,
    /// A part of the name of an operator: `+` of `operator+`.
    Name,
    /// `:` after a label.
    Label,
    /// `?` and `:` of a conditional expression.
    Choice,
    /// The brackets of an attribute.
    Attribute,
    /// `)` of the header of a control statement.
    Header,
    /// `)` that ends a type in a cast.
    Cast,
}

/// The content of a pair of braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Braces {
    /// The body of a control statement.
    Control,
    /// The body of a `switch`.
    Switch,
    /// The body of a function, a type or a namespace.
    Definition,
    Namespace,
    Enum,
    /// Statements that have no header.
    Free,
    /// The elements of a value.
    Values,
}

/// The facts about a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) role: Role,
    /// The other bracket.
    pub(crate) partner: Option<usize>,
    pub(crate) braces: Option<Braces>,
    /// The piece begins a statement, or follows the attributes of one.
    pub(crate) starts: bool,
    /// The piece ends a statement, a label or an enumerator.
    pub(crate) ends: bool,
    /// The header of a control statement ends here: its body follows.
    pub(crate) heads: bool,
}

/// The kind of a statement, by its first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    None,
    Control,
    Switch,
    Type,
    Namespace,
    Enum,
    Label,
}

#[derive(Clone, Debug)]
struct Open {
    at: usize,
    /// A block, whose content is statements.
    is_block: bool,
    is_enum: bool,
    /// The next token begins a statement.
    fresh: bool,
    head: Head,
    /// The parenthesis that opens next is the header of a control statement.
    header: bool,
    /// Conditional expressions whose `:` is to come.
    choices: u32,
}

impl Open {
    fn block(at: usize) -> Open {
        let (is_block, fresh) = (true, true);
        Open { at, is_block, is_enum: false, fresh, head: Head::None, header: false, choices: 0 }
    }

    fn end(&mut self) {
        (self.fresh, self.head, self.header, self.choices) = (true, Head::None, false, 0);
    }
}

const CONTROL: &[&str] = &["if", "for", "while", "switch", "catch", "__target_switch", "__stage_switch"];
const STATEMENTS: &[&str] = &[
    "if", "for", "while", "switch", "do", "return", "break", "continue", "case", "default", "struct",
    "discard", "defer",
];
/// Words after which an expression or a type begins.
const BEFORE_OPERANDS: &[&str] = &[
    "return", "case", "else", "do", "in", "throw", "yield", "is", "as", "where", "defer", "expand", "each",
    "public", "private", "internal", "static", "const", "inline", "extern", "uniform", "out", "inout", "ref",
    "typedef",
];

/// Returns true if an expression or a type may follow the word, but not an operator.
pub(crate) fn is_before_operand(word: &str) -> bool {
    BEFORE_OPERANDS.contains(&word)
}

/// Returns true if the parenthesis after the word is the header of a control statement.
pub(crate) fn is_control(word: &str) -> bool {
    CONTROL.contains(&word)
}

/// Returns true for the names of numeric types: `float`, `int3`, `half2x2`.
fn is_numeric(word: &str) -> bool {
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'x');
    const STEMS: &[&str] =
        &["float", "int", "uint", "half", "double", "bool", "void", "float32_t", "int64_t", "uint8_t"];
    STEMS.contains(&stem) || STEMS.contains(&word) || stem.ends_with("_t")
}

/// Parses the pieces.
pub(crate) fn parse(pieces: &[Piece]) -> Vec<Mark> {
    let plain =
        Mark { role: Role::Plain, partner: None, braces: None, starts: false, ends: false, heads: false };
    let marks = vec![plain; pieces.len()];
    let mut parser = Parser { pieces, marks, stack: vec![Open::block(usize::MAX)], previous: None };
    let mut branches = Branches::default();
    for (at, piece) in pieces.iter().enumerate() {
        if let Some(name) = piece.directive() {
            branches.directive(name, &mut parser.stack);
        } else if let Some(kind) = piece.token() {
            parser.token(at, kind);
            parser.previous = Some(at);
        }
    }
    parser.marks
}

struct Parser<'a> {
    pieces: &'a [Piece<'a>],
    marks: Vec<Mark>,
    stack: Vec<Open>,
    /// The last token.
    previous: Option<usize>,
}

impl Parser<'_> {
    fn top(&mut self) -> &mut Open {
        if self.stack.is_empty() {
            self.stack.push(Open::block(usize::MAX));
        }
        self.stack.last_mut().expect("one is there")
    }

    fn previous_kind(&self) -> Option<T> {
        self.previous.and_then(|p| self.pieces[p].token())
    }

    fn previous_role(&self) -> Role {
        self.previous.map_or(Role::Plain, |p| self.marks[p].role)
    }

    /// The next token after a piece.
    fn next(&self, at: usize) -> Option<usize> {
        (at + 1..self.pieces.len()).find(|&k| self.pieces[k].is_token())
    }

    /// Returns true if the last token ends an operand.
    fn after_operand(&self) -> bool {
        let Some(p) = self.previous else { return false };
        let mark = self.marks[p];
        match self.pieces[p].token() {
            Some(T::Ident) => !is_before_operand(self.pieces[p].text),
            Some(T::Int | T::Float | T::String | T::Char | T::BadString) => true,
            Some(T::RParen) => !matches!(mark.role, Role::Header | Role::Cast),
            Some(T::RBracket) => mark.role != Role::Attribute,
            Some(T::RBrace) => mark.braces == Some(Braces::Values),
            Some(T::Gt) => mark.role == Role::Angle,
            Some(T::PlusPlus | T::MinusMinus) => mark.role == Role::Postfix,
            _ => false,
        }
    }

    fn token(&mut self, at: usize, kind: T) {
        self.begin(at, kind);
        match kind {
            T::Ident => self.word(at),
            T::LParen => {
                let is_name = self.names_operator(at);
                let header = self.top().is_block && std::mem::take(&mut self.top().header) && !is_name;
                let mut open = Open { is_block: false, fresh: false, ..Open::block(at) };
                open.header = header;
                self.stack.push(open);
            }
            T::LBracket => {
                let is_attribute = self.is_attribute(at);
                if is_attribute {
                    self.marks[at].role = Role::Attribute;
                }
                self.stack.push(Open { is_block: false, fresh: false, ..Open::block(at) });
            }
            T::LBrace => self.open_brace(at),
            T::RParen | T::RBracket | T::RBrace => self.close(at, kind),
            T::Semi => {
                let top = self.top();
                top.choices = 0;
                if top.is_block {
                    top.end();
                    self.marks[at].ends = true;
                }
            }
            T::Comma => {
                let top = self.top();
                top.choices = 0;
                if top.is_enum {
                    top.end();
                    self.marks[at].ends = true;
                }
            }
            T::Question => {
                if self.marks[at].role != Role::Name && self.is_choice(at) {
                    self.marks[at].role = Role::Choice;
                    self.top().choices += 1;
                } else if self.marks[at].role != Role::Name {
                    self.marks[at].role = Role::Either;
                }
            }
            T::Colon => self.colon(at),
            _ if self.marks[at].role == Role::Plain => {
                let role = self.operator(at, kind);
                self.marks[at].role = role;
            }
            _ => {}
        }
    }

    /// Begins a statement if none has begun.
    fn begin(&mut self, at: usize, kind: T) {
        let is_line = self.pieces[at].newlines > 0;
        let word = if kind == T::Ident { self.pieces[at].text } else { "" };
        let after_dollar = self.previous_kind() == Some(T::Dollar);
        let top = self.top();
        if !top.is_block || kind == T::RBrace {
            return;
        }
        let is_recovered =
            is_line && STATEMENTS.contains(&word) && top.head == Head::None && word != "struct";
        if top.fresh || is_recovered {
            self.marks[at].starts = true;
            let top = self.top();
            top.head = Head::None;
            top.fresh = false;
        }
        let started = self.marks[at].starts || after_dollar;
        self.marks[at].heads = started && matches!(word, "else" | "do");
        let top = self.top();
        if started {
            match word {
                "else" | "do" => (top.fresh, top.head) = (true, Head::Control),
                "switch" | "__target_switch" | "__stage_switch" => {
                    (top.head, top.header) = (Head::Switch, word == "switch")
                }
                "case" | "default" => top.head = Head::Label,
                _ if is_control(word) => (top.head, top.header) = (Head::Control, true),
                _ => {}
            }
        }
        if top.head == Head::None {
            top.head = match word {
                "struct" | "class" | "union" | "interface" | "extension" | "cbuffer" | "tbuffer" => {
                    Head::Type
                }
                "namespace" => Head::Namespace,
                "enum" => Head::Enum,
                _ => Head::None,
            };
        }
    }

    /// Marks the pieces of an operator's name: those after `operator`, up to the parameters.
    fn word(&mut self, at: usize) {
        if self.pieces[at].text != "operator" {
            return;
        }
        let kind = |k: usize| self.pieces.get(k).and_then(Piece::token);
        let (Some(first), second) = (kind(at + 1), kind(at + 2)) else { return };
        let length = match (first, second) {
            (T::LParen, Some(T::RParen))
            | (T::LBracket, Some(T::RBracket))
            | (T::Question, Some(T::Colon)) => 2,
            (T::Gt, Some(T::Gt | T::Ge)) if self.pieces[at + 2].gap == 0 => 2,
            (T::LParen | T::Ident | T::Semi | T::LBrace, _) => 0,
            _ => 1,
        };
        for k in at + 1..=at + length {
            self.marks[k].role = Role::Name;
        }
        // `operator<<T>`: the name is `<`, but the lexer does not know that.
        if first == T::Shl
            && second != Some(T::LParen)
            && let Some(close) = self.closing(at + 2, 1, true)
        {
            self.marks[close].role = Role::Angle;
        }
    }

    fn names_operator(&self, at: usize) -> bool {
        self.marks[at].role == Role::Name
    }

    fn is_attribute(&mut self, at: usize) -> bool {
        let previous = self.previous_kind();
        let role = self.previous_role();
        if self.marks[at].starts || self.previous.is_none() {
            // More attributes, or the declaration, may follow.
            self.top().fresh = true;
            return true;
        }
        match previous {
            Some(T::LBracket) => role == Role::Attribute,
            Some(T::RBracket) => role == Role::Attribute,
            Some(T::LParen | T::Comma) => true,
            _ => false,
        }
    }

    fn open_brace(&mut self, at: usize) {
        let outer_values = self
            .stack
            .last()
            .is_some_and(|o| !o.is_block && self.marks.get(o.at).is_some_and(|m| m.braces.is_some()));
        let previous = self.previous_kind();
        let role = self.previous_role();
        let starts = self.marks[at].starts;
        let is_values = match previous {
            Some(T::FatArrow) => false,
            Some(T::Eq | T::Comma | T::LParen | T::LBracket | T::Question) => true,
            Some(T::LBrace) => outer_values,
            Some(T::Ident) => self.previous.is_some_and(|p| self.pieces[p].text == "return"),
            Some(_) => matches!(role, Role::Binary | Role::Choice),
            None => false,
        };
        let top_head = self.top().head;
        let is_body = self.previous.is_some_and(|p| self.marks[p].heads);
        let braces = match top_head {
            _ if is_values => Braces::Values,
            Head::Switch => Braces::Switch,
            _ if is_body => Braces::Control,
            _ if starts => Braces::Free,
            Head::Namespace => Braces::Namespace,
            Head::Enum => Braces::Enum,
            Head::None | Head::Type | Head::Label | Head::Control => Braces::Definition,
        };
        self.marks[at].braces = Some(braces);
        let is_block = !is_values;
        self.stack.push(Open {
            is_block,
            fresh: is_block,
            is_enum: braces == Braces::Enum,
            ..Open::block(at)
        });
    }

    fn close(&mut self, at: usize, kind: T) {
        let opener = match kind {
            T::RParen => T::LParen,
            T::RBracket => T::LBracket,
            _ => T::LBrace,
        };
        let opens = |o: &Open| self.pieces.get(o.at).is_some_and(|p| p.is(opener));
        // A brace closes what was left open inside; other brackets must match.
        let found = match self.stack.last() {
            Some(top) if opens(top) => Some(self.stack.len() - 1),
            _ if kind == T::RBrace => self.stack.iter().rposition(opens),
            _ => None,
        };
        let Some(found) = found else {
            if kind == T::RBrace {
                self.top().end();
                self.marks[at].ends = true;
            }
            return;
        };
        let open = self.stack[found].clone();
        self.stack.truncate(found);
        self.marks[at].partner = Some(open.at);
        self.marks[open.at].partner = Some(at);
        self.marks[at].braces = self.marks[open.at].braces;
        match kind {
            T::RBracket => self.marks[at].role = self.marks[open.at].role,
            T::RParen if self.names_operator(open.at) => self.marks[at].role = Role::Name,
            T::RParen if open.header => {
                self.marks[at].role = Role::Header;
                self.marks[at].heads = true;
                let top = self.top();
                top.fresh = top.is_block && top.head != Head::Switch;
            }
            T::RParen => {
                let inside = &self.pieces[open.at + 1..at];
                if let [one] = inside
                    && one.is(T::Ident)
                    && is_numeric(one.text)
                    && !self.is_call(open.at)
                {
                    self.marks[at].role = Role::Cast;
                }
            }
            _ if open.is_block => self.close_block(at),
            _ => {}
        }
    }

    /// Returns true if the parenthesis follows a name, so it is no cast.
    fn is_call(&self, open: usize) -> bool {
        let before = (0..open).rev().find(|&k| self.pieces[k].is_token());
        before.is_some_and(|k| {
            let piece = &self.pieces[k];
            piece.is(T::Ident) && !is_before_operand(piece.text) || self.marks[k].role == Role::Angle
        })
    }

    fn close_block(&mut self, at: usize) {
        let next = self.next(at);
        let kind = next.and_then(|k| self.pieces[k].token());
        let is_line = next.is_some_and(|k| (at + 1..=k).any(|p| self.pieces[p].newlines > 0));
        let after = next.and_then(|k| self.next(k)).and_then(|k| self.pieces[k].token());
        let is_name = matches!(after, Some(T::Semi | T::Comma | T::LBracket | T::Eq));
        let top = self.top();
        if !top.is_block {
            return;
        }
        let goes_on = match kind {
            Some(T::Semi | T::Comma | T::RParen | T::Dot | T::LParen) => true,
            // `struct { … } name;`
            Some(T::Ident) => matches!(top.head, Head::Type | Head::Enum | Head::None) && !is_line && is_name,
            _ => false,
        };
        if !goes_on {
            top.end();
            self.marks[at].ends = true;
        }
    }

    fn colon(&mut self, at: usize) {
        let is_access = self.previous.is_some_and(|p| self.marks[p].starts && is_access(self.pieces[p].text));
        let top = self.top();
        let is_label = top.is_block && (is_access || !top.is_enum && top.head == Head::Label);
        if top.choices > 0 {
            top.choices -= 1;
            self.marks[at].role = Role::Choice;
        } else if is_label {
            self.top().end();
            self.marks[at].role = Role::Label;
            self.marks[at].ends = true;
        } else {
            self.marks[at].role = Role::Either;
        }
    }

    /// Returns true if the `?` belongs to a conditional expression: a `:` follows in the same brackets.
    fn is_choice(&self, at: usize) -> bool {
        let mut depth = 0;
        for piece in &self.pieces[at + 1..] {
            match piece.token() {
                Some(T::LParen | T::LBracket | T::LBrace) => depth += 1,
                Some(T::RParen | T::RBracket | T::RBrace) if depth == 0 => return false,
                Some(T::RParen | T::RBracket | T::RBrace) => depth -= 1,
                Some(T::Semi) => return false,
                Some(T::Colon) if depth == 0 => return true,
                _ => {}
            }
        }
        false
    }

    fn operator(&mut self, at: usize, kind: T) -> Role {
        let after = self.after_operand();
        match kind {
            T::Lt => match self.angle(at) {
                Some(close) => {
                    self.marks[close].role = Role::Angle;
                    self.marks[close].partner = Some(at);
                    self.marks[at].partner = Some(close);
                    Role::Angle
                }
                None => Role::Binary,
            },
            T::Gt | T::ShrEq => self.shift(at),
            T::Ge => {
                if self.pieces[at].gap == 0 && self.previous_kind() == Some(T::Gt) {
                    Role::Either
                } else {
                    Role::Binary
                }
            }
            T::PlusPlus | T::MinusMinus => {
                if after {
                    Role::Postfix
                } else {
                    Role::Prefix
                }
            }
            T::Minus | T::Plus => {
                if after {
                    Role::Binary
                } else {
                    Role::Prefix
                }
            }
            T::Tilde | T::Bang => Role::Prefix,
            T::Star | T::Amp => {
                if after {
                    self.pointer(at)
                } else {
                    Role::Prefix
                }
            }
            T::Eq
            | T::EqEq
            | T::Ne
            | T::Le
            | T::Shl
            | T::ShlEq
            | T::AndAnd
            | T::OrOr
            | T::Pipe
            | T::PipeEq
            | T::Caret
            | T::CaretEq
            | T::AmpEq
            | T::PlusEq
            | T::MinusEq
            | T::StarEq
            | T::SlashEq
            | T::Slash
            | T::PercentEq
            | T::Percent
            | T::FatArrow => Role::Binary,
            _ => Role::Plain,
        }
    }

    /// `>` that closes nothing: a comparison, or half of a shift.
    fn shift(&self, at: usize) -> Role {
        let joined = |k: usize| self.pieces.get(k).is_some_and(|p| p.newlines == 0 && p.gap == 0);
        let is_gt =
            |k: Option<&Piece>| k.is_some_and(|p| matches!(p.token(), Some(T::Gt | T::Ge | T::ShrEq)));
        let first = is_gt(self.pieces.get(at + 1)) && joined(at + 1);
        let second =
            at > 0 && is_gt(self.pieces.get(at - 1)) && joined(at) && self.marks[at - 1].role != Role::Angle;
        if first || second { Role::Plain } else { Role::Binary }
    }

    /// A `*` or `&` after an operand.
    fn pointer(&self, at: usize) -> Role {
        let Some(previous) = self.previous else { return Role::Prefix };
        let piece = &self.pieces[previous];
        match piece.token() {
            Some(T::Int | T::Float | T::RParen | T::RBracket) => return Role::Binary,
            Some(T::Ident) if !is_numeric(piece.text) => {}
            _ => return Role::Either,
        }
        let Some(next) = self.pieces.get(at + 1) else { return Role::Either };
        let is_operand = matches!(next.token(), Some(T::Ident | T::Int | T::Float | T::LParen | T::Minus));
        let before = self.pieces[at].gap > 0 || self.pieces[at].newlines > 0;
        let after = next.gap > 0 || next.newlines > 0;
        if !is_operand || before != after || self.marks[previous].starts {
            Role::Either
        } else {
            Role::Binary
        }
    }

    /// The `>` that closes the `<`, if these enclose generic parameters or arguments.
    fn angle(&self, at: usize) -> Option<usize> {
        let previous = self.previous?;
        if !self.pieces[previous].is(T::Ident) && self.marks[previous].role != Role::Name {
            return None;
        }
        let before = self.pieces[at].gap > 0 || self.pieces[at].newlines > 0;
        let after = self.pieces.get(at + 1).is_some_and(|p| p.gap > 0);
        let declares = ["__generic", "extension", "let", "struct", "interface", "func"];
        if before && after && !declares.contains(&self.pieces[previous].text) {
            return None;
        }
        self.closing(at, 0, before)
    }

    /// The `>` that closes a list of generic parameters or arguments, which a space may stand before.
    fn closing(&self, from: usize, mut depth: u32, before: bool) -> Option<usize> {
        let mut brackets = 0;
        for (k, piece) in self.pieces.iter().enumerate().skip(from) {
            let Some(kind) = piece.token() else { continue };
            match kind {
                T::Lt if brackets == 0 => depth += 1,
                T::Gt if brackets == 0 => {
                    depth -= 1;
                    if depth == 0 {
                        return self.follows_generic(k).then_some(k);
                    }
                }
                T::LParen | T::LBracket => brackets += 1,
                T::RParen | T::RBracket => {
                    brackets -= 1;
                    if brackets < 0 {
                        return None;
                    }
                }
                T::Pipe if !before => {}
                T::Ident
                | T::Int
                | T::Comma
                | T::Dot
                | T::ColonColon
                | T::Colon
                | T::Star
                | T::Amp
                | T::Eq
                | T::Ellipsis
                | T::Plus
                | T::Minus
                | T::Slash
                | T::Percent
                | T::Arrow
                | T::Float
                | T::Question
                | T::String
                | T::HashHash => {}
                _ if brackets > 0 => {}
                _ => return None,
            }
        }
        None
    }

    /// Returns true if the piece after a `>` may follow generic arguments.
    fn follows_generic(&self, close: usize) -> bool {
        let Some(next) = self.next(close) else { return true };
        !matches!(
            self.pieces[next].token(),
            Some(T::Int | T::Float | T::Minus | T::Bang | T::Tilde | T::String | T::Char)
        )
    }
}

fn is_access(word: &str) -> bool {
    matches!(word, "public" | "private" | "internal" | "protected")
}
