//! Generates code for graphics processors: lowers the IR to a naga module and writes that as WGSL, SPIR-V,
//! MSL, HLSL or GLSL.
//!
//! The IR and naga's IR are both structured: a region becomes a block, and the results of an `if` or a loop
//! become local variables that its blocks assign. A construct that a device has no counterpart for is refused
//! with an error that names the construct and its source location: 64-bit numbers where the target has none,
//! pointers in memory, recursion, output. Every module is checked by naga's validator before anything is
//! written; a module that the validator rejects is a bug in this crate and is reported as one.
//!
//! - [`layout`]: where every field of a struct is in memory.
//! - `plan`: which buffers handles refer to and how buffers are used; one *instance* of a function for each
//!   combination of buffers.
//! - `bounds`: how often loops run, so that reversed loops can keep their values in local arrays.
//! - `order`: which kernels read sums that other groups accumulate.
//! - `uniformity`: where control flow is uniform across all threads of a group.
//! - `emit`: the emission of function bodies.
//! - `barriers`: which barriers of what was emitted order anything.
//! - [`uniform`]: whether control flow depends on the contents of uniforms.
//! - [`reflect`]: the interface that a host needs to bind all resources.
//! - [`spirv`]: SPIR-V with all entry points or with a single one.
//! - [`mod@write`]: the text or binary of a target.
#![forbid(unsafe_code)]

mod access;
mod barriers;
mod bounds;
mod build;
mod emit;
mod helpers;
pub mod layout;
mod memory;
mod module;
mod names;
mod order;
mod plan;
pub mod reflect;
pub mod spirv;
mod transfer;
mod types;
pub mod uniform;
mod uniformity;
mod words;
pub mod write;

use std::fmt;

pub use module::{Built, build, open_kernels};
pub use reflect::{Binding, BindingKind, Print, Reflection, Site};

/// A shading language or binary format for graphics processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The language of WebGPU.
    Wgsl,
    /// The binary form for Vulkan.
    Spirv,
    /// Metal's language.
    Msl,
    /// Direct3D's language.
    Hlsl,
    /// OpenGL's language.
    Glsl,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 5] = [Target::Wgsl, Target::Spirv, Target::Msl, Target::Hlsl, Target::Glsl];

    /// The target's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Target::Wgsl => "WGSL",
            Target::Spirv => "SPIR-V",
            Target::Msl => "MSL",
            Target::Hlsl => "HLSL",
            Target::Glsl => "GLSL",
        }
    }

    /// Returns true if the target has 64-bit integers.
    pub fn has_int64(self) -> bool {
        matches!(self, Target::Spirv | Target::Msl | Target::Hlsl)
    }

    /// Returns true if the target has atomic operations on 64-bit integers.
    pub fn has_atomic_int64(self) -> bool {
        matches!(self, Target::Spirv | Target::Hlsl)
    }

    /// Returns true if the target has 64-bit floats.
    pub fn has_float64(self) -> bool {
        matches!(self, Target::Spirv | Target::Hlsl | Target::Glsl)
    }

    /// Returns true if the target has 16-bit floats.
    pub fn has_float16(self) -> bool {
        matches!(self, Target::Wgsl | Target::Spirv | Target::Msl | Target::Hlsl)
    }
}

/// The code of an error for a stack whose length is not known, or is too large for an array of the thread.
pub const OPEN: &str = "E0931";
/// The number of bytes above which a variable is placed in storage, with one copy for each thread.
pub const LARGEST_PRIVATE: u64 = 1 << 16;

/// Options that control how a module is built.
pub struct Options<'a> {
    /// The target language.
    pub target: Target,
    /// Functions to emit in addition to the entry points.
    pub functions: &'a [ir::Func],
    /// The maximum number of uniforms; further ones become storage buffers.
    pub max_uniforms: u32,
    /// Uniforms of fewer bytes become storage buffers.
    pub least_uniform: u64,
    /// The device adds floats in storage atomically. Otherwise a sum is written by compare-exchange, retried
    /// until no other thread has interfered.
    pub native_float_sums: bool,
    /// Variables of more bytes are placed in storage as long as there are buffers for them; variables of more
    /// than [`LARGEST_PRIVATE`] bytes always are.
    pub most_private: u64,
    /// The maximum number of storage buffers when placing variables in storage that could be private.
    pub max_storage: u32,
    /// Lanes of waves exchange values through the device's subgroups, which have this many lanes, in the
    /// order of the threads of a group. The number must be that of a wave, or a group must be a row of no
    /// more threads than that; otherwise they are not used. The run reports an error if the device's subgroups
    /// differ.
    pub subgroups: Option<u32>,
    /// Loops that end too early report it, for devices that may terminate loops.
    pub checks_loops: bool,
    /// The driver inlines all functions and takes more than linear time in the number of variables and accesses to
    /// memory: copies of a function share its large variables, and loops are not unrolled where that would multiply
    /// many accesses.
    pub inlines_slowly: bool,
    /// The host dispatches the first group a second time, alone, where
    /// [`reflect::EntryPoint::first_group_last`] requests it.
    pub first_group_last: bool,
    /// Renders a source location as text, such as `file.slang:12`; `None` if the span has no location.
    pub place: &'a dyn Fn(ir::Span) -> Option<String>,
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options").field("target", &self.target).field("functions", &self.functions).finish()
    }
}

/// An error for a construct that a target cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The diagnostic's code.
    pub code: &'static str,
    /// A message that names the construct and the reason.
    pub message: String,
    /// A hint at how to avoid the error.
    pub help: Option<String>,
    /// The source location of the construct.
    pub span: ir::Span,
}

impl Unsupported {
    fn new(target: Target, what: impl Into<String>, why: impl Into<String>, span: ir::Span) -> Unsupported {
        let message = format!("{} cannot express {}: {}", target.name(), what.into(), why.into());
        Unsupported { code: "E0930", message, help: None, span }
    }
}

/// An error of building a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The target cannot express the program.
    Unsupported(Unsupported),
    /// A bug in this crate, such as a module that the validator rejects.
    Internal(String),
}

impl From<Unsupported> for Error {
    fn from(error: Unsupported) -> Error {
        Error::Unsupported(error)
    }
}
