//! `IR ↦ naga module ↦ WGSL, SPIR-V, MSL, HLSL, GLSL`: the same kernels for graphics processors.
//!
//! The IR is structured, and so is naga's: a region becomes a block, what an `if` or loop gives becomes a local variable
//! that its blocks assign. What a device has no counterpart of is refused with an error that names it and its place:
//! 64-bit numbers where the target has none, pointers in memory, recursion, output. Nothing is emitted that naga's
//! validator has not accepted; if it finds fault, that is a bug of this crate and reported as one.
//!
//! - [`layout`]: where every field of a struct is in memory.
//! - `plan`: which buffers handles refer to, how they are used; one *instance* of a function for each.
//! - `bounds`: how often loops run, so that reversed loops keep their values in local arrays.
//! - `lasting`: which loads of cells copy nothing.
//! - `order`: which kernels read what other groups add up.
//! - `uniformity`: where all threads of a group come by together.
//! - `emit`: the code.
//! - [`uniform`]: whether uniforms decide where control goes.
//! - [`reflect`]: what a host must know to bind everything.
//! - [`spirv`]: SPIR-V, of all entry points or one.
//! - [`mod@write`]: the text or binary of a target.
#![forbid(unsafe_code)]

mod access;
mod bounds;
mod build;
mod emit;
mod helpers;
mod lasting;
pub mod layout;
mod memory;
mod module;
mod names;
mod order;
mod plan;
pub mod reflect;
pub mod spirv;
mod types;
pub mod uniform;
mod uniformity;
mod words;
pub mod write;

use std::fmt;

pub use module::{Built, build};
pub use reflect::{Binding, BindingKind, Print, Reflection, Site};

/// A language of graphics processors.
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
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Target::Wgsl => "WGSL",
            Target::Spirv => "SPIR-V",
            Target::Msl => "MSL",
            Target::Hlsl => "HLSL",
            Target::Glsl => "GLSL",
        }
    }

    /// Whether integers of 64 bits exist.
    pub fn has_int64(self) -> bool {
        matches!(self, Target::Spirv | Target::Msl | Target::Hlsl)
    }

    /// Whether integers of 64 bits have atomic operations.
    pub fn has_atomic_int64(self) -> bool {
        matches!(self, Target::Spirv | Target::Hlsl)
    }

    /// Whether floats of 64 bits exist.
    pub fn has_float64(self) -> bool {
        matches!(self, Target::Spirv | Target::Hlsl | Target::Glsl)
    }

    /// Whether floats of 16 bits exist.
    pub fn has_float16(self) -> bool {
        matches!(self, Target::Wgsl | Target::Spirv | Target::Msl | Target::Hlsl)
    }
}

/// A variable of more bytes is in storage, where each thread has its own.
pub const LARGEST_PRIVATE: u64 = 1 << 16;

/// What to build.
pub struct Options<'a> {
    /// For which language.
    pub target: Target,
    /// Functions that are emitted besides the entry points.
    pub functions: &'a [ir::Func],
    /// How many uniforms there may be; further ones are storage.
    pub max_uniforms: u32,
    /// Uniforms of fewer bytes are storage.
    pub least_uniform: u64,
    /// The device adds floats in storage atomically; elsewhere sums are exchanged until no other thread came between.
    pub native_float_sums: bool,
    /// Variables of more bytes are in storage as long as there are buffers for them; of more than [`LARGEST_PRIVATE`] in
    /// any case.
    pub most_private: u64,
    /// How many storage buffers there may be, if variables are in storage that need not be.
    pub max_storage: u32,
    /// Lanes of waves exchange values by the device's subgroups, which have so many lanes, in the order of the threads of a
    /// group: where that is as many as a wave has, or a group has no more threads. The run says so where a device's have not.
    pub subgroups: Option<u32>,
    /// Loops report it if they end before they should, for a device that may end them.
    pub checks_loops: bool,
    /// The host dispatches the first group once more, alone, where [`reflect::EntryPoint::first_group_last`] says so.
    pub first_group_last: bool,
    /// A place of the source in words, as `file.slang:12`; `None` if it is nowhere.
    pub place: &'a dyn Fn(ir::Span) -> Option<String>,
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options").field("target", &self.target).field("functions", &self.functions).finish()
    }
}

/// What a target cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The diagnostic's code.
    pub code: &'static str,
    /// What and why, in words.
    pub message: String,
    /// What can be done.
    pub help: Option<String>,
    /// The user's line.
    pub span: ir::Span,
}

impl Unsupported {
    fn new(target: Target, what: impl Into<String>, why: impl Into<String>, span: ir::Span) -> Unsupported {
        let message = format!("{} cannot express {}: {}", target.name(), what.into(), why.into());
        Unsupported { code: "E0930", message, help: None, span }
    }
}

/// Why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The target cannot express the program.
    Unsupported(Unsupported),
    /// This crate made something wrong.
    Internal(String),
}

impl From<Unsupported> for Error {
    fn from(error: Unsupported) -> Error {
        Error::Unsupported(error)
    }
}
