//! Emits the code that runs threads in lanes, and declares its functions.

use cranelift_codegen::Context as ClifContext;
use cranelift_codegen::ir::UserExternalName;
use cranelift_module::{FuncId, Module as _};
use ir::Scalar;
use native::lanes::{self, Stop, Widths};
use native::profile::Profile;
use native::runtime::Word;
use native::{Reason, Unsupported};
use rustc_hash::FxHashMap;

use crate::common::word;
use crate::compile::Runs;
use crate::emit::ModuleCx;
use crate::jit::{define, too_big};
use crate::lanes::{Callee, Emitted, Settings, Unit};

/// The largest number of lanes.
pub const MOST_LANES: u32 = 16;

/// The numbers of lanes. Cranelift's vectors have 128 bits on every machine. In a kernel with loops, four of them for each
/// value cost spills, but less than what the fewer instructions on uniform values and the overlapping of independent vectors
/// save. Without loops the processor overlaps what follows each other, and two are enough: on a processor with AVX2, the
/// gradients of `benches/peers`' sphere and splat take 0.78 and 0.58 times as long in 8 lanes as in 16, and the perceptrons
/// 1.4 times as long.
const WIDTHS: Widths = Widths {
    vector_bits: 128,
    vectors: [2, 4],
    least: 4,
    most: MOST_LANES,
    widest: MOST_LANES,
    tries: false,
};

/// For each entry point, the function that runs its threads in lanes and the number of lanes, or the reason why there
/// is none.
type InLanes = Vec<Result<(FuncId, u32), Reason>>;

/// Emits the functions of all entry points that run in lanes.
pub(crate) fn emit(cx: &mut ModuleCx<'_>, clif: &mut ClifContext) -> Result<InLanes, Unsupported> {
    let module = cx.ir;
    let refusal = refusal(cx);
    let counts = match cx.options.profile {
        Profile::Counts => cx.tables.notes.counts_at(),
        Profile::Off | Profile::Lines => 0,
    };
    let settings = Settings {
        counts,
        system: cx.jit.isa().default_call_conv(),
        zero: cx.zero,
        empty: cx.empty,
        empty_at: cx.empty_at,
        has_fma: cx.has_fma,
        has_round: cx.has_round,
        apart: None,
    };
    let (plan, tables) = (std::mem::take(&mut cx.plan), std::mem::take(&mut cx.tables));
    let mut unit = lanes::ModuleCx::new(module, plan, cx.options.clone(), tables, Unit::new(settings));
    let mut found = Vec::new();
    for (k, entry) in module.entries.iter().enumerate() {
        let f = &module.funcs[entry.func];
        let none = |what: &str| Err(Reason { what: what.to_string(), span: f.span });
        found.push(match refusal {
            Some(what) => none(what),
            None if !f.has_body() || !f.params.is_empty() => none("an entry point without a body"),
            None => match lanes::in_lanes(&mut unit, k, &WIDTHS) {
                Ok(lanes) => Ok(lanes),
                Err(Stop::Lanes(reason)) => Err(reason),
                Err(Stop::Unsupported(unsupported)) => {
                    Err(Reason { what: unsupported.op, span: unsupported.span })
                }
            },
        });
    }
    lanes::define_library(&mut unit);
    let lanes::ModuleCx { plan, tables, backend, .. } = unit;
    (cx.plan, cx.tables) = (plan, tables);
    let ids = declare_all(cx, backend.functions, clif)?;
    let id = |(name, width): (String, u32)| (ids[&name], width);
    Ok(found.into_iter().map(|found| found.map(id)).collect())
}

/// The reason why no entry point runs in lanes, if there is one.
fn refusal(cx: &ModuleCx<'_>) -> Option<&'static str> {
    let has = |name: &str| {
        cx.jit.isa().isa_flags().iter().any(|flag| flag.name == name && flag.as_bool() == Some(true))
    };
    if cx.options.fast_compile {
        Some("code that is compiled as fast as possible")
    } else if cx.options.lanes == Some(1) {
        Some("`--lanes 1`")
    } else if cfg!(target_arch = "x86_64") {
        (!has("has_sse41") || !has("has_ssse3")).then_some("a processor without SSE 4.1")
    } else {
        (!cfg!(target_arch = "aarch64")).then_some("a processor of this kind")
    }
}

/// Declares and defines functions, which call each other by name; returns their numbers.
fn declare_all(
    cx: &mut ModuleCx<'_>,
    functions: Vec<Emitted>,
    clif: &mut ClifContext,
) -> Result<FxHashMap<String, FuncId>, Unsupported> {
    let module = cx.ir;
    let mut ids: FxHashMap<String, FuncId> = FxHashMap::default();
    let Some(&func) = cx.plan.order.first() else { return Ok(ids) };
    for function in &functions {
        let sig = &function.func.signature;
        let id = cx.jit.declare_anonymous_function(sig).map_err(|e| too_big(e, func, module))?;
        ids.insert(function.head.name.clone(), id);
    }
    for Emitted { head, func: body, callees, .. } in functions {
        clif.func = body;
        for (name, callee) in callees {
            let id = match callee {
                Callee::Own(name) => ids[&name],
                Callee::Rare(helper) => cx.rare(helper),
                Callee::Helper(helper) => {
                    let (params, result) = helper.signature();
                    let params: Vec<_> = params.iter().map(|&w| word(w)).collect();
                    cx.symbol(helper.name(), &params, result.map(word))
                }
                Callee::Symbol(name, s, n) => {
                    let ty = word(if s == Scalar::F64 { Word::F64 } else { Word::F32 });
                    cx.symbol(&name, &vec![ty; n], Some(ty))
                }
            };
            clif.func.params.reset_user_func_name(name, UserExternalName::new(0, id.as_u32()));
        }
        define(cx, ids[&head.name], clif, (func, Runs::Lanes))?;
    }
    Ok(ids)
}
