//! Checks the rules that relate the parts of a module to each other.

use rustc_hash::FxHashSet;

use super::{VerifyError, verify_function};
use crate::entities::MemType;
use crate::function::Slot;
use crate::memory::MemData;
use crate::module::Module;
use crate::types::{Type, TypeData};

/// Returns all violations in a module and its functions.
pub fn verify_module(module: &Module) -> Vec<VerifyError> {
    let mut errors = verify_signatures(module);
    for function in module.funcs.values() {
        errors.extend(verify_function(module, function));
    }
    errors
}

/// Checks rule 7 only.
pub fn verify_signatures(module: &Module) -> Vec<VerifyError> {
    let mut errors = Vec::new();
    let mut error = |entity: String, message: &str| {
        errors.push(VerifyError { func: String::new(), entity, message: message.to_string() });
    };
    let mut names = FxHashSet::default();
    for function in module.funcs.values() {
        // A pruned function is empty, and its empty name need not be unique.
        if (function.has_body() || !function.name.is_empty()) && !names.insert(function.name.as_str()) {
            error(format!("function '{}'", function.name), "a second function of that name");
        }
    }
    for (&func, witness) in &module.witnesses {
        let Some(f) = module.funcs.get(func) else {
            error(format!("witness of {func}"), "the function does not exist");
            continue;
        };
        let entity = format!("witness of '{}'", f.name);
        let params = |slots: &[Slot]| slots.iter().map(|s| s.ty).collect::<Vec<_>>();
        let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).map(|s| s.ty).collect::<Vec<_>>();
        let flat = |first: &[Slot], then: &[Slot]| [params(first), diff(then)].concat();
        let mut has = |func, want_params: Vec<Type>, want_results: Vec<Type>, what: &str| {
            let Some(func) = func else { return };
            match module.funcs.get(func) {
                None => error(entity.clone(), "it names a function that does not exist"),
                Some(g) if params(&g.params) != want_params || params(&g.results) != want_results => {
                    error(entity.clone(), &format!("the {what} '{}' has not the flat signature", g.name));
                }
                Some(_) => {}
            }
        };
        has(witness.jvp, flat(&f.params, &f.params), flat(&f.results, &f.results), "jvp");
        let results = params(&f.results);
        let applied = witness.apply.map(|apply| module.funcs.get(apply).map_or(&[][..], |a| &a.results));
        match applied {
            None => has(witness.vjp, flat(&f.params, &f.results), diff(&f.params), "vjp"),
            Some(given) => {
                let context = given.get(results.len()..).unwrap_or_default();
                let all = [results, params(context)].concat();
                has(witness.apply, params(&f.params), all, "apply");
                has(witness.vjp, flat(context, &f.results), diff(&f.params), "vjp");
            }
        }
        has(witness.substitute, params(&f.params), params(&f.results), "substitute");
    }
    for (&func, witness) in &module.witnesses {
        if witness.apply.is_some() && witness.vjp.is_none() {
            let name = module.funcs.get(func).map_or("", |f| f.name.as_str());
            error(format!("witness of '{name}'"), "an apply needs a vjp that takes its context");
        }
    }
    for global in module.globals.values() {
        let Some(init) = global.init else { continue };
        let fits = module.funcs.get(init).is_some_and(|f| {
            let mut results = f.results.iter().map(|slot| slot.ty);
            f.params.is_empty()
                && are_leaves(module, global.ty, &[], &mut results)
                && results.next().is_none()
        });
        if !fits {
            error(format!("global '{}'", global.name), "its initialiser does not give its leaves");
        }
    }
    for entry in &module.entries {
        let function = module.funcs.get(entry.func);
        if let (Some(pipeline), Some(f)) = (&entry.pipeline, function) {
            if let Some(problem) = pipeline.problem(&module.types, &f.params, &f.results) {
                error(format!("entry '{}'", entry.name), &problem);
            }
        } else if !function.is_some_and(|f| f.params.is_empty() && f.results.is_empty()) {
            error(format!("entry '{}'", entry.name), "it takes or gives values, or does not exist");
        }
        if entry.group_size.contains(&0) {
            error(format!("entry '{}'", entry.name), "its group has no threads");
        }
    }
    errors
}

/// Returns true if an IR type is the leaf type of a memory type (without interning types).
pub(super) fn is_leaf(module: &Module, mem: MemType, ty: Type) -> bool {
    match (&module.mem[mem], module.types[ty]) {
        (MemData::Scalar(s), TypeData::Scalar(t)) => *s == t,
        (MemData::Vector(s, n), TypeData::Vector(t, m)) => *s == t && *n == m,
        (MemData::Array(element, n), TypeData::Array(t, m)) => *n == m && is_leaf(module, *element, t),
        (MemData::Matrix(s, r, c, _), TypeData::Array(t, m)) => {
            *r == m && module.types[t] == TypeData::Vector(*s, *c)
        }
        (MemData::Handle(element), TypeData::Buffer(t)) => *element == t,
        _ => false,
    }
}

/// Returns true if the next of `types` are, in order, the leaves of a memory type within arrays of these
/// lengths (outermost first).
fn are_leaves(module: &Module, mem: MemType, within: &[u32], types: &mut dyn Iterator<Item = Type>) -> bool {
    match &module.mem[mem] {
        MemData::Struct { fields, .. } => fields.iter().all(|f| are_leaves(module, f.1, within, types)),
        MemData::Array(element, n) => {
            are_leaves(module, *element, &[within, std::slice::from_ref(n)].concat(), types)
        }
        MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) | MemData::Handle(_) => {
            let Some(mut ty) = types.next() else { return false };
            for &n in within {
                match module.types[ty] {
                    TypeData::Array(t, m) if n == m => ty = t,
                    _ => return false,
                }
            }
            is_leaf(module, mem, ty)
        }
    }
}
