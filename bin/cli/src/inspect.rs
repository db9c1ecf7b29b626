//! `check`, `emit`, `explain` and `derive`: commands that show results of the compiler.

use driver::{checkpoints, dump, pipeline, render};

use crate::args::{CheckArgs, Derivative, DeriveArgs, EmitArgs, ExplainArgs, Stage};
use crate::report::{self, Stop};

pub(crate) fn check(args: &CheckArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let (diagnostics, kept) =
            pipeline::check_and_report(session, &args.source.file, args.report_checkpoints)?;
        if args.json {
            report::out(&(render::to_json(&session.sources, &diagnostics) + "\n"));
        }
        report::warn(session, &diagnostics);
        if args.report_checkpoints && !args.json {
            report::out(&checkpoints::text(&session.sources, &kept));
        }
        Ok(u8::from(pipeline::has_errors(&diagnostics)))
    })
}

pub(crate) fn emit(args: &EmitArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let mut loaded = pipeline::load(session, &args.source.file)?;
        #[cfg(feature = "gpu")]
        if let Some(target) = args.target {
            use crate::args::Target;
            let target = match target {
                Target::Wgsl => driver::gpu::Target::Wgsl,
                Target::Spirv => driver::gpu::Target::Spirv,
                Target::SpirvAsm => driver::gpu::Target::SpirvAsm,
                Target::Msl => driver::gpu::Target::Msl,
                Target::Hlsl => driver::gpu::Target::Hlsl,
                Target::Glsl => driver::gpu::Target::Glsl,
                #[cfg(feature = "llvm")]
                Target::Ptx => driver::gpu::Target::Ptx,
                Target::Reflection => driver::gpu::Target::Reflection,
            };
            let entry = args.entry.as_deref();
            let bytes = driver::gpu::emit(
                &session.sources,
                &mut loaded,
                entry,
                driver::gpu::Wanted { target, subgroups: args.subgroups },
                &report::options(&args.compile),
            )?;
            write(args, &bytes)?;
            report::warn(session, &loaded.warned);
            return Ok(0);
        }
        let stage = match args.stage {
            Stage::Ast => dump::Stage::Ast,
            Stage::Ir => dump::Stage::Ir,
            Stage::Linearize => dump::Stage::Linearize,
            Stage::Unzip => dump::Stage::Unzip,
            Stage::Transpose => dump::Stage::Transpose,
            Stage::Opt => dump::Stage::Opt,
            Stage::Clif => dump::Stage::Clif,
            #[cfg(feature = "llvm")]
            Stage::Llvm => dump::Stage::Llvm,
        };
        let options = report::options(&args.compile);
        let text = dump::emit(&mut loaded, args.entry.as_deref(), stage, &options).map_err(Stop::from)?;
        write(args, text.as_bytes())?;
        report::warn(session, &loaded.warned);
        Ok(0)
    })
}

/// Writes to the requested file, or to standard output.
fn write(args: &EmitArgs, bytes: &[u8]) -> Result<(), driver::Error> {
    match &args.output {
        Some(path) => driver::files::write(path, bytes),
        None => {
            report::out_bytes(bytes);
            Ok(())
        }
    }
}

pub(crate) fn explain(args: &ExplainArgs) -> u8 {
    report::finish(&args.source, false, |session| {
        let mut loaded = pipeline::load(session, &args.source.file)?;
        loaded.errors()?;
        if args.witnesses {
            let listed = loaded.program.witness_listing(loaded.file);
            loaded.errors()?;
            report::out(&driver::witnesses::text(&session.sources, &listed, args.function.as_deref()));
            return Ok(0);
        }
        let function = loaded.function(args.function.as_deref().unwrap_or_default())?;
        let text = dump::explain(&mut loaded, function, &report::options(&args.compile))?;
        report::out(&text);
        report::warn(session, &loaded.warned);
        Ok(0)
    })
}

pub(crate) fn derive(args: &DeriveArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let mut loaded = pipeline::load(session, &args.source.file)?;
        loaded.errors()?;
        let function = loaded.function(&args.function)?;
        let mode = match args.mode {
            Derivative::Fwd => driver::derive::Derivative::Forward,
            Derivative::Bwd => driver::derive::Derivative::Backward,
            Derivative::Apply => driver::derive::Derivative::Apply,
        };
        let text = driver::derive::source(&mut loaded, function, mode)?;
        if args.json {
            report::out(&(serde_json::json!({ "source": text }).to_string() + "\n"));
        } else {
            report::out(&text);
        }
        report::warn(session, &loaded.warned);
        Ok(0)
    })
}

/// A row of the list of devices.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
struct Row {
    name: String,
    kind: String,
    interface: String,
    driver: String,
    numbers: Vec<&'static str>,
    subgroups: (u32, u32),
}

/// Adds the devices that `--backend wgpu` can use; returns the reason if there are none.
#[cfg(feature = "wgpu")]
fn wgpu_rows(rows: &mut Vec<Row>) -> Option<String> {
    let all = driver::gpu::devices();
    let none = all.is_empty().then(|| "this machine has no device with a Vulkan driver".to_string());
    rows.extend(all.into_iter().map(|d| Row {
        name: d.name,
        kind: d.kind,
        interface: d.interface,
        driver: d.driver,
        numbers: d.numbers,
        subgroups: d.subgroups,
    }));
    none
}

/// Adds the devices that `--backend cuda` can use; returns the reason if there are none.
#[cfg(feature = "cuda")]
fn cuda_rows(rows: &mut Vec<Row>) -> Option<String> {
    let all = match driver::gpu::cuda_devices() {
        Ok(all) => all,
        Err(why) => return Some(why),
    };
    rows.extend(all.into_iter().map(|d| Row {
        name: d.name,
        kind: format!("sm_{}", d.generation),
        interface: "CUDA".into(),
        driver: format!("CUDA {}.{}", d.driver / 1000, d.driver % 1000 / 10),
        numbers: vec!["f16", "f64", "i64", "atomic i64", "atomic f32"],
        subgroups: (32, 32),
    }));
    None
}

/// Lists devices.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) fn devices(args: &crate::args::DevicesArgs) -> u8 {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    #[cfg(feature = "wgpu")]
    missing.extend(wgpu_rows(&mut all));
    #[cfg(feature = "cuda")]
    missing.extend(cuda_rows(&mut all));
    if args.json {
        let list: Vec<serde_json::Value> = all
            .iter()
            .map(|d| {
                serde_json::json!({
                    "name": d.name,
                    "kind": d.kind,
                    "interface": d.interface,
                    "driver": d.driver,
                    "numbers": d.numbers,
                    "subgroup_size": [d.subgroups.0, d.subgroups.1],
                })
            })
            .collect();
        report::out(&(serde_json::json!({ "devices": list }).to_string() + "\n"));
        return 0;
    }
    for why in missing {
        report::err(&format!("{why}\n"));
    }
    for d in &all {
        let numbers = if d.numbers.is_empty() { "32 bits only".into() } else { d.numbers.join(", ") };
        report::out(&format!(
            "{}: {}, {} ({}); {numbers}; subgroups of {} to {}\n",
            d.name, d.kind, d.interface, d.driver, d.subgroups.0, d.subgroups.1
        ));
    }
    u8::from(all.is_empty())
}
