//! Values of interface type: the types they may contain, and their leaves.
//!
//! Compilation sees the whole program, so the types that a value of interface type may contain are known: the
//! types that are converted to the interface somewhere, the types that the host names, and, if values are
//! made from numbers (buffers, `createDynamicObject`) and the host names none, all structs that conform. The
//! set of converted types is known only when everything has been lowered, so lowering is repeated until it
//! finds no new ones ([`Conformances::settle`]).
//!
//! The leaves are a *tag*, which is the number of the type plus one (0: no type), and *slots*, which the
//! types share. A leaf of a type uses a slot of its own IR type, and leaves with a tangent share slots only
//! with other leaves with a tangent. So no bits are reinterpreted, and differentiation sees numbers; slots
//! that a type does not use are zero.
//!
//! The differential of an existential type is that of the value it contains: the same tag, and the slots that
//! have a tangent, in order. Tag 0 is the null differential: the zero of an unknown type.

use std::rc::Rc;

use check::Program;
use check::types::{Ty, TyKind};
use indexmap::IndexSet;
use ir::{Type, Types};
use rustc_hash::FxBuildHasher;
use syntax::{Diagnostic, Span};

use crate::layout::{DiffMap, Layout, Leaf};
use crate::lowerer::{FxIndexMap, Lowerer};

/// The maximum number of rounds. More rounds mean that each one finds a type built from the types of the one
/// before.
const MAX_ROUNDS: u32 = 40;

/// A type that a value of interface type may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Implementation {
    /// The number of the type in the program plus one.
    pub(crate) tag: u32,
    pub(crate) ty: Ty,
}

/// The types in values of interface type, by interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conformances {
    /// Interface, type and number, as given by the host.
    named: Vec<(Ty, Ty, Option<u32>)>,
    /// Types that are converted to each interface, in the order in which they were found.
    found: FxIndexMap<Ty, IndexSet<Ty, FxBuildHasher>>,
    /// Interfaces whose values are made from numbers.
    from_data: IndexSet<Ty, FxBuildHasher>,
    /// The first place of each interface where the type in a value decides which function is called.
    calls: FxIndexMap<Ty, Span>,
    /// The sets that the current round uses.
    sets: FxIndexMap<Ty, Vec<Implementation>>,
    rounds: u32,
}

impl Conformances {
    pub(crate) fn new(program: &mut Program, named: &[(Ty, Ty, Option<u32>)]) -> Conformances {
        let named = named.iter().map(|&(ty, interface, id)| (interface, ty, id)).collect();
        let mut conformances = Conformances { named, ..Conformances::default() };
        conformances.settle(program);
        conformances
    }

    /// Takes in the types found in a round. Returns true if that changes any set.
    pub(crate) fn settle(&mut self, program: &mut Program) -> bool {
        let mut interfaces: IndexSet<Ty, FxBuildHasher> = self.named.iter().map(|n| n.0).collect();
        interfaces.extend(self.from_data.iter().copied());
        interfaces.extend(self.found.keys().copied());
        let mut sets = FxIndexMap::default();
        for interface in interfaces {
            let mut set: Vec<Implementation> = Vec::new();
            for &(_, ty, id) in self.named.iter().filter(|n| n.0 == interface) {
                let id = id.unwrap_or_else(|| next_id(&set));
                set.push(Implementation { tag: id.wrapping_add(1), ty });
            }
            let mut more = Vec::new();
            if set.is_empty() && self.from_data.contains(&interface) {
                more = program.conforming_structs(interface);
            }
            more.extend(self.found.get(&interface).into_iter().flatten().copied());
            for ty in more {
                if set.iter().all(|i| i.ty != ty) {
                    set.push(Implementation { tag: next_id(&set).wrapping_add(1), ty });
                }
            }
            sets.insert(interface, set);
        }
        let changed = sets != self.sets;
        if changed {
            // The next round notes them again.
            self.calls.clear();
        }
        self.sets = sets;
        self.rounds += 1;
        changed
    }

    /// Notes a place where the type in a value of an interface decides.
    pub(crate) fn note_call(&mut self, interface: Ty, span: Span) {
        self.calls.entry(interface).or_insert(span);
    }

    /// Warns about such places that the author cannot have meant.
    pub(crate) fn doubtful(&self, program: &mut Program) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (&interface, &span) in &self.calls {
            let TyKind::Interface(decl, _) = program.types[interface] else { continue };
            if program.is_core(decl) {
                continue;
            }
            let name = program.type_name(interface);
            let n = self.sets.get(&interface).map_or(0, Vec::len);
            // The host may name types that conform to a generic interface.
            if n == 0
                && program.all_generic_params(decl).is_empty()
                && program.conforming_structs(interface).is_empty()
            {
                let message = format!("no type of this program conforms to `{name}`, so this calls nothing");
                let help = "declare a struct that conforms, or name one by `--conform`";
                found.push(Diagnostic::warning("E50100", span, message).help(help));
            } else if n > 1 && program.attribute(decl, "Specialize").is_some() {
                let message =
                    format!("the type of this `{name}` is known at run time only, but it is `[Specialize]`");
                let help = "Slang refuses this: call it for values of known types, or remove `[Specialize]`";
                found.push(Diagnostic::warning("E52008", span, message).help(help));
            }
        }
        found
    }

    /// Returns an interface whose set of types keeps growing, if it seems that lowering would never end.
    pub(crate) fn is_endless(&self) -> Option<Ty> {
        let largest = self.sets.iter().max_by_key(|s| s.1.len())?;
        (self.rounds > MAX_ROUNDS || largest.1.len() > 4096).then_some(*largest.0)
    }
}

/// The number after the greatest one in use.
fn next_id(set: &[Implementation]) -> u32 {
    set.iter().map(|i| i.tag).max().unwrap_or(0)
}

/// The role of a leaf in differentiation. Leaves share slots only with leaves of the same role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The leaf has no tangent.
    Plain,
    /// The differential contains the same leaf.
    Same,
    /// The leaf has a tangent.
    Tangent,
}

/// The assignment of a type's leaves to the slots of an existential type.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) tag: u32,
    pub(crate) ty: Ty,
    /// For each leaf of the type, the leaf of the existential type.
    pub(crate) slots: Vec<usize>,
}

/// How the types of an existential type share its leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Existential {
    pub(crate) types: Vec<Placed>,
    leaves: Vec<Leaf>,
    roles: Vec<Role>,
}

impl Existential {
    /// The index of the type with the given tag.
    pub(crate) fn position(&self, tag: u32) -> Option<usize> {
        self.types.iter().position(|t| t.tag == tag)
    }

    fn add(&mut self, leaf: &Leaf, role: Role) -> usize {
        let name = if leaf.name.is_empty() { ".value".to_owned() } else { leaf.name.clone() };
        self.leaves.push(Leaf { name, ..leaf.clone() });
        self.roles.push(role);
        self.leaves.len() - 1
    }
}

impl Lowerer<'_> {
    /// The types that values of an existential type may contain in this round, with their tags.
    fn implementations(&mut self, ty: Ty) -> Vec<Implementation> {
        match self.program.types[ty] {
            TyKind::Interface(..) => self.conformances.sets.get(&ty).cloned().unwrap_or_default(),
            TyKind::Assoc(base, assoc) => {
                let mut found = self.implementations(base);
                for implementation in &mut found {
                    implementation.ty = self.program.project(implementation.ty, assoc);
                }
                found.retain(|i| i.ty != Ty::ERROR);
                found
            }
            _ => Vec::new(),
        }
    }

    /// The types that values of an existential type may contain in this round.
    pub(crate) fn types_in(&mut self, ty: Ty) -> Vec<Ty> {
        self.implementations(ty).into_iter().map(|i| i.ty).collect()
    }

    /// Records that a type is converted to an interface.
    pub(crate) fn note_conversion(&mut self, ty: Ty, interface: Ty) {
        self.conformances.found.entry(interface).or_default().insert(ty);
    }

    /// Records that values of an existential type are made from numbers.
    pub(crate) fn note_from_data(&mut self, ty: Ty) {
        let mut at = ty;
        while let TyKind::Assoc(base, _) = self.program.types[at] {
            at = base;
        }
        self.conformances.from_data.insert(at);
    }

    /// How the types of an existential type share its leaves.
    pub(crate) fn existential(&mut self, types: &mut Types, ty: Ty) -> Rc<Existential> {
        self.layout(types, ty);
        self.types.existentials.get(&ty).cloned().unwrap_or_default()
    }

    /// The layout of an existential type.
    pub(crate) fn existential_layout(&mut self, types: &mut Types, existential: Ty, depth: u32) -> Layout {
        let ty = existential;
        let mut shared = Existential::default();
        shared.leaves.push(Leaf { name: ".type".to_owned(), ty: Type::U32, is_array: false, is_tag: true });
        shared.roles.push(Role::Same);
        let implementations = self.implementations(ty);
        let differentiable = self.program.differential(ty).is_some();
        let of_base = match self.program.types[ty] {
            TyKind::Assoc(base, assoc) if self.program.is_differential(assoc) => {
                Some(self.mirror(types, base, &mut shared, depth))
            }
            _ => None,
        };
        let mirrored = shared.leaves.len();
        for Implementation { tag, ty } in implementations {
            if self.types.open.contains(&ty) {
                self.contains_itself(ty, existential);
                continue;
            }
            let layout = self.layout_at(types, ty, depth + 1);
            let mut slots = vec![usize::MAX; layout.leaves.len()];
            if let Some((base, slot_of)) = &of_base
                && let Some(idx) = base.position(tag)
                && let Some(map) = self.diff_map(types, base.types[idx].ty)
            {
                let pairs = map.map.iter().enumerate().filter_map(|(from, to)| to.map(|to| (from, to)));
                for (from, to) in pairs.chain(map.same.iter().copied()) {
                    let slot = slot_of[base.types[idx].slots[from]];
                    if let (Some(own), Some(slot)) = (slots.get_mut(to), slot) {
                        *own = slot;
                    }
                }
            }
            let roles = self.roles(types, ty, layout.leaves.len(), differentiable);
            let mut used = vec![false; shared.leaves.len()];
            for ((leaf, role), own) in layout.leaves.iter().zip(roles).zip(&mut slots) {
                if *own != usize::MAX {
                    continue;
                }
                let free = (mirrored..used.len()).find(|&s| {
                    let other = &shared.leaves[s];
                    let alike = other.ty == leaf.ty && other.is_array == leaf.is_array;
                    !used[s] && alike && other.is_tag == leaf.is_tag && shared.roles[s] == role
                });
                let slot = free.unwrap_or_else(|| shared.add(leaf, role));
                used.resize(shared.leaves.len(), false);
                used[slot] = true;
                *own = slot;
            }
            shared.types.push(Placed { tag, ty, slots });
        }
        let leaves = shared.leaves.clone();
        self.types.existentials.insert(ty, Rc::new(shared));
        Layout { leaves, parts: Vec::new() }
    }

    /// Adds the first slots of a differential: those that correspond to slots of the primal. Returns the
    /// primal and, for each of its slots, the differential's slot.
    fn mirror(
        &mut self,
        types: &mut Types,
        base: Ty,
        shared: &mut Existential,
        depth: u32,
    ) -> (Rc<Existential>, Vec<Option<usize>>) {
        self.layout_at(types, base, depth + 1);
        let primal = self.types.existentials.get(&base).cloned().unwrap_or_default();
        let mut slot_of = vec![Some(0)];
        for (leaf, &role) in primal.leaves.iter().zip(&primal.roles).skip(1) {
            slot_of.push((role != Role::Plain).then(|| shared.add(leaf, role)));
        }
        (primal, slot_of)
    }

    fn roles(&mut self, types: &mut Types, ty: Ty, n: usize, differentiable: bool) -> Vec<Role> {
        let map = if differentiable { self.diff_map(types, ty) } else { None };
        let role = |k: usize| match &map {
            Some(map) if map.map.get(k).is_some_and(Option::is_some) => Role::Tangent,
            Some(map) if map.same.iter().any(|s| s.0 == k) => Role::Same,
            _ => Role::Plain,
        };
        (0..n).map(role).collect()
    }

    /// The map from the slots of an existential type to their tangents, merged from the maps of all types in
    /// it.
    pub(crate) fn existential_diff_map(&mut self, types: &mut Types, ty: Ty, differential: Ty) -> DiffMap {
        let (own, target) = (self.existential(types, ty), self.existential(types, differential));
        let mut map = vec![None; own.leaves.len()];
        let mut same = vec![(0, 0)];
        for placed in &own.types {
            let (Some(to), Some(inner)) = (target.position(placed.tag), self.diff_map(types, placed.ty))
            else {
                continue;
            };
            let to = &target.types[to].slots;
            let mut clash = false;
            for (from, inner_to) in inner.map.iter().enumerate() {
                let Some(at) = inner_to.and_then(|d| to.get(d).copied()) else { continue };
                let entry: &mut Option<usize> = &mut map[placed.slots[from]];
                clash |= entry.is_some_and(|old| old != at);
                *entry = Some(at);
            }
            for &(from, inner_to) in &inner.same {
                let pair = (placed.slots[from], to[inner_to]);
                if !same.contains(&pair) {
                    clash |= same.iter().any(|s| s.1 == pair.1);
                    same.push(pair);
                }
            }
            if clash {
                let name = self.program.type_name(placed.ty);
                let span = self.span_of_type(placed.ty);
                self.unsupported(
                    span,
                    format_args!("the differential of `{name}` within a value of interface type is"),
                );
            }
        }
        DiffMap { ty: differential, map, same }
    }

    /// Reports an existential type whose layout is needed for itself: a value of one of its types contains a
    /// value of the existential type.
    pub(crate) fn check_circular(&mut self, ty: Ty) {
        if !self.program.is_existential(ty) {
            return;
        }
        let Some(at) = self.types.open.iter().position(|&open| open == ty) else { return };
        if let Some(&implementation) = self.types.open.get(at + 1) {
            self.contains_itself(implementation, ty);
        }
    }

    /// Reports a type that occurs in values of an existential type and contains such a value.
    fn contains_itself(&mut self, ty: Ty, existential: Ty) {
        let (name, interface) = (self.program.type_name(ty), self.program.type_name(existential));
        let span = self.span_of_type(ty);
        let message = format!(
            "a value of type `{interface}` may hold a `{name}`, which contains a value of type `{interface}`, without end"
        );
        let note = "break the cycle with a pointer or a buffer";
        self.error("E41003", span, message);
        self.help(note);
    }

    /// The location of a type's declaration.
    pub(crate) fn span_of_type(&self, ty: Ty) -> Span {
        span_of_type(self.program, ty)
    }
}

/// The location of a type's declaration.
fn span_of_type(program: &Program, ty: Ty) -> Span {
    let mut at = ty;
    loop {
        match program.types[at] {
            TyKind::Struct(decl, _) | TyKind::Interface(decl, _) | TyKind::Enum(decl) => {
                return program.name_span(decl);
            }
            TyKind::Assoc(base, _) | TyKind::SynthDiff(base) => at = base,
            _ => return crate::lowerer::NOWHERE,
        }
    }
}

/// The error that the set of types of an interface keeps growing.
pub(crate) fn endless_types(program: &Program, interface: Ty) -> Diagnostic {
    let message = format!("the set of types of the values of `{}` is infinite", program.type_name(interface));
    Diagnostic::error("E0908", span_of_type(program, interface), message)
        .help("does a generic type that conforms to it hold a value that was made of one of its own kind?")
}
