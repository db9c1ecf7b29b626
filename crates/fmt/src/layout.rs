//! Decides where each line begins, and breaks lines that are too long.
//!
//! A stack of frames, one for each open bracket, says what an element or statement that begins a line is indented by.
//! A continuation of an element is indented once more, unless it was aligned: a continuation that began in the column of
//! a token of an earlier line of its statement begins there again. The result of this rule is its own input, so it
//! is stable.

use syntax::token::TokenKind as T;

use crate::branches::Branches;
use crate::pieces::{Kind, Piece};
use crate::structure::{Braces, Mark, Role};
use crate::style::Resolved;

/// The place of every piece.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The number of line ends before each piece.
    pub(crate) newlines: Vec<u32>,
    /// The column of each piece.
    pub(crate) columns: Vec<usize>,
    /// A block of one line that is too long, and must be laid out on several.
    pub(crate) too_long: Option<usize>,
}

/// A control statement that waits for its body, and the `else` or `while` after it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: usize,
    indent: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    open: usize,
    is_block: bool,
    /// The indentation of the closing bracket.
    base: usize,
    /// The indentation of elements and statements.
    inner: usize,
    /// The content begins on a line of its own.
    hanging: bool,
    /// The content is one element.
    single: bool,
    /// The indentation of the line on which the current element or statement begins.
    element: usize,
    /// The piece with which the current element or statement begins.
    first: usize,
    /// The last label: its indentation, and its column in the source.
    label: Option<(usize, usize)>,
    pending: Vec<Pending>,
    /// The next piece begins an element.
    fresh: bool,
}

/// Lays out the pieces.
pub(crate) fn layout(
    pieces: &[Piece],
    marks: &[Mark],
    style: &Resolved,
    newlines: Vec<u32>,
    spaces: &[usize],
) -> Layout {
    let columns = vec![0; pieces.len()];
    let layout = Layout { newlines, columns, too_long: None };
    let top = Frame {
        open: usize::MAX,
        is_block: true,
        base: 0,
        inner: 0,
        hanging: true,
        single: false,
        element: 0,
        first: 0,
        label: None,
        pending: Vec::new(),
        fresh: true,
    };
    let state = State { frames: vec![top], line: 0, end: 0 };
    let mut run = Run { pieces, marks, style, spaces, layout, state, branches: Branches::default() };
    run.all();
    run.layout
}

#[derive(Clone, Debug)]
struct State {
    frames: Vec<Frame>,
    /// The indentation of the current line.
    line: usize,
    /// The column after the last piece.
    end: usize,
}

struct Run<'a> {
    pieces: &'a [Piece<'a>],
    marks: &'a [Mark],
    style: &'a Resolved,
    spaces: &'a [usize],
    layout: Layout,
    state: State,
    branches: Branches<Vec<Frame>>,
}

impl Run<'_> {
    fn all(&mut self) {
        let mut at = 0;
        while at < self.pieces.len() {
            let end = (at + 1..self.pieces.len())
                .find(|&k| self.layout.newlines[k] > 0 || self.pieces[k].verbatim)
                .unwrap_or(self.pieces.len());
            let saved = self.state.clone();
            self.line(at, end);
            let is_wide = self.width_end(at, end) > self.style.max_width && !self.pieces[at].verbatim;
            if is_wide && let Some(place) = self.break_in(at, end) {
                self.layout.newlines[place] = 1;
                self.state = saved;
                continue;
            }
            at = end;
        }
    }

    /// The column after the last token of a line; comments at its end may be longer.
    fn width_end(&self, at: usize, end: usize) -> usize {
        let last = (at..end).rev().find(|&k| self.pieces[k].is_token());
        last.map_or(0, |k| {
            let text = self.pieces[k].text;
            if text.contains('\n') { 0 } else { self.layout.columns[k] + width(text) }
        })
    }

    /// Lays out the pieces of one line.
    fn line(&mut self, at: usize, end: usize) {
        for k in at..end {
            let piece = &self.pieces[k];
            let column = if piece.verbatim {
                piece.column
            } else if k == 0 || self.layout.newlines[k] > 0 {
                self.indent(k)
            } else {
                self.state.end + self.spaces[k]
            };
            if k == at {
                self.state.line = column;
            }
            self.layout.columns[k] = column;
            self.state.end = match piece.text.rfind('\n') {
                Some(line) => width(&piece.text[line + 1..]),
                None => column + width(piece.text),
            };
            if let Some(name) = piece.directive() {
                self.branches.directive(name, &mut self.state.frames);
            } else if piece.is_token() {
                self.token(k);
            }
        }
    }

    fn frame(&mut self) -> &mut Frame {
        self.state.frames.last_mut().expect("the outermost frame stays")
    }

    /// The column of a piece that begins a line.
    fn indent(&mut self, at: usize) -> usize {
        let piece = &self.pieces[at];
        let step = self.style.indent.columns();
        let next = (at..self.pieces.len()).find(|&k| self.pieces[k].is_token());
        if piece.kind == Kind::Directive {
            let depth = self.state.frames.len();
            return match piece.column {
                0 => 0,
                column if depth == 1 => column,
                _ => self.frame().inner,
            };
        }
        let frame = self.state.frames.last().expect("the outermost frame stays");
        if piece.is_comment() {
            return self.comment_above(at).unwrap_or_else(|| next.map_or(0, |next| self.comment(at, next)));
        }
        let closes = |f: &Frame| f.open != usize::MAX && self.marks[at].partner == Some(f.open);
        if let Some(own) = self.state.frames.iter().rev().find(|f| closes(f)) {
            let aligned = (!own.is_block && !own.hanging).then(|| self.aligned(at, own)).flatten();
            return aligned.unwrap_or(own.base);
        }
        if piece.is(T::RBrace) {
            return frame.base;
        }
        if !frame.is_block {
            return self.element(at, frame);
        }
        if piece.is(T::LBrace) && self.marks[at].braces.is_some_and(|b| b != Braces::Values) {
            return self.brace(at, frame);
        }
        if self.marks[at].starts || frame.fresh {
            return self.statement(at, frame);
        }
        self.aligned(at, frame).unwrap_or(frame.element + step)
    }

    /// The column of an opening brace at the start of a line, in a block.
    fn brace(&self, at: usize, frame: &Frame) -> usize {
        let step = self.style.indent.columns();
        if let Some(pending) = frame.pending.last() {
            return pending.indent;
        }
        match frame.label {
            Some((indent, column)) if self.marks[at].starts && frame.fresh => {
                let after_label = self.before(at).is_some_and(|k| self.marks[k].role == Role::Label);
                if after_label && self.pieces[at].column <= column { indent } else { indent + step }
            }
            _ if self.marks[at].starts => frame.inner,
            _ => frame.element,
        }
    }

    /// The column of a statement that begins a line.
    fn statement(&self, at: usize, frame: &Frame) -> usize {
        let step = self.style.indent.columns();
        let piece = &self.pieces[at];
        if piece.is_word("else") || piece.is_word("while") {
            let found = self.partner(at, frame);
            if let Some(pending) = found {
                return frame.pending[pending].indent;
            }
        }
        if let Some(pending) = frame.pending.last() {
            return pending.indent + step;
        }
        let is_label = piece.is_word("case") || piece.is_word("default");
        if is_label && self.is_switch(frame) {
            return frame.base + if self.style.indented_cases { step } else { 0 };
        }
        match frame.label {
            Some((indent, _)) => indent + step,
            None => frame.inner,
        }
    }

    /// The column of what begins a line in parentheses or other brackets.
    fn element(&self, at: usize, frame: &Frame) -> usize {
        let step = self.style.indent.columns();
        if !frame.hanging
            && let Some(column) = self.aligned(at, frame)
        {
            return column;
        }
        if frame.fresh || frame.single && frame.hanging {
            return frame.inner;
        }
        self.aligned(at, frame).unwrap_or(frame.element + step)
    }

    /// The column of a token of the same statement that stood above the piece in the source.
    fn aligned(&self, at: usize, frame: &Frame) -> Option<usize> {
        let column = self.pieces[at].column;
        let first = if frame.is_block { frame.first } else { frame.open };
        let mut lines = 0;
        for k in (first..at).rev() {
            let piece = &self.pieces[k];
            if piece.is_token() && piece.column == column && !piece.is(T::RBrace) {
                let above = self.layout.columns[k];
                return Some(above);
            }
            lines += u32::from(piece.newlines > 0);
            if lines > 40 {
                break;
            }
        }
        None
    }

    /// The column of a comment that belongs to what stands above it, or to no code.
    fn comment_above(&self, at: usize) -> Option<usize> {
        let piece = &self.pieces[at];
        let above = &self.pieces[at.checked_sub(1)?];
        if above.kind == Kind::LineComment && above.column == piece.column && piece.newlines == 1 {
            return Some(self.layout.columns[at - 1]);
        }
        // A comment that points at a column of the line above stays below it.
        let text = piece.text.trim_start_matches('/').trim_start();
        let label =
            text.find(':').filter(|&n| text[..n].bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
        if text[label.map_or(0, |n| n + 1)..].trim_start().starts_with('^') {
            let line = (0..at).rev().find(|&k| self.layout.newlines[k] > 0 || k == 0)?;
            return Some((self.layout.columns[line] + piece.column).saturating_sub(self.pieces[line].column));
        }
        // Code that is commented out often begins in the first column, and stays there.
        let next = self.pieces[at..].iter().find(|p| p.is_token())?;
        let line = self.pieces[..at].iter().rfind(|p| p.newlines > 0 && !p.is_comment());
        let is_indented = next.column > 0 || line.is_some_and(|p| p.column > 0);
        (piece.column == 0 && is_indented && self.state.frames.len() > 1).then_some(0)
    }

    fn comment(&self, at: usize, next: usize) -> usize {
        let frame = self.state.frames.last().expect("the outermost frame stays");
        let step = self.style.indent.columns();
        let mark = &self.marks[next];
        if !frame.is_block {
            let is_close = mark.partner == Some(frame.open);
            if is_close && !frame.hanging {
                return frame.element;
            }
            return if frame.hanging { frame.inner } else { self.aligned(at, frame).unwrap_or(frame.inner) };
        }
        if !frame.fresh && !mark.starts && mark.braces.is_none() {
            return self.aligned(at, frame).unwrap_or(frame.element + step);
        }
        if self.pieces[next].is(T::RBrace) {
            return match frame.label {
                Some((indent, _)) => indent + step,
                None => frame.inner,
            };
        }
        if self.pieces[next].is(T::LBrace) && mark.braces.is_some_and(|b| b != Braces::Values) {
            return self.brace(next, frame);
        }
        let is_label = self.pieces[next].is_word("case") || self.pieces[next].is_word("default");
        if is_label
            && self.is_switch(frame)
            && self.pieces[at].column > self.pieces[next].column
            && let Some((indent, _)) = frame.label
        {
            return indent + step;
        }
        self.statement(next, frame)
    }

    fn is_switch(&self, frame: &Frame) -> bool {
        frame.open != usize::MAX && self.marks[frame.open].braces == Some(Braces::Switch)
    }

    /// The last token before a piece.
    fn before(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|&k| self.pieces[k].is_token())
    }

    /// The control statement to which an `else`, or the `while` after a `do`, belongs.
    fn partner(&self, at: usize, frame: &Frame) -> Option<usize> {
        let word = if self.pieces[at].is_word("else") { "if" } else { "do" };
        frame.pending.iter().rposition(|p| self.pieces[p.at].is_word(word))
    }

    /// Changes the frames as a token requires.
    fn token(&mut self, at: usize) {
        let mark = self.marks[at];
        let kind = self.pieces[at].token();
        let closes = matches!(kind, Some(T::RParen | T::RBracket | T::RBrace))
            || kind == Some(T::Gt) && mark.role == Role::Angle;
        if closes {
            self.close(at);
        } else {
            self.begin(at);
        }
        let opens = matches!(kind, Some(T::LParen | T::LBracket | T::LBrace))
            || kind == Some(T::Lt) && mark.role == Role::Angle;
        if opens {
            self.open(at);
            return;
        }
        if mark.heads {
            let frame = self.frame();
            let (first, indent) = (frame.first, frame.element);
            frame.pending.push(Pending { at: first, indent });
            frame.fresh = true;
        }
        if mark.role == Role::Label {
            let column = self.pieces[self.frame().first].column;
            let frame = self.frame();
            frame.label = Some((frame.element, column));
            frame.fresh = true;
        } else if mark.ends && self.frame().is_block {
            self.end(at);
        }
        if kind == Some(T::Comma) || kind == Some(T::Semi) {
            let frame = self.frame();
            frame.fresh |= !frame.is_block;
        }
    }

    /// Notes the beginning of an element or statement.
    fn begin(&mut self, at: usize) {
        let mark = self.marks[at];
        let line = self.state.line;
        let is_brace = mark.braces.is_some_and(|b| b != Braces::Values);
        let is_first = self.layout.columns[at] == line;
        let frame = self.frame();
        if !(frame.fresh || mark.starts && frame.is_block) {
            return;
        }
        let is_body = is_brace && !frame.pending.is_empty();
        frame.fresh = false;
        if is_body {
            return;
        }
        frame.element = line;
        frame.first = at;
        if let Some(found) = (frame.is_block
            && (self.pieces[at].is_word("else") || self.pieces[at].is_word("while")))
        .then(|| self.partner(at, self.state.frames.last().expect("the outermost frame stays")))
        .flatten()
        {
            let frame = self.frame();
            frame.element = frame.pending[found].indent;
            frame.pending.truncate(found);
        } else if !is_first && let Some(pending) = self.frame().pending.last().copied() {
            // `else if` is indented as the `else`.
            self.frame().element = pending.indent;
        }
    }

    fn open(&mut self, at: usize) {
        let mark = self.marks[at];
        let step = self.style.indent.columns();
        let line = self.state.line;
        let is_block = mark.braces.is_some_and(|b| b != Braces::Values);
        let content = (at + 1..self.pieces.len())
            .find(|&k| !self.pieces[k].is_comment() || self.layout.newlines[k] > 0);
        let hanging = content.is_some_and(|k| self.layout.newlines[k] > 0);
        let frame = self.frame();
        let base = match (is_block && frame.is_block, frame.pending.last()) {
            (true, Some(pending)) => pending.indent,
            (true, None) if !mark.starts => frame.element,
            _ => line,
        };
        // The content of a namespace may be indented or not.
        let is_flush = mark.braces == Some(Braces::Namespace)
            && content.is_some_and(|k| {
                self.pieces[k].column <= self.pieces[self.frame_ref().first].column
                    && !self.pieces[k].is(T::RBrace)
            });
        let single = !is_block && !self.has_comma(at);
        self.state.frames.push(Frame {
            open: at,
            is_block,
            base,
            inner: if is_flush { base } else { base + step },
            hanging,
            single,
            element: line,
            first: at,
            label: None,
            pending: Vec::new(),
            fresh: true,
        });
    }

    fn frame_ref(&self) -> &Frame {
        self.state.frames.last().expect("the outermost frame stays")
    }

    /// Returns true if the brackets have a comma or semicolon of their own.
    fn has_comma(&self, at: usize) -> bool {
        let end = self.marks[at].partner.unwrap_or(self.pieces.len());
        let mut k = at + 1;
        while k < end {
            match (self.pieces[k].token(), self.marks[k].partner) {
                (Some(T::Comma | T::Semi), _) => return true,
                (_, Some(partner)) if partner > k => k = partner,
                _ => {}
            }
            k += 1;
        }
        false
    }

    fn close(&mut self, at: usize) {
        let partner = self.marks[at].partner;
        if let Some(found) =
            self.state.frames.iter().rposition(|f| f.open != usize::MAX && Some(f.open) == partner)
        {
            // What opens later on this line hangs below the line on which the closed bracket began.
            self.state.line = self.state.frames[found].base;
            self.state.frames.truncate(found);
        } else {
            self.frame().fresh = false;
        }
        // Attributes may be followed by more of them, or by the declaration.
        if self.marks[at].role == Role::Attribute
            && let Some(open) = partner
            && self.marks[open].starts
        {
            self.frame().fresh = true;
        }
    }

    /// Ends a statement.
    fn end(&mut self, at: usize) {
        let next = (at + 1..self.pieces.len()).find(|&k| self.pieces[k].is_token());
        let frame = self.state.frames.last().expect("the outermost frame stays");
        let goes_on = next.is_some_and(|k| {
            let is_else = self.pieces[k].is_word("else");
            let after_do = || self.pieces[k].is_word("while") && self.partner(k, frame).is_some();
            is_else || after_do()
        });
        let frame = self.frame();
        if !goes_on {
            frame.pending.clear();
        }
        frame.fresh = true;
    }

    /// The best place to break a line that is too long; `too_long` is set if a block on it must be laid out first.
    fn break_in(&mut self, at: usize, end: usize) -> Option<usize> {
        let block = |k: &usize| {
            let mark = &self.marks[*k];
            self.pieces[*k].is(T::LBrace)
                && mark.braces.is_some_and(|b| b != Braces::Values)
                && mark.partner.is_some_and(|close| close > *k + 1 && close < end)
        };
        if let Some(found) = (at..end).find(block) {
            self.layout.too_long.get_or_insert(found);
            return None;
        }
        let limit = self.style.max_width;
        let mut depth = 0i32;
        let mut best: Option<((bool, i32), usize)> = None;
        for k in at + 1..end {
            let (previous, piece) = (self.pieces[k - 1].token(), &self.pieces[k]);
            if piece.verbatim || !piece.is_token() {
                continue;
            }
            let role = |k: usize| self.marks[k].role;
            let opens = matches!(previous, Some(T::LParen | T::LBracket | T::LBrace))
                || previous == Some(T::Lt) && role(k - 1) == Role::Angle;
            let closes = matches!(piece.token(), Some(T::RParen | T::RBracket | T::RBrace))
                || piece.is(T::Gt) && role(k) == Role::Angle;
            // Generic arguments are broken last.
            let weight = |is_angle: bool| if is_angle { 3 } else { 1 };
            depth += i32::from(opens) * weight(previous == Some(T::Lt));
            depth -= i32::from(closes) * weight(piece.is(T::Gt));
            let Some(penalty) = self.penalty(k, end).filter(|_| !closes) else { continue };
            let fits = self.layout.columns[k - 1] + width(self.pieces[k - 1].text) <= limit;
            let gains = self.layout.columns[k] > self.layout.columns[at] + 2 * self.style.indent.columns();
            if !gains {
                continue;
            }
            let cost = (!fits, depth * 12 + penalty);
            let better = match best {
                None => true,
                Some((known, _)) => cost < known || cost == known && fits,
            };
            if better {
                best = Some((cost, k));
            }
        }
        best.map(|(_, k)| k)
    }

    /// How bad it is to break before a piece of a line that ends at `end`; `None`: never.
    fn penalty(&self, k: usize, end: usize) -> Option<i32> {
        let operator = if self.style.trailing_operators { k - 1 } else { k };
        let role = self.marks[operator].role;
        let kind = self.pieces[operator].token()?;
        let previous = self.pieces[k - 1].token()?;
        if previous == T::Comma || previous == T::Semi {
            return Some(if previous == T::Semi { -5 } else { 0 });
        }
        if self.marks[k].role == Role::Choice {
            return Some(1);
        }
        if previous == T::LParen {
            // All arguments on a line of their own, if they fit on one.
            let rest = self.width_end(k, end).saturating_sub(self.layout.columns[k]);
            let close = self.marks[k - 1].partner.unwrap_or(k);
            let is_header = self.marks[close].role == Role::Header;
            let fits = self.state.line + self.style.indent.columns() + rest <= self.style.max_width;
            return Some(if fits && !is_header && self.has_comma(k - 1) { -1 } else { 4 });
        }
        if self.pieces[k].is_word("where") {
            return Some(0);
        }
        if role != Role::Binary {
            return (previous == T::Eq && self.marks[k - 1].role == Role::Binary).then_some(20);
        }
        Some(match kind {
            T::AndAnd | T::OrOr => 0,
            T::Plus | T::Minus => 3,
            T::Star | T::Slash | T::Percent => 8,
            T::Eq if self.style.trailing_operators => 20,
            T::Eq | T::FatArrow => return None,
            T::PlusEq | T::MinusEq | T::StarEq | T::SlashEq => 20,
            _ => 6,
        })
    }
}

/// The number of columns of a text of one line.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}
