//! Rewrites the stacks that loops make, and reads of them: those that are passed on together ([`ir::analysis::bundles`])
//! are one stack, whose elements are records.

use ir::analysis::Analyses;
use ir::analysis::bundles::{Bundle, Bundles, Form, Member};
use ir::build::Builder;
use ir::{Function, Inst, InstData, Op, Region, Type, Types, Value};

use super::Cx;
use super::rewrite::Rewriter;

/// The records of a function.
pub(super) struct Records {
    /// The stacks that are one.
    pub(super) bundles: Bundles,
    /// The place of each bundle's stack.
    held: Vec<Option<Value>>,
    /// For the bundle of each loop: the places of the fields in a record, and its size, in bytes.
    layouts: Vec<(Vec<u32>, u32)>,
}

impl Records {
    pub(super) fn of(types: &Types, f: &Function) -> Records {
        let bundles = Bundles::of(&Analyses::of(types, f), Form::Records);
        let n = bundles.count();
        Records { bundles, held: vec![None; n], layouts: vec![(Vec::new(), 0); n] }
    }

    fn held(&self, bundle: Bundle) -> Value {
        self.held[bundle].expect("a bundle is made before it is used")
    }
}

/// A stack that a loop makes.
pub(super) struct Pushed {
    /// The fields of its elements.
    fields: Vec<Field>,
    /// The number of bytes of an element.
    pub(super) size: u32,
    /// The bundle that it is; otherwise it is one stack of the IR.
    bundle: Option<Bundle>,
}

struct Field {
    /// The number of the first stack of the IR that is in it.
    number: usize,
    ty: Type,
    /// The place in the element.
    at: u32,
}

/// The place of what a read gives.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The number of bytes of an element, and the place in it.
    pub(super) size: u32,
    pub(super) at: u32,
}

impl Rewriter<'_, '_> {
    /// The stacks that a loop makes, and that have uses.
    pub(super) fn pushed(&mut self, types: &mut Types, inst: Inst) -> Vec<Pushed> {
        let data = &self.f.insts[inst];
        let results = &data.results[data.n_carried()..];
        let columns: Vec<(usize, Option<Bundle>)> = match self.records.bundles.columns(inst) {
            Some(columns) => columns.iter().map(|c| (c.members[0], c.bundle)).collect(),
            None => (0..results.len()).map(|k| (k, None)).collect(),
        };
        let (mut all, mut record): (Vec<Pushed>, Option<usize>) = (Vec::new(), None);
        for (number, bundle) in columns {
            let v = results[number];
            let ty = types.element(self.f.ty(v)).expect("a loop yields stacks");
            let size = self.cx.size(types, ty);
            match (bundle, record) {
                (None, _) if self.facts.uses[v] == 0 => {}
                (Some(_), Some(known)) => {
                    let stack = &mut all[known];
                    stack.fields.push(Field { number, ty, at: stack.size });
                    stack.size = stack.size.saturating_add(size);
                }
                _ => {
                    record = record.or(bundle.map(|_| all.len()));
                    all.push(Pushed { fields: vec![Field { number, ty, at: 0 }], size, bundle });
                }
            }
        }
        for stack in &all {
            if let Some(bundle) = stack.bundle {
                let places = stack.fields.iter().map(|field| field.at).collect();
                self.records.layouts[bundle] = (places, stack.size);
            }
        }
        all
    }

    /// The fields of an element, with what a trip yields for each: these are the stacked values of the body.
    pub(super) fn fields(&self, stack: &Pushed, stacked: &[Value]) -> Vec<(u32, Value, Type)> {
        let value = |field: &Field| {
            let v = stacked[field.number];
            match self.records.bundles.member(v) {
                Some(member) => self.records.held(member.bundle),
                None => self.get(v),
            }
        };
        stack.fields.iter().map(|field| (field.at, value(field), field.ty)).collect()
    }

    /// Sets the results of a loop that are such a stack.
    pub(super) fn set_stack(&mut self, b: &mut Builder, data: &InstData, stack: &Pushed, made: Value) {
        match stack.bundle {
            Some(bundle) => self.records.held[bundle] = Some(made),
            None => self.set(b, data.results[data.n_carried() + stack.fields[0].number], made),
        }
    }

    /// Where in its elements a stack's own are, if it is part of a bundle.
    fn slot(&self, member: Member) -> Slot {
        let place = self.records.bundles.place(member.place);
        let origin = self.records.bundles.member(place.origin).expect("a loop made it").bundle;
        let (fields, size) = &self.records.layouts[origin];
        Slot { size: *size, at: fields[place.column] }
    }

    /// `stack[i]`
    pub(super) fn index(&mut self, b: &mut Builder, data: &InstData) {
        let (stack, result) = (data.args[0], data.results[0]);
        let leader = self.records.bundles.leader(result);
        if self.records.bundles.member(result).is_some() && leader.is_none() {
            return;
        }
        let element = b.types.element(self.f.ty(stack)).expect("the caller has a stack");
        let (place, slot) = match self.records.bundles.member(stack) {
            Some(member) => (self.records.held(member.bundle), self.slot(member)),
            None => (self.get(stack), Slot { size: self.cx.size(b.types, element), at: 0 }),
        };
        let i = self.index_of(b, data.args[1]);
        let header = self.header(b, place);
        let part = self.element(b, header, i, (element, slot));
        let v = self.value(b, &part);
        match leader {
            Some(bundle) => self.records.held[bundle] = Some(v),
            None => self.set(b, result, v),
        }
    }

    /// The results of an arm of an instruction: those that are no parts of bundles, and the bundles.
    pub(super) fn results_of_arm(&self, b: &mut Builder, data: &InstData, arm: Region) -> Vec<Value> {
        let bundles = &self.records.bundles;
        let yielded = self.f.regions[arm].results.iter().zip(&data.results);
        let alone = yielded.filter(|&(_, &result)| bundles.member(result).is_none());
        let mut all: Vec<Value> = alone.map(|(&v, _)| self.get(v)).collect();
        for join in bundles.joins(data) {
            all.push(if join.arm == arm { self.records.held(join.of) } else { b.u32(0) });
        }
        all
    }

    /// Makes the bundles that are results of an instruction.
    pub(super) fn joined(&mut self, b: &mut Builder, data: &InstData) -> Vec<Value> {
        let mut all = Vec::new();
        for join in self.records.bundles.joins(data) {
            let made = b.func.values.push(ir::ValueData::new(Type::U32));
            self.records.held[join.bundle] = Some(made);
            all.push(made);
        }
        all
    }
}

impl Cx<'_> {
    /// Writes fields of a record: their places in it, values and types.
    pub(super) fn write_fields(&mut self, b: &mut Builder, record: Value, fields: &[(u32, Value, Type)]) {
        for &(at, v, ty) in fields {
            let place = self.within(b, record, at);
            self.write(b, place, v, ty);
        }
    }

    /// `place + bytes`
    pub(super) fn within(&self, b: &mut Builder, place: Value, bytes: u32) -> Value {
        if bytes == 0 {
            return place;
        }
        let bytes = b.u32(bytes);
        b.emit(Op::Add, &[place, bytes])
    }
}
