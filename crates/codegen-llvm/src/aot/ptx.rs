//! Compiles kernels for NVIDIA's devices to PTX, with LLVM's NVPTX target.
//!
//! The text is that for one thread at a time. Around it each kernel is an `.entry`, whose parameters are
//!
//! ```c
//! (T *data, uint64_t count)…,       /* for each global that the host binds, in order of declaration */
//! uint32_t error[4],                /* zero at first: what went wrong, from 1, and the thread */
//! uint32_t *arena, uint64_t words, uint32_t state[5] /* if stacks are in an arena (`opt::arena`) */
//! uint32_t *log, uint64_t log_words /* if there is a `printf`: what it writes */
//! ```
//!
//! The log begins with the number of words that records took or would have taken, in 64 bits, zero at first.
//! A record is the number of the `printf`, from 1, the thread, and each operand in 64 bits. A record that
//! does not fit is not written. The memory of a buffer is laid out as on the CPU.
//! Mathematical functions must have been expanded to arithmetic before, since devices have no exact ones, and
//! stacks must be in an arena. Arrays of any size are in a thread's local memory.

use std::fmt::Write as _;

use ir::{Module, Scalar, Space, Span};
use native::runtime::{Site, offsets};
use native::{Options, Unsupported};
use rustc_hash::FxHashMap;

use super::{CONTEXT, bound, errors, is_handle, with_runtime};
use crate::{Context, Machine, Text};

const DEVICE: &str = include_str!("ptx.ll");
/// The name in diagnostics.
const PTX: &str = "ptx";

/// Kernels as PTX.
#[derive(Debug)]
pub struct Ptx {
    /// The text of the PTX file.
    pub text: String,
    /// The errors by number, from 1 on.
    pub errors: Vec<(String, Span)>,
    /// The `printf`s, in the order of their numbers.
    pub prints: Vec<PtxPrint>,
    /// The globals that kernels take, in order.
    pub buffers: Vec<ir::Global>,
    /// The entry points, as in the module.
    pub entries: Vec<PtxEntry>,
    /// Kernels take an arena.
    pub has_arena: bool,
    /// A product by matrix units, if there is one. Devices before [`MATRIX_UNITS`] do not run the text then.
    pub matrix_units: Option<Span>,
}

/// An entry point in the text.
#[derive(Clone, Debug)]
pub struct PtxEntry {
    /// The name in the text.
    pub name: String,
    /// The first group does nothing in a dispatch of several groups, and has to be dispatched once more,
    /// alone.
    pub first_group_last: bool,
    /// Threads have parts of an arena.
    pub uses_arena: bool,
}

/// A `printf`.
#[derive(Clone, Debug)]
pub struct PtxPrint {
    /// The number in records.
    pub number: u32,
    /// The format string, with its placeholders for operands.
    pub format: String,
    /// The types of the operands.
    pub kinds: Vec<Scalar>,
}

/// The options of PTX.
#[derive(Clone, Copy, Debug)]
pub struct PtxOptions {
    /// The generation of devices, 70 or later; later generations run the text, too. (With products by matrix units
    /// it is 80 at least.)
    pub generation: u32,
    /// The host dispatches the first group once more, alone, if [`PtxEntry::first_group_last`] requires it.
    pub first_group_last: bool,
}

/// The offsets of the log and its number of words in a thread's context.
const LOG: i64 = CONTEXT + 8;
const LOG_WORDS: i64 = CONTEXT + 16;
/// The offset of the mask of the lanes that are together.
const MASK: i64 = CONTEXT + 24;
/// The size of a thread's context in bytes.
const CONTEXT_BYTES: i64 = CONTEXT + 32;

/// The first generation whose matrix units multiply matrices of 16 rows and 8 columns of all types that are used.
pub const MATRIX_UNITS: u32 = 80;

/// The bytes of local memory that a thread has on every device.
const LOCAL: u64 = 512 << 10;

/// Compiles the entry points of a verified module whose mathematical functions are already expanded to
/// arithmetic, and whose stacks are in an arena.
pub fn ptx(module: &Module, wanted: &PtxOptions) -> Result<Ptx, Unsupported> {
    let named = |u: Unsupported| Unsupported { backend: PTX, ..u };
    // Devices convert halves by instructions.
    let machine = Machine { features: "+f16c".into(), has_waves: true, ..Machine::generic() };
    let options = Options { lanes: Some(1), ..Options::default() };
    let mut text = crate::make(module, &options, &machine, Context::Made).map_err(named)?;
    check(module, &text)?;
    let prints = prints(&text);
    let mut all = body(&mut text, &prints)?;
    let mut entries: Vec<PtxEntry> = Vec::new();
    for k in 0..module.entries.len() {
        let entry = PtxEntry {
            name: symbol(&module.entries[k].name, &entries),
            first_group_last: wanted.first_group_last && reads_of_others(module, k, &text),
            uses_arena: has_arena(module) && text.plan.facts[module.entries[k].func].private,
        };
        kernel(&mut all, module, k, &entry, &text, !prints.is_empty());
        entries.push(entry);
    }
    annotations(&mut all, module, &entries);
    let matrix_units = product_by_units(module);
    let least = if matrix_units.is_some() { MATRIX_UNITS } else { 0 };
    let cpu = format!("sm_{}", wanted.generation.max(least));
    let device = Machine { cpu, features: "+ptx70".into(), ..Machine::generic() };
    let made =
        crate::object::assembly(&all, &device, &options).map_err(crate::object::failed).map_err(named)?;
    let made = String::from_utf8_lossy(&made);
    let local = local_bytes(&made);
    if local > LOCAL {
        let what = format!("arrays of {local} bytes: a thread has {LOCAL} bytes of local memory");
        return Err(refuse(&what, module.funcs[module.entries[0].func].span));
    }
    let made = header(module, &entries, !prints.is_empty()) + &made;
    Ok(Ptx {
        text: made,
        errors: errors(&text),
        prints,
        buffers: bound(module).map(|(g, _)| g).collect(),
        entries,
        has_arena: has_arena(module),
        matrix_units,
    })
}

/// The first product by matrix units.
fn product_by_units(module: &Module) -> Option<Span> {
    let all = module.funcs.values().flat_map(|f| f.insts.values());
    all.filter(|data| matches!(data.op, ir::Op::WaveMultiply(_))).map(|data| data.span).next()
}

/// The `printf`s of the text.
fn prints(text: &Text) -> Vec<PtxPrint> {
    let sites = text.tables.sites().iter().zip(1..);
    let print = |(site, number): (&Site, u32)| match site {
        Site::Printf(format, kinds) => {
            Some(PtxPrint { number, format: format.to_string(), kinds: kinds.to_vec() })
        }
        Site::Assert(..)
        | Site::MaxIters(..)
        | Site::OutOfRange(_)
        | Site::TooDeep(_)
        | Site::NoStack(_)
        | Site::Memory(_)
        | Site::NotFinite(..) => None,
    };
    sites.filter_map(print).collect()
}

/// The bytes of the local memory of all functions, in lines such as `.local .align 16 .b8 NAME[BYTES];`.
fn local_bytes(text: &str) -> u64 {
    let depots = text.lines().filter(|line| line.trim_start().starts_with(".local "));
    let bytes = depots.filter_map(|line| line.split(['[', ']']).nth(1)?.parse::<u64>().ok());
    bytes.fold(0, u64::saturating_add)
}

/// Returns true if the module's stacks are in an arena.
fn has_arena(module: &Module) -> bool {
    module.globals.values().any(|g| g.space == Space::Arena)
}

/// Returns true if the first group may read data that the other groups have written: on the CPU it runs after
/// they have ended, if there are barriers.
fn reads_of_others(module: &Module, k: usize, text: &Text) -> bool {
    let facts = text.plan.facts[module.entries[k].func];
    facts.barrier && bound(module).any(|(_, g)| g.space == Space::ReadWrite)
}

/// Returns true if the global is a pointer, for which the host passes the pointee.
fn is_pointer(module: &Module, global: &ir::GlobalData) -> bool {
    global.pointee(&module.mem).is_some()
}

fn refuse(what: &str, span: Span) -> Unsupported {
    Unsupported { backend: PTX, op: what.to_string(), span, internal: false }
}

/// Returns an error if the module uses features that devices do not have.
fn check(module: &Module, text: &Text) -> Result<(), Unsupported> {
    if module.entries.is_empty() {
        return Err(refuse("a file without a kernel", Span::NONE));
    }
    let has_handle = |ty| native::types::mem_leaves(&module.mem, ty).iter().any(|l| is_handle(module, l.ty));
    // For a global that is a pointer, the host passes the pointee.
    let content = |g: &ir::GlobalData| g.pointee(&module.mem).unwrap_or(g.ty);
    if let Some((_, g)) = bound(module).find(|(_, g)| has_handle(content(g))) {
        return Err(refuse(&format!("`{}`, which has pointers or buffers in memory", g.name), g.span));
    }
    let mut insts = module.funcs.values().flat_map(|f| f.insts.values());
    if let Some(data) = insts.find(|data| data.op == ir::Op::Clock) {
        return Err(refuse("a clock", data.span));
    }
    if let Some(data) = ir::analysis::room::numbered_handle(module) {
        return Err(refuse("a pointer that is made of a number, or becomes one", data.span));
    }
    for &func in &text.plan.order {
        let f = &module.funcs[func];
        if text.plan.facts[func].recursive {
            let why =
                "which calls itself, with different buffers, or with a barrier or an operation of a wave";
            return Err(refuse(&format!("the function `{}`, {why}", f.name), f.span));
        }
    }
    Ok(())
}

/// The number of bytes of text that LLVM may add by inlining a function into its callers, which it does with
/// any function of a device: a large kernel would have a hundred sines.
const OFTEN: usize = 64 << 10;

/// The text with the functions that it calls on devices.
fn body(text: &mut Text, prints: &[PtxPrint]) -> Result<String, Unsupported> {
    let fields = [
        ("mask", MASK),
        ("logwords", LOG_WORDS),
        ("log", LOG),
        ("error", CONTEXT),
        ("thread", offsets::THREAD.into()),
        ("group", offsets::GROUP.into()),
        ("size", offsets::SIZE.into()),
    ];
    let zeros = text.plan.largest.next_multiple_of(16) + 64;
    let (runtime, missing) = with_runtime(text, DEVICE, &fields, zeros);
    if let Some(name) = missing.first() {
        let what = name.trim_start_matches("rt_").replace('_', " ");
        return Err(refuse(&format!("the function of the runtime '{what}'"), Span::NONE));
    }
    let most = prints.last().map_or(1, |p| p.number as usize);
    let mut operands = vec!["i32 0".to_string(); most];
    prints.iter().for_each(|p| operands[p.number as usize - 1] = format!("i32 {}", p.kinds.len()));
    let operands = format!("internal constant [{most} x i32] [{}]", operands.join(", "));
    let unit = &mut text.unit;
    unit.global("rt_operands", operands);
    let mut calls: FxHashMap<String, usize> = FxHashMap::default();
    for (callee, n) in unit.functions.iter().flat_map(|function| &function.callees) {
        *calls.entry(callee.clone()).or_default() += n;
    }
    for function in &mut unit.functions {
        // Calls that may wait must not be moved to where fewer threads execute them.
        function.about.insert_str(0, "convergent ");
        if function.len() * calls.get(&function.name).copied().unwrap_or(0) > OFTEN {
            function.about = format!("noinline {}", function.about.replace(" alwaysinline", ""));
        }
    }
    Ok(unit.print() + &runtime)
}

/// A name that is valid in PTX, and that no other entry point has.
fn symbol(name: &str, others: &[PtxEntry]) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut name = if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("k{plain}") } else { plain };
    while others.iter().any(|e| e.name == name) {
        name.push('_');
    }
    name
}

/// Emits the kernel around the code of entry point number `k`: it makes a thread's context and fills it.
fn kernel(all: &mut String, module: &Module, k: usize, own: &PtxEntry, text: &Text, prints: bool) {
    let [x, y, z] = module.entries[k].group_size;
    let n_globals = module.globals.len().max(1);
    let mut params: Vec<String> =
        (0..bound(module).count()).map(|n| format!("ptr %b{n}, i64 %c{n}")).collect();
    params.push("ptr %error".into());
    if has_arena(module) {
        params.push("ptr %arena, i64 %arena.words, ptr %arena.state".into());
    }
    if prints {
        params.push("ptr %log, i64 %log.words".into());
    }
    let shared: Vec<(u32, u64)> = module
        .globals
        .iter()
        .filter(|(_, g)| g.space == Space::GroupShared)
        .map(|(g, data)| (g.as_u32(), module.mem.size(data.ty).max(1).next_multiple_of(4)))
        .collect();
    for (g, bytes) in &shared {
        let _ =
            writeln!(all, "@shared.{k}.{g} = internal addrspace(3) global [{bytes} x i8] undef, align 16");
    }
    let _ = writeln!(all, "define ptx_kernel void @{}({}) {{", own.name, params.join(", "));
    // The memory of each global, and the number of its elements.
    let mut globals: Vec<(u32, String, String)> = Vec::new();
    for (g, _) in &shared {
        globals.push((*g, format!("addrspacecast (ptr addrspace(3) @shared.{k}.{g} to ptr)"), "1".into()));
    }
    for (g, data) in module.globals.iter().filter(|(_, g)| g.space == Space::Private) {
        let bytes = module.mem.size(data.ty).max(1).next_multiple_of(16);
        let g = g.as_u32();
        let _ = writeln!(all, "  %own{g} = alloca [{bytes} x i8], align 16");
        globals.push((g, format!("%own{g}"), "1".into()));
    }
    // The arena's first global is its words, the second its state.
    let places = [("%arena", "%arena.words"), ("%arena.state", "1")];
    let parts = module.globals.iter().filter(|(_, g)| g.space == Space::Arena).zip(places);
    globals.extend(parts.map(|((g, _), (at, count))| (g.as_u32(), at.into(), count.into())));
    let mut n_pointers = 0;
    let pointers = bound(module).filter(|(_, g)| is_pointer(module, g)).count();
    let _ = writeln!(all, "  %pointees = alloca [{} x {{ ptr, i64 }}], align 16", pointers.max(1));
    for (n, (g, data)) in bound(module).enumerate() {
        // A buffer without elements has no memory.
        let _ = write!(
            all,
            "  %none{n} = icmp eq i64 %c{n}, 0\n  %d{n} = select i1 %none{n}, ptr @rt_zero, ptr %b{n}\n"
        );
        if !is_pointer(module, data) {
            globals.push((g.as_u32(), format!("%d{n}"), format!("%c{n}")));
            continue;
        }
        // A pointer in memory is the number of its pointee, whose descriptor counts bytes.
        let _ = write!(
            all,
            "  %pointee{n} = getelementptr {{ ptr, i64 }}, ptr %pointees, i64 {n_pointers}\n  \
             store ptr %d{n}, ptr %pointee{n}\n  %many{n} = getelementptr i8, ptr %pointee{n}, i64 8\n  \
             %bytes{n} = mul i64 %c{n}, {size}\n  store i64 %bytes{n}, ptr %many{n}\n  \
             %pointer{n} = alloca i64, align 16\n  store i64 {number}, ptr %pointer{n}\n",
            // Of a block that is only an array without a length, the host counts bytes.
            size = module.mem.size(data.pointee(&module.mem).unwrap_or(data.ty)).max(1),
            number = ir::interp::handle_bits(n_pointers as u64, 0)
        );
        n_pointers += 1;
        globals.push((g.as_u32(), format!("%pointer{n}"), "1".into()));
    }
    let _ = write!(
        all,
        "  %ctx = alloca [{CONTEXT_BYTES} x i8], align 16\n  \
         %globals = alloca [{n_globals} x {{ ptr, i64 }}], align 16\n"
    );
    let mut field = |at: i64, name: &str, value: &str| {
        let _ = write!(
            all,
            "  %{name}.at = getelementptr i8, ptr %ctx, i64 {at}\n  store {value}, ptr %{name}.at\n"
        );
    };
    // Fields that are not set here or below are only used with lanes, or are set by the code itself.
    field(offsets::STACK_LIMIT as i64, "limit", "i64 0");
    field(offsets::DEPTH as i64, "depth", "i32 0");
    field(offsets::ALONE as i64, "alone", "i32 0");
    field(offsets::HANDLES as i64, "handles", "ptr %pointees");
    field(offsets::HANDLE_COUNT as i64, "count", &format!("i64 {pointers}"));
    field(offsets::SINK as i64, "sink", "ptr @rt_sink");
    field(offsets::GLOBALS as i64, "globals", "ptr %globals");
    field(CONTEXT, "error", "ptr %error");
    if prints {
        field(LOG, "log", "ptr %log");
        field(LOG_WORDS, "words", "i64 %log.words");
    }
    let _ = write!(
        all,
        "  %start = call i64 @rt_enter(ptr %ctx, i32 {x}, i32 {y}, i32 {z})\n  %end = add i64 %start, 1\n"
    );
    for (g, pointer, count) in globals {
        let _ = write!(
            all,
            "  %global{g} = getelementptr {{ ptr, i64 }}, ptr %globals, i64 {g}\n  store ptr {pointer}, ptr %global{g}\n  \
             %count{g} = getelementptr i8, ptr %global{g}, i64 8\n  store i64 {count}, ptr %count{g}\n"
        );
    }
    if own.first_group_last {
        *all += "  %skips = call i1 @rt_is_first_of_many()\n  \
                 br i1 %skips, label %skipped, label %taken\nskipped:\n  ret void\ntaken:\n";
    }
    if text.plan.facts[module.entries[k].func].shared {
        // The threads clear the memory together.
        let threads = x as u64 * y as u64 * z as u64;
        for (g, bytes) in &shared {
            let (memory, words) = (format!("ptr addrspace(3) @shared.{k}.{g}"), bytes / 4);
            let _ = writeln!(
                all,
                "  call void @rt_clear_shared({memory}, i64 {words}, i64 %start, i64 {threads})"
            );
        }
        *all += "  call void @llvm.nvvm.barrier0() convergent\n";
    }
    let _ = write!(
        all,
        "  call void @{}(ptr %ctx, i64 %start, i64 %end)\n  ret void\n}}\n",
        text.entries[k].one.as_deref().unwrap_or_default()
    );
}

/// Emits annotations with the number of threads of a group.
fn annotations(all: &mut String, module: &Module, entries: &[PtxEntry]) {
    let mut list = Vec::new();
    for (own, entry) in entries.iter().zip(&module.entries) {
        for (axis, n) in ["x", "y", "z"].into_iter().zip(entry.group_size) {
            let (number, name) = (900_000 + list.len(), &own.name);
            let _ = writeln!(all, "!{number} = !{{ptr @{name}, !\"reqntid{axis}\", i32 {n}}}");
            list.push(format!("!{number}"));
        }
    }
    let _ = writeln!(all, "!nvvm.annotations = !{{{}}}", list.join(", "));
}

/// A comment that lists the parameters of each kernel.
fn header(module: &Module, entries: &[PtxEntry], prints: bool) -> String {
    let mut text = String::new();
    let buffers: Vec<String> = bound(module).map(|(_, g)| format!("{} *, uint64_t count", g.name)).collect();
    for (own, entry) in entries.iter().zip(&module.entries) {
        let [x, y, z] = entry.group_size;
        let _ = writeln!(text, "// {}: groups of {x} x {y} x {z} threads; parameters:", own.name);
        for buffer in &buffers {
            let _ = writeln!(text, "//   {buffer}");
        }
        let arena = match has_arena(module) {
            true => "; uint32_t *arena; uint64_t arena words; uint32_t arena state[5]",
            false => "",
        };
        let log = if prints { "; uint32_t *log; uint64_t log words" } else { "" };
        let _ = writeln!(text, "//   uint32_t error[4], zero at first{arena}{log}");
    }
    text
}
