//! On whose behalf a function is differentiated: which modules' derivatives count, and how near they are.
//!
//! Each module has a table of witnesses: the derivatives that it declares, for its own functions (by attributes on
//! them) or for those of others (*retroactive* ones). A derivative is looked for by a [`View`]: the module that asks
//! and the module whose source holds the call. In this order, and the first table that has one counts:
//!
//! 1. the module that asks, then its imports, nearest first;
//! 2. the module whose source holds the call, then its imports, nearest first;
//! 3. the module that declares the function;
//! 4. the library.
//!
//! Imports are those whose names are seen: what a module imports, and what that exports. Where two tables are equally
//! near, one whose module imports the other's has overridden it. What is not visible outside of its module is seen
//! by that module alone.

use syntax::DeclId;
use syntax::ast::{DeclKind, Modifiers};

use crate::program::Program;

/// A module of the program; 0 is the library, or none in particular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub u32);

/// Who wants a derivative. The default sees the derivatives of all modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// The module whose source has the `fwd_diff` or `bwd_diff`.
    pub asks: ModuleId,
    /// The module whose source holds the call.
    pub calls: ModuleId,
}

impl View {
    /// The operator stands in this module.
    pub fn of(module: ModuleId) -> View {
        View { asks: module, calls: module }
    }
}

/// How near a table is: which step of the search finds it, and after how many imports. Less is nearer.
pub(crate) type Rank = (u8, u32);

/// The rank of a derivative that the module of the function declares.
const OWN: Rank = (2, 0);
/// The rank of the library's rules.
const LIBRARY: Rank = (3, 0);

/// Where a derivative is declared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The module that declares it.
    pub(crate) module: usize,
    /// The function, by which it is visible or not.
    pub(crate) decl: DeclId,
}

impl Program {
    /// The module that a declaration asks for derivatives from. Programs without retroactive derivatives do not tell
    /// modules apart.
    pub fn asking(&self, decl: DeclId) -> ModuleId {
        self.asking_module(self.module_of(decl))
    }

    pub(crate) fn asking_module(&self, module: usize) -> ModuleId {
        if self.has_retroactive { ModuleId(module as u32) } else { ModuleId(0) }
    }

    /// Whether the derivatives of a function may depend on who asks. With it, [`View`]s of functions for which they
    /// do not are made equal.
    pub fn seen_by(&mut self, decl: DeclId, view: View) -> View {
        if self.has_retroactive && self.is_retroactive(decl) { view } else { View::default() }
    }

    /// How near a table is; `None` if it is not seen. `home` is the module of the function.
    pub(crate) fn rank(&self, place: Place, home: usize, view: View) -> Option<Rank> {
        let Place { module, decl } = place;
        let (asks, calls) = (view.asks.0 as usize, view.calls.0 as usize);
        if module == 0 {
            return Some(LIBRARY);
        }
        if view == View::default() {
            return Some(if module == home { OWN } else { (0, 0) });
        }
        if module == asks {
            return Some((0, 0));
        }
        if module == home {
            return Some(OWN);
        }
        let visible = self.is_visible_outside(decl);
        if let Some(distance) = self.distance(asks, module).filter(|_| visible) {
            return Some((0, distance));
        }
        if module == calls {
            return Some((1, 0));
        }
        self.distance(calls, module).filter(|_| visible).map(|distance| (1, distance))
    }

    /// After how many imports a module sees another's names.
    fn distance(&self, from: usize, to: usize) -> Option<u32> {
        let mut queue = vec![(from, 0)];
        let mut next = 0;
        while let Some(&(at, distance)) = queue.get(next) {
            next += 1;
            if at == to {
                return Some(distance);
            }
            let more = if at == from { &self.modules[at].imports } else { &self.modules[at].exported };
            for &module in more {
                if !queue.iter().any(|q| q.0 == module) {
                    queue.push((module, distance + 1));
                }
            }
        }
        None
    }

    /// Whether a module imports another, directly or by way of others.
    pub(crate) fn imports(&self, from: usize, to: usize) -> bool {
        let mut queue = vec![from];
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            for &module in &self.modules[at].imports {
                if module == to {
                    return true;
                }
                if !queue.contains(&module) {
                    queue.push(module);
                }
            }
        }
        false
    }

    /// Whether other modules may name a declaration: it and all around it are `public`, or its module knows no
    /// visibility.
    pub(crate) fn is_visible_outside(&self, decl: DeclId) -> bool {
        if !self.modules[self.module_of(decl)].has_visibility {
            return true;
        }
        let mut at = Some(decl);
        while let Some(decl) = at {
            let d = &self.ast.decls[decl];
            let decides = match d.kind {
                DeclKind::Namespace { .. } | DeclKind::Extension { .. } | DeclKind::CBuffer { .. } => false,
                // As the interface, or as the property or subscript.
                _ => !d.parent.is_some_and(|p| {
                    matches!(
                        self.ast.decls[p].kind,
                        DeclKind::Interface { .. } | DeclKind::Property { .. } | DeclKind::Subscript { .. }
                    )
                }),
            };
            let hidden = Modifiers(Modifiers::INTERNAL.0 | Modifiers::PRIVATE.0);
            if d.modifiers.has(hidden) || decides && !d.modifiers.has(Modifiers::PUBLIC) {
                return false;
            }
            at = d.parent;
        }
        true
    }
}
