//! Finds all uses of a declaration, and renames it.
//!
//! A declaration is identified by its place, so that programs with different roots can be searched for the same one.
//! Only declarations in whose text the name occurs are checked.
//!
//! A new name may mean something else where it is written: another declaration may be nearer, or the renamed one may
//! come to stand before another. So a renaming is carried out on the texts, which are then searched again: it is
//! refused if the uses found are not exactly those that were renamed, or if there are more errors than before.

use std::path::{Path, PathBuf};

use driver::Error;
use driver::session::FileOptions;
use syntax::ast::DeclKind;
use syntax::{DeclId, FileId, Span};

use crate::words::{is_name, words};
use crate::{Analysis, Checker};

/// A declaration that can be found in any program that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The file of the declaration.
    pub path: PathBuf,
    /// The range of the name in it.
    pub start: u32,
    /// One past the name.
    pub end: u32,
    /// The name.
    pub name: String,
    /// The declaration is local to a function.
    pub is_local: bool,
}

/// A use of a declaration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The file.
    pub path: PathBuf,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// It is the declaration itself.
    pub is_declaration: bool,
    /// The name is assigned to.
    pub is_write: bool,
}

/// The reason why something is not renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl Analysis {
    /// The declaration that the name at an offset refers to.
    pub fn target(&mut self, offset: u32) -> Option<Target> {
        let decl = self.declaration_at(offset)?;
        self.target_of(decl)
    }

    /// The declaration that is named at an offset, or is named there first.
    fn declaration_at(&mut self, offset: u32) -> Option<DeclId> {
        self.check_around(offset);
        let top = self.top_level(offset)?;
        let span = self.program.ast.decls[top].span;
        let start = self.program.ast.decls[top].attributes.iter().map(|a| a.span.start).min();
        let names = self.names_within(self.file, start.unwrap_or(span.start).min(span.start), span.end);
        let at = |n: &&crate::names::Name| n.span.start <= offset && offset <= n.span.end;
        names.iter().rev().find(at).and_then(|name| name.decl)
    }

    fn target_of(&self, decl: DeclId) -> Option<Target> {
        let d = &self.program.ast.decls[decl];
        let name = self.name_of(decl).to_string();
        if name.is_empty() || name.starts_with('$') || self.text(d.name_span) != name {
            return None;
        }
        let path = self.path(d.name_span.file)?;
        let is_local = matches!(d.kind, DeclKind::Param { .. } | DeclKind::Var { .. })
            && d.parent.and_then(|p| self.function_around(p)).is_some();
        Some(Target { path, start: d.name_span.start, end: d.name_span.end, name, is_local })
    }

    /// Returns true for a declaration of the library.
    pub fn is_library(&self, target: &Target) -> bool {
        let files = &self.session.sources.files;
        let file = files.iter().position(|file| Path::new(&file.path) == target.path);
        file.is_some_and(|k| self.is_library_file(FileId(k as u32)))
    }

    /// Returns true for a file of the library.
    pub fn is_library_file(&self, file: FileId) -> bool {
        self.program.library_files().contains(&file.0)
    }

    /// The uses of a declaration in the program's files, and the declaration.
    pub fn references(&mut self, target: &Target) -> Vec<Reference> {
        let library = self.program.library_files();
        let mut found = Vec::new();
        for k in 0..self.session.sources.files.len() {
            let file = FileId(k as u32);
            if library.contains(&file.0) {
                continue;
            }
            let text = self.session.sources.files[k].text.clone();
            let path = PathBuf::from(&self.session.sources.files[k].path);
            let is_own = same_file(&path, &target.path);
            if target.is_local && !is_own || !words(&text).any(|word| word == target.name) {
                continue;
            }
            for (start, end) in self.parts_with(file, &target.name) {
                self.check_range(file, start, end);
                for name in self.names_within(file, start, end) {
                    if self.text(name.span) != target.name
                        || !name.decl.is_some_and(|d| self.is_target(d, target))
                    {
                        continue;
                    }
                    found.push(Reference {
                        path: path.clone(),
                        start: name.span.start,
                        end: name.span.end,
                        is_declaration: name.expr.is_none(),
                        is_write: name.expr.is_none_or(|expr| self.is_written(expr)),
                    });
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The units of a file in whose text a name occurs, with what is between units.
    fn parts_with(&self, file: FileId, name: &str) -> Vec<(u32, u32)> {
        let mut parts = Vec::new();
        for index in 0..self.program.ast.files.len() {
            for decl in self.program.units_of(index) {
                let d = &self.program.ast.decls[decl];
                let start =
                    d.attributes.iter().map(|a| a.span.start).min().unwrap_or(d.span.start).min(d.span.start);
                let span = Span { start, ..d.span };
                if span.file == file && words(self.text(span)).any(|word| word == name) {
                    parts.push((span.start, span.end));
                }
            }
            // The names of namespaces stand outside of units.
            for decl in self.program.ast.decls.keys() {
                let d = &self.program.ast.decls[decl];
                let is_namespace = matches!(d.kind, DeclKind::Namespace { .. });
                if is_namespace && d.name_span.file == file && self.name_of(decl) == name {
                    parts.push((d.name_span.start, d.name_span.end));
                }
            }
        }
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    fn is_target(&self, decl: DeclId, target: &Target) -> bool {
        let span = self.program.ast.decls[decl].name_span;
        span.start == target.start
            && span.end == target.end
            && self.path(span.file).is_some_and(|path| same_file(&path, &target.path))
    }

    /// Returns true if a name is the target of an assignment, or part of it.
    fn is_written(&self, expr: syntax::ExprId) -> bool {
        use syntax::ast::{ExprKind, UnaryOp};
        self.program.ast.exprs.values().any(|e| match e.kind {
            ExprKind::Assign(_, place, _)
            | ExprKind::Postfix(_, place)
            | ExprKind::Unary(UnaryOp::PreInc | UnaryOp::PreDec, place) => self.place_of(place) == expr,
            _ => false,
        })
    }

    /// The variable or field of which an expression is a part.
    fn place_of(&self, expr: syntax::ExprId) -> syntax::ExprId {
        use syntax::ast::ExprKind;
        let mut at = expr;
        loop {
            match &self.program.ast.exprs[at].kind {
                ExprKind::Index { base, .. } | ExprKind::Paren(base) => at = *base,
                _ => return at,
            }
        }
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b)
}

/// The uses of a declaration in all programs whose roots are given.
pub fn references(
    options: &FileOptions,
    roots: &[PathBuf],
    target: &Target,
) -> Result<Vec<Reference>, Error> {
    let mut found: Vec<Reference> = Vec::new();
    for root in roots {
        let Ok(mut analysis) = Analysis::new(options, root) else { continue };
        for reference in analysis.references(target) {
            let is_known = |f: &Reference| {
                (f.start, f.end) == (reference.start, reference.end) && same_file(&f.path, &reference.path)
            };
            if !found.iter().any(is_known) {
                found.push(reference);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The places at which a declaration has to be given a new name.
pub fn rename(
    options: &FileOptions,
    roots: &[PathBuf],
    target: &Target,
    new_name: &str,
) -> Result<Result<Vec<Reference>, Refusal>, Error> {
    if !is_name(new_name) || crate::completion::is_keyword(new_name) {
        return Ok(Err(Refusal(format!("`{new_name}` is no name"))));
    }
    let found = references(options, roots, target)?;
    let mut renamed = options.clone();
    let mut paths: Vec<PathBuf> = found.iter().map(|f| f.path.clone()).collect();
    paths.dedup();
    let shift = |path: &Path, at: u32| -> u32 {
        let before = found.iter().filter(|f| f.path == path && f.end <= at).count() as i64;
        (i64::from(at) + before * (new_name.len() as i64 - target.name.len() as i64)) as u32
    };
    for path in &paths {
        let Some(text) = text_of(options, roots, path) else {
            return Ok(Err(Refusal(format!("`{}` cannot be read", path.display()))));
        };
        let mut new_text = String::new();
        let mut at = 0;
        for reference in found.iter().filter(|f| f.path == *path) {
            new_text += text.get(at..reference.start as usize).unwrap_or("");
            new_text += new_name;
            at = reference.end as usize;
        }
        new_text += text.get(at..).unwrap_or("");
        renamed.open.retain(|o| o.0 != *path);
        renamed.open.push((path.clone(), new_text.into()));
    }
    let start = shift(&target.path, target.start);
    let end = start + new_name.len() as u32;
    let new_target = Target { start, end, name: new_name.to_string(), ..target.clone() };
    let places = |list: &[Reference], shifted: bool| -> Vec<(PathBuf, u32)> {
        let mut places: Vec<(PathBuf, u32)> = list
            .iter()
            .map(|f| (f.path.clone(), if shifted { shift(&f.path, f.start) } else { f.start }))
            .collect();
        places.sort();
        places
    };
    let after = references(&renamed, roots, &new_target)?;
    if places(&after, false) != places(&found, true) {
        return Ok(Err(Refusal(format!("`{new_name}` would mean something else in some places"))));
    }
    for root in roots {
        let mut checker = Checker::new();
        let before = checker.n_errors(options, root)?;
        if checker.n_errors(&renamed, root)? > before {
            let root = root.display();
            return Ok(Err(Refusal(format!(
                "there would be errors in `{root}`: what is renamed has to have this name, or the new name is taken"
            ))));
        }
    }
    Ok(Ok(found))
}

/// The text of a file of the programs.
fn text_of(options: &FileOptions, roots: &[PathBuf], path: &Path) -> Option<String> {
    for root in roots {
        let Ok(analysis) = Analysis::new(options, root) else { continue };
        let file = analysis.session.sources.files.iter().find(|file| Path::new(&file.path) == path);
        if let Some(file) = file {
            return Some(file.text.to_string());
        }
    }
    None
}
