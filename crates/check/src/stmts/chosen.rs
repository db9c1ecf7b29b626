//! Finds pointers that lead to one of several local variables, as the program runs: `p = c ? &a : &b[i]`.
//!
//! Memory has no derivative, so a variable with one cannot be kept there for the sake of its address. A local pointer
//! that is only declared with, or set to, addresses of places in variables of the same function, null, and other such
//! pointers, and is otherwise dereferenced, needs no memory: it is the number of one of the places that are known here,
//! with the indices that its address was taken with. What is read through it comes from the place with that number, and
//! so does the derivative.
//!
//! Pointers that are set to each other lead to the same places and form a class. A class qualifies as a whole, and only
//! if all of its variables outlive all of its pointers, so that each place exists wherever a pointer may lead to it.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::{DeclKind, StmtKind};
use syntax::{DeclId, ExprId, StmtId};

use crate::program::Program;
use crate::tables::{Chosen, ChosenPlace, Meaning};
use crate::types::{Ty, TyKind};

/// A class of pointers, as far as it is known.
#[derive(Default)]
struct Class {
    pointers: Vec<DeclId>,
    places: Vec<ChosenPlace>,
    /// The variables that the places lie in.
    variables: Vec<DeclId>,
    fails: bool,
}

impl Program {
    /// Records such pointers of a differentiable function's body, and gives what they lead to its meaning.
    pub(crate) fn resolve_chosen(&mut self, body: StmtId) {
        let (exprs, locals) = self.body_parts(body);
        let pointers: Vec<DeclId> = locals.into_iter().filter(|&local| self.may_choose(local)).collect();
        // A lambda may use a pointer where this walk does not see it.
        let is_lambda = |&e: &ExprId| matches!(self.ast.exprs[e].kind, syntax::ast::ExprKind::Lambda(_));
        if pointers.is_empty() || exprs.iter().any(is_lambda) {
            return;
        }
        let index: FxHashMap<DeclId, usize> = pointers.iter().enumerate().map(|(k, &p)| (p, k)).collect();
        let mut finder = Finder {
            classes: pointers.iter().map(|&p| Class { pointers: vec![p], ..Class::default() }).collect(),
            of: (0..pointers.len()).collect(),
            index,
            seen: FxHashSet::default(),
        };
        let scopes = self.scopes_of(body);
        for &pointer in &pointers {
            if let Some(init) = self.ast.decls[pointer].kind.init() {
                finder.source(self, pointer, init);
            }
        }
        for &e in &exprs {
            let Meaning::Assign { op: None, target, value } = self.tables.exprs[e].meaning else { continue };
            let target = self.tables.plain(target);
            if let Meaning::Var(pointer) = self.tables.exprs[target].meaning
                && finder.index.contains_key(&pointer)
                && scopes.statements.contains(&e)
            {
                finder.seen.insert(target);
                finder.source(self, pointer, value);
            }
        }
        // Where each is dereferenced: the expressions that denote what it leads to.
        let mut uses: Vec<(ExprId, DeclId)> = Vec::new();
        for &e in &exprs {
            let Meaning::Deref(inner) = self.tables.exprs[e].meaning else { continue };
            let name = self.tables.plain(inner);
            if let Meaning::Var(pointer) = self.tables.exprs[name].meaning
                && finder.index.contains_key(&pointer)
            {
                finder.seen.insert(name);
                uses.push((e, pointer));
            }
        }
        for &e in &exprs {
            let info = &self.tables.exprs[e];
            let Meaning::Var(pointer) = info.meaning else { continue };
            let Some(&k) = finder.index.get(&pointer) else { continue };
            if finder.seen.contains(&e) {
                continue;
            }
            if info.coerce.is_some() && info.coerce == self.content(info.ty) {
                uses.push((e, pointer));
            } else {
                let class = finder.root(k);
                finder.classes[class].fails = true;
            }
        }
        let mut found: Vec<Option<Rc<Chosen>>> = vec![None; pointers.len()];
        for (k, found) in found.iter_mut().enumerate() {
            let class = std::mem::take(&mut finder.classes[k]);
            let outlives = |&v: &DeclId| class.pointers.iter().all(|&p| scopes.outlives(v, p));
            if finder.of[k] != k
                || class.fails
                || class.places.is_empty()
                || !class.variables.iter().all(outlives)
            {
                continue;
            }
            self.tables.addresses.extend(class.places.iter().map(|place| place.address));
            *found = Some(Rc::new(Chosen { places: class.places }));
        }
        for (k, &pointer) in pointers.iter().enumerate() {
            if let Some(class) = &found[finder.root(k)] {
                self.tables.chosen.insert(pointer, class.clone());
            }
        }
        for (e, pointer) in uses {
            if self.tables.chosen.contains_key(&pointer) {
                let info = &mut self.tables.exprs[e];
                info.ty = info.coerce.take().unwrap_or(info.ty);
                info.meaning = Meaning::Chosen(pointer);
            }
        }
    }

    /// Returns true for a local pointer to something that has a derivative, unless it is another name of one place.
    fn may_choose(&mut self, local: DeclId) -> bool {
        if self.tables.aliases.contains(&local) || !self.is_automatic(local) {
            return false;
        }
        let Some(content) = self.tables.decl_types[local].and_then(|ty| self.content(ty)) else {
            return false;
        };
        matches!(self.ast.decls[local].kind, DeclKind::Var { .. }) && self.differential(content).is_some()
    }

    /// The type that a pointer leads to, if a type is that of a pointer.
    fn content(&self, ty: Ty) -> Option<Ty> {
        match self.types[ty] {
            TyKind::Pointer(content, ..) => Some(self.types.bare(content)),
            _ => None,
        }
    }

    fn scopes_of(&self, body: StmtId) -> Scopes {
        let mut scopes = Scopes::default();
        let mut work = vec![body];
        while let Some(stmt) = work.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            if let StmtKind::Expr(expr) = *kind {
                scopes.statements.insert(self.tables.plain(expr));
            }
            for &decl in kind.declarations().iter() {
                scopes.declared.insert(decl, scopes.parents.get(&stmt).copied());
            }
            let first = work.len();
            kind.statements(&mut work);
            for &inner in &work[first..] {
                scopes.parents.insert(inner, stmt);
            }
        }
        scopes
    }
}

/// Where the declarations of a body are.
#[derive(Default)]
struct Scopes {
    parents: FxHashMap<StmtId, StmtId>,
    /// The statement around the declaration of each local variable.
    declared: FxHashMap<DeclId, Option<StmtId>>,
    /// The expressions that are statements.
    statements: FxHashSet<ExprId>,
}

impl Scopes {
    /// Returns true if a variable exists wherever a pointer does.
    fn outlives(&self, variable: DeclId, pointer: DeclId) -> bool {
        // A parameter is declared by no statement.
        let Some(&scope) = self.declared.get(&variable) else { return true };
        let mut at = self.declared.get(&pointer).copied().flatten();
        loop {
            if at == scope {
                return true;
            }
            match at {
                Some(inner) => at = self.parents.get(&inner).copied(),
                None => return false,
            }
        }
    }
}

struct Finder {
    classes: Vec<Class>,
    /// For each pointer, one that is in the same class; the class is where that leads.
    of: Vec<usize>,
    index: FxHashMap<DeclId, usize>,
    /// The names of pointers in places where they are known to do no harm.
    seen: FxHashSet<ExprId>,
}

impl Finder {
    fn root(&self, mut k: usize) -> usize {
        while self.of[k] != k {
            k = self.of[k];
        }
        k
    }

    /// Notes a value that a pointer is set to.
    fn source(&mut self, p: &Program, pointer: DeclId, value: ExprId) {
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            let class = self.root(self.index[&pointer]);
            let value = p.tables.plain(value);
            let info = &p.tables.exprs[value];
            let is_null = matches!(p.types[info.ty], TyKind::NullPtr);
            if info.coerce.is_some_and(|to| to != info.ty) && !is_null {
                self.classes[class].fails = true;
                continue;
            }
            match info.meaning {
                _ if is_null => {}
                Meaning::AddressOf(of) => {
                    let mut indices = Vec::new();
                    match p.named_place(value, &mut |index| {
                        indices.push(index);
                        true
                    }) {
                        Some(variable) => {
                            let place = ChosenPlace { address: value, of, indices };
                            self.classes[class].places.push(place);
                            self.classes[class].variables.push(variable);
                        }
                        None => self.classes[class].fails = true,
                    }
                }
                Meaning::Var(other) if self.index.contains_key(&other) => {
                    self.seen.insert(value);
                    self.join(class, self.root(self.index[&other]));
                }
                Meaning::Ternary(_, a, b) => work.extend([a, b]),
                _ => self.classes[class].fails = true,
            }
        }
    }

    fn join(&mut self, a: usize, b: usize) {
        if a == b {
            return;
        }
        let other = std::mem::take(&mut self.classes[b]);
        self.of[b] = a;
        let class = &mut self.classes[a];
        class.pointers.extend(other.pointers);
        class.places.extend(other.places);
        class.variables.extend(other.variables);
        class.fails |= other.fails;
    }
}
