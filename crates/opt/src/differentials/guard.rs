//! Represents the conditions under which a differential is present.

use ir::{Function, Op, Scalar, Type, TypeData, Types, Value};
use smallvec::SmallVec;

/// The maximum number of parts of a guard; larger guards are given up.
const PARTS: u32 = 12;

/// The index of a guard in [`Guards`].
pub(super) type GuardId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    Is(Value),
    Not(Value),
    /// The differential differs from -0, which represents its absence.
    Present(Value, Type),
    And(GuardId, GuardId),
    Or(GuardId, GuardId),
}

/// The guards of a function; equal guards that are made shortly after one another are shared.
#[derive(Default)]
pub(super) struct Guards(Vec<Entry>);

struct Entry {
    guard: Guard,
    parts: u32,
    /// The number of lanes of its conditions; 0 for scalars.
    lanes: u32,
}

impl Guards {
    /// A guard that is a single condition, or a test of presence.
    pub(super) fn leaf(&mut self, types: &Types, func: &Function, guard: Guard, of: Value) -> GuardId {
        let lanes = types.lanes(func.ty(of)).unwrap_or(0);
        self.intern(guard, 1, lanes)
    }

    fn intern(&mut self, guard: Guard, parts: u32, lanes: u32) -> GuardId {
        // Equal guards are close together, so a short search from the end does as well as a map.
        let near = self.0.iter().rev().take(32).position(|entry| entry.guard == guard);
        if let Some(at) = near {
            return (self.0.len() - 1 - at) as GuardId;
        }
        self.0.push(Entry { guard, parts, lanes });
        (self.0.len() - 1) as GuardId
    }

    pub(super) fn lanes(&self, guard: GuardId) -> u32 {
        self.0[guard as usize].lanes
    }

    /// The conjunction of two guards; `None` if it has too many parts.
    pub(super) fn both(&mut self, a: GuardId, b: GuardId) -> Option<GuardId> {
        self.join(a, b, Guard::And(a, b))
    }

    /// The disjunction of two guards; `None` if it has too many parts.
    pub(super) fn either(&mut self, a: GuardId, b: GuardId) -> Option<GuardId> {
        self.join(a, b, Guard::Or(a, b))
    }

    fn join(&mut self, a: GuardId, b: GuardId, guard: Guard) -> Option<GuardId> {
        if a == b {
            return Some(a);
        }
        let (x, y) = (&self.0[a as usize], &self.0[b as usize]);
        let (parts, lanes) = (x.parts + y.parts, x.lanes);
        if lanes != y.lanes || parts > PARTS {
            return None;
        }
        Some(self.intern(guard, parts, lanes))
    }

    /// Emits a guard as a condition; `emit` makes an instruction.
    pub(super) fn condition(
        &self,
        types: &mut Types,
        guard: GuardId,
        emit: &mut dyn FnMut(Op, &[Value], Type) -> Value,
    ) -> Value {
        let mut made: SmallVec<[(GuardId, Value); 8]> = SmallVec::new();
        self.part(types, guard, emit, &mut made)
    }

    fn part(
        &self,
        types: &mut Types,
        guard: GuardId,
        emit: &mut dyn FnMut(Op, &[Value], Type) -> Value,
        made: &mut SmallVec<[(GuardId, Value); 8]>,
    ) -> Value {
        if let Some(known) = made.iter().find(|known| known.0 == guard) {
            return known.1;
        }
        let lanes = self.lanes(guard);
        let bools = match lanes {
            0 => Type::BOOL,
            n => types.vector(Scalar::Bool, n),
        };
        let v = match self.0[guard as usize].guard {
            Guard::Is(c) => c,
            Guard::Not(c) => emit(Op::Not, &[c], bools),
            Guard::Present(v, ty) => is_present(types, v, ty, bools, emit),
            Guard::And(a, b) | Guard::Or(a, b) => {
                let x = self.part(types, a, emit, made);
                let y = self.part(types, b, emit, made);
                let is_and = matches!(self.0[guard as usize].guard, Guard::And(..));
                emit(if is_and { Op::And } else { Op::Or }, &[x, y], bools)
            }
        };
        made.push((guard, v));
        v
    }
}

/// Compares the bits of a differential with those of -0.
fn is_present(
    types: &mut Types,
    v: Value,
    ty: Type,
    bools: Type,
    emit: &mut dyn FnMut(Op, &[Value], Type) -> Value,
) -> Value {
    let (s, lanes) = match types[ty] {
        TypeData::Vector(s, n) => (s, Some(n)),
        TypeData::Scalar(s) => (s, None),
        _ => unreachable!("only numbers have guards"),
    };
    let word = match s {
        Scalar::F16 => Scalar::U16,
        Scalar::F32 => Scalar::U32,
        _ => Scalar::U64,
    };
    let words = lanes.map_or(word.into(), |n| types.vector(word, n));
    let bits = emit(Op::Bitcast, &[v], words);
    let mut absent = emit(Op::Const(ir::scalar::absent(s)), &[], word.into());
    if lanes.is_some() {
        absent = emit(Op::Splat, &[absent], words);
    }
    emit(Op::Ne, &[bits, absent], bools)
}
