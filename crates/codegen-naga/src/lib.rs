//! `IR ↦ naga module ↦ WGSL, SPIR-V, MSL, HLSL, GLSL`: the same kernels for graphics processors.
#![forbid(unsafe_code)]
