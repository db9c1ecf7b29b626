//! Entry points of the stages of a graphics pipeline: what they take and give.
//!
//! The leaves of a stage's varying parameters and of its results are spread over *ports*, each a scalar or a
//! vector with a place in the pipeline. Values with a semantic of the system (`SV_Position`) have a place that
//! is built in; the others are at locations, numbered in the order of declaration, so that the outputs of a
//! stage meet the inputs of the next one if both use the same struct. The semantics' own names have no
//! meaning, as in Slang.

use ir::pipeline::{Interpolation, Pipeline, Sampling, Stage, StageBuiltin, Varying};
use ir::{Op, Scalar, Slot, Type, TypeData, Types, Value};
use syntax::ast::{ExprKind, Modifiers};
use syntax::{DeclId, Span, Symbol};

use check::tables::{Callable, FuncRef};
use check::types::{Ty, TyKind};

use crate::body::Body;
use crate::declared::FlatParam;
use crate::lowerer::Lowerer;

/// The number of locations of a stage that every device has.
const MOST_LOCATIONS: u32 = 16;

/// A value between stages.
#[derive(Clone, Copy)]
struct Given {
    ty: Ty,
    semantic: Option<Symbol>,
    modifiers: Modifiers,
    /// `[[vk::location(n)]]`
    location: Option<u32>,
    /// The semantic is that of the struct around it.
    is_inherited: bool,
    span: Span,
}

/// One side of a stage: all that it takes, or all that it gives.
struct Side {
    stage: Stage,
    is_input: bool,
    places: Vec<Varying>,
    slots: Vec<Slot>,
    /// The places at locations in order: their indices, and the locations that they ask for.
    located: Vec<(usize, Option<Asked>)>,
}

/// A location that the program names.
#[derive(Clone, Copy)]
struct Asked {
    number: u32,
    is_inherited: bool,
    span: Span,
}

impl Side {
    fn new(stage: Stage, is_input: bool) -> Side {
        Side { stage, is_input, places: Vec::new(), slots: Vec::new(), located: Vec::new() }
    }

    /// Returns true for what a fragment stage gives, which is the colors of targets.
    fn is_target(&self) -> bool {
        self.stage == Stage::Fragment && !self.is_input
    }

    fn has(&self, builtin: StageBuiltin) -> bool {
        if self.is_input { builtin.is_input(self.stage) } else { builtin.is_output(self.stage) }
    }

    fn add(&mut self, place: Varying, ty: Type, name: &str) {
        let slot = Slot { ty, diff: false, linear: false, name: Some(name.into()) };
        self.places.push(place);
        self.slots.push(slot);
    }
}

/// The value of the system that a semantic names.
fn builtin_of(semantic: &str) -> Option<StageBuiltin> {
    Some(match semantic {
        "SV_POSITION" => StageBuiltin::Position,
        "SV_VERTEXID" => StageBuiltin::VertexIndex,
        "SV_INSTANCEID" => StageBuiltin::InstanceIndex,
        "SV_ISFRONTFACE" => StageBuiltin::FrontFacing,
        "SV_SAMPLEINDEX" => StageBuiltin::SampleIndex,
        "SV_COVERAGE" => StageBuiltin::SampleMask,
        "SV_DEPTH" => StageBuiltin::FragDepth,
        _ => return None,
    })
}

impl Lowerer<'_> {
    /// The stage of a graphics pipeline that a function is the entry point of.
    pub(crate) fn stage(&self, decl: DeclId) -> Option<Stage> {
        match self.program.stage(decl)?.as_str() {
            "vertex" => Some(Stage::Vertex),
            "fragment" | "pixel" => Some(Stage::Fragment),
            _ => None,
        }
    }

    /// The places of the values that a stage takes and gives, with the slots of its function.
    pub(crate) fn pipeline(
        &mut self,
        types: &mut Types,
        decl: DeclId,
        stage: Stage,
    ) -> (Pipeline, Vec<Slot>, Vec<Slot>) {
        let callable = Callable::Func(FuncRef { decl, args: Vec::new(), self_ty: None });
        let sig = self.function(types, &callable).sig.clone();
        let (mut inputs, mut outputs) = (Side::new(stage, true), Side::new(stage, false));
        let span = self.program.ast.decls[decl].name_span;
        let semantic = self.program.ast.semantics.get(&decl).copied();
        let modifiers = self.program.ast.decls[decl].modifiers;
        let location = self.location(decl);
        let result = Given { ty: sig.ret, semantic, modifiers, location, is_inherited: false, span };
        self.ports(types, result, "result", &mut outputs);
        for param in &sig.params {
            let Some(d) = param.decl.filter(|_| self.is_varying(param)) else { continue };
            let given = self.given(d, param.ty);
            if param.is_input() {
                self.ports(types, given, &param.name, &mut inputs);
            }
            if param.is_output() {
                self.ports(types, given, &param.name, &mut outputs);
            }
        }
        self.number_locations(&mut inputs, span);
        self.number_locations(&mut outputs, span);
        (Pipeline { stage, inputs: inputs.places, outputs: outputs.places }, inputs.slots, outputs.slots)
    }

    /// Returns true if a parameter differs between vertices or pixels, rather than being bound by the host.
    pub(crate) fn is_varying(&mut self, param: &FlatParam) -> bool {
        let is_uniform =
            param.decl.is_some_and(|d| self.program.ast.decls[d].modifiers.has(Modifiers::UNIFORM));
        let is_resource = matches!(self.program.types[param.ty], TyKind::Buffer(..) | TyKind::Pointer(..));
        !is_uniform && !is_resource && !self.holds_buffers(param.ty)
    }

    fn given(&self, decl: DeclId, ty: Ty) -> Given {
        let node = &self.program.ast.decls[decl];
        let (semantic, modifiers, span) = (node.kind.semantic(), node.modifiers, node.name_span);
        Given { ty, semantic, modifiers, location: self.location(decl), is_inherited: false, span }
    }

    /// The number in `[[vk::location(n)]]`.
    fn location(&self, decl: DeclId) -> Option<u32> {
        let attribute = self.program.attribute(decl, "vk::location")?;
        match self.program.ast.exprs[*attribute.args.first()?].kind {
            ExprKind::Int { value, .. } => u32::try_from(value).ok(),
            _ => None,
        }
    }

    /// Adds the ports of a value to a side.
    fn ports(&mut self, types: &mut Types, given: Given, name: &str, side: &mut Side) {
        if given.ty == Ty::VOID {
            return;
        }
        if let TyKind::Struct(..) = self.program.types[given.ty] {
            for (decl, ty, _) in self.program.fields(given.ty) {
                let own = self.given(decl, ty);
                let semantic = own.semantic.or(given.semantic);
                let modifiers = Modifiers(own.modifiers.0 | given.modifiers.0);
                let name = self.program.ast.name(self.program.ast.decls[decl].name).to_owned();
                let is_inherited = own.semantic.is_none();
                self.ports(types, Given { semantic, modifiers, is_inherited, ..own }, &name, side);
            }
            return;
        }
        let written = given.semantic.map(|s| self.program.ast.name(s).to_owned()).unwrap_or_default();
        let text = written.to_ascii_uppercase();
        let location = given.location;
        if let Some(number) = text.strip_prefix("SV_TARGET").filter(|_| side.is_target()) {
            self.locations(types, Given { location: number.parse().ok().or(Some(0)), ..given }, name, side);
        } else if !text.starts_with("SV_") {
            self.locations(types, Given { location, ..given }, name, side);
        } else {
            match builtin_of(&text).filter(|&builtin| side.has(builtin)) {
                Some(builtin) => self.builtin_port(types, given, (builtin, &written), side),
                None => {
                    let stage = side.stage.name();
                    let what = if side.is_input { "an input" } else { "an output" };
                    let message = format_args!("the semantic `{written}` on {what} of a {stage} stage is");
                    self.unsupported(given.span, message);
                }
            }
        }
    }

    /// Adds the port of a value that is built in. Its type may be another one with as many lanes.
    fn builtin_port(
        &mut self,
        types: &mut Types,
        given: Given,
        (builtin, text): (StageBuiltin, &str),
        side: &mut Side,
    ) {
        let (ty, layout) = (builtin.ty(types), self.layout(types, given.ty));
        let shape = |ty: Type| match types[ty] {
            TypeData::Scalar(_) => 1,
            TypeData::Vector(_, n) => n,
            _ => 0,
        };
        if matches!(&layout.leaves[..], [leaf] if shape(leaf.ty) == shape(ty)) {
            side.add(Varying::Builtin(builtin), ty, builtin.name());
        } else {
            let ty = self.program.type_name(given.ty);
            self.unsupported(given.span, format_args!("the semantic `{text}` on a value of type `{ty}` is"));
        }
    }

    /// Adds ports at locations for the leaves of a value. The first leaf asks for the value's own location.
    fn locations(&mut self, types: &mut Types, given: Given, name: &str, side: &mut Side) {
        let (is_inherited, span) = (given.is_inherited, given.span);
        let mut asked = given.location.map(|number| Asked { number, is_inherited, span });
        let layout = self.layout(types, given.ty);
        for leaf in &layout.leaves {
            let (mut ty, mut n) = (leaf.ty, 1);
            while let TypeData::Array(element, length) = types[ty] {
                (ty, n) = (element, n * length);
            }
            let is_float = types.scalar_of(ty).is_some_and(Scalar::is_float);
            let interpolation = match given.modifiers {
                m if !is_float || m.has(Modifiers::NOINTERPOLATION) => Interpolation::Flat,
                m if m.has(Modifiers::NOPERSPECTIVE) => Interpolation::Linear,
                _ => Interpolation::Perspective,
            };
            let sampling = match given.modifiers {
                m if m.has(Modifiers::CENTROID) => Sampling::Centroid,
                m if m.has(Modifiers::SAMPLE) => Sampling::Sample,
                _ => Sampling::Center,
            };
            for _ in 0..n {
                let place = Varying::Location { number: 0, interpolation, sampling };
                if side.located.len() > MOST_LOCATIONS as usize {
                    return;
                }
                if !place.fits(types, ty) {
                    let ty = self.program.type_name(given.ty);
                    let message = format_args!("a value of type `{ty}` between the stages of a pipeline is");
                    self.unsupported(given.span, message);
                    return;
                }
                side.located.push((side.places.len(), asked.take()));
                side.add(place, ty, name);
            }
        }
    }

    /// Numbers the locations of a side: those that the program names, then the others, each with the next free
    /// number after the one before it.
    fn number_locations(&mut self, side: &mut Side, span: Span) {
        let mut numbers: Vec<Option<u32>> = vec![None; side.located.len()];
        for (k, &(_, asked)) in side.located.iter().enumerate() {
            let Some(asked) = asked else { continue };
            if !numbers.contains(&Some(asked.number)) {
                numbers[k] = Some(asked.number);
            } else if !asked.is_inherited {
                let message = format!("location {} is used twice", asked.number);
                self.error("E0917", asked.span, message);
            }
        }
        let mut next = 0;
        for (k, &(place, _)) in side.located.iter().enumerate() {
            let number = numbers[k].unwrap_or_else(|| {
                while numbers.contains(&Some(next)) {
                    next += 1;
                }
                next
            });
            numbers[k] = Some(number);
            next = number + 1;
            if number >= MOST_LOCATIONS {
                self.unsupported(span, format_args!("more than {MOST_LOCATIONS} locations are"));
                return;
            }
            if let Varying::Location { number: own, .. } = &mut side.places[place] {
                *own = number;
            }
        }
    }
}

impl Body<'_, '_, '_> {
    /// The leaves of a value of a type, from the next of a stage's inputs.
    pub(crate) fn of_ports(&mut self, ty: Ty, ports: &mut &[Value]) -> Vec<Value> {
        let layout = self.layout(ty);
        layout.leaves.iter().map(|leaf| self.leaf_of_ports(leaf.ty, ports)).collect()
    }

    fn leaf_of_ports(&mut self, ty: Type, ports: &mut &[Value]) -> Value {
        if let TypeData::Array(element, _) = self.b.types[ty] {
            return self.construct(ty, |body, _| body.leaf_of_ports(element, ports));
        }
        match ports.split_off_first() {
            Some(&port) => self.convert_leaf(port, ty),
            None => self.b.zero(ty),
        }
    }

    /// The values of a stage's outputs.
    pub(crate) fn spread_over_ports(&mut self, leaves: &[Value], slots: &[Slot]) -> Vec<Value> {
        let mut parts = Vec::new();
        leaves.iter().for_each(|&leaf| self.parts_of_leaf(leaf, &mut parts));
        parts.into_iter().zip(slots).map(|(part, slot)| self.convert_leaf(part, slot.ty)).collect()
    }

    fn parts_of_leaf(&mut self, leaf: Value, parts: &mut Vec<Value>) {
        let TypeData::Array(_, n) = self.b.types[self.b.func.ty(leaf)] else { return parts.push(leaf) };
        for k in 0..n {
            let part = self.b.emit(Op::Extract(k), &[leaf]);
            self.parts_of_leaf(part, parts);
        }
    }
}
