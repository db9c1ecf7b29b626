//! Writes a program in a language of graphics processors, for `pullback emit --target`.

use std::path::Path;

use codegen_naga::reflect::{StageInterface, StageValue};
use codegen_naga::write::{Output, write};
use codegen_naga::{Built, Error as NagaError, Options as NagaOptions, Reflection, Target as Language};
use ir::Func;
use ir::pipeline::{Interpolation, Stage, Varying};
use lower::Request;
use opt::math;
use serde_json::{Value as Json, json};
use syntax::{Diagnostic, Severity, Sources};

#[cfg(feature = "llvm")]
use crate::error::only_kernels;
use crate::error::{Error, Failure, source_span};
use crate::pipeline::{self, Compiled, Loaded, Options};
use crate::session::Session;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// WGSL, the language of WebGPU.
    Wgsl,
    /// SPIR-V, the binary form of Vulkan.
    Spirv,
    /// SPIR-V as text.
    SpirvAsm,
    /// The Metal shading language.
    Msl,
    /// HLSL, the language of Direct3D.
    Hlsl,
    /// GLSL, the language of OpenGL.
    Glsl,
    /// PTX, the language of NVIDIA's devices.
    #[cfg(feature = "llvm")]
    Ptx,
    /// WebAssembly, for browsers and other hosts.
    #[cfg(feature = "wasm")]
    Wasm,
    /// WebAssembly with relaxed SIMD.
    #[cfg(feature = "wasm")]
    WasmRelaxed,
    /// The interface that a host needs to bind all memory, as JSON.
    Reflection,
}

/// An output format, and the devices that it is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The output format.
    pub target: Target,
    /// Wave operations exchange values by subgroups; the devices must have 32 lanes per subgroup, in the
    /// order of a group's threads.
    pub subgroups: bool,
}

impl From<Target> for Wanted {
    /// Output for all devices.
    fn from(target: Target) -> Wanted {
        Wanted { target, subgroups: false }
    }
}

impl Target {
    /// The targets of this build, each with its name and a line of help.
    pub const ALL: &'static [(Target, &'static str, &'static str)] = &[
        (Target::Wgsl, "wgsl", "WebGPU"),
        (Target::Spirv, "spirv", "Vulkan, binary"),
        (Target::SpirvAsm, "spirv-asm", "Vulkan, as text"),
        (Target::Msl, "msl", "Metal"),
        (Target::Hlsl, "hlsl", "Direct3D"),
        (Target::Glsl, "glsl", "OpenGL"),
        #[cfg(feature = "llvm")]
        (Target::Ptx, "ptx", "NVIDIA's devices"),
        #[cfg(feature = "wasm")]
        (Target::Wasm, "wasm", "WebAssembly: browsers and other hosts"),
        #[cfg(feature = "wasm")]
        (
            Target::WasmRelaxed,
            "wasm-relaxed",
            "WebAssembly with relaxed SIMD: the same results, faster, on machines with fused multiply-adds",
        ),
        (Target::Reflection, "reflection", "JSON: entry points, bindings and layouts"),
    ];

    fn language(self) -> Language {
        match self {
            Target::Wgsl => Language::Wgsl,
            #[cfg(feature = "llvm")]
            Target::Ptx => Language::Spirv,
            #[cfg(feature = "wasm")]
            Target::Wasm | Target::WasmRelaxed => Language::Spirv,
            Target::Spirv | Target::SpirvAsm | Target::Reflection => Language::Spirv,
            Target::Msl => Language::Msl,
            Target::Hlsl => Language::Hlsl,
            Target::Glsl => Language::Glsl,
        }
    }
}

/// The program for a target: all that the entry point reaches or, without one, all that the file's entry
/// points reach or, in a file without entry points, its differentiable functions and their derivatives.
pub fn emit(
    sources: &Sources,
    loaded: &mut Loaded,
    entry: Option<&str>,
    wanted: impl Into<Wanted>,
    options: &Options,
) -> Result<Vec<u8>, Failure> {
    let wanted: Wanted = wanted.into();
    let target = wanted.target;
    let entries = match entry {
        Some(name) => vec![loaded.entry(Some(name))?],
        None => loaded.program.entry_points(loaded.file),
    };
    let functions = if entries.is_empty() { loaded.differentiable_functions() } else { Vec::new() };
    let entries =
        if entries.is_empty() && functions.is_empty() { vec![loaded.entry(None)?] } else { entries };
    if target == Target::Glsl && entries.len() != 1 {
        let names: Vec<&str> = entries.iter().map(|&d| loaded.name(d)).collect();
        let help = match names[..] {
            [] => "write a kernel that calls the function".to_string(),
            _ => format!("choose one with `--entry`: {}", names.join(", ")),
        };
        return Err(loaded.at_file("E0703", "a GLSL module has one entry point".into(), help));
    }
    let request = Request { entries, functions, derivatives: true, ..Request::default() };
    #[cfg(feature = "wasm")]
    if matches!(target, Target::Wasm | Target::WasmRelaxed) {
        let compiled = loaded.compile(&request, &options.for_processor())?;
        let features = codegen_wasm::Features { relaxed_simd: target == Target::WasmRelaxed };
        return crate::wasm::emit(sources, &compiled, features);
    }
    let compiled = loaded.compile(&request, &options.for_device(kind(target)))?;
    emit_compiled(sources, &compiled, entry, wanted)
}

/// The devices that a target is for.
fn kind(target: Target) -> pipeline::Kind {
    #[cfg(feature = "llvm")]
    if target == Target::Ptx {
        return pipeline::Kind::Nvidia;
    }
    let _ = target;
    pipeline::Kind::Other
}

/// The errors of a target about the entry points of a file. Each is compiled for it by itself, so that one does not hide what is
/// wrong with another.
pub fn refusals(session: &mut Session, path: &Path, target: Target) -> Result<Vec<Diagnostic>, Error> {
    let loaded = pipeline::load(session, path)?;
    let entries = loaded.program.entry_points(loaded.file);
    let names: Vec<String> = entries.into_iter().map(|d| loaded.name(d).to_owned()).collect();
    let mut found = Vec::new();
    for name in names {
        let mut loaded = pipeline::load(session, path)?;
        match emit(&session.sources, &mut loaded, Some(&name), target, &Options::default()) {
            Ok(_) => {}
            Err(Failure::Program(diagnostics)) => found.extend(diagnostics),
            Err(Failure::Other(error)) => return Err(error),
        }
    }
    found.retain(|d| d.severity == Severity::Error);
    Ok(pipeline::in_order(found))
}

/// Writes compiled IR for a target.
pub fn emit_compiled(
    sources: &Sources,
    compiled: &Compiled,
    entry: Option<&str>,
    wanted: impl Into<Wanted>,
) -> Result<Vec<u8>, Failure> {
    let wanted: Wanted = wanted.into();
    let target = wanted.target;
    #[cfg(feature = "llvm")]
    if target == Target::Ptx {
        return Ok(ptx_text(sources, &compiled.module)?.into_bytes());
    }
    let roots: Vec<Func> =
        compiled.functions.iter().flat_map(|f| [Some(f.func), f.jvp, f.vjp]).flatten().collect();
    let built = build(sources, compiled, wanted, &roots)?;
    if target == Target::Reflection {
        let text = reflection(sources, &built.reflection, compiled);
        return Ok((serde_json::to_string_pretty(&text).unwrap_or_default() + "\n").into_bytes());
    }
    match write(&built, entry).map_err(failure)? {
        Output::Text(text) => Ok(text.into_bytes()),
        Output::Words(words) if target == Target::SpirvAsm => assembly(&words),
        Output::Words(words) => Ok(words.iter().flat_map(|w| w.to_le_bytes()).collect()),
    }
}

/// SPIR-V as text.
#[cfg(feature = "spirv-asm")]
fn assembly(words: &[u32]) -> Result<Vec<u8>, Failure> {
    Ok(codegen_naga::write::disassemble(words).map_err(failure)?.into_bytes())
}

#[cfg(not(feature = "spirv-asm"))]
fn assembly(_: &[u32]) -> Result<Vec<u8>, Failure> {
    let message = "this build cannot write SPIR-V as text: build it with `--features spirv-asm`, or give the \
                   output of `--target spirv` to `spirv-dis`";
    Err(Error::input(message).into())
}

/// The generation of NVIDIA devices that PTX is written for; later ones run it, too.
#[cfg(feature = "llvm")]
const GENERATION: u32 = 70;

/// The kernels of a module as PTX, for any host.
#[cfg(feature = "llvm")]
fn ptx(module: &ir::Module) -> Result<codegen_llvm::aot::Ptx, Failure> {
    ptx_with(module, codegen_llvm::aot::PtxOptions { generation: GENERATION, first_group_last: false })
}

/// The kernels of a module as PTX, for a host that dispatches the first group a second time for kernels whose
/// entry requests it.
#[cfg(feature = "cuda")]
pub(crate) fn ptx_for_cuda(module: &ir::Module) -> Result<codegen_llvm::aot::Ptx, Failure> {
    ptx_with(module, codegen_llvm::aot::PtxOptions { generation: GENERATION, first_group_last: true })
}

#[cfg(feature = "llvm")]
fn ptx_with(
    module: &ir::Module,
    wanted: codegen_llvm::aot::PtxOptions,
) -> Result<codegen_llvm::aot::Ptx, Failure> {
    only_kernels(module)?;
    let looping = without_recursion(module, &[], ir::Scalar::I64);
    let module = looping.as_ref().unwrap_or(module);
    let kernels: Vec<Func> = module.entries.iter().map(|entry| entry.func).collect();
    let in_arena =
        opt::arena::has_stacks(module, &kernels).then(|| opt::arena::stacks_to_arena(module, &kernels));
    let module = in_arena.as_ref().unwrap_or(module);
    let expanded = math::expand(module, math::Wanted::All);
    let module = expanded.as_ref().unwrap_or(module);
    codegen_llvm::aot::ptx(module, &wanted).map_err(|unsupported| {
        Failure::of_backend(&unsupported, |span| {
            Diagnostic::error("E0930", span, format!("PTX cannot express {}", unsupported.op))
        })
    })
}

/// The PTX text, preceded by comments that explain the numbers of errors and of printed formats.
#[cfg(feature = "llvm")]
fn ptx_text(sources: &Sources, module: &ir::Module) -> Result<String, Failure> {
    use std::fmt::Write as _;
    let made = ptx(module)?;
    let mut text = String::new();
    for (number, (message, span)) in (1..).zip(&made.errors).filter(|(_, e)| !e.0.is_empty()) {
        let at = place(sources, *span).map_or_else(String::new, |place| format!(" ({place})"));
        let _ = writeln!(text, "// error {number}: {}{at}", message.escape_default());
    }
    for print in &made.prints {
        let types: Vec<&str> = print.kinds.iter().map(|s| s.name()).collect();
        let _ = writeln!(
            text,
            "// printf {}: \"{}\" {}",
            print.number,
            print.format.escape_default(),
            types.join(", ")
        );
    }
    Ok(text + &made.text)
}

/// Builds the naga module of compiled IR.
pub fn build(
    sources: &Sources,
    compiled: &Compiled,
    wanted: Wanted,
    functions: &[Func],
) -> Result<Built, Failure> {
    let target = wanted.target.language();
    let place = |span: ir::Span| place(sources, span);
    let options = NagaOptions {
        target,
        functions,
        max_uniforms: u32::MAX,
        least_uniform: 0,
        native_float_sums: false,
        most_private: codegen_naga::LARGEST_PRIVATE,
        max_storage: 0,
        subgroups: wanted.subgroups.then_some(ir::WAVE_LANES),
        checks_loops: false,
        inlines_slowly: false,
        first_group_last: false,
        place: &place,
    };
    // The compilers of the other languages may reorder arithmetic.
    let made = if target == Language::Spirv { math::Wanted::Doubles } else { math::Wanted::Remainders };
    let looping = without_recursion(&compiled.module, functions, NAGA_OFFSET);
    let module = looping.as_ref().unwrap_or(&compiled.module);
    let through = opt::for_devices(module);
    let module = through.as_ref().unwrap_or(module);
    let expanded = math::expand(module, made);
    let module = expanded.as_ref().unwrap_or(module);
    let built = codegen_naga::build(module, &options);
    match with_arena(module, &built, target, functions) {
        Some(made) => codegen_naga::build(&made.module, &options).map_err(failure),
        None => built.map_err(failure),
    }
}

/// Returns true if all that a module does is done by kernels, whose threads can have an arena.
fn has_kernels_only(module: &ir::Module) -> bool {
    !module.entries.is_empty() && module.entries.iter().all(|entry| entry.pipeline.is_none())
}

/// The type of a handle's offset in what naga writes, where places in memory are numbers of 32 bits.
pub(crate) const NAGA_OFFSET: ir::Scalar = ir::Scalar::I32;

/// The module with functions that call themselves turned into loops, if there are any and there is an arena for
/// what they keep. Offsets of handles are of type `offset`.
pub(crate) fn without_recursion(
    module: &ir::Module,
    roots: &[Func],
    offset: ir::Scalar,
) -> Option<ir::Module> {
    if has_kernels_only(module) { opt::recursion::to_loops(module, roots, offset) } else { None }
}

/// A module with the stacks of those kernels in an arena that need one, and these kernels.
pub(crate) struct WithArena {
    pub(crate) module: ir::Module,
    #[cfg_attr(not(feature = "wgpu"), expect(dead_code, reason = "only devices limit sizes"))]
    pub(crate) kernels: Vec<Func>,
}

/// The module with an arena for kernels, if it was refused because the length of a stack is not known. The
/// functions that are emitted beside the kernels share it.
pub(crate) fn with_arena(
    module: &ir::Module,
    built: &Result<Built, NagaError>,
    target: codegen_naga::Target,
    functions: &[Func],
) -> Option<WithArena> {
    if !matches!(built, Err(NagaError::Unsupported(why)) if why.code == codegen_naga::OPEN) {
        return None;
    }
    let mut roots = codegen_naga::open_kernels(module, target);
    if has_kernels_only(module) {
        roots.extend(functions);
    }
    if roots.is_empty() {
        return None;
    }
    let made = opt::arena::stacks_to_arena(module, &roots);
    let all = module.entries.iter().zip(&made.entries);
    let kernels = all.filter(|(old, _)| roots.contains(&old.func)).map(|(_, new)| new.func).collect();
    Some(WithArena { module: made, kernels })
}

/// A place as `file.slang:12`.
pub(crate) fn place(sources: &Sources, span: ir::Span) -> Option<String> {
    let file = sources.files.get(span.file as usize)?;
    let name = std::path::Path::new(&file.path).file_name()?.to_string_lossy().into_owned();
    let line = sources.line_column(source_span(span).file, span.start).0;
    Some(format!("{name}:{line}"))
}

/// Converts an error of the backend to the user's error or to an internal one.
pub(crate) fn failure(error: NagaError) -> Failure {
    match error {
        NagaError::Unsupported(e) => {
            let diagnostic = Diagnostic::error(e.code, source_span(e.span), e.message);
            Failure::Program(vec![match e.help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            }])
        }
        NagaError::Internal(message) => Failure::Other(Error::Internal(message)),
    }
}

/// An input or output of a stage as JSON. Only values between a vertex and a fragment stage are interpolated.
fn stage_value(value: &StageValue, is_between: bool) -> Json {
    match value.place {
        Varying::Builtin(builtin) => {
            json!({ "name": value.name, "type": value.ty, "builtin": builtin.name() })
        }
        Varying::Location { number, .. } if !is_between => {
            json!({ "name": value.name, "type": value.ty, "location": number })
        }
        Varying::Location { number, interpolation: Interpolation::Flat, .. } => {
            json!({ "name": value.name, "type": value.ty, "location": number, "interpolation": "flat" })
        }
        Varying::Location { number, interpolation, sampling } => json!({
            "name": value.name,
            "type": value.ty,
            "location": number,
            "interpolation": interpolation.name(),
            "sampling": sampling.name(),
        }),
    }
}

/// The reflection as JSON.
fn reflection(sources: &Sources, all: &Reflection, compiled: &Compiled) -> Json {
    let entries: Vec<Json> = all
        .entries
        .iter()
        .map(|e| {
            let bindings: Vec<u32> = e.uses.iter().map(|u| all.bindings[u.binding].binding).collect();
            match &e.pipeline {
                None => json!({ "name": e.name, "thread_group_size": e.group_size, "bindings": bindings }),
                Some(StageInterface { stage, inputs, outputs }) => {
                    let values = |all: &[StageValue], between: Stage| -> Vec<Json> {
                        all.iter().map(|value| stage_value(value, *stage == between)).collect()
                    };
                    json!({
                        "name": e.name,
                        "stage": stage.name(),
                        "inputs": values(inputs, Stage::Fragment),
                        "outputs": values(outputs, Stage::Vertex),
                        "bindings": bindings,
                    })
                }
            }
        })
        .collect();
    let bindings: Vec<Json> = all
        .bindings
        .iter()
        .map(|b| {
            let fields: Vec<Json> = b
                .fields
                .iter()
                .map(|f| {
                    let mut field =
                        json!({ "name": f.name, "type": f.ty, "offset": f.offset, "size": f.size });
                    if let (Some(stride), Some(field)) = (f.stride, field.as_object_mut()) {
                        field.insert("stride".into(), json!(stride));
                    }
                    field
                })
                .collect();
            let declared = b.global.and_then(|g| place(sources, compiled.module.globals[g].span));
            json!({
                "set": b.set,
                "binding": b.binding,
                "name": b.name,
                "kind": b.kind.name(),
                "layout": b.rule.name(),
                "element_type": b.element,
                "stride": b.stride,
                "size": b.size,
                "fields": fields,
                "declared": declared,
            })
        })
        .collect();
    let sites: Vec<Json> = all
        .sites
        .iter()
        .enumerate()
        .map(|(k, s)| json!({ "number": k + 1, "message": s.message, "place": s.place }))
        .collect();
    let prints: Vec<Json> = all
        .prints
        .iter()
        .enumerate()
        .map(|(k, p)| {
            let types: Vec<&str> = p.args.iter().map(|a| a.0.name()).collect();
            json!({ "number": k, "format": p.format, "arguments": types })
        })
        .collect();
    json!({ "entry_points": entries, "bindings": bindings, "errors": sites, "prints": prints })
}
