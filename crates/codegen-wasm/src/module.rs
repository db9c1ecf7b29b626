//! Compiles a module.

use codegen_cranelift::lanes::{Apart, Callee, Emitted, Settings, Unit};
use cranelift_codegen::ir::{ExternalName, FuncRef};
use cranelift_codegen::isa::CallConv;
use ir::{Func, Module, Space, Span};
use native::lanes::{self, ModuleCx, Stop, Widths};
use native::plan::Plan;
use native::profile::Profile;
use native::runtime::{Helper, Site, Tables, offsets};
use native::{Options, Reason, Unsupported};
use rustc_hash::FxHashMap;
use wasm_encoder::{
    ConstExpr, DataSection, EntityType, ExportKind, ExportSection, ImportSection, MemorySection, MemoryType,
    NameMap, NameSection, ValType,
};

use crate::entry::{self, Code, Uses};
use crate::layout::{CONTEXT, Layout, SHAPE};
use crate::runtime::Runtime;
use crate::values::val_type;
use crate::{Buffer, Entry, Features, NAME, Wasm, function};

/// The numbers of lanes: vectors have 128 bits.
const WIDTHS: Widths =
    Widths { vector_bits: 128, vectors: [2, 2], least: 4, most: 16, widest: 16, tries: false };

fn refuse(op: impl Into<String>, span: Span, internal: bool) -> Unsupported {
    Unsupported { backend: NAME, op: op.into(), span, internal }
}

/// Compiles the entry points of a verified module.
pub fn compile(module: &Module, options: &Options, features: Features) -> Result<Wasm, Unsupported> {
    let roots = module.entries.iter().map(|entry| entry.func).chain(options.functions.iter().copied());
    let plan = Plan::new(module, roots);
    let mut options = Options { profile: Profile::Off, ..options.clone() };
    check(module, &plan)?;
    options.lanes = together(module, &plan).or(options.lanes);
    let layout = Layout::new(module, &plan);
    if !layout.fits() {
        return Err(refuse("values or memory of threads as large as these", Span::NONE, false));
    }
    let settings = Settings {
        system: CallConv::SystemV,
        zero: layout.zero.into(),
        empty: layout.empty.into(),
        empty_at: layout.empty_at.into(),
        counts: 0,
        has_fma: true,
        has_round: true,
        apart: Some(Apart { shapes: (layout.shapes.into(), SHAPE.into()), digits: layout.digits.into() }),
    };
    let mut cx = ModuleCx::new(module, plan, options, Tables::default(), Unit::new(settings));
    let mut emitted = Vec::new();
    for k in 0..module.entries.len() {
        emitted.push(emit_entry(&mut cx, k)?);
    }
    for func in cx.options.functions.clone() {
        let f = &module.funcs[func];
        if cx.plan.facts[func].waits() {
            return Err(refuse("barriers and wave operations in a function by itself", f.span, false));
        }
        lanes::raw(&mut cx, func, &raw_name(func)).map_err(stopped)?;
    }
    lanes::define_library(&mut cx);
    assemble(cx, &layout, emitted, features)
}

/// Refuses what has no code.
fn check(module: &Module, plan: &Plan) -> Result<(), Unsupported> {
    for entry in &module.entries {
        let f = &module.funcs[entry.func];
        if !f.has_body() || !f.params.is_empty() {
            let op = format!("the entry point '{}', which has parameters or no body", entry.name);
            return Err(refuse(op, f.span, false));
        }
        if plan.facts[entry.func].wave {
            return Err(refuse("wave operations", f.span, false));
        }
    }
    let mut insts = module.funcs.values().flat_map(|f| f.insts.values());
    if let Some(data) = insts.find(|data| data.op == ir::Op::Clock) {
        return Err(refuse("a clock", data.span, false));
    }
    if let Some(data) = ir::analysis::room::numbered_handle(module) {
        return Err(refuse("pointers that are made of numbers, or become numbers", data.span, false));
    }
    Ok(())
}

fn threads(entry: &ir::Entry) -> u64 {
    entry.group_size.iter().map(|&n| u64::from(n)).product()
}

/// The number of lanes that hold the whole group of each kernel with barriers.
fn together(module: &Module, plan: &Plan) -> Option<u32> {
    let mut sizes = module.entries.iter().filter(|e| plan.facts[e.func].barrier).map(threads);
    let size = sizes.next()?;
    (matches!(size, 4 | 8 | 16) && sizes.all(|s| s == size)).then_some(size as u32)
}

/// The name of the function that the host calls a function by.
fn raw_name(func: Func) -> String {
    format!("raw{}", func.as_u32())
}

fn stopped(stop: Stop) -> Unsupported {
    match stop {
        Stop::Unsupported(unsupported) => Unsupported { backend: NAME, ..unsupported },
        Stop::Lanes(reason) => refuse(reason.what, reason.span, false),
    }
}

/// The names of the functions of an entry point.
struct Names {
    lanes: Result<(String, u32), Reason>,
    one: Option<String>,
}

fn emit_entry(cx: &mut ModuleCx<'_, Unit>, k: usize) -> Result<Names, Unsupported> {
    let entry = &cx.ir.entries[k];
    let lanes = match lanes::in_lanes(cx, k, &WIDTHS) {
        Ok(lanes) => Ok(lanes),
        Err(Stop::Lanes(reason)) => Err(reason),
        Err(Stop::Unsupported(unsupported)) => Err(Reason { what: unsupported.op, span: unsupported.span }),
    };
    let all = threads(entry);
    let span = cx.ir.funcs[entry.func].span;
    let in_one = lanes.as_ref().is_ok_and(|lanes| u64::from(lanes.1) == all);
    if cx.plan.facts[entry.func].barrier && !in_one && all > 1 {
        let what = "a kernel with barriers whose group is not of 4, 8 or 16 threads that run in lanes";
        return Err(refuse(what, span, false));
    }
    let one = match &lanes {
        Ok((_, lanes)) if all.is_multiple_of(u64::from(*lanes)) => None,
        _ => {
            let name = format!("entry{k}_one");
            lanes::one_at_a_time(cx, k, &name).map_err(stopped)?;
            Some(name)
        }
    };
    Ok(Names { lanes, one })
}

/// The numbers of functions.
struct Numbers<'n> {
    runtime: &'n FxHashMap<String, u32>,
    own: FxHashMap<&'n str, u32>,
    /// The function of the host that prints.
    print: Option<u32>,
}

impl Numbers<'_> {
    fn of(&self, callee: &Callee) -> Result<u32, String> {
        let name = match callee {
            Callee::Own(name) => return self.own.get(&name[..]).copied().ok_or_else(|| name.clone()),
            Callee::Helper(Helper::Printf) | Callee::Rare(Helper::Printf) => {
                return self.print.ok_or_else(|| "printf".to_string());
            }
            Callee::Helper(helper) | Callee::Rare(helper) => helper.name(),
            Callee::Symbol(name, ..) => name,
        };
        self.runtime.get(name).copied().ok_or_else(|| format!("the function '{name}' of the runtime"))
    }
}

/// Puts the parts of a module together.
fn assemble(
    cx: ModuleCx<'_, Unit>,
    layout: &Layout,
    emitted: Vec<Names>,
    features: Features,
) -> Result<Wasm, Unsupported> {
    let ModuleCx { ir: module, plan, tables, backend, options, .. } = cx;
    let internal = |what: String| refuse(what, Span::NONE, true);
    let shapes: Vec<_> = tables.shapes().cloned().collect();
    let digits = ir::library::digits_of_two_over_pi();
    let (data, stack_end) = layout.data(module, &plan, &shapes, digits);
    let sites = tables.sites().to_vec();
    let imported = u32::from(sites.iter().any(|site| matches!(site, Site::Printf(..))));
    let field = |offset: i32| CONTEXT + offset as u32;
    let values = [
        ("sp", stack_end),
        ("heap", stack_end),
        ("first_heap", stack_end),
        ("at_top", field(offsets::ARENA_TOP)),
        ("at_end", field(offsets::ARENA_END)),
        ("at_base", field(offsets::ARENA_BASE)),
        ("at_context_globals", field(offsets::GLOBALS)),
        ("at_handles", field(offsets::HANDLES)),
        ("at_handle_count", field(offsets::HANDLE_COUNT)),
        ("at_globals", layout.globals),
        ("at_globals_now", layout.globals),
        ("at_sizes", layout.sizes),
        ("global_count", module.globals.len() as u32),
        ("at_zero", layout.zero),
        ("at_places", layout.places),
    ]
    .map(|(name, value)| (name, value as i32));
    let mut parts = Runtime::new(imported, &values).map_err(|error| internal(error.to_string()))?;
    let mut imports = ImportSection::new();
    let mut ty = |params: &[ValType], results: &[ValType]| {
        parts.types.ty().function(params.iter().copied(), results.iter().copied());
        parts.types.len() - 1
    };
    if imported > 0 {
        let of = ty(&[ValType::I64, ValType::I32, ValType::I64], &[]);
        imports.import("pullback", "print", EntityType::Function(of));
    }
    let first = imported + parts.functions.len();
    let own = (first..).zip(&backend.functions).map(|(k, f)| (&f.head.name[..], k)).collect();
    let numbers = Numbers { runtime: &parts.names, own, print: (imported > 0).then_some(0) };
    let mut names = NameMap::new();
    let mut types: FxHashMap<(Vec<ValType>, Vec<ValType>), u32> = FxHashMap::default();
    for Emitted { head, func, callees, .. } in &backend.functions {
        let of = |params: &[cranelift_codegen::ir::AbiParam]| -> Vec<ValType> {
            params.iter().map(|p| val_type(p.value_type)).collect()
        };
        let key = (of(&func.signature.params), of(&func.signature.returns));
        let number = *types.entry(key).or_insert_with_key(|(params, results)| ty(params, results));
        parts.functions.function(number);
        let mut called: FxHashMap<FuncRef, u32> = FxHashMap::default();
        for (name, callee) in callees {
            let number = numbers.of(callee).map_err(internal)?;
            let refs = func.dfg.ext_funcs.iter();
            refs.filter(|(_, data)| matches!(data.name, ExternalName::User(of) if of == *name)).for_each(
                |(func_ref, _)| {
                    called.insert(func_ref, number);
                },
            );
        }
        let body = function::write(
            func,
            &|func_ref| called.get(&func_ref).copied().unwrap_or(0),
            &parts.names,
            features.relaxed_simd,
        )
        .map_err(|what| internal(format!("{what} in '{}'", head.name)))?;
        parts.code.function(&body);
        names.append(numbers.own[&head.name[..]], &head.name);
    }
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    for &(name, kind, number) in &parts.exports {
        exports.export(name, kind, number);
    }
    let number_of = |name: &str| -> u32 { numbers.own[name] };
    let uses = Uses { begin: parts.names["begin"], stack_pointer: 0, error: 1, stack_end, features };
    let (run, call) = (ty(&[ValType::I32; 3], &[]), ty(&[ValType::I32; 2], &[]));
    let mut next = first + backend.functions.len() as u32;
    let mut entries = Vec::new();
    for (entry, found) in module.entries.iter().zip(emitted) {
        let facts = plan.facts[entry.func];
        let code = Code {
            size: entry.group_size,
            lanes: found.lanes.as_ref().ok().map(|(name, lanes)| (number_of(name), *lanes)),
            one: found.one.as_deref().map(number_of),
            one_by_one: facts.shared || facts.barrier,
            backwards: facts.barrier,
        };
        parts.functions.function(run);
        parts.code.function(&entry::write(module, layout, &code, &uses));
        exports.export(&entry.name, ExportKind::Func, next);
        next += 1;
        entries.push(Entry {
            name: entry.name.clone(),
            lanes: code.lanes.map_or(1, |lanes| lanes.1),
            reason: found.lanes.err(),
        });
    }
    for &func in &options.functions {
        parts.functions.function(call);
        parts.code.function(&entry::raw(number_of(&raw_name(func)), &uses));
        exports.export(&module.funcs[func].name, ExportKind::Func, next);
        next += 1;
    }
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: u64::from(stack_end.div_ceil(1 << 16) + 1),
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut segments = DataSection::new();
    for (at, bytes) in data {
        segments.active(0, &ConstExpr::i32_const(at as i32), bytes);
    }
    let mut name_section = NameSection::new();
    name_section.functions(&names);
    let mut out = wasm_encoder::Module::new();
    out.section(&parts.types).section(&imports).section(&parts.functions).section(&memories);
    out.section(&parts.globals).section(&exports).section(&parts.code).section(&segments);
    out.section(&name_section);
    let is_bound = |space| matches!(space, Space::ReadWrite | Space::ReadOnly | Space::Uniform);
    let globals = module.globals.iter().filter(|(_, data)| is_bound(data.space));
    Ok(Wasm {
        bytes: out.finish(),
        entries,
        globals: globals
            .map(|(global, data)| Buffer {
                number: global.as_u32(),
                name: data.name.to_string(),
                space: data.space,
                size: module.mem.size(data.ty),
            })
            .collect(),
        sites,
    })
}
