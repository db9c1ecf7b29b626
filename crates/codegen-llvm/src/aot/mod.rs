//! Compiles libraries: plain C functions that do not need the runtime of this project.
//!
//! The text is that of the JIT. Only its surroundings differ: the runtime's functions are LLVM text too
//! (`runtime.ll`), memory for stacks comes from `malloc`, and an error leaves by `longjmp` to the C function,
//! which returns its number. A function is
//!
//! ```c
//! int NAME(/* arguments */, /* where results go */);
//! ```
//!
//! with one argument for each leaf of a parameter, in order: scalars by value, vectors and arrays as pointers to their
//! numbers; and a pointer for each leaf of a result. A kernel is
//!
//! ```c
//! int NAME(const pullback_buffer buffers[], uint32_t groups_x, uint32_t groups_y, uint32_t groups_z);
//! ```
//!
//! with one buffer (`void *data; uint64_t count;`) for each global in order of declaration. Both return 0, or
//! the number of an error, whose text `PREFIX_message` returns.

mod ptx;
mod stacks;

use std::borrow::Cow;
use std::fmt::Write as _;

use ir::{ABORTS, Func, Module, Op, Scalar, Slot, Space, Span, Type, TypeData, Types};
use native::runtime::{Site, offsets};
use native::types::{is_array, size};
use native::{MOST_BUNDLED, MOST_LANES, Options, Unsupported};
use rustc_hash::FxHashSet;

use crate::unit::Linkage;
use crate::{Context, Machine, NAME, Text};

pub use ptx::{MATRIX_UNITS, Ptx, PtxEntry, PtxOptions, PtxPrint, ptx};

const RUNTIME: &str = include_str!("runtime.ll");
const STACKS: &str = include_str!("stacks.ll");
const COPIES: &str = include_str!("copies.ll");
/// The size of the fields of the context that compiled code uses; the chunk in use and the `jmp_buf` follow.
const CONTEXT: i64 = offsets::AFTER as i64;
/// The number of the error "out of memory", beyond the numbers of all places; also in `runtime.ll`.
const MEMORY: u32 = 0x0fff_ffff;
/// The number of bytes of stack that recursive calls may use.
const STACK: i64 = 1 << 20;

/// A function of the library.
#[derive(Clone, Debug)]
pub struct Export {
    /// The function's name in C.
    pub name: String,
    /// The function.
    pub func: Func,
}

/// A library's code.
#[derive(Debug)]
pub struct Library {
    /// An object file.
    pub object: Vec<u8>,
    /// The errors by number, from 1 on.
    pub errors: Vec<(String, Span)>,
    /// The globals that kernels take, in order.
    pub globals: Vec<ir::Global>,
}

/// Compiles functions and the entry points of a verified module. `prefix` begins the names of additional
/// functions; with `fast_math` operations on floats may be reordered; `exclusive` promises that no two calls
/// on the same buffers run at the same time.
pub fn library(
    module: &Module,
    exports: &[Export],
    prefix: &str,
    machine: &Machine,
    fast_math: bool,
    exclusive: bool,
) -> Result<Library, Unsupported> {
    let (all, options, errors) = assemble(module, exports, prefix, machine, fast_math, exclusive)?;
    let object = crate::object::file(&all, machine, &options).map_err(crate::object::failed)?;
    Ok(Library { object, errors, globals: bound(module).map(|g| g.0).collect() })
}

/// The reason why a library cannot have these functions and the entry points of a module, if there is one. It is found
/// without compiling them.
pub fn refusal(
    module: &Module,
    exports: &[Export],
    machine: &Machine,
    fast_math: bool,
    exclusive: bool,
) -> Option<Unsupported> {
    assemble(module, exports, "library", machine, fast_math, exclusive).err()
}

/// The text of a library, and its errors by number, from 1 on.
type Assembled = (String, Options, Vec<(String, Span)>);

fn assemble(
    module: &Module,
    exports: &[Export],
    prefix: &str,
    machine: &Machine,
    fast_math: bool,
    exclusive: bool,
) -> Result<Assembled, Unsupported> {
    let module = &*with_texts_of_aborts(module);
    let functions = exports.iter().map(|e| e.func).collect();
    let mut options = Options { functions, fast_math, exclusive, ..Options::default() };
    options.lanes = together(module, &options);
    let mut text = crate::make(module, &options, machine, Context::Made)?;
    for (entry, plan) in module.entries.iter().zip(&text.entries) {
        let facts = text.plan.facts[entry.func];
        let span = module.funcs[entry.func].span;
        if facts.wave {
            return Err(refuse("a kernel with wave operations", span));
        }
        let in_one = plan.lanes.as_ref().is_ok_and(|lanes| lanes.1 as u64 == threads(entry));
        if facts.barrier && !in_one {
            let what =
                "a kernel with barriers whose group is not of 4, 8, 16 or 32 threads that run in lanes";
            return Err(refuse(what, span));
        }
    }
    for &func in &text.plan.order {
        let f = &module.funcs[func];
        for inst in f.regions.values().flat_map(|region| &region.insts).map(|&inst| &f.insts[inst]) {
            match inst.op {
                Op::Printf(..) => return Err(refuse("`printf`", inst.span)),
                Op::CheckFinite(..) => return Err(refuse("`--check-nan`", inst.span)),
                _ => {}
            }
        }
    }
    let mut all = body(&mut text)?;
    let errors = errors(&text);
    messages(&mut all, prefix, &errors);
    for export in exports {
        let name = text.raw.iter().find(|(func, _)| *func == export.func).map(|(_, name)| name);
        let name = name.ok_or_else(|| refuse("a function without a body", module.funcs[export.func].span))?;
        refuse_globals(module, export.func)?;
        function(&mut all, module, export, name);
    }
    for (k, entry) in module.entries.iter().enumerate() {
        kernel(&mut all, module, k, &text).map_err(|what| refuse(what, module.funcs[entry.func].span))?;
    }
    Ok((all, options, errors))
}

/// A library does not print, but its errors have texts: what is printed right before `abort`, as its text is, becomes a
/// part of the error's. Its numbers stay the places where they would be.
fn with_texts_of_aborts(module: &Module) -> Cow<'_, Module> {
    let prints = |f: &ir::Function| f.insts.values().any(|inst| matches!(inst.op, Op::Printf(..)));
    if !module.funcs.values().any(prints) {
        return Cow::Borrowed(module);
    }
    let mut module = module.clone();
    for f in module.funcs.values_mut().filter(|f| prints(f)) {
        for region in f.regions.keys().collect::<Vec<_>>() {
            let mut kept: Vec<ir::Inst> = Vec::new();
            for inst in std::mem::take(&mut f.regions[region].insts) {
                // Between the two is at most the constant that the assertion takes.
                let printed = kept.iter().rposition(|&before| !matches!(f.insts[before].op, Op::Const(_)));
                let text = match (printed.map(|at| &f.insts[kept[at]].op), &f.insts[inst].op) {
                    (Some(Op::Printf(format)), Op::Assert(what)) if **what == *ABORTS => {
                        Some(format!("{what}: {}", format.trim_end()))
                    }
                    _ => None,
                };
                if let (Some(at), Some(text)) = (printed, text) {
                    kept.remove(at);
                    f.insts[inst].op = Op::Assert(text.into());
                }
                kept.push(inst);
            }
            f.regions[region].insts = kept;
        }
    }
    Cow::Owned(module)
}

/// The number of threads in a group.
fn threads(entry: &ir::Entry) -> u64 {
    entry.group_size.iter().map(|&n| n as u64).product()
}

/// The number of lanes that hold the whole group of each kernel with barriers, so that no thread has to wait:
/// all threads of the group are at the same place.
fn together(module: &Module, options: &Options) -> Option<u32> {
    let roots = module.entries.iter().map(|e| e.func).chain(options.functions.iter().copied());
    let plan = native::plan::Plan::new(module, roots);
    let mut sizes = module.entries.iter().filter(|e| plan.facts[e.func].barrier).map(threads);
    let size = sizes.next()?;
    (matches!(size, 4 | 8 | 16 | 32) && sizes.all(|s| s == size)).then_some(size as u32)
}

fn refuse(what: &str, span: Span) -> Unsupported {
    Unsupported { backend: NAME, op: format!("{what} in a library"), span, internal: false }
}

/// The globals that the host binds, as the source declares them.
fn bound(module: &Module) -> impl Iterator<Item = (ir::Global, &ir::GlobalData)> {
    let is_bound =
        |g: &ir::GlobalData| matches!(g.space, Space::ReadWrite | Space::ReadOnly | Space::Uniform);
    let mut all: Vec<_> = module.globals.iter().filter(|(_, g)| is_bound(g)).collect();
    all.sort_by_key(|(_, g)| (g.span.file, g.span.start));
    all.into_iter()
}

/// The text with the runtime that it needs.
fn body(text: &mut Text) -> Result<String, Unsupported> {
    let zeros = text.plan.largest / 16 * MOST_LANES as u64 * 16 + 32 * MOST_LANES as u64;
    let fields = [
        ("chunk", CONTEXT),
        ("jump", CONTEXT + 8),
        ("top", offsets::ARENA_TOP.into()),
        ("end", offsets::ARENA_END.into()),
        ("base", offsets::ARENA_BASE.into()),
    ];
    let runtime = format!("%lanes = type [{MOST_LANES} x ptr]\n%at.lanes = type [{MOST_LANES} x i8]\n");
    let runtime = runtime + RUNTIME + STACKS + &stacks::functions(text);
    let (all, missing) = with_runtime(text, &runtime, &fields, zeros);
    if let Some(name) = missing.first() {
        let what = name.trim_start_matches("rt_").replace('_', " ");
        return Err(refuse(&format!("the function of the runtime '{what}'"), Span::NONE));
    }
    Ok(text.unit.print() + &all)
}

/// Makes a module independent of the JIT's runtime, except for functions whose names are returned: gives the
/// text of what it only declares. `zeros` is the number of bytes that reads out of range may take, `fields`
/// are offsets in the context that `runtime` uses.
fn with_runtime(text: &mut Text, runtime: &str, fields: &[(&str, i64)], zeros: u64) -> (String, Vec<String>) {
    let mut all = String::new();
    for (name, at) in fields {
        let _ = writeln!(all, "%at.{name} = type [{at} x i8]");
    }
    all += runtime;
    all += COPIES;
    // The symbols that the runtime defines or declares by itself.
    let is_head = |line: &&str| line.starts_with("define ") || line.starts_with("declare ");
    let heads = all.lines().filter(is_head).filter_map(|line| line.split(['@', '(']).nth(1));
    let known: FxHashSet<&str> = heads.collect();
    let unit = &mut text.unit;
    let constant = |ty: &str, value: &str| format!("internal constant {ty} {value}, align 8");
    unit.global("rt_zero", format!("internal constant [{zeros} x i8] zeroinitializer, align 16"));
    // Receives dropped writes; it is never read.
    unit.global("rt_sink", format!("internal global [{zeros} x i8] zeroinitializer, align 16"));
    // A stack and a bundle.
    let header = "{ ptr, i64, i64 }";
    let empty = format!("{header} {{ ptr @rt_zero, i64 0, i64 0 }}");
    let empties = format!("[{}]", vec![empty; MOST_BUNDLED].join(", "));
    unit.global("rt_empty", constant(&format!("[{MOST_BUNDLED} x {header}]"), &empties));
    unit.global("rt_empty_at", constant("ptr", "@rt_empty"));
    // Shapes are defined with their functions.
    unit.globals.retain(|name, _| !name.starts_with("rt_shape_"));
    unit.declared.retain(|name, _| !known.contains(&name[..]));
    // The host calls the wrappers around these.
    unit.functions.iter_mut().for_each(|function| function.linkage = Linkage::Internal);
    let missing = unit.declared.keys().filter(|name| name.starts_with("rt_")).cloned().collect();
    (all, missing)
}

/// The errors that can stop the code, by number.
fn errors(text: &Text) -> Vec<(String, Span)> {
    text.tables.sites().iter().map(Site::failure).collect()
}

/// Emits `const char *PREFIX_message(int)`. The driver adds places to the messages.
fn messages(all: &mut String, prefix: &str, errors: &[(String, Span)]) {
    let texts = errors.iter().map(|e| e.0.as_str()).chain(["out of memory"]);
    let mut list = Vec::new();
    for (k, message) in texts.enumerate() {
        let bytes: String = message.bytes().map(|b| format!("\\{b:02X}")).collect();
        let n = message.len() + 1;
        let _ = writeln!(all, "@message.{k} = private constant [{n} x i8] c\"{bytes}\\00\"");
        list.push(format!("ptr @message.{k}"));
    }
    let n = list.len();
    let _ = writeln!(all, "@messages = private constant [{n} x ptr] [{}]", list.join(", "));
    let _ = writeln!(
        all,
        "define ptr @{prefix}_message(i32 %status) {{\n  \
         %is.memory = icmp eq i32 %status, {MEMORY}\n  \
         %k = sub i32 %status, 1\n  \
         %one = select i1 %is.memory, i32 {last}, i32 %k\n  \
         %in = icmp ult i32 %one, {n}\n  br i1 %in, label %yes, label %no\n\
         yes:\n  %at = getelementptr ptr, ptr @messages, i32 %one\n  %text = load ptr, ptr %at\n  ret ptr %text\n\
         no:\n  ret ptr null\n}}",
        last = n - 1,
    );
}

/// Returns an error if a function uses a global that is not private, since its caller does not pass any.
fn refuse_globals(module: &Module, func: Func) -> Result<(), Unsupported> {
    for func in ir::walk::reachable(module, &[func]) {
        for inst in module.funcs[func].insts.values() {
            if let Op::GlobalRef(global) = inst.op
                && module.globals[global].space != Space::Private
            {
                let name = &module.globals[global].name;
                return Err(refuse(&format!("a function that uses the buffer '{name}'"), inst.span));
            }
        }
    }
    Ok(())
}

/// A scalar's type in LLVM's text.
fn el(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool | Scalar::I8 | Scalar::U8 => "i8",
        Scalar::I16 | Scalar::U16 | Scalar::F16 => "i16",
        Scalar::I32 | Scalar::U32 => "i32",
        Scalar::I64 | Scalar::U64 => "i64",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// Emits the context on the stack, and its fields. `lanes` is the number of threads that run at a time.
fn context(all: &mut String, module: &Module, lanes: u64) {
    let n = module.globals.len().max(1);
    let _ = write!(
        all,
        "  %ctx = alloca [{bytes} x i8], align 16\n  %jump = alloca [512 x i8], align 16\n  \
         %globals = alloca [{n} x {{ ptr, i64 }}], align 16\n  \
         call void @llvm.memset.p0.i64(ptr %ctx, i8 0, i64 {bytes}, i1 false)\n  \
         %f0 = getelementptr i8, ptr %ctx, i64 {sink_at}\n  store ptr @rt_sink, ptr %f0\n  \
         %f1 = getelementptr i8, ptr %ctx, i64 {globals_at}\n  store ptr %globals, ptr %f1\n  \
         %f2 = getelementptr i8, ptr %ctx, i64 {jump_at}\n  store ptr %jump, ptr %f2\n  \
         %here = ptrtoint ptr %ctx to i64\n  %limit = sub i64 %here, {STACK}\n  store i64 %limit, ptr %ctx\n",
        bytes = CONTEXT + 16,
        sink_at = offsets::SINK,
        globals_at = offsets::GLOBALS,
        jump_at = CONTEXT + 8,
    );
    for (global, data) in module.globals.iter() {
        let k = global.as_u32();
        if matches!(data.space, Space::Private | Space::GroupShared) {
            let lanes = if data.space == Space::Private { lanes } else { 1 };
            let bytes = module.mem.size(data.ty).max(1).next_multiple_of(16) * lanes;
            let _ = write!(
                all,
                "  %p{k} = alloca [{bytes} x i8], align 16\n  \
                 %g{k} = getelementptr {{ ptr, i64 }}, ptr %globals, i64 {k}\n  store ptr %p{k}, ptr %g{k}\n  \
                 %n{k} = getelementptr i8, ptr %g{k}, i64 8\n  store i64 1, ptr %n{k}\n"
            );
        }
    }
}

/// Emits the entry and the two exits around a body that ends by `br label %end`.
fn guarded(all: &mut String, body: &str) {
    let _ = write!(
        all,
        "  %status = call i32 @_setjmp(ptr %jump) returns_twice\n  %first = icmp eq i32 %status, 0\n  \
         br i1 %first, label %run, label %failed\nrun:\n{body}  br label %end\nend:\n  \
         call void @rt_aot_end(ptr %ctx)\n  ret i32 0\nfailed:\n  call void @rt_aot_end(ptr %ctx)\n  \
         ret i32 %status\n}}\n"
    );
}

/// The words of parameters or results: the number of each word's slot, its place in a vector, and its type.
fn parts(types: &Types, slots: &[Slot]) -> Vec<(usize, u32, &'static str)> {
    let of = |(k, slot): (usize, &Slot)| {
        let (ty, n) = match types[slot.ty] {
            TypeData::Scalar(s) => (el(s), 1),
            TypeData::Vector(s, n) => (el(s), n),
            _ => ("ptr", 1),
        };
        (0..n).map(move |lane| (k, lane, ty))
    };
    slots.iter().enumerate().flat_map(of).collect()
}

fn function(all: &mut String, module: &Module, export: &Export, raw: &str) {
    let types = &module.types;
    let f = &module.funcs[export.func];
    let is_vector = |slot: &Slot| matches!(types[slot.ty], TypeData::Vector(..));
    let (args, results) = (parts(types, &f.params), parts(types, &f.results));
    let mut list = Vec::new();
    let (mut before, mut after) = (String::new(), String::new());
    for (at, &(k, lane, ty)) in args.iter().enumerate() {
        let in_memory = is_vector(&f.params[k]);
        if lane == 0 {
            list.push(format!("{} %a{k}", if in_memory { "ptr" } else { ty }));
        }
        let value = if in_memory {
            let _ = write!(
                before,
                "  %e{at} = getelementptr {ty}, ptr %a{k}, i64 {lane}\n  %x{at} = load {ty}, ptr %e{at}\n"
            );
            format!("%x{at}")
        } else {
            format!("%a{k}")
        };
        let _ = write!(
            before,
            "  %w{at} = getelementptr i64, ptr %args, i64 {at}\n  store {ty} {value}, ptr %w{at}\n"
        );
    }
    for (at, &(k, lane, ty)) in results.iter().enumerate() {
        let _ = writeln!(before, "  %v{at} = getelementptr i64, ptr %results, i64 {at}");
        let _ = if is_array(types, f.results[k].ty) {
            // The word is the destination of the array.
            writeln!(before, "  store ptr %r{k}, ptr %v{at}")
        } else {
            write!(
                after,
                "  %y{at} = load {ty}, ptr %v{at}\n  %o{at} = getelementptr {ty}, ptr %r{k}, i64 {lane}\n  \
                 store {ty} %y{at}, ptr %o{at}\n"
            )
        };
    }
    list.extend((0..f.results.len()).map(|k| format!("ptr %r{k}")));
    let _ = writeln!(all, "define i32 @{}({}) {{", export.name, list.join(", "));
    context(all, module, 1);
    for (name, words) in [("args", &args), ("results", &results)] {
        let _ = writeln!(all, "  %{name} = alloca [{} x i64], align 16", words.len().max(1));
    }
    let call = format!("  call void @{raw}(ptr %ctx, ptr %args, ptr %results)\n");
    guarded(all, &(before + &call + &after));
}

/// Emits a kernel's dispatch: rows of groups, in lanes as far as the lanes divide them.
fn kernel(all: &mut String, module: &Module, k: usize, text: &Text) -> Result<(), &'static str> {
    let entry = &module.entries[k];
    let has_handle = |ty| native::types::mem_leaves(&module.mem, ty).iter().any(|l| is_handle(module, l.ty));
    if bound(module).any(|(_, g)| has_handle(g.ty)) {
        return Err("a kernel with pointers or buffer handles in memory");
    }
    if module.funcs.values().any(|f| f.insts.values().any(|data| data.op == ir::Op::Clock)) {
        return Err("a kernel that reads a clock");
    }
    if ir::analysis::room::numbered_handle(module).is_some() {
        return Err("a kernel that makes pointers of numbers, or numbers of pointers");
    }
    let [x, y, z] = entry.group_size;
    let each = threads(entry);
    let facts = text.plan.facts[entry.func];
    let plan = &text.entries[k];
    let lanes = plan.lanes.as_ref().map_or(1, |l| l.1 as u64);
    let _ = writeln!(all, "define i32 @{}(ptr %buffers, i32 %gx, i32 %gy, i32 %gz) {{", entry.name);
    context(all, module, MOST_LANES as u64);
    let mut body = String::new();
    for (n, (global, _)) in bound(module).enumerate() {
        let g = global.as_u32();
        let _ = write!(
            body,
            "  %b{n} = getelementptr {{ ptr, i64 }}, ptr %buffers, i64 {n}\n  %d{n} = load {{ ptr, i64 }}, ptr %b{n}\n  \
             %c{n} = extractvalue {{ ptr, i64 }} %d{n}, 1\n  %z{n} = icmp eq i64 %c{n}, 0\n  \
             %e{n} = insertvalue {{ ptr, i64 }} %d{n}, ptr @rt_zero, 0\n  \
             %u{n} = select i1 %z{n}, {{ ptr, i64 }} %e{n}, {{ ptr, i64 }} %d{n}\n  \
             %s{n} = getelementptr {{ ptr, i64 }}, ptr %globals, i64 {g}\n  store {{ ptr, i64 }} %u{n}, ptr %s{n}\n"
        );
        let (room, size) = (text.plan.room[global], module.mem.size(module.globals[global].ty));
        if room > 0 {
            // Memory that is shorter than the code takes it to be is continued with zeros.
            let _ = write!(
                body,
                "  %short{n} = icmp ult i64 %c{n}, {room}\n  br i1 %short{n}, label %copy{n}, label %bound{n}\n\
                 copy{n}:\n  %more{n} = alloca [{bytes} x i8], align 16\n  %has{n} = mul i64 %c{n}, {size}\n  \
                 %p{n}.of = extractvalue {{ ptr, i64 }} %u{n}, 0\n  \
                 call void @llvm.memset.p0.i64(ptr %more{n}, i8 0, i64 {bytes}, i1 false)\n  \
                 call void @llvm.memcpy.p0.p0.i64(ptr %more{n}, ptr %p{n}.of, i64 %has{n}, i1 false)\n  \
                 store ptr %more{n}, ptr %s{n}\n  br label %bound{n}\nbound{n}:\n",
                bytes = room * size,
            );
        }
    }
    let field = |name: &str, at: i32| format!("  %{name} = getelementptr i8, ptr %ctx, i64 {at}\n");
    for (k, n) in [x, y, z].into_iter().enumerate() {
        body += &field(&format!("size{k}"), offsets::SIZE + 4 * k as i32);
        let _ = writeln!(body, "  store i32 {n}, ptr %size{k}");
    }
    body += &field("group1", offsets::GROUP + 4);
    body += &field("group2", offsets::GROUP + 8);
    let _ = write!(
        body,
        "  br label %ready\nready:\n  %wide = zext i32 %gx to i64\n  %threads = mul i64 %wide, {each}\n  %rest = urem i64 %threads, {lanes}\n  \
         %whole = sub i64 %threads, %rest\n  %none = icmp eq i64 %threads, 0\n  br i1 %none, label %end, label %planes\n\
         planes:\n  %iz = phi i32 [ 0, %ready ], [ %iz.next, %plane.done ]\n  %more.z = icmp ult i32 %iz, %gz\n  \
         br i1 %more.z, label %rows, label %end\n\
         rows:\n  %iy = phi i32 [ 0, %planes ], [ %iy.next, %row.done ]\n  %more.y = icmp ult i32 %iy, %gy\n  \
         br i1 %more.y, label %row, label %plane.done\n\
         row:\n  store i32 %iy, ptr %group1\n  store i32 %iz, ptr %group2\n"
    );
    // Groups with memory of their own, or with barriers, run one by one.
    let one_by_one = facts.shared || facts.barrier;
    let in_lanes = each / lanes * lanes;
    let (whole, all_threads) = match one_by_one {
        true => (in_lanes.to_string(), each.to_string()),
        false => ("%whole".to_string(), "%threads".to_string()),
    };
    if one_by_one {
        body += &field("group0", offsets::GROUP);
        body += "  br label %columns\ncolumns:\n  %ix = phi i32 [ 0, %row ], [ %ix.next, %column ]\n  \
                 %more.x = icmp ult i32 %ix, %gx\n  br i1 %more.x, label %column, label %row.done\n\
                 column:\n  store i32 %ix, ptr %group0\n  %ix.next = add i32 %ix, 1\n";
        for (global, data) in module.globals.iter().filter(|(_, g)| g.space == Space::GroupShared) {
            let (k, bytes) = (global.as_u32(), module.mem.size(data.ty));
            let _ = writeln!(body, "  call void @llvm.memset.p0.i64(ptr %p{k}, i8 0, i64 {bytes}, i1 false)");
        }
    }
    if let (Ok((name, _)), true) = (&plan.lanes, !one_by_one || in_lanes > 0) {
        // Without other code, lanes take the threads that are left over.
        let end = if plan.one.is_some() { &whole } else { &all_threads };
        let _ = writeln!(body, "  call void @{name}(ptr %ctx, i64 0, i64 {end})");
    }
    if let Some(one) = &plan.one {
        let start = if plan.lanes.is_ok() { &whole } else { "0" };
        let _ = writeln!(body, "  call void @{one}(ptr %ctx, i64 {start}, i64 {all_threads})");
    }
    if one_by_one {
        body += "  br label %columns\n";
    } else {
        body += "  br label %row.done\n";
    }
    body += "row.done:\n  %iy.next = add i32 %iy, 1\n  br label %rows\n\
             plane.done:\n  %iz.next = add i32 %iz, 1\n  br label %planes\nunused:\n";
    guarded(all, &body);
    Ok(())
}

fn is_handle(module: &Module, ty: ir::MemType) -> bool {
    match &module.mem[ty] {
        ir::MemData::Handle(_) => true,
        ir::MemData::Array(t, _) => is_handle(module, *t),
        _ => false,
    }
}

/// The numbers that a parameter or result of a type holds, for a header: their type in C, and how many there
/// are.
pub fn c_type(types: &Types, ty: Type) -> (&'static str, u64) {
    let scalar = types.scalar_of(ty).unwrap_or(Scalar::I32);
    let name = match scalar {
        Scalar::Bool | Scalar::U8 => "uint8_t",
        Scalar::I8 => "int8_t",
        Scalar::I16 => "int16_t",
        // A half is passed as its bits.
        Scalar::U16 | Scalar::F16 => "uint16_t",
        Scalar::I32 => "int32_t",
        Scalar::U32 => "uint32_t",
        Scalar::I64 => "int64_t",
        Scalar::U64 => "uint64_t",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    };
    (name, size(types, ty) / scalar.bytes() as u64)
}
