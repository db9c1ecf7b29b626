//! Translates IR to LLVM's textual IR, for one thread and for lanes, and (feature `jit`) to machine code in
//! memory.
//!
//! The IR is structured and every op is total, so one emitter serves both cases: a uniform value, which is
//! the same in all lanes, becomes a scalar, and a varying value a vector (`text`); where control diverges,
//! code runs under a mask (`emit`). An analysis determines beforehand which values vary (`uniform`). An entry
//! point that cannot run in lanes runs one thread at a time, and the reason is recorded.
//!
//! The text has no flags that allow results other than those of `ir::scalar`, so the code that LLVM's
//! optimiser produces gives the interpreter's results bit for bit. The optimiser may reorder loads and
//! stores, since the text declares that memory of different globals does not overlap.

#[cfg(feature = "jit")]
pub mod aot;
#[cfg(feature = "jit")]
mod apart;
#[cfg(feature = "jit")]
mod api;
#[cfg(feature = "jit")]
mod background;
mod columns;
mod debug;
mod emit;
#[cfg(feature = "jit")]
mod identity;
#[cfg(feature = "jit")]
mod jit;
#[cfg(feature = "jit")]
mod link;
#[cfg(feature = "jit")]
mod object;
mod pieces;
mod sketch;
#[cfg(feature = "jit")]
mod split;
mod text;
mod unit;

use std::fmt::Write as _;

use ir::{Func, Module};
use native::lanes::{self, ModuleCx, Stop, operand};
use native::plan::Plan;
use native::profile::{self, Profile, Spills};
use native::runtime::Tables;
use native::{Options, Reason, Unsupported};

use emit::Llvm;
use text::Style;
use unit::Unit;

#[cfg(feature = "jit")]
pub use api::{Found, found, found_at};
#[cfg(feature = "jit")]
pub use background::{in_background, leave};
#[cfg(feature = "jit")]
pub use identity::identity;
#[cfg(feature = "jit")]
pub use jit::{Times, compile, find_spills, load, machine, objects, open_early};

/// The backend's name in diagnostics.
pub(crate) const NAME: &str = "llvm";

/// A description of the target machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The machine's name as LLVM spells it; or [`Machine::HOST`], with only those features that matter to
    /// the text.
    pub cpu: String,
    /// The machine's features as LLVM spells them; see `cpu`.
    pub features: String,
    /// The width of the machine's vectors in bits.
    pub vector_bits: u32,
    /// The machine's threads are lanes of waves: code keeps the mask of the lanes that are together rather
    /// than the path of each thread.
    pub has_waves: bool,
}

impl Machine {
    /// A generic machine with vectors of 256 bits.
    pub fn generic() -> Machine {
        Machine { cpu: String::new(), features: String::new(), vector_bits: 256, has_waves: false }
    }

    /// A baseline that machines have supported for years: on x86-64 the level v3 (AVX2, FMA and F16C, since
    /// 2013).
    pub fn common() -> Machine {
        if cfg!(target_arch = "x86_64") {
            let features = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe".to_string();
            return Machine { cpu: "x86-64-v3".to_string(), features, ..Machine::generic() };
        }
        Machine { vector_bits: 128, ..Machine::generic() }
    }

    /// The name that stands for this machine, whatever LLVM calls it.
    pub const HOST: &str = "host";

    /// Returns true if this is the host machine, with all its features.
    pub fn is_host(&self) -> bool {
        self.cpu == Machine::HOST
    }

    fn has(&self, feature: &str) -> bool {
        self.features.split(',').any(|f| f.strip_prefix('+') == Some(feature))
    }
}

/// How an entry point is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPlan {
    /// The function that runs one thread at a time; none if all threads run in lanes, those that are left over, too.
    pub one: Option<String>,
    /// The function that runs threads in lanes, and the number of lanes; or the reason why there is none.
    pub lanes: Result<(String, u32), Reason>,
}

/// A module in LLVM's IR.
pub struct Text {
    /// The module.
    unit: Unit,
    /// The entry points.
    pub entries: Vec<EntryPlan>,
    /// The requested functions, and their names.
    pub raw: Vec<(Func, String)>,
    /// The tables that the text refers to by number or address. They must live as long as the code.
    pub tables: Tables,
    /// The facts about the module.
    pub plan: Plan,
    /// An upper bound of the bytes of stack that calls need without recursion.
    pub stack_need: u64,
    /// The number of bytes of stack that recursive calls need.
    pub recursion_need: u64,
    /// The spills in the code, if they were looked for.
    pub spills: Option<Vec<Spills>>,
}

impl Text {
    /// LLVM's textual IR.
    pub fn print(&self) -> String {
        self.unit.print()
    }
}

/// The text of the entry points of a verified module, the functions in `options`, and all functions that they
/// call.
pub fn text(module: &Module, options: &Options, machine: &Machine) -> Result<Text, Unsupported> {
    make(module, options, machine, Context::Constant)
}

/// The context of a thread, as the text sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    /// It is made elsewhere, and most fields never change while a function runs.
    Constant,
    /// It is made in code that LLVM compiles with the text. Once all is inlined into one function, LLVM sees
    /// the stores, too, and must not use the value that a field had before it was set.
    #[cfg_attr(not(feature = "jit"), expect(dead_code, reason = "only code without the runtime makes one"))]
    Made,
}

fn make(
    module: &Module,
    options: &Options,
    machine: &Machine,
    context: Context,
) -> Result<Text, Unsupported> {
    let roots = module.entries.iter().map(|e| e.func).chain(options.functions.iter().copied());
    let mut plan = Plan::new(module, roots);
    if machine.has_waves {
        // A device gets the host's memory as it is.
        plan.room.clear();
    }
    let llvm = Llvm {
        unit: Unit::default(),
        style: Style {
            constant_context: context == Context::Constant,
            has_f16c: machine.has("f16c") || machine.has("fullfp16"),
            has_scale: machine.has("avx512f") && machine.has("avx512vl"),
            vector_bits: machine.vector_bits,
            slow_masks: cfg!(target_arch = "x86_64") && machine.vector_bits < 512,
        },
        has_waves: machine.has_waves,
        sketches: None,
        piece: options.piece.unwrap_or(match machine.has_waves {
            true => pieces::LENGTH_ON_DEVICES,
            false => pieces::LENGTH,
        }),
    };
    // Where there are 32 registers, two vectors for each value overlap without spills; four cost more than they save.
    let (vectors, most) = if machine.vector_bits >= 512 { ([2, 2], 32) } else { ([2, 4], 16) };
    let widths =
        lanes::Widths { vector_bits: machine.vector_bits, vectors, least: 2, most, widest: 32, tries: true };
    let mut cx = ModuleCx::new(module, plan, options.clone(), Tables::default(), llvm);
    let only = |stop: Stop| match stop {
        Stop::Unsupported(unsupported) => unsupported,
        Stop::Lanes(reason) => {
            Unsupported { backend: NAME, op: reason.what, span: reason.span, internal: false }
        }
    };
    let mut entries = Vec::new();
    for (k, entry) in module.entries.iter().enumerate() {
        let f = &module.funcs[entry.func];
        if !f.has_body() || !f.params.is_empty() {
            let op = format!("the entry point '{}', which has parameters or no body", entry.name);
            return Err(Unsupported { backend: NAME, op, span: f.span, internal: false });
        }
        let lanes = match lanes::in_lanes(&mut cx, k, &widths) {
            Ok(lanes) => Ok(lanes),
            Err(Stop::Lanes(reason)) => Err(reason),
            Err(Stop::Unsupported(unsupported)) => return Err(unsupported),
        };
        // If the number of lanes divides the group size, no thread is left over for other code, nor if lanes take those.
        let all: u64 = entry.group_size.iter().map(|&n| n as u64).product();
        let is_left =
            lanes.as_ref().map_or(true, |lanes| !all.is_multiple_of(lanes.1 as u64) && !cx.takes_left_over);
        let mut one = None;
        if is_left {
            let name = format!("entry{k}");
            lanes::one_at_a_time(&mut cx, k, &name).map_err(only)?;
            one = Some(name);
        }
        entries.push(EntryPlan { one, lanes });
    }
    let mut raw = Vec::new();
    for &func in &options.functions {
        let f = &module.funcs[func];
        if !f.has_body() {
            continue;
        }
        let name = format!("raw{}", func.as_u32());
        lanes::raw(&mut cx, func, &name).map_err(only)?;
        raw.push((func, name));
    }
    lanes::define_library(&mut cx);
    let ModuleCx { mut tables, plan, backend: Llvm { mut unit, .. }, .. } = cx;
    let frames = unit.functions.iter().fold(0u64, |sum, function| sum.saturating_add(function.frame));
    unit.head = metadata(module);
    unit.keep_calls();
    unit.global("rt_zero", "external global [64 x i8], align 16".to_string());
    unit.global("rt_empty", format!("external global [{} x i8], align 8", 24 * native::MOST_BUNDLED));
    unit.global("rt_empty_at", "external global ptr, align 8".to_string());
    for k in 0..tables.shapes().count() {
        unit.global(&format!("rt_shape_{k}"), "external global i8".to_string());
    }
    if options.profile != Profile::Off {
        debug::number(&mut unit, FIRST_SCOPE + 3 * module.globals.len().min(SCOPES));
    }
    if options.profile == Profile::Counts {
        tables.notes.counts_at();
        unit.global("rt_counts", format!("external global [{} x i64], align 8", 2 * profile::MOST));
    }
    let recursion_need = plan.recursion_need(|_| frames + 512);
    Ok(Text { unit, entries, raw, tables, plan, stack_need: frames, recursion_need, spills: None })
}

/// The number of the first alias scope in the metadata.
const FIRST_SCOPE: usize = 100;

/// The number of alias scopes. Globals after the first ones share the last scope, since each scope has a list of all
/// others.
const SCOPES: usize = 64;

/// The alias scope of a global.
fn scope_of(global: ir::Global) -> usize {
    (global.as_u32() as usize).min(SCOPES - 1)
}

/// The metadata for alias analysis.
fn metadata(module: &Module) -> String {
    let mut text = String::from(
        "!0 = !{!\"pullback\"}\n\
         !1 = !{!\"local\", !0}\n\
         !2 = !{!\"buffer\", !0}\n\
         !3 = !{!\"header\", !0}\n\
         !4 = !{}\n\
         !5 = !{!1, !1, i64 0}\n\
         !6 = !{!2, !2, i64 0}\n\
         !7 = !{!3, !3, i64 0}\n\
         !8 = !{!\"branch_weights\", i32 1000, i32 1}\n\
         !9 = !{!\"branch_weights\", i32 1, i32 1000}\n\
         !10 = !{!\"context\", !0}\n\
         !11 = !{!10, !10, i64 0}\n\
         !12 = distinct !{!12}\n\
         !13 = !{!\"frame\", !0}\n\
         !14 = !{!13, !13, i64 0}\n",
    );
    // Each scope has its list, and the list of all others.
    let n = module.globals.len().min(SCOPES);
    for g in 0..n {
        let (list, others, scope) = (FIRST_SCOPE + 3 * g, FIRST_SCOPE + 1 + 3 * g, FIRST_SCOPE + 2 + 3 * g);
        let _ = writeln!(text, "!{scope} = distinct !{{!{scope}, !12}}");
        let _ = writeln!(text, "!{list} = !{{!{scope}}}");
        let all: Vec<String> = (0..n).filter(|&o| o != g).map(|o| format!("!{}", 102 + 3 * o)).collect();
        let _ = writeln!(text, "!{others} = !{{{}}}", all.join(", "));
    }
    text
}
