//! Writes the text or binary of a target, using naga's writers.

use naga::back::{glsl, hlsl, msl, wgsl};
use naga::proc::BoundsCheckPolicies;

use crate::{BindingKind, Built, Error, Target, spirv};

/// The written form of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Source text.
    Text(String),
    /// The words of a binary module.
    Words(Vec<u32>),
}

/// Writes a module for the target that it was built for. `entry` selects the entry point for languages that
/// have only one in a file.
pub fn write(built: &Built, entry: Option<&str>) -> Result<Output, Error> {
    let (module, info) = (&built.module, &built.info);
    let internal = |e: &dyn std::fmt::Display| Error::Internal(format!("naga's writer: {e}"));
    let text = match built.reflection.target {
        Target::Spirv => {
            return Ok(Output::Words(spirv::write(built)?));
        }
        Target::Wgsl => {
            let text = wgsl::write_string(module, info, wgsl::WriterFlags::empty());
            let text = text.map_err(|e| internal(&e))?;
            // naga's own reader does not need this line, but other readers do.
            if built.uses_subgroups { format!("enable subgroups;\n{text}") } else { text }
        }
        Target::Msl => {
            let options = msl_options(built);
            let pipeline = msl::PipelineOptions::default();
            let written = msl::write_string(module, info, &options, &pipeline);
            written.map_err(|e| internal(&e))?.0
        }
        Target::Hlsl => {
            // 64-bit atomic operations need a newer shader model.
            let is_wide = |ty: &naga::Type| matches!(ty.inner, naga::TypeInner::Atomic(s) if s.width == 8);
            let shader_model = match module.types.iter().any(|(_, ty)| is_wide(ty)) {
                true => hlsl::ShaderModel::V6_6,
                false => hlsl::ShaderModel::V6_2,
            };
            let mut options = hlsl::Options {
                shader_model,
                zero_initialize_workgroup_memory: !built.zeroes_shared,
                force_loop_bounding: false,
                ..hlsl::Options::default()
            };
            for binding in &built.reflection.bindings {
                let place = naga::ResourceBinding { group: binding.set, binding: binding.binding };
                let register = hlsl::BindTarget { register: binding.binding, ..hlsl::BindTarget::default() };
                options.binding_map.insert(place, register);
            }
            let mut text = String::new();
            let pipeline = hlsl::PipelineOptions { entry_point: None };
            let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
            writer.write(module, info, None).map_err(|e| internal(&e))?;
            text
        }
        Target::Glsl => {
            let entry = match (entry, &module.entry_points[..]) {
                (Some(entry), _) => entry.to_string(),
                (None, [first, ..]) => first.name.clone(),
                (None, []) => {
                    return Err(Error::Internal("GLSL has no module without an entry point".into()));
                }
            };
            let stage = module.entry_points.iter().find(|e| e.name == entry);
            let stage = stage.map_or(naga::ShaderStage::Compute, |e| e.stage);
            let mut options = glsl::Options {
                version: glsl::Version::Desktop(450),
                zero_initialize_workgroup_memory: !built.zeroes_shared,
                ..glsl::Options::default()
            };
            for binding in &built.reflection.bindings {
                let place = naga::ResourceBinding { group: binding.set, binding: binding.binding };
                options.binding_map.insert(place, binding.binding as u8);
            }
            let pipeline = glsl::PipelineOptions { shader_stage: stage, entry_point: entry, multiview: None };
            let mut text = String::new();
            let policies = BoundsCheckPolicies::default();
            let mut writer = glsl::Writer::new(&mut text, module, info, &options, &pipeline, policies)
                .map_err(|e| internal(&e))?;
            writer.write().map_err(|e| internal(&e))?;
            text
        }
    };
    Ok(Output::Text(with_comments(text, &built.comments)))
}

/// Options for naga's Metal writer. Buffers have the indices of their bindings; the buffer of the sizes of
/// unsized buffers comes after the last.
fn msl_options(built: &Built) -> msl::Options {
    let mut resources = msl::EntryPointResources::default();
    for binding in &built.reflection.bindings {
        let place = naga::ResourceBinding { group: binding.set, binding: binding.binding };
        let target = msl::BindTarget {
            buffer: Some(binding.binding as u8),
            mutable: !matches!(binding.kind, BindingKind::Uniform | BindingKind::ReadOnlyStorage),
            ..msl::BindTarget::default()
        };
        resources.resources.insert(place, target);
    }
    resources.sizes_buffer = Some(built.reflection.bindings.len() as u8);
    let entries = built.reflection.entries.iter().map(|e| (e.name.clone(), resources.clone()));
    msl::Options {
        lang_version: (2, 4),
        per_entry_point_map: entries.collect(),
        zero_initialize_workgroup_memory: !built.zeroes_shared,
        force_loop_bounding: false,
        ..msl::Options::default()
    }
}

/// Returns the assembly text of a SPIR-V module.
#[cfg(feature = "spirv-asm")]
pub fn disassemble(words: &[u32]) -> Result<String, Error> {
    use rspirv::binary::Disassemble as _;
    let module = rspirv::dr::load_words(words)
        .map_err(|e| Error::Internal(format!("the SPIR-V module cannot be read: {e}")))?;
    Ok(module.disassemble() + "\n")
}

/// Inserts a comment before each function that comes from the source.
fn with_comments(text: String, comments: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len() + 64 * comments.len());
    let by_name: rustc_hash::FxHashMap<&str, &str> = comments.iter().map(|(n, c)| (&n[..], &c[..])).collect();
    let lines: Vec<&str> = text.lines().collect();
    // For each line, the comment to insert before it: a comment precedes the attributes of its function.
    let mut before: Vec<Option<&str>> = vec![None; lines.len()];
    for (k, line) in lines.iter().enumerate() {
        let next = lines.get(k + 1).copied().unwrap_or_default();
        let Some(name) = defined_name(line, next) else { continue };
        let found = by_name.get(name).or_else(|| by_name.get(name.trim_end_matches('_')));
        if let Some(comment) = found {
            let mut at = k;
            while at > 0 && (lines[at - 1].starts_with('@') || lines[at - 1].starts_with("[numthreads")) {
                at -= 1;
            }
            before[at] = Some(comment);
        }
    }
    for (line, comment) in lines.iter().zip(before) {
        if let Some(comment) = comment {
            out.push_str("// ");
            out.push_str(comment);
            out.push('\n');
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The name of the function whose definition begins on a line.
fn defined_name<'a>(line: &'a str, next: &str) -> Option<&'a str> {
    // In Metal, attributes precede the function on the same line.
    let line = line.strip_prefix("[[").and_then(|l| l.split_once("]] ")).map_or(line, |l| l.1);
    if line.starts_with([' ', '\t', '}', '/', '#', '@', '[']) {
        return None;
    }
    let head = line.split('(').next().filter(|head| head.len() < line.len())?;
    let is_definition = line.ends_with(['{', '(']) || next == "{";
    if !is_definition || head.contains('=') || head.starts_with("layout") {
        return None;
    }
    head.rsplit([' ', '*', '&']).next().filter(|name| !name.is_empty())
}
