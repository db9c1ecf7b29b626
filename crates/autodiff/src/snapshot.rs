//! Replaces repeated element reads of an array by reads from one copy, so that elements need not be kept one
//! by one.
//!
//! A loop that reads a cell and does not write it reads the same content in each trip. If the linear side
//! needs the elements read, the loop would keep one number per trip. Instead, the content is copied once
//! before the loop, and the reads become reads of that copy, which the linear side can repeat. For example, a
//! layer of a network reads its input for each of its outputs.
//!
//! Each of these reads sees the content from before the loop, so no value changes. The copy is made only
//! where it is not larger than what it saves: outside of all loops, or for small arrays.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Defs, Function, Inst, InstData, Op, Region, Type, TypeData, Types, Value, ValueData};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The maximum length of a row that may be read as a whole to get one of its elements.
const MAX_ROW: u64 = 16;
/// The maximum length of an array that may always be copied in each trip of an outer loop.
const ALWAYS: u64 = 8;

struct Survey<'a> {
    src: &'a Function,
    region_of: SecondaryMap<Inst, PackedOption<Region>>,
    holder: SecondaryMap<Region, PackedOption<Inst>>,
    depth: SecondaryMap<Region, u32>,
    loops: Vec<Inst>,
    /// The cells that each loop writes.
    written: FxHashSet<(Inst, Value)>,
    refused: EntitySet<Value>,
}

/// Rewrites those reads of cells whose results are in `stored`. Returns true if anything changed.
pub(crate) fn snapshot(types: &Types, src: &mut Function, stored: &EntitySet<Value>) -> bool {
    let mut survey = Survey {
        src,
        region_of: SecondaryMap::new(),
        holder: SecondaryMap::new(),
        depth: SecondaryMap::new(),
        loops: Vec::new(),
        written: FxHashSet::default(),
        refused: EntitySet::new(),
    };
    survey.region(src.body());
    let defs = Defs::of(src);
    let mut found: Vec<(Inst, Inst)> = Vec::new();
    for v in stored.iter() {
        let Some(load) = defs.inst(v) else { continue };
        if matches!(src.insts[load].op, Op::Load)
            && let Some(outside) = survey.hoist(types, load, &defs)
        {
            found.push((load, outside));
        }
    }
    if found.is_empty() {
        return false;
    }
    let mut copies: FxHashMap<(Value, Inst), Value> = FxHashMap::default();
    let mut before: SecondaryMap<Inst, Vec<Inst>> = SecondaryMap::new();
    for (load, outside) in found {
        let cell = src.insts[load].args[0];
        let copy = *copies.entry((cell, outside)).or_insert_with(|| {
            let content = types.content(src.ty(cell)).expect("a cell");
            let span = src.insts[outside].span;
            let (inst, v) = make(src, Op::Load, &[cell], content, span);
            before[outside].push(inst);
            v
        });
        let indices: Vec<Value> = src.insts[load].args[1..].to_vec();
        let (last, rows) = indices.split_last().expect("the read is of a part");
        let mut at = copy;
        for &idx in rows {
            let ty = types.element(src.ty(at)).expect("an array");
            let span = src.insts[load].span;
            let (inst, v) = make(src, Op::Index, &[at, idx], ty, span);
            before[load].push(inst);
            at = v;
        }
        src.insts[load].op = Op::Index;
        src.insts[load].args = [at, *last].into_iter().collect();
    }
    let regions: Vec<Region> = src.regions.keys().collect();
    for region in regions {
        let insts = std::mem::take(&mut src.regions[region].insts);
        let mut all = Vec::with_capacity(insts.len());
        for inst in insts {
            all.append(&mut before[inst]);
            all.push(inst);
        }
        src.regions[region].insts = all;
    }
    true
}

fn make(src: &mut Function, op: Op, args: &[Value], ty: Type, span: ir::Span) -> (Inst, Value) {
    let v = src.values.push(ValueData::new(ty, false));
    let inst = src.insts.push(InstData {
        op,
        args: args.into(),
        results: [v].into_iter().collect(),
        regions: SmallVec::new(),
        span,
    });
    (inst, v)
}

/// The number of scalars and vectors in a type; `None` if it contains a stack.
fn elements(types: &Types, ty: Type) -> Option<u64> {
    match types[ty] {
        TypeData::Scalar(_) | TypeData::Vector(..) => Some(1),
        TypeData::Array(t, n) => Some(elements(types, t)?.saturating_mul(n as u64)),
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => None,
    }
}

impl Survey<'_> {
    fn region(&mut self, region: Region) {
        for &inst in &self.src.regions[region].insts {
            let data = &self.src.insts[inst];
            self.region_of[inst] = Some(region).into();
            match data.op {
                Op::Store | Op::AddTo => {
                    for &outer in &self.loops {
                        self.written.insert((outer, data.args[0]));
                    }
                }
                Op::SubCell => {
                    self.refused.insert(data.args[0]);
                }
                _ => (),
            }
            let is_loop = matches!(data.op, Op::For(_) | Op::Loop(_));
            if is_loop {
                self.loops.push(inst);
            }
            for &nested in &data.regions {
                self.holder[nested] = Some(inst).into();
                self.depth[nested] = self.depth[region] + u32::from(is_loop);
                self.region(nested);
            }
            if is_loop {
                self.loops.pop();
            }
        }
    }

    /// Finds the outermost loop around a read that lies within the cell's scope and does not write the cell,
    /// if a copy before that loop is worthwhile.
    fn hoist(&self, types: &Types, load: Inst, defs: &Defs) -> Option<Inst> {
        let data = &self.src.insts[load];
        let cell = data.args[0];
        let local = defs.inst(cell)?;
        if data.args.len() < 2
            || self.refused.contains(cell)
            || !matches!(self.src.insts[local].op, Op::Local)
        {
            return None;
        }
        let mut row = types.content(self.src.ty(cell))?;
        let size = elements(types, row)?;
        for _ in &data.args[2..] {
            row = types.element(row)?;
            if elements(types, row)? > MAX_ROW {
                return None;
            }
        }
        let home = self.region_of[local].expand()?;
        let mut region = self.region_of[load].expand()?;
        let mut best = None;
        let mut trips = 1u64;
        while region != home {
            let holder = self.holder[region].expand()?;
            if matches!(self.src.insts[holder].op, Op::For(_) | Op::Loop(_)) {
                if self.written.contains(&(holder, cell)) {
                    break;
                }
                trips = trips.saturating_mul(self.known_trips(holder, defs).unwrap_or(1));
                let depth = self.depth[self.region_of[holder].expand()?];
                if depth == 0 || size <= ALWAYS.max(trips) {
                    best = Some(holder);
                }
            }
            region = self.region_of[holder].expand()?;
        }
        best
    }

    fn known_trips(&self, inst: Inst, defs: &Defs) -> Option<u64> {
        let data = &self.src.insts[inst];
        let count = match data.op {
            Op::For(_) => defs.inst(data.args[0])?,
            _ => return None,
        };
        match self.src.insts[count].op {
            Op::Const(n) => Some(n),
            _ => None,
        }
    }
}
