//! The structs whose fields may get other types: those that are declared in the program's own file and that only functions
//! use whose errors are estimated, as in
//!
//! ```text
//! struct Hit { float distance; float3 normal; }
//! ```
//!
//! A struct's layout is seen by others if its name occurs anywhere else: among the parameters and the result of the
//! function whose error is estimated, in a global, a buffer, a type alias, an extension, the code of another function, or a
//! struct of which this is true. In the functions themselves, it is seen where the struct is a generic argument, as in
//! `buffer.Load<Hit>(0)`, a pointer or a size. Occurrences are those of the text, so that those in macros and in code that
//! is not compiled count, too.

use check::Program;
use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::{DeclKind, Symbols};
use syntax::token::{Token, TokenKind, lex};
use syntax::{DeclId, FileId, Sources, Span};

/// The structs in their order in the file `root`. `top` is the function whose error is estimated, and `reached` has the
/// places of all functions that run.
pub(super) fn inner(
    program: &Program,
    sources: &Sources,
    root: FileId,
    top: DeclId,
    reached: &[Span],
) -> Vec<DeclId> {
    let decls = &program.ast.decls;
    let is_plain = |decl: &DeclId| {
        let data = &decls[*decl];
        let is_outside = data.parent.is_none_or(|p| matches!(decls[p].kind, DeclKind::Namespace { .. }));
        let is_struct = matches!(data.kind, DeclKind::Struct { .. });
        is_struct && is_outside && data.generics.is_none() && data.span.file == root
    };
    let structs: Vec<DeclId> = decls.keys().filter(is_plain).collect();
    if structs.is_empty() {
        return structs;
    }
    let names: FxHashMap<&str, DeclId> =
        structs.iter().map(|&decl| (program.ast.name(decls[decl].name), decl)).collect();
    let is_named = |name: &str| names.get(name).copied();
    // Of two structs with one name in several namespaces, only one is in the table.
    let mut outer: FxHashSet<DeclId> = structs
        .iter()
        .copied()
        .filter(|&decl| is_named(program.ast.name(decls[decl].name)) != Some(decl))
        .collect();
    outer.extend(decls[top].parent);
    let bodies = bodies(program, root, top, reached);
    let (mut used, mut within) = (FxHashSet::default(), Vec::new());
    for file in files(program, root) {
        let mut symbols = Symbols::default();
        let tokens = lex(&mut symbols, file, &sources.files[file.0 as usize].text).tokens;
        for (k, token) in tokens.iter().enumerate() {
            let Some(named) = (token.kind == TokenKind::Ident)
                .then(|| is_named(token.text(&symbols)))
                .flatten()
                .filter(|&named| decls[named].name_span != token.span)
            else {
                continue;
            };
            let around = structs.iter().copied().filter(|&decl| is_around(decls[decl].span, token.span));
            if bodies.iter().any(|&body| is_around(body, token.span)) {
                match hides_layout(&tokens, k) {
                    true => used.insert(named),
                    false => outer.insert(named),
                };
            } else if let Some(decl) =
                around.min_by_key(|&decl| decls[decl].span.end - decls[decl].span.start)
            {
                within.push((decl, named));
            } else {
                outer.insert(named);
            }
        }
    }
    // What a struct contains is seen where that struct is, and used where it is.
    spread(&mut outer, &within);
    spread(&mut used, &within);
    structs.into_iter().filter(|decl| used.contains(decl) && !outer.contains(decl)).collect()
}

/// Adds what is within the members of a set.
fn spread(set: &mut FxHashSet<DeclId>, within: &[(DeclId, DeclId)]) {
    loop {
        let before = set.len();
        for (outer, inner) in within {
            if set.contains(outer) {
                set.insert(*inner);
            }
        }
        if set.len() == before {
            return;
        }
    }
}

/// The functions that run, without the interface of the one whose error is estimated.
fn bodies(program: &Program, root: FileId, top: DeclId, reached: &[Span]) -> Vec<Span> {
    let mut found = Vec::new();
    for (decl, data) in &program.ast.decls {
        let Some(body) = data.kind.body().filter(|_| data.span.file == root) else { continue };
        if reached.iter().any(|&place| is_around(data.span, place)) {
            found.push(if decl == top { program.ast.stmts[body].span } else { data.span });
        }
    }
    found
}

/// The files of a program that are not the library's.
fn files(program: &Program, root: FileId) -> Vec<FileId> {
    let library = program.library_files();
    let declared = program.ast.decls.values().map(|data| data.span.file);
    let mut files: Vec<FileId> =
        declared.filter(|file| library.binary_search(&file.0).is_err()).chain([root]).collect();
    files.sort();
    files.dedup();
    files
}

fn is_around(outer: Span, inner: Span) -> bool {
    outer.file == inner.file && outer.start <= inner.start && inner.end <= outer.end
}

/// Returns true unless the use of a type at a token is one that sees its layout.
fn hides_layout(tokens: &[Token], at: usize) -> bool {
    use TokenKind as T;
    let before = |n: usize| at.checked_sub(n).map_or(T::Eof, |k| tokens[k].kind);
    let after = tokens.get(at + 1).map_or(T::Eof, |token| token.kind);
    let is_argument = before(1) == T::Lt || matches!(after, T::Gt | T::Comma | T::Star);
    let is_size = before(1) == T::LParen && after == T::RParen && matches!(before(2), T::Ident | T::Gt);
    !is_argument && !is_size
}
