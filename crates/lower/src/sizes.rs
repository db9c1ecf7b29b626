//! Rejects variables that are too large.
//!
//! A thread's arrays are in memory of its own, as are a group's, and there is one copy for each thread or
//! group that runs in parallel. A variable that exceeds the limit is rejected where it is declared, before
//! anything is allocated; data of that size belongs in a buffer.

use crate::lowerer::source_span;
use cranelift_entity::EntitySet;
use ir::{Module, Space, TypeData};
use syntax::Diagnostic;

/// The maximum size of a variable in bytes.
pub(crate) const MOST: u64 = 1 << 27;

/// Reports the variables that are too large, at most one per function.
pub(crate) fn check(module: &Module, diagnostics: &mut Vec<Diagnostic>) {
    let mut report = |span: ir::Span, bytes: u64| {
        let message =
            format!("a variable of {bytes} bytes is too large: a thread or a group has at most {MOST}");
        diagnostics.push(Diagnostic::error("E0909", source_span(span), message).help("keep it in a buffer"));
    };
    for global in module.globals.values().filter(|g| matches!(g.space, Space::GroupShared | Space::Private)) {
        let bytes = module.mem.size(global.ty);
        if bytes > MOST {
            report(global.span, bytes);
        }
    }
    let mut large: EntitySet<ir::Type> = EntitySet::new();
    for (ty, data) in module.types.iter() {
        if matches!(data, TypeData::Array(..)) && module.types.bytes(ty) > MOST {
            large.insert(ty);
        }
    }
    if large.is_empty() {
        return;
    }
    for func in module.funcs.values().filter(|func| func.has_body()) {
        let mut first = None;
        func.walk(func.body(), &mut |inst| {
            for &r in &func.insts[inst].results {
                let ty = match module.types[func.ty(r)] {
                    TypeData::Cell(held) => held,
                    _ => func.ty(r),
                };
                if first.is_none() && large.contains(ty) {
                    first = Some((func.insts[inst].span, module.types.bytes(ty)));
                }
            }
        });
        let params = func.params.iter().find(|slot| large.contains(slot.ty));
        let first = first.or(params.map(|slot| (func.span, module.types.bytes(slot.ty))));
        if let Some((span, bytes)) = first {
            report(span, bytes);
        }
    }
}
