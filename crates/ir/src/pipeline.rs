//! The programmable stages of a graphics pipeline.
//!
//! The entry point of a stage is a function that takes and gives values: each parameter and each result is a
//! scalar or a vector that the pipeline supplies or receives, either built in or at a numbered location, by
//! which the outputs of one stage meet the inputs of the next.

use crate::names::named;
use crate::types::{Type, TypeData, Types};
use crate::{Scalar, Slot};

named! {
    /// A stage.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names of the stages")]
    pub enum Stage {
        Vertex = "vertex",
        Fragment = "fragment",
    }
}

named! {
    /// A value that the pipeline itself supplies or receives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum StageBuiltin {
        /// `SV_Position`: the position in clip space that a vertex stage gives, the position in the window that a
        /// fragment stage takes.
        Position = "position",
        /// `SV_VertexID`
        VertexIndex = "vertex_index",
        /// `SV_InstanceID`
        InstanceIndex = "instance_index",
        /// `SV_IsFrontFace`
        FrontFacing = "front_facing",
        /// `SV_SampleIndex`
        SampleIndex = "sample_index",
        /// `SV_Coverage`
        SampleMask = "sample_mask",
        /// `SV_Depth`
        FragDepth = "frag_depth",
    }
}

impl StageBuiltin {
    /// The scalar type and number of lanes of the value.
    fn shape(self) -> (Scalar, u32) {
        match self {
            StageBuiltin::Position => (Scalar::F32, 4),
            StageBuiltin::FragDepth => (Scalar::F32, 1),
            StageBuiltin::FrontFacing => (Scalar::Bool, 1),
            StageBuiltin::VertexIndex
            | StageBuiltin::InstanceIndex
            | StageBuiltin::SampleIndex
            | StageBuiltin::SampleMask => (Scalar::U32, 1),
        }
    }

    /// The type of the value.
    pub fn ty(self, types: &mut Types) -> Type {
        match self.shape() {
            (s, 1) => s.into(),
            (s, n) => types.vector(s, n),
        }
    }

    /// Returns true if a stage takes the value.
    pub fn is_input(self, stage: Stage) -> bool {
        match self {
            StageBuiltin::VertexIndex | StageBuiltin::InstanceIndex => stage == Stage::Vertex,
            StageBuiltin::Position
            | StageBuiltin::FrontFacing
            | StageBuiltin::SampleIndex
            | StageBuiltin::SampleMask => stage == Stage::Fragment,
            StageBuiltin::FragDepth => false,
        }
    }

    /// Returns true if a stage gives the value.
    pub fn is_output(self, stage: Stage) -> bool {
        match self {
            StageBuiltin::Position => stage == Stage::Vertex,
            StageBuiltin::FragDepth | StageBuiltin::SampleMask => stage == Stage::Fragment,
            _ => false,
        }
    }
}

named! {
    /// How a value between vertices is computed from theirs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Interpolation {
        /// Linearly in space.
        #[default]
        Perspective = "perspective",
        /// Linearly on the screen.
        Linear = "linear",
        /// As that of the first vertex.
        Flat = "flat",
    }
}

named! {
    /// The place within a pixel that a value is interpolated for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Sampling {
        #[default]
        Center = "center",
        Centroid = "centroid",
        Sample = "sample",
    }
}

/// The place of a stage's input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Varying {
    /// Built in.
    Builtin(StageBuiltin),
    /// At a numbered location.
    Location {
        /// The number.
        number: u32,
        /// How it is interpolated.
        interpolation: Interpolation,
        /// Where it is interpolated.
        sampling: Sampling,
    },
}

impl Varying {
    /// Returns true if a value of this type can be there.
    pub fn fits(self, types: &Types, ty: Type) -> bool {
        let (s, n) = match types[ty] {
            TypeData::Scalar(s) => (s, 1),
            TypeData::Vector(s, n) => (s, n),
            _ => return false,
        };
        match self {
            Varying::Builtin(builtin) => builtin.shape() == (s, n),
            Varying::Location { interpolation, .. } => {
                let is_flat = interpolation == Interpolation::Flat;
                n <= 4
                    && (s.is_float() || is_flat)
                    && matches!(s, Scalar::F16 | Scalar::F32 | Scalar::I32 | Scalar::U32)
            }
        }
    }
}

/// The entry point of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The stage.
    pub stage: Stage,
    /// The place of each parameter.
    pub inputs: Vec<Varying>,
    /// The place of each result.
    pub outputs: Vec<Varying>,
}

impl Pipeline {
    /// The reason why a function cannot be the entry point, if there is one.
    pub(crate) fn problem(&self, types: &Types, params: &[Slot], results: &[Slot]) -> Option<String> {
        let sides = [
            ("parameters", &self.inputs, params, StageBuiltin::is_input as fn(_, _) -> _),
            ("results", &self.outputs, results, StageBuiltin::is_output),
        ];
        for (what, places, slots, belongs) in sides {
            if places.len() != slots.len() {
                return Some(format!("it has {} {what} for {} places", slots.len(), places.len()));
            }
            let mut seen = Vec::new();
            for (place, slot) in places.iter().zip(slots) {
                let key = match place {
                    Varying::Builtin(builtin) if !belongs(*builtin, self.stage) => {
                        return Some(format!("'{}' is not among the {what} of its stage", builtin.name()));
                    }
                    Varying::Builtin(builtin) => Err(*builtin),
                    Varying::Location { number, .. } => Ok(*number),
                };
                if seen.contains(&key) {
                    return Some(format!("two of its {what} have one place"));
                }
                seen.push(key);
                if !place.fits(types, slot.ty) {
                    return Some(format!("one of its {what} does not fit its place"));
                }
            }
        }
        None
    }
}
