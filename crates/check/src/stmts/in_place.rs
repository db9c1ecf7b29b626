//! Parameters that are places: those on which a function performs atomic operations.
//!
//! An `inout` or `out` parameter is a copy that is written back, and an atomic operation on a copy would lose what
//! other threads do meanwhile. So a parameter that an atomic operation updates, in the function itself or in one that
//! it passes the parameter (or a part of it) to, is the place of its argument instead. That is what these functions
//! mean: nobody else can tell the difference.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use syntax::{DeclId, ExprId};

use crate::program::Program;
use crate::signature::Direction;
use crate::tables::{Arg, Callable, Meaning};
use crate::types::TyKind;

/// A parameter of a function; `None` is `this`.
type Param = (DeclId, Option<DeclId>);

impl Program {
    /// The parameters of a function that it updates by atomic operations; `None` is `this`.
    pub fn updated_in_place(&mut self, func: DeclId) -> Rc<[Option<DeclId>]> {
        if let Some(known) = self.queries.in_place.get(&func) {
            return known.clone();
        }
        // All functions that are reached are known at the same time, so cycles of calls need no care.
        let mut found: FxHashMap<DeclId, Vec<Option<DeclId>>> = FxHashMap::default();
        let mut passes: Vec<(Param, Param)> = Vec::new();
        let mut work = vec![func];
        while let Some(at) = work.pop() {
            if found.contains_key(&at) {
                continue;
            }
            let known = self.queries.in_place.get(&at).map(|known| known.to_vec());
            let is_known = known.is_some();
            found.insert(at, known.unwrap_or_default());
            if is_known {
                continue;
            }
            for (own, callee) in self.passed_on(at) {
                match callee {
                    Some(callee) => {
                        work.push(callee.0);
                        passes.push(((at, own), callee));
                    }
                    None => found.entry(at).or_default().push(own),
                }
            }
        }
        loop {
            let mut is_done = true;
            for ((from, own), (to, param)) in &passes {
                if found[to].contains(param) && !found[from].contains(own) {
                    found.entry(*from).or_default().push(*own);
                    is_done = false;
                }
            }
            if is_done {
                break;
            }
        }
        for (func, params) in found {
            self.queries.in_place.insert(func, params.into());
        }
        self.queries.in_place.get(&func).cloned().unwrap_or_default()
    }

    /// The parameters (or parts of them) that a function's body passes on by reference, each with the parameter of the
    /// callee, or `None` for an atomic operation.
    fn passed_on(&mut self, func: DeclId) -> Vec<(Option<DeclId>, Option<Param>)> {
        let signature = self.raw_signature(func);
        let is_written = |dir: Direction| dir.is_written();
        let mut own: Vec<Option<DeclId>> =
            signature.params.iter().filter(|p| is_written(p.dir)).map(|p| p.decl).collect();
        if signature.this.as_ref().is_some_and(|this| is_written(this.dir)) {
            own.push(None);
        }
        let Some(body) = self.body_of(func).filter(|_| !own.is_empty()) else { return Vec::new() };
        self.body(func);
        let mut passed = Vec::new();
        for e in self.body_parts(body).0 {
            let (callee, base, args) = match &self.tables.exprs[e].meaning {
                Meaning::Call { func: Callable::Func(f), base, args } => (f.decl, *base, args.clone()),
                Meaning::AssignCall { func, target, .. } => (func.decl, None, vec![Arg::Expr(*target)]),
                _ => continue,
            };
            let signature = self.raw_signature(callee);
            if self.intrinsic(callee).is_some_and(|name| name.starts_with("atomic_")) {
                let place = base.or_else(|| args.first().and_then(|arg| arg.exprs().first().copied()));
                passed.extend(place.and_then(|place| self.root_param(place)).map(|root| (root, None)));
                continue;
            }
            if signature.this.as_ref().is_some_and(|this| is_written(this.dir)) {
                let root = match base {
                    Some(base) => self.root_param(base),
                    None => Some(None),
                };
                passed.extend(root.map(|root| (root, Some((callee, None)))));
            }
            for (arg, param) in args.iter().zip(&signature.params).filter(|(_, param)| is_written(param.dir))
            {
                for place in arg.exprs() {
                    passed.extend(self.root_param(place).map(|root| (root, Some((callee, param.decl)))));
                }
            }
        }
        passed.retain(|(root, _)| own.contains(root));
        passed
    }

    /// The variable, or `this` (`None`), that a place is a part of. There is none for what a pointer or a buffer leads
    /// to.
    fn root_param(&self, place: ExprId) -> Option<Option<DeclId>> {
        let mut at = place;
        loop {
            let info = &self.tables.exprs[at];
            let seen = [Some(info.ty), info.coerce];
            let leads_away = |ty| matches!(self.types[ty], TyKind::Pointer(..) | TyKind::Buffer(..));
            match &info.meaning {
                Meaning::Var(decl) if !seen.into_iter().flatten().any(leads_away) => {
                    return Some(Some(*decl));
                }
                Meaning::This | Meaning::Field { base: None, .. } => return Some(None),
                Meaning::Property { .. } => return None,
                meaning => at = meaning.base().filter(|_| !leads_away(info.ty))?,
            }
        }
    }
}
