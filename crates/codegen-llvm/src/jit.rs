//! Compiles a module to code in memory: text, object files, linked code.

use ir::Module;
use native::profile::{Lines, Spills};
use native::{Compiled, EntryCode, Fixed, Lanes, Options, Parts, RawFn, SpanFn, Unsupported};
use rustc_hash::FxHashMap;

use crate::link::Linked;
use crate::unit::FxIndexMap;
use crate::{Machine, Text, debug, object};

pub use crate::object::Times;

/// A description of this machine. LLVM is asked for its name only when LLVM generates code; the features here
/// are those that the emitter tests.
pub fn machine() -> Machine {
    let mut features: Vec<&str> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        for (has, name) in [
            (std::is_x86_feature_detected!("fma"), "+fma"),
            (std::is_x86_feature_detected!("f16c"), "+f16c"),
            (std::is_x86_feature_detected!("avx2"), "+avx2"),
            (std::is_x86_feature_detected!("avx512f"), "+avx512f"),
        ] {
            if has {
                features.push(name);
            }
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        features.push("+neon");
        if std::arch::is_aarch64_feature_detected!("fp16") {
            features.push("+fullfp16");
        }
    }
    let vector_bits = match features.contains(&"+avx512f") {
        true => 512,
        false if features.contains(&"+avx2") => 256,
        false => 128,
    };
    Machine { cpu: Machine::HOST.to_string(), features: features.join(","), vector_bits, has_waves: false }
}

/// Opens LLVM's library on a thread of its own, so that it is ready when it is needed.
pub fn open_early() {
    // Errors are found again, and reported, where the library is needed.
    let _ = crate::background::in_background(|| drop(crate::api::api()));
}

/// Compiles the entry points of a verified module, the functions in `options`, and all functions that they
/// call.
pub fn compile(module: &Module, options: &Options) -> Result<Compiled, Unsupported> {
    let machine = machine();
    let text = crate::text(module, options, &machine)?;
    let (objects, _) = objects(&text, &machine, options)?;
    load(module, text, &objects)
}

/// Compiles a module's text to object files for [`load`]; also returns the time that it took.
pub fn objects(
    text: &Text,
    machine: &Machine,
    options: &Options,
) -> Result<(Vec<Vec<u8>>, Times), Unsupported> {
    object::objects(&text.unit, machine, options).map_err(object::failed)
}

/// Finds the spills in a module's code, which is compiled to a listing for this.
pub fn find_spills(text: &mut Text, machine: &Machine, options: &Options) -> Result<(), Unsupported> {
    let listings = object::listings(&text.unit, machine, options).map_err(object::failed)?;
    let mut all: FxIndexMap<u32, Spills> = FxIndexMap::default();
    for listing in &listings {
        for (location, moves) in debug::spills(listing) {
            all.entry(location).or_insert(Spills { location, ..Spills::default() }).moves += moves;
        }
    }
    text.spills = Some(all.into_values().collect());
    Ok(())
}

/// Loads the object files that [`objects`] made from a module's text.
pub fn load(module: &Module, text: Text, objects: &[Vec<u8>]) -> Result<Compiled, Unsupported> {
    let Text { entries, raw, tables, plan, stack_need, recursion_need, spills, .. } = text;
    let fixed = Fixed::new(&plan);
    let mut known: FxHashMap<String, u64> = FxHashMap::default();
    known.extend(native::runtime::symbols().into_iter().map(|(name, at)| (name, at as u64)));
    known.insert("rt_zero".to_string(), fixed.zero() as u64);
    known.insert("rt_empty".to_string(), fixed.empty() as u64);
    known.insert("rt_empty_at".to_string(), fixed.empty_at() as u64);
    known.extend(
        tables.shapes().enumerate().map(|(k, at)| (format!("rt_shape_{k}"), std::ptr::from_ref(at) as u64)),
    );
    known.extend(tables.notes.counts().map(|at| ("rt_counts".to_string(), at as u64)));
    let mut memory = Linked::new(objects, &known).map_err(object::failed)?;
    let lines = Lines::new(std::mem::take(&mut memory.lines), spills);
    let span = |name: &str| {
        // SAFETY: the function was emitted with this signature.
        memory.address(name).map(|at| unsafe { std::mem::transmute::<u64, SpanFn>(at) })
    };
    let mut codes = Vec::new();
    for entry in &entries {
        let (lanes, reason) = match &entry.lanes {
            Ok((name, width)) => {
                (Some(Lanes { code: span(name).map_err(object::failed)?, width: *width }), None)
            }
            Err(reason) => (None, Some(reason.clone())),
        };
        let one = match (&entry.one, lanes) {
            (None, Some(lanes)) => lanes.code,
            (name, _) => span(name.as_deref().unwrap_or_default()).map_err(object::failed)?,
        };
        codes.push((EntryCode::Span(one, lanes), reason));
    }
    let mut functions = Vec::new();
    for (func, name) in raw {
        let at = memory.address(&name).map_err(object::failed)?;
        // SAFETY: the function was emitted with this signature.
        functions.push((func, unsafe { std::mem::transmute::<u64, RawFn>(at) }));
    }
    let parts = Parts {
        entries: codes,
        raw: functions,
        tables,
        fixed,
        lines,
        stack_need,
        recursion_need,
        memory: Box::new(memory),
    };
    // SAFETY: the emitted code keeps the contract of `native`, and the text means what the module says.
    Ok(unsafe { Compiled::new(module, &plan, parts) })
}
