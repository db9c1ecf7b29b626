//! Divides a program into units, the declarations that are checked one by one, and computes for each a key of
//! everything that its diagnostics depend on.
//!
//! The *environment* is the text of all files of the program without the bodies of functions. The *closure* of a
//! unit consists of the units that it names, that these name, and so on. Names are compared as words, whatever
//! they mean where they stand; what is reached without its name (operators, constructors, accessors, extensions,
//! and all that macros name) belongs to every closure. A closure is therefore never too small. Then
//!
//! - checking a function depends on its own text and the environment ([`Unit::shallow`]), and
//! - differentiating it depends on the texts of its closure and the environment ([`Unit::deep`]).
//!
//! Checking depends on the closure, too, where the bits of numbers are taken: whether a result is made of bits is
//! a property of bodies.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustc_hash::FxHashMap;
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, ExprId, Span};

use crate::Analysis;
use crate::words::{directives, significant, words};

/// A declaration that is checked by itself.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) decl: DeclId,
    /// From the first attribute to the end.
    pub(crate) span: Span,
    /// The hash of the text, and the number of units before it that have the same text.
    pub(crate) text: (u64, u32),
    /// The unit declares a name.
    pub(crate) is_named: bool,
    /// The unit is a function, and nothing but its callers depends on its body.
    pub(crate) is_function: bool,
    /// The unit says itself which function it is a derivative of, which is checked once all declarations have been.
    pub(crate) is_derivative: bool,
    /// The unit overlaps another: both come from a macro, and what they contain is not in their texts.
    pub(crate) overlaps: bool,
    /// The unit is a declaration of the file itself, rather than of one that it imports.
    pub(crate) is_own: bool,
    /// The key of what checking the unit depends on.
    pub(crate) shallow: u64,
    /// The key of what differentiating the unit depends on.
    pub(crate) deep: u64,
}

/// The units of a program, with the graph of what they name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    pub(crate) all: Vec<Unit>,
    /// The node of unit `k` is `k`; the last node stands for what every unit depends on.
    edges: Vec<Vec<u32>>,
    /// For what is reached without its name: see [`Units::owners`].
    owners: FxHashMap<u32, Vec<u32>>,
    /// The units of each file, by their starts. The index is that of the file.
    by_file: Vec<Vec<u32>>,
    by_text: FxHashMap<(u64, u32), u32>,
    /// A file of the program casts bits, which is checked for all functions together.
    pub(crate) casts_bits: bool,
}

/// A place that is found again after the text before its unit has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    path: String,
    /// The text of the unit, to whose start the offsets are relative.
    unit: Option<(u64, u32)>,
    start: u32,
    end: u32,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns true for the names of functions that take the bits of numbers.
fn takes_bits(word: &str) -> bool {
    ["as", "pack", "f32tof16", "bit_cast", "reinterpret"].iter().any(|start| word.starts_with(start))
}

/// The place of a declaration, with the arguments of the macro that makes it: nothing but a macro is followed by them.
fn with_arguments(analysis: &Analysis, span: Span) -> Span {
    let file = analysis.session.sources.files.get(span.file.0 as usize);
    let rest = file.and_then(|file| file.text.get(span.end as usize..)).filter(|rest| rest.starts_with('('));
    let mut depth = 0;
    let end = rest.unwrap_or("").find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    Span { end: span.end + end.map_or(0, |end| end as u32 + 1), ..span }
}

impl Units {
    /// The units of all files of the program other than the library.
    pub(crate) fn of(analysis: &Analysis) -> Units {
        let program = &analysis.program;
        let sources = &analysis.session.sources;
        let library = program.library_files();
        let mut units = Units { by_file: vec![Vec::new(); sources.files.len()], ..Units::default() };
        for index in 0..program.ast.files.len() {
            let file = program.ast.files[index].file;
            if library.binary_search(&file.0).is_ok() {
                continue;
            }
            for decl in program.units_of(index) {
                units.add(analysis, decl, index == analysis.index);
            }
        }
        for list in &mut units.by_file {
            list.sort_by_key(|&unit| units.all[unit as usize].span.start);
        }
        units.make_unlike_functions();
        units.connect(analysis, &library);
        units
    }

    fn add(&mut self, analysis: &Analysis, decl: DeclId, is_own: bool) {
        let d = &analysis.program.ast.decls[decl];
        let start = d.attributes.iter().map(|a| a.span.start).min().unwrap_or(d.span.start).min(d.span.start);
        let span = with_arguments(analysis, Span { start, ..d.span });
        let Some(list) = self.by_file.get_mut(span.file.0 as usize) else { return };
        list.push(self.all.len() as u32);
        let text_hash = hash(analysis.text(span));
        let mut text = (text_hash, 0);
        while self.by_text.contains_key(&text) {
            text.1 += 1;
        }
        self.by_text.insert(text, self.all.len() as u32);
        let is_function = matches!(d.kind, DeclKind::Func { body: Some(_), .. })
            && !analysis.program.ast.extensions.contains_key(&decl)
            && !analysis.name_of(decl).starts_with("operator")
            && body_span(analysis, decl).is_some_and(|body| {
                body.file == span.file && span.start <= body.start && body.end <= span.end
            });
        let ast = &analysis.program.ast;
        let says_of = |d: DeclId| ast.decls[d].attributes.iter().any(|a| ast.name(a.name).ends_with("Of"));
        let is_derivative = ast.extensions.contains_key(&decl)
            || says_of(decl)
            || d.kind.members().iter().any(|&member| says_of(member));
        let is_named = d.name != syntax::keywords::EMPTY;
        self.all.push(Unit {
            decl,
            span,
            text,
            is_named,
            is_function,
            is_derivative,
            overlaps: false,
            is_own,
            shallow: 0,
            deep: 0,
        });
    }

    /// Units that overlap are no functions that could be checked by themselves.
    fn make_unlike_functions(&mut self) {
        for list in &self.by_file {
            for pair in list.windows(2) {
                let (a, b) = (pair[0] as usize, pair[1] as usize);
                if self.all[a].span.end > self.all[b].span.start {
                    for unit in [a, b] {
                        (self.all[unit].is_function, self.all[unit].overlaps) = (false, true);
                    }
                }
            }
        }
    }

    /// Makes the graph, and computes the keys.
    fn connect(&mut self, analysis: &Analysis, library: &[u32]) {
        let sources = &analysis.session.sources;
        let mut environment = DefaultHasher::new();
        let mut common: Vec<&str> = Vec::new();
        let mut pastes = false;
        for (k, file) in sources.files.iter().enumerate() {
            if library.binary_search(&(k as u32)).is_ok() {
                continue;
            }
            file.path.hash(&mut environment);
            file.module.hash(&mut environment);
            let mut at = 0;
            for &unit in &self.by_file[k] {
                let unit = &self.all[unit as usize];
                let (start, end) = (unit.span.start as usize, unit.span.end as usize);
                significant(file.text.get(at.min(start)..start).unwrap_or(""), &mut environment);
                let head = match body_span(analysis, unit.decl).filter(|_| unit.is_function) {
                    Some(body) => start..body.start as usize,
                    None => start..end,
                };
                file.text.get(head).hash(&mut environment);
                at = at.max(end);
            }
            significant(file.text.get(at..).unwrap_or(""), &mut environment);
            for directive in directives(&file.text) {
                directive.hash(&mut environment);
                pastes |= directive.contains("##");
                common.extend(words(directive));
            }
        }
        let environment = environment.finish();
        let names = self.names(analysis);
        let root = self.all.len() as u32;
        let mut marks: Vec<u32> = vec![u32::MAX; self.all.len()];
        self.edges = Vec::with_capacity(self.all.len() + 1);
        let mut bits = vec![false; self.all.len() + 1];
        for (k, unit) in self.all.iter().enumerate() {
            let mut edges = vec![root];
            for word in words(analysis.text(unit.span)) {
                bits[k] |= takes_bits(word);
                self.casts_bits |= word == "bit_cast";
                for &other in names.get(word).map_or(&[][..], Vec::as_slice) {
                    if std::mem::replace(&mut marks[other as usize], k as u32) != k as u32 {
                        edges.push(other);
                    }
                }
            }
            self.edges.push(edges);
        }
        let mut edges: Vec<u32> = common.iter().filter_map(|w| names.get(w)).flatten().copied().collect();
        let by_macros = edges.clone();
        let implicit: Vec<u32> =
            (0..root).filter(|&k| pastes || self.is_implicit(analysis, k as usize)).collect();
        for k in implicit {
            edges.push(k);
            let is_free = pastes || by_macros.contains(&k);
            let owners = if is_free { None } else { self.owners(analysis, &names, k as usize) };
            if let Some(owners) = owners {
                self.owners.insert(k, owners);
            }
        }
        bits[root as usize] = common.iter().any(|word| takes_bits(word));
        self.casts_bits |= common.contains(&"bit_cast");
        self.edges.push(edges);
        let texts: Vec<u64> = self.all.iter().map(|u| u.text.0).chain([0]).collect();
        let keys = closures(&self.edges, &texts);
        let has_bits = self.reaching(&bits);
        for (k, unit) in self.all.iter_mut().enumerate() {
            unit.deep = hash((environment, unit.text, keys[k]));
            unit.shallow = match has_bits[k] {
                true => hash((unit.deep, 1)),
                false => hash((environment, unit.text)),
            };
        }
    }

    /// The units that each word may refer to.
    fn names<'a>(&self, analysis: &'a Analysis) -> FxHashMap<&'a str, Vec<u32>> {
        let mut names: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
        for (k, unit) in self.all.iter().enumerate() {
            let decls = &analysis.program.ast.decls;
            let mut open = vec![unit.decl];
            while let Some(decl) = open.pop() {
                let name = analysis.name_of(decl);
                if !name.is_empty() {
                    names.entry(name).or_default().push(k as u32);
                }
                open.extend(decls[decl].kind.members());
            }
            // `[BackwardDerivativeOf(f)]`: `f` depends on this function.
            for attribute in &decls[unit.decl].attributes {
                if analysis.program.ast.name(attribute.name).ends_with("Of") {
                    for word in words(analysis.text(attribute.span)) {
                        names.entry(word).or_default().push(k as u32);
                    }
                }
            }
        }
        names
    }

    /// Returns true if code of the unit may run without being named, and without a type that it belongs to being
    /// named.
    fn is_implicit(&self, analysis: &Analysis, unit: usize) -> bool {
        let unit = &self.all[unit];
        let decls = &analysis.program.ast.decls;
        let is_named = |decl: DeclId| match &decls[decl].kind {
            DeclKind::Func { .. } => !analysis.name_of(decl).starts_with("operator"),
            DeclKind::Extension { .. }
            | DeclKind::Subscript { .. }
            | DeclKind::Using(_)
            | DeclKind::Unsupported(_)
            | DeclKind::Include { .. }
            | DeclKind::Implementing(_) => false,
            _ => true,
        };
        // What a struct that is a base or an argument does is named by its members.
        let is_sum = |decl: DeclId| matches!(analysis.name_of(decl), "dzero" | "dadd" | "dmul");
        let kind = &decls[unit.decl].kind;
        let is_extern = decls[unit.decl].modifiers.has(Modifiers::EXTERN);
        let is_made = matches!(kind, DeclKind::Func { body: Some(_), .. }) && !unit.is_function;
        let is_extension = analysis.program.ast.extensions.contains_key(&unit.decl);
        let has_unnamed = kind.members().iter().any(|&member| !is_named(member) || is_sum(member));
        // Conversions of handles call it.
        let is_finder = analysis.program.finders_of_resources().contains(&unit.decl);
        !is_named(unit.decl) || is_extern || is_made || is_extension || has_unnamed || is_finder
    }

    /// The units of which a program must name one to reach an implicit unit: operators belong to the types of their
    /// parameters, extensions to the types that they extend, and what values of interface type reach to the interfaces.
    /// `None` if anything may reach it.
    fn owners(
        &self,
        analysis: &Analysis,
        names: &FxHashMap<&str, Vec<u32>>,
        unit: usize,
    ) -> Option<Vec<u32>> {
        let ast = &analysis.program.ast;
        let Unit { decl, span, overlaps, .. } = self.all[unit];
        let made = &ast.decls[decl];
        let is_finder = analysis.program.finders_of_resources().contains(&decl);
        if overlaps
            || is_finder
            || ast.extensions.contains_key(&decl)
            || made.modifiers.has(Modifiers::EXTERN)
        {
            return None;
        }
        let mut types: Vec<ExprId> = Vec::new();
        let mut own: Vec<&str> = Vec::new();
        for &param in made.generics.iter().flat_map(|generics| &generics.params) {
            own.push(analysis.name_of(param));
            if let DeclKind::TypeParam { bases, .. } = &ast.decls[param].kind {
                types.extend(bases);
            }
        }
        if made.generics.as_ref().is_some_and(|generics| !generics.constraints.is_empty()) {
            return None;
        }
        let is_reached_by_name = match &made.kind {
            DeclKind::Func { params, .. } => {
                types.extend(params.iter().filter_map(|&param| match ast.decls[param].kind {
                    DeclKind::Param { ty, .. } => ty,
                    _ => None,
                }));
                false
            }
            DeclKind::Extension { target, bases, .. } => {
                types.push(*target);
                types.extend(bases);
                false
            }
            DeclKind::Struct { bases, .. } | DeclKind::Interface { bases, .. } => {
                types.extend(bases);
                true
            }
            _ => return None,
        };
        let spans = types.iter().map(|&ty| ast.exprs[ty].span);
        let texts = spans.map(|at| (span.start <= at.start && at.end <= span.end).then(|| analysis.text(at)));
        let texts: Option<Vec<&str>> = texts.collect();
        let words = texts?.into_iter().flat_map(words).filter(|word| !own.contains(word));
        let owners: Vec<u32> = words.filter_map(|word| names.get(word)).flatten().copied().collect();
        (is_reached_by_name || !owners.is_empty()).then_some(owners)
    }

    /// For each unit, true if its closure contains a unit of the given ones.
    pub(crate) fn reaching(&self, given: &[bool]) -> Vec<bool> {
        self.reaching_by(given, |_| vec![self.all.len() as u32])
    }

    /// Like [`Units::reaching`], where a unit reaches what is implicit only if it reaches an owner of it.
    pub(crate) fn reaching_by_type(&self, given: &[bool]) -> Vec<bool> {
        let root = self.all.len() as u32;
        self.reaching_by(given, |to| self.owners.get(&to).cloned().unwrap_or_else(|| vec![root]))
    }

    /// Like [`Units::reaching`], without what every unit depends on.
    pub(crate) fn reaching_by_name(&self, given: &[bool]) -> Vec<bool> {
        self.reaching_by(given, |_| Vec::new())
    }

    /// `of_root` gives the nodes that reach what the root has an edge to.
    fn reaching_by(&self, given: &[bool], of_root: impl Fn(u32) -> Vec<u32>) -> Vec<bool> {
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); self.edges.len()];
        for (k, edges) in self.edges.iter().enumerate().take(self.all.len()) {
            edges.iter().for_each(|&to| sources[to as usize].push(k as u32));
        }
        for &to in self.edges.last().map_or(&[][..], Vec::as_slice) {
            sources[to as usize].extend(of_root(to));
        }
        let mut found = vec![false; self.edges.len()];
        let is_given = |k: &u32| given.get(*k as usize).copied().unwrap_or(false);
        let mut open: Vec<u32> = (0..self.edges.len() as u32).filter(is_given).collect();
        while let Some(k) = open.pop() {
            if !std::mem::replace(&mut found[k as usize], true) {
                open.extend(&sources[k as usize]);
            }
        }
        found
    }

    /// The unit around a place.
    pub(crate) fn at(&self, span: Span) -> Option<usize> {
        let list = self.by_file.get(span.file.0 as usize)?;
        let after = list.partition_point(|&unit| self.all[unit as usize].span.start <= span.start);
        let unit = *list.get(after.checked_sub(1)?)? as usize;
        (span.end <= self.all[unit].span.end).then_some(unit)
    }

    /// The units around a place: what a macro makes of one use is in the same place.
    pub(crate) fn all_at(&self, span: Span) -> impl Iterator<Item = usize> {
        let around = self.at(span).map(|unit| self.all[unit].span);
        let list = self.by_file.get(span.file.0 as usize).map_or(&[][..], Vec::as_slice);
        let first = list
            .partition_point(|&unit| around.is_some_and(|a| self.all[unit as usize].span.start < a.start));
        let units = list[first..].iter().map(|&unit| unit as usize);
        units.take_while(move |&unit| Some(self.all[unit].span) == around)
    }

    /// The last byte of the unit that ends before a place.
    pub(crate) fn before(&self, span: Span) -> Option<Span> {
        let list = self.by_file.get(span.file.0 as usize)?;
        let after = list.partition_point(|&unit| self.all[unit as usize].span.start < span.start);
        let before = self.all[*list.get(after.checked_sub(1)?)? as usize].span;
        Some(Span { start: before.end.saturating_sub(1).max(before.start), ..before })
    }

    /// The text around a place, up to the units before and after it.
    pub(crate) fn gap(&self, analysis: &Analysis, span: Span) -> Span {
        let Some(list) = self.by_file.get(span.file.0 as usize) else { return span };
        let after = list.partition_point(|&unit| self.all[unit as usize].span.start <= span.start);
        let start = after.checked_sub(1).map_or(0, |before| self.all[list[before] as usize].span.end);
        let len = analysis.session.sources.files.get(span.file.0 as usize).map_or(0, |f| f.text.len() as u32);
        let end = list.get(after).map_or(len, |&unit| self.all[unit as usize].span.start);
        Span { file: span.file, start: start.min(end), end }
    }

    /// The place of a span in this version of the program. There is none for text between units, such as what a
    /// macro is applied to: spaces and comments before it may change unnoticed.
    pub(crate) fn place(&self, analysis: &Analysis, span: Span) -> Option<Place> {
        let file = analysis.session.sources.files.get(span.file.0 as usize)?;
        let path = file.path.clone();
        match self.at(span).filter(|_| span.is_place()).map(|unit| &self.all[unit]) {
            Some(unit) => {
                let (start, end) = (span.start - unit.span.start, span.end - unit.span.start);
                Some(Place { path, unit: Some(unit.text), start, end })
            }
            None => {
                let is_fixed = !span.is_place() || driver::session::core_text(&path).is_some();
                is_fixed.then_some(Place { path, unit: None, start: span.start, end: span.end })
            }
        }
    }

    /// The span of a place in this version of the program, if it is still there.
    pub(crate) fn span(&self, analysis: &Analysis, place: &Place) -> Option<Span> {
        let Some(text) = place.unit else {
            let files = &analysis.session.sources.files;
            let file = files.iter().position(|file| file.path == place.path)?;
            return Some(Span { file: syntax::FileId(file as u32), start: place.start, end: place.end });
        };
        let unit = &self.all[*self.by_text.get(&text)? as usize];
        let start = unit.span.start;
        Some(Span { file: unit.span.file, start: start + place.start, end: start + place.end })
    }
}

/// The span of a function's body.
pub(crate) fn body_span(analysis: &Analysis, decl: DeclId) -> Option<Span> {
    let ast = &analysis.program.ast;
    ast.decls[decl].kind.body().map(|body| ast.stmts[body].span)
}

/// A key for each node: of the texts of all nodes that can be reached from it.
///
/// Nodes that reach each other have one key (Tarjan's algorithm finds them, callees first); it is made of their
/// texts and the keys of what they reach.
fn closures(edges: &[Vec<u32>], texts: &[u64]) -> Vec<u64> {
    const NEW: u32 = u32::MAX;
    let n = edges.len();
    let (mut index, mut low, mut keys) = (vec![NEW; n], vec![0u32; n], vec![0u64; n]);
    let mut is_open = vec![false; n];
    let (mut stack, mut next): (Vec<u32>, u32) = (Vec::new(), 0);
    for start in 0..n {
        if index[start] != NEW {
            continue;
        }
        // The nodes being visited, each with the number of its edges that have been followed.
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((node, followed)) = path.last_mut() {
            let node = *node;
            if *followed == 0 && index[node] == NEW {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node as u32);
                is_open[node] = true;
            }
            if let Some(&to) = edges[node].get(*followed) {
                *followed += 1;
                let to = to as usize;
                if index[to] == NEW {
                    path.push((to, 0));
                } else if is_open[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                let first = stack.iter().rposition(|&k| k as usize == node).unwrap_or(0);
                let members = stack.split_off(first);
                members.iter().for_each(|&k| is_open[k as usize] = false);
                let mut parts: Vec<u64> = members.iter().map(|&k| texts[k as usize]).collect();
                let outer = members.iter().flat_map(|&k| &edges[k as usize]);
                parts.extend(outer.filter(|&to| !members.contains(to)).map(|&to| keys[to as usize]));
                parts.sort_unstable();
                parts.dedup();
                let key = hash(parts);
                members.iter().for_each(|&k| keys[k as usize] = key);
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::closures;

    #[test]
    fn a_key_changes_with_any_text_that_is_reached() {
        // 0 → 1 ⇄ 2 → 3, and 4 alone.
        let edges = [vec![1], vec![2], vec![1, 3], vec![], vec![]];
        let before = closures(&edges, &[1, 2, 3, 4, 5]);
        for changed in 0..5 {
            let mut texts = [1, 2, 3, 4, 5];
            texts[changed] = 9;
            let after = closures(&edges, &texts);
            let reaches = [[0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [0; 5]];
            for node in 0..5 {
                let expected = node == changed || reaches[changed][node] == 1;
                assert_eq!(before[node] != after[node], expected, "{node} after a change of {changed}");
            }
        }
    }
}
