//! Defines views, which determine the modules whose derivatives apply when a function is differentiated, and
//! their order of precedence.
//!
//! Each module has a table of witnesses: the derivatives that it declares, for its own functions (by
//! attributes on them) or for those of other modules (*retroactive* ones). A derivative is looked up for a
//! [`View`]: the module that requests it and the module whose source contains the call. The tables are
//! searched in this order, and the first one that has a derivative wins:
//!
//! 1. the requesting module, then its imports, nearest first;
//! 2. the module whose source contains the call, then its imports, nearest first;
//! 3. the module that declares the function;
//! 4. the library.
//!
//! Imports are the modules whose names are visible: the modules that a module imports, and those that they
//! export. If two tables are equally near and the module of one imports the module of the other, the
//! importing module overrides the other. A derivative that is not visible outside its module applies in that
//! module alone.

use syntax::DeclId;

use crate::program::Program;
use crate::view::{ModuleId, View};

/// The distance of a table: the step of the search that finds it, and the number of imports on the way.
/// Smaller is nearer.
pub(crate) type Rank = (u8, u32);

/// The rank of a derivative that is declared in the function's own module.
const OWN: Rank = (2, 0);
/// The rank of the library's rules.
const LIBRARY: Rank = (3, 0);

impl Program {
    /// The module on whose behalf a declaration requests derivatives. Programs without retroactive
    /// derivatives do not distinguish modules.
    pub fn asking(&self, decl: DeclId) -> ModuleId {
        self.asking_module(self.module_of(decl))
    }

    pub(crate) fn asking_module(&self, module: usize) -> ModuleId {
        if self.registry.has_retroactive { ModuleId(module as u32) } else { ModuleId(0) }
    }

    /// Normalises a view for a function: keeps it if the function's derivatives may depend on the view, and
    /// returns the default view otherwise.
    pub fn seen_by(&mut self, decl: DeclId, view: View) -> View {
        if self.registry.has_retroactive && self.is_retroactive(decl) { view } else { View::default() }
    }

    /// The rank of a module's table; `None` if it is not visible. `decl` is the derivative, `home` the module of
    /// the function.
    pub(crate) fn rank(&self, module: usize, decl: DeclId, home: usize, view: View) -> Option<Rank> {
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

    /// The number of imports through which a module sees another's names; `None` if it does not see them.
    fn distance(&self, from: usize, to: usize) -> Option<u32> {
        self.modules.seen_from(from).into_iter().find(|seen| seen.0 == to).map(|seen| seen.1)
    }

    /// Returns true if a module imports another, directly or indirectly.
    pub(crate) fn imports(&self, from: usize, to: usize) -> bool {
        let mut reached = vec![from];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            next += 1;
            let new = self.modules.all[at].imports.iter().filter(|module| !reached.contains(module));
            reached.extend(new.copied().collect::<Vec<_>>());
        }
        reached[1..].contains(&to)
    }
}
