//! Finds pairs of memory accesses that may conflict.

use super::Conflict;
use super::form::{Atom, Form};
use crate::entities::Global;
use crate::function::Span;
use crate::module::{Module, Space};
use crate::ops::{Path, Step};

/// The maximum number of accesses of one buffer that are compared with each other.
const MOST: usize = 1200;

/// The memory that a handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Root {
    Global(Global),
    /// The memory that a global that is a pointer points to.
    Pointee(Global),
    /// The memory of a handle that was loaded and that is the same for all lanes.
    Loaded(Atom),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Store,
    Atomic,
}

/// An instruction that accesses memory, reached along one chain of calls.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) root: Root,
    pub(super) kind: Kind,
    /// The address of the first byte.
    pub(super) at: Form,
    pub(super) size: u64,
    /// The path from an element of the root's own type, if the handle refers to such elements.
    pub(super) path: Option<Path>,
    /// Writes take effect in the order of the lanes: the value is a scalar, or overlaps no other lane's value
    /// in part.
    pub(super) ordered: bool,
    /// The access's number among accesses and barriers, in the order of the text.
    pub(super) order: u32,
    /// The innermost region around the access.
    pub(super) region: usize,
    /// Numbers that are known to be zero where the access runs.
    pub(super) zeros: Vec<Form>,
    pub(super) span: Span,
}

/// A region in the walk, of a function as it is called in one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) parent: Option<usize>,
    pub(super) is_loop: bool,
}

/// All accesses that an entry point makes to memory that threads share.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    pub(super) all: Vec<Access>,
    pub(super) regions: Vec<Around>,
    /// The region of each barrier, and the barrier's number in the order of accesses and barriers.
    pub(super) barriers: Vec<(usize, u32)>,
}

impl Accesses {
    pub(super) fn conflict(&self, module: &Module, lanes: u32) -> Option<Conflict> {
        let mut roots: Vec<Root> = Vec::new();
        for access in self.all.iter().filter(|a| a.kind != Kind::Load) {
            if !roots.contains(&access.root) {
                roots.push(access.root);
            }
        }
        for &root in &roots {
            let meets = |a: &&Access| may_be_one(module, root, a.root);
            let all: Vec<&Access> = self.all.iter().filter(meets).collect();
            let only = |kind| all.iter().all(|a| a.kind == kind);
            if only(Kind::Atomic) || self.apart(&all, lanes) {
                continue;
            }
            let writes = |a: &&&Access| a.kind != Kind::Load;
            if all.len() > MOST {
                return all.iter().find(writes).map(|a| describe(module, a));
            }
            for (k, first) in all.iter().enumerate() {
                for second in &all[k..] {
                    if let Some(access) = self.meet(first, second, lanes) {
                        return Some(describe(module, access));
                    }
                }
            }
        }
        None
    }

    /// Returns true if one proof shows that no two accesses by different lanes overlap.
    fn apart(&self, all: &[&Access], lanes: u32) -> bool {
        let [first, rest @ ..] = all else { return true };
        let mut at = first.at.clone();
        for access in rest {
            if access.root != first.root || access.root == Root::Unknown {
                return false;
            }
            if access.at != first.at {
                at = at.or(&access.at);
            }
        }
        let size = all.iter().map(|a| a.size).max().unwrap_or(0);
        first.root != Root::Unknown && at.is_apart(size, &at, size, lanes)
    }

    /// Returns the conflicting one of two accesses if lanes may give a different result. `first` comes first
    /// in the text.
    fn meet<'a>(&self, first: &'a Access, second: &'a Access, lanes: u32) -> Option<&'a Access> {
        let kinds = [first.kind, second.kind];
        if kinds == [Kind::Load; 2] || kinds == [Kind::Atomic; 2] {
            return None;
        }
        let of_one_lane = |z: &Form| z.tells_lanes_apart(lanes) && second.zeros.contains(z);
        if first.zeros.iter().any(of_one_lane) {
            return None;
        }
        let meets = |earlier: &Access, later: &Access| {
            earlier.root != later.root
                || earlier.root == Root::Unknown
                || !parts(earlier, later) && !earlier.at.is_apart(earlier.size, &later.at, later.size, lanes)
        };
        let is_same = first.order == second.order;
        let found = if is_same {
            !first.ordered && meets(first, first) || self.again(first, first) && meets(first, first)
        } else {
            (self.before(first, second) || self.again(first, second)) && meets(first, second)
                || self.again(second, first) && meets(second, first)
        };
        found.then_some(if first.kind == Kind::Store { first } else { second })
    }

    fn contains(&self, outer: usize, inner: usize) -> bool {
        let mut at = Some(inner);
        while let Some(region) = at {
            if region == outer {
                return true;
            }
            at = self.regions[region].parent;
        }
        false
    }

    /// Returns true if a later instruction is reached from an earlier one without a barrier, within the same
    /// trip of the loops around them.
    fn before(&self, earlier: &Access, later: &Access) -> bool {
        !self.barriers.iter().any(|&(region, order)| {
            (earlier.order..later.order).contains(&order)
                && (self.contains(region, earlier.region) || self.contains(region, later.region))
        })
    }

    /// Returns true if an instruction is reached from another one in a later trip of a loop around both,
    /// without a barrier.
    fn again(&self, earlier: &Access, later: &Access) -> bool {
        let mut at = Some(earlier.region);
        while let Some(region) = at {
            let around = self.regions[region];
            at = around.parent;
            if !around.is_loop || !self.contains(region, later.region) {
                continue;
            }
            let separated = self.barriers.iter().any(|&(inner, order)| {
                self.contains(region, inner)
                    && (order > earlier.order && self.contains(inner, earlier.region)
                        || order < later.order && self.contains(inner, later.region))
            });
            if !separated {
                return true;
            }
        }
        false
    }
}

/// Returns true if two accesses touch different parts of an element, whichever elements they access.
fn parts(a: &Access, b: &Access) -> bool {
    let (Some(a), Some(b)) = (&a.path, &b.path) else { return false };
    let differs = |(a, b): (&Step, &Step)| matches!((a, b), (Step::Static(a), Step::Static(b)) if a != b);
    a.0.iter().zip(&b.0).any(differs)
}

/// Returns true if two handles may refer to the same memory.
fn may_be_one(module: &Module, a: Root, b: Root) -> bool {
    match (a, b) {
        (Root::Global(a), Root::Global(b)) | (Root::Pointee(a), Root::Pointee(b)) => a == b,
        (Root::Global(_), Root::Pointee(_)) | (Root::Pointee(_), Root::Global(_)) => false,
        (Root::Global(g), Root::Loaded(_) | Root::Unknown)
        | (Root::Loaded(_) | Root::Unknown, Root::Global(g)) => module.globals[g].space == Space::ReadWrite,
        (Root::Loaded(_) | Root::Unknown | Root::Pointee(_), Root::Loaded(_) | Root::Unknown)
        | (Root::Loaded(_) | Root::Unknown, Root::Pointee(_)) => true,
    }
}

fn describe(module: &Module, access: &Access) -> Conflict {
    let whose = match access.root {
        Root::Global(g) | Root::Pointee(g) => {
            let name = &module.globals[g].name;
            format!("`{}`", name.split_once(".__").map_or(&name[..], |n| n.0))
        }
        Root::Loaded(_) | Root::Unknown => "memory behind a pointer".to_string(),
    };
    Conflict {
        what: format!("{whose}, where one thread may access what another one writes"),
        span: access.span,
    }
}
