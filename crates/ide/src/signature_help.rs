//! Describes the function that is being called at the cursor.
//!
//! A call that is being written does not parse. So the text before the cursor is read backwards to the bracket that
//! is open there, and the name before that bracket is completed: what completion offers under this name are the
//! functions that may be meant.

use std::path::Path;

use check::ModuleId;
use check::tables::{Callable, DiffOp};
use driver::Error;
use driver::session::FileOptions;
use syntax::DeclId;
use syntax::ast::DeclKind;

use crate::Analysis;
use crate::completion::PLACEHOLDER;
use crate::words::{Piece, pieces};

/// The functions that may be meant, and the argument at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureHelp {
    /// The functions of that name.
    pub signatures: Vec<SignatureText>,
    /// The first function that takes this many arguments.
    pub active: usize,
    /// The number of the argument at the cursor.
    pub argument: usize,
}

/// A signature as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureText {
    /// The whole signature.
    pub text: String,
    /// The byte ranges of the parameters in the text.
    pub params: Vec<(u32, u32)>,
    /// The comment before the function.
    pub documentation: Option<String>,
}

/// The call around an offset of a text, as far as its words tell.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    /// The bracket.
    open: usize,
    /// The first byte of the called name.
    name_start: usize,
    name: String,
    /// The derivative operators around the name, outermost first.
    ops: Vec<DiffOp>,
    argument: usize,
}

/// The signatures of what is called around an offset of a text.
pub fn signature_help(
    options: &FileOptions,
    path: &Path,
    text: &str,
    offset: usize,
) -> Result<Option<SignatureHelp>, Error> {
    let Some(call) = text.get(..offset).and_then(call_before) else { return Ok(None) };
    // What follows the name on its line belongs to the call.
    let rest = &text[offset..];
    let rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
    let completed = format!("{}{PLACEHOLDER};{rest}", &text[..call.name_start]);
    let mut options = options.clone();
    options.open.push((path.to_path_buf(), completed.into()));
    let mut analysis = Analysis::new(&options, path)?;
    let decls = analysis.declarations_at(call.name_start as u32);
    let mut signatures = Vec::new();
    let mut counts = Vec::new();
    for decl in decls {
        if analysis.name_of(decl) != call.name {
            continue;
        }
        for function in analysis.called_by(decl) {
            let callable = match analysis.as_callable(function) {
                Callable::Func(func) => Callable::of(func, &call.ops, ModuleId(0)),
                other => other,
            };
            let shown = analysis.signature_of(&callable);
            if !signatures.contains(&shown) {
                counts.push(shown.params.len());
                signatures.push(shown);
            }
        }
    }
    if signatures.is_empty() {
        return Ok(None);
    }
    let active = counts.iter().position(|&n| n > call.argument).unwrap_or(0);
    Ok(Some(SignatureHelp { signatures, active, argument: call.argument }))
}

impl Analysis {
    /// The functions that a call of a name runs: the function itself, or the constructors of a type.
    fn called_by(&mut self, decl: DeclId) -> Vec<DeclId> {
        match self.program.ast.decls[decl].kind {
            DeclKind::Func { .. } => vec![decl],
            DeclKind::Struct { .. } => {
                let ty = self.program.decl_type(decl);
                let members = self.program.members_of(ty);
                let is_init = |d: &DeclId| matches!(self.program.ast.decls[*d].kind, DeclKind::Init { .. });
                members.into_iter().filter(is_init).collect()
            }
            _ => Vec::new(),
        }
    }

    fn signature_of(&mut self, callable: &Callable) -> SignatureText {
        let text = self.callable_text(callable);
        let open = parameters_start(&text);
        let mut params = Vec::new();
        let (mut depth, mut start) = (0, open);
        for (at, c) in text.char_indices().skip_while(|&(at, _)| at < open) {
            match c {
                '(' | '<' | '[' => depth += 1,
                ')' | '>' | ']' if depth > 0 => depth -= 1,
                ',' if depth == 0 => {
                    params.push((start as u32, at as u32));
                    start = at + 2;
                }
                ')' => {
                    if at > start {
                        params.push((start as u32, at as u32));
                    }
                    break;
                }
                _ => {}
            }
        }
        let decl = crate::cursor::function_of(callable);
        let documentation = decl.and_then(|decl| self.comment_of(decl));
        SignatureText { text, params, documentation }
    }
}

/// The offset after the bracket that opens the last list in brackets: `bwd_diff(f)(x)` has two.
fn parameters_start(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// The call whose bracket is open at the end of a text.
fn call_before(text: &str) -> Option<Call> {
    let pieces: Vec<(Piece, usize, usize)> =
        pieces(text).filter(|p| !matches!(p.0, Piece::Space | Piece::Comment)).collect();
    let mark = |k: usize| match pieces[k] {
        (Piece::Mark, start, _) => text.as_bytes()[start],
        _ => 0,
    };
    // Backwards to the bracket.
    let (mut depth, mut argument) = (0u32, 0);
    let mut open = None;
    for k in (0..pieces.len()).rev() {
        match mark(k) {
            b')' | b']' | b'}' => depth += 1,
            b'(' if depth == 0 => {
                open = Some(k);
                break;
            }
            b'{' | b';' if depth == 0 => return None,
            b'(' | b'[' | b'{' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => argument += 1,
            _ => {}
        }
    }
    let open = open?;
    let mut at = open.checked_sub(1)?;
    // `f<T>(`
    if mark(at) == b'>' {
        let mut depth = 0;
        loop {
            match mark(at) {
                b'>' => depth += 1,
                b'<' => depth -= 1,
                b';' | b'{' | b'}' => return None,
                _ => {}
            }
            at = at.checked_sub(1)?;
            if depth == 0 {
                break;
            }
        }
    }
    // `bwd_diff(fwd_diff(f))(`
    let mut ops = Vec::new();
    if mark(at) == b')' {
        let n = (0..=at).rev().take_while(|&k| mark(k) == b')').count();
        let name = at.checked_sub(n)?;
        for level in 1..=n {
            let (bracket, word) = (name.checked_sub(2 * level - 1)?, name.checked_sub(2 * level)?);
            let op = match &text[pieces[word].1..pieces[word].2] {
                "fwd_diff" | "__fwd_diff" => DiffOp::Fwd,
                "bwd_diff" | "__bwd_diff" => DiffOp::Bwd,
                _ => return None,
            };
            if mark(bracket) != b'(' {
                return None;
            }
            ops.insert(0, op);
        }
        at = name;
    }
    let (Piece::Word, start, end) = pieces[at] else { return None };
    let name = text[start..end].to_string();
    let is_keyword = matches!(&name[..], "if" | "for" | "while" | "switch" | "return" | "catch");
    (!is_keyword).then_some(Call { open: pieces[open].1, name_start: start, name, ops, argument })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, &[DiffOp], usize)>) {
        let found = call_before(text);
        let found = found.as_ref().map(|call| (&call.name[..], &call.ops[..], call.argument));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_call_is_found_by_its_brackets() {
        check("x = f(", Some(("f", &[], 0)));
        check("x = a.f(1, g(2, 3), ", Some(("f", &[], 2)));
        check("f(g(1, ", Some(("g", &[], 1)));
        check("f<int, float>(a[1, 2], {3, 4}, ", Some(("f", &[], 2)));
        check("bwd_diff(f)(x, ", Some(("f", &[DiffOp::Bwd], 1)));
        check("bwd_diff(fwd_diff(f))(", Some(("f", &[DiffOp::Bwd, DiffOp::Fwd], 0)));
        check("f(\"(,\", /* ( */ ", Some(("f", &[], 1)));
        for text in [
            "",
            "f(); ",
            "if (",
            "for (",
            "(",
            "f(1)",
            "{ f",
            "= (",
            ">(",
            ")(",
            "))))(",
            "x > (",
            "fwd_diff)(",
        ] {
            check(text, None);
        }
    }
}
