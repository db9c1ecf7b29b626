//! Names that the user may have meant.

use syntax::DeclId;

use crate::infer::Checker;
use crate::types::Ty;

/// How many letters have to change, or more than two.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 2 {
        return 3;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = before + usize::from(!x.eq_ignore_ascii_case(y));
            before = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}

/// The nearest of some names; the first in alphabetical order among equals.
fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let most = match text.len() {
        0..=2 => return None,
        3..=4 => 1,
        _ => 2,
    };
    names
        .filter(|n| *n != text && !n.is_empty() && !n.starts_with("__") && !n.starts_with('$'))
        .map(|n| (distance(text, n), n))
        .filter(|n| n.0 <= most)
        .min()
        .map(|n| n.1.to_string())
}

impl Checker<'_> {
    /// A name in scope that is spelt like this one.
    pub(crate) fn similar_name(&self, text: &str) -> Option<String> {
        let ast = &self.p.ast;
        let local = nearest(text, self.locals.iter().map(|l| ast.name(l.0)));
        if local.is_some() {
            return local;
        }
        let mut names: Vec<&str> = Vec::new();
        let mut at = Some(self.scope);
        while let Some(decl) = at {
            if let Some(members) = self.p.names_in(decl) {
                names.extend(members.keys().map(|&s| ast.name(s)));
            }
            at = ast.decls[decl].parent;
        }
        names.extend(self.p.modules[self.module].names.keys().map(|&s| ast.name(s)));
        if let Some(found) = nearest(text, names.into_iter()) {
            return Some(found);
        }
        nearest(text, self.p.modules[0].names.keys().map(|&s| ast.name(s)))
    }

    /// A member that is spelt like this one.
    pub(crate) fn similar_member(&mut self, ty: Ty, text: &str) -> Option<String> {
        if ty == Ty::ERROR {
            return None;
        }
        let containers: Vec<DeclId> = self.p.facets(ty).iter().map(|f| f.container).collect();
        let mut names: Vec<String> = Vec::new();
        for container in containers {
            if let Some(members) = self.p.names_in(container) {
                names.extend(members.keys().map(|&s| self.p.ast.name(s).to_string()));
            }
        }
        names.extend(
            self.p.fields(ty).iter().map(|f| self.p.ast.name(self.p.ast.decls[f.0].name).to_string()),
        );
        nearest(text, names.iter().map(String::as_str))
    }
}
