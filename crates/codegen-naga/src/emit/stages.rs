//! Emits the entry points of a graphics pipeline's stages, whose parameters and results are bound to places in
//! the pipeline.
//!
//! Such a stage has no thread groups: what depends on them is refused with the name of the stage. Failures in
//! it are reported as those of thread 0.

use ir::pipeline::{self, Pipeline, Stage, StageBuiltin, Varying};
use ir::{Entry, Op, Space};
use naga::{Binding, BuiltIn, EntryPoint, FunctionResult, ShaderStage, StructMember};
use rustc_hash::FxHashSet;

use super::{Emitter, Res, Role};
use crate::build::Code;
use crate::module::Cx;
use crate::names::Names;

/// naga's name for a stage.
pub(crate) fn shader_stage(entry: &Entry) -> ShaderStage {
    match entry.pipeline.as_ref().map(|pipeline| pipeline.stage) {
        None => ShaderStage::Compute,
        Some(Stage::Vertex) => ShaderStage::Vertex,
        Some(Stage::Fragment) => ShaderStage::Fragment,
    }
}

/// The binding of an input or output. Only values between a vertex and a fragment stage are interpolated.
fn binding(place: Varying, is_between: bool) -> Binding {
    match place {
        Varying::Builtin(builtin) => Binding::BuiltIn(match builtin {
            StageBuiltin::Position => BuiltIn::Position { invariant: false },
            StageBuiltin::VertexIndex => BuiltIn::VertexIndex,
            StageBuiltin::InstanceIndex => BuiltIn::InstanceIndex,
            StageBuiltin::FrontFacing => BuiltIn::FrontFacing,
            StageBuiltin::SampleIndex => BuiltIn::SampleIndex,
            StageBuiltin::SampleMask => BuiltIn::SampleMask,
            StageBuiltin::FragDepth => BuiltIn::FragDepth,
        }),
        Varying::Location { number, interpolation, sampling } => {
            let interpolation = match interpolation {
                pipeline::Interpolation::Perspective => naga::Interpolation::Perspective,
                pipeline::Interpolation::Linear => naga::Interpolation::Linear,
                pipeline::Interpolation::Flat => naga::Interpolation::Flat,
            };
            let sampling = match sampling {
                _ if interpolation == naga::Interpolation::Flat => None,
                pipeline::Sampling::Center => None,
                pipeline::Sampling::Centroid => Some(naga::Sampling::Centroid),
                pipeline::Sampling::Sample => Some(naga::Sampling::Sample),
            };
            Binding::Location {
                location: number,
                interpolation: is_between.then_some(interpolation),
                sampling: sampling.filter(|_| is_between),
                blend_src: None,
                per_primitive: false,
            }
        }
    }
}

impl<'m> Cx<'m> {
    /// Emits the entry point of a stage.
    pub(crate) fn stage(&mut self, instance: usize, entry: &Entry, pipeline: &Pipeline) -> Res {
        let module = self.ir;
        let f = &module.funcs[entry.func];
        self.check_stage(instance, pipeline, f.span)?;
        self.comment(&entry.name, &entry.name, f.span);
        let mut e = Emitter::new(self, instance, f, Code::new(&entry.name));
        e.role = Role::Stage(pipeline.stage);
        let mut names = Names::default();
        for ((slot, &place), &v) in f.params.iter().zip(&pipeline.inputs).zip(&f.regions[f.body()].params) {
            let ty = e.cx.value_type(slot.ty, &[], f.span)?;
            let name = names.unique(&crate::names::plain(slot.name.as_deref().unwrap_or("input")));
            let input = e.code.input(&name, ty, binding(place, pipeline.stage == Stage::Fragment));
            e.set(v, input)?;
        }
        e.region(f.body())?;
        let inits = e.cx.initialisers(instance);
        for &(_, initialiser) in &inits {
            e.cx.function(initialiser)?;
        }
        e.write_failure();
        e.outputs(&entry.name, pipeline)?;
        let body = e.code.enter();
        e.initialise(inits)?;
        e.code.append(body);
        let code = e.code;
        self.out.entry_points.push(EntryPoint {
            name: entry.name.clone(),
            stage: shader_stage(entry),
            early_depth_test: None,
            workgroup_size: [0; 3],
            workgroup_size_overrides: None,
            function: code.finish(),
            mesh_info: None,
            task_payload: None,
            incoming_ray_payload: None,
        });
        Ok(())
    }

    /// Refuses operations that only threads of a group have.
    fn check_stage(&self, instance: usize, pipeline: &Pipeline, span: ir::Span) -> Res {
        let stage = pipeline.stage;
        let position = Varying::Builtin(StageBuiltin::Position);
        if stage == Stage::Vertex && !pipeline.outputs.contains(&position) {
            let why = "a vertex stage gives a position";
            return Err(self.refuse("a vertex stage without an output `SV_Position`", why, span));
        }
        let (mut open, mut seen) = (vec![instance], FxHashSet::default());
        while let Some(at) = open.pop() {
            let Some(func) = self.plan.instances[at].func.filter(|_| seen.insert(at)) else { continue };
            open.extend(self.plan.instances[at].calls.values());
            let f = &self.ir.funcs[func];
            let mut found = None;
            f.walk(f.body(), &mut |inst| {
                let what = match f.insts[inst].op {
                    Op::Barrier => "a barrier",
                    Op::WaveGather => "an operation of a wave",
                    Op::GlobalRef(g) if self.ir.globals[g].space == Space::GroupShared => {
                        "group-shared memory"
                    }
                    _ => return,
                };
                found = found.or(Some((what, f.insts[inst].span)));
            });
            if let Some((what, span)) = found {
                let why = format!("a {} stage has no thread groups", stage.name());
                return Err(self.refuse(format!("{what} in a {} stage", stage.name()), why, span));
            }
        }
        Ok(())
    }
}

impl Emitter<'_, '_> {
    /// Ends the function by returning the stage's outputs.
    fn outputs(&mut self, name: &str, pipeline: &Pipeline) -> Res {
        let results = self.f.regions[self.f.body()].results.clone();
        let is_between = pipeline.stage == Stage::Vertex;
        let mut members: Vec<StructMember> = Vec::new();
        let (mut names, mut offset, mut most) = (Names::default(), 0u32, 1u32);
        for (slot, &place) in self.f.results.iter().zip(&pipeline.outputs) {
            let ty = self.cx.value_type(slot.ty, &[], self.f.span)?;
            let (size, align) = self.cx.natural(ty);
            offset = offset.next_multiple_of(align);
            let name = names.unique(&crate::names::plain(slot.name.as_deref().unwrap_or("output")));
            members.push(StructMember {
                name: Some(name),
                ty,
                binding: Some(binding(place, is_between)),
                offset,
            });
            (offset, most) = (offset + size, most.max(align));
        }
        let values: Vec<_> = results.iter().map(|&v| self.get(v)).collect();
        match &members[..] {
            [] => {}
            [only] => {
                self.code.returns(FunctionResult { ty: only.ty, binding: only.binding.clone() });
                self.code.ret(values.first().copied());
            }
            _ => {
                let ty =
                    self.cx.structure(&format!("{name}_outputs"), members, offset.next_multiple_of(most));
                self.code.returns(FunctionResult { ty, binding: None });
                let all = self.code.compose(ty, values);
                self.code.ret(Some(all));
            }
        }
        Ok(())
    }
}
