//! `check`, `emit`, `explain` and `derive`: commands that show results of the compiler.

use driver::device::{Backend, DeviceInfo};
use driver::{checkpoints, dump, pipeline, render};

use crate::args::{CheckArgs, DevicesArgs, EmitArgs, ExplainArgs};
use crate::outputs::Outputs;
use crate::precision::{DeriveArgs, narrowed_derivative};
use crate::report::{self, Stop};

pub(crate) fn check(args: &CheckArgs) -> u8 {
    report::finish(&args.source, args.json, |session| {
        let (mut diagnostics, mut kept) = (Vec::new(), checkpoints::Checkpoints::default());
        for file in std::iter::once(&args.source.file).chain(&args.more) {
            let found = match args.report_checkpoints {
                true => pipeline::check_and_report(session, file),
                false => {
                    pipeline::check(session, file).map(|found| (found, checkpoints::Checkpoints::default()))
                }
            };
            match found {
                Ok((own, found)) => {
                    #[cfg(feature = "gpu")]
                    if let Some(target) = args.target.filter(|_| !pipeline::has_errors(&own)) {
                        diagnostics.extend(driver::gpu::refusals(session, file, target)?);
                    }
                    diagnostics.extend(own);
                    kept.values.extend(found.values);
                    kept.loops.extend(found.loops);
                }
                // What was found before is shown all the same; JSON is one object.
                Err(error) => {
                    report::warn(session, &diagnostics);
                    return Err(error.into());
                }
            }
        }
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
        Outputs::of(&session.sources).writes("--output", args.output.as_deref()).check()?;
        #[cfg(feature = "gpu")]
        if let Some(target) = args.target {
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
        let options = report::options(&args.compile);
        let text =
            dump::emit(&mut loaded, args.entry.as_deref(), args.stage, &options).map_err(Stop::from)?;
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
    report::finish_in_text(&args.source, |session| {
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
    let call = &args.rounding.call;
    report::finish(&call.source, call.json, |session| {
        let mut loaded = pipeline::load(session, &call.source.file)?;
        loaded.errors()?;
        let function = loaded.function(&call.function)?;
        let text = driver::derive::source(&mut loaded, function, args.mode, &[])?;
        let narrowed = match args.tolerance {
            Some(tolerance) => narrowed_derivative(session, args, tolerance)?,
            None => None,
        };
        let (text, json) = match narrowed {
            Some(narrowed) => (narrowed.text, narrowed.json),
            None => {
                let mut json = serde_json::json!({ "source": text });
                if args.tolerance.is_some() {
                    json["narrowed"] = serde_json::json!([]);
                }
                (text, json)
            }
        };
        report::out(&if call.json { format!("{json}\n") } else { text });
        report::warn(session, &loaded.warned);
        Ok(0)
    })
}

/// Lists the backends with their devices, and what is missing for the others.
pub(crate) fn devices(args: &DevicesArgs) -> u8 {
    let mut devices: Vec<(&str, DeviceInfo)> = Vec::new();
    let mut missing: Vec<(&str, String)> = Vec::new();
    for backend in Backend::ALL {
        match backend.devices() {
            Ok(found) => devices.extend(found.into_iter().map(|device| (backend.name(), device))),
            Err(why) => missing.push((backend.name(), why)),
        }
    }
    let lacks =
        |(name, feature)| (name, format!("this build lacks it; one with `--features {feature}` has it"));
    missing.extend(Backend::absent().map(lacks));
    if args.json {
        let list: Vec<serde_json::Value> = devices
            .iter()
            .map(|(backend, d)| {
                serde_json::json!({
                    "backend": backend,
                    "name": d.name,
                    "kind": d.kind,
                    "interface": d.interface,
                    "driver": d.driver,
                    "numbers": d.numbers,
                    "subgroup_size": [d.subgroups.0, d.subgroups.1],
                })
            })
            .collect();
        let missing: Vec<serde_json::Value> = missing
            .iter()
            .map(|(backend, why)| serde_json::json!({ "backend": backend, "why": why }))
            .collect();
        report::out(&(serde_json::json!({ "devices": list, "missing": missing }).to_string() + "\n"));
        return 0;
    }
    for (backend, d) in &devices {
        let driver = if d.driver.is_empty() { String::new() } else { format!(" ({})", d.driver) };
        let numbers = if d.numbers.is_empty() { "32 bits only".into() } else { d.numbers.join(", ") };
        let lanes = match d.subgroups {
            (1, 1) => "one thread at a time".to_string(),
            (least, most) if least == most => format!("{most} lanes"),
            (least, most) => format!("{least} to {most} lanes"),
        };
        let default = if *backend == Backend::default().name() { ", the default" } else { "" };
        report::out(&format!(
            "{backend}{default}: {}, {}; {}{driver}; {numbers}; {lanes}\n",
            d.name, d.kind, d.interface
        ));
    }
    for (backend, why) in &missing {
        report::out(&format!("{backend} is missing: {why}\n"));
    }
    0
}
