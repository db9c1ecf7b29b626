//! Compiles functions for a profile, such that nearly every instruction has a location.
//!
//! Cranelift's optimiser makes new instructions when it rewrites, duplicates or rematerialises others, and gives most of
//! them no location. Between the optimiser and the code generator, each of these gets one: a copy that of its original, any
//! other that of the instruction that uses its result first. Nothing else differs from what `Context::compile` does, so the code is the same.

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::entity::{EntityRef, SecondaryMap};
use cranelift_codegen::ir::{Function, Inst, Opcode, SourceLoc, Value};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{CodegenError, CompiledCode, Context};
use rustc_hash::FxHashMap;

/// Compiles a function some of whose instructions have locations.
pub(crate) fn compile(clif: &mut Context, isa: &dyn TargetIsa) -> Result<CompiledCode, CodegenError> {
    clif.optimize(isa, &mut ControlPlane::default())?;
    complete(&mut clif.func);
    let (disassembly, control) = (false, &mut ControlPlane::default());
    let code =
        isa.compile_function(&clif.func, &clif.domtree, &mut Default::default(), disassembly, control)?;
    Ok(code.apply_params(&clif.func.params))
}

/// Gives locations to the instructions that have none: a copy has that of its original, and any other that of the
/// instruction that uses its result first in the layout.
fn complete(func: &mut Function) {
    let blocks: Vec<_> = func.layout.blocks().collect();
    let insts: Vec<Inst> = blocks.iter().flat_map(|&block| func.layout.block_insts(block)).collect();
    of_originals(func, &insts);
    let mut used: SecondaryMap<Value, Option<SourceLoc>> = SecondaryMap::new();
    for &inst in insts.iter().rev() {
        let mut location = Some(func.srcloc(inst)).filter(|location| !location.is_default());
        if location.is_none() {
            let results = func.dfg.inst_results(inst).iter();
            location = results.filter_map(|&v| used[v]).next();
            if let Some(location) = location {
                func.set_srcloc(inst, location);
            }
        }
        if location.is_some() {
            func.dfg.inst_values(inst).for_each(|v| used[v] = location);
        }
    }
}

/// Gives copies the locations of their originals, which need not be in the layout any more: those of the same operation
/// on the same operands, or on copies of these.
fn of_originals(func: &mut Function, insts: &[Inst]) {
    /// The operation, with its immediate operands if it has no others, and the operands.
    type Key = (Opcode, String, Vec<Value>);
    let mut same: FxHashMap<Value, Value> = FxHashMap::default();
    let key = |func: &Function, same: &FxHashMap<Value, Value>, inst: Inst| -> Key {
        let data = &func.dfg.insts[inst];
        let of = |v: Value| *same.get(&v).unwrap_or(&v);
        let args: Vec<Value> =
            func.dfg.inst_args(inst).iter().map(|&v| of(func.dfg.resolve_aliases(v))).collect();
        let constant = if args.is_empty() { format!("{data:?}") } else { String::new() };
        (data.opcode(), constant, args)
    };
    let n = func.dfg.num_insts();
    let all = || (0..n).map(Inst::new);
    // All constants that are equal are one.
    let mut constants: FxHashMap<String, Value> = FxHashMap::default();
    for inst in all() {
        if let ([result], true) = (func.dfg.inst_results(inst), func.dfg.inst_args(inst).is_empty()) {
            let first = *constants.entry(format!("{:?}", func.dfg.insts[inst])).or_insert(*result);
            same.insert(*result, first);
        }
    }
    let mut originals: FxHashMap<Key, Inst> = FxHashMap::default();
    for inst in all() {
        if !func.srcloc(inst).is_default() {
            originals.entry(key(func, &same, inst)).or_insert(inst);
        }
    }
    for &inst in insts.iter().filter(|&&inst| func.srcloc(inst).is_default()).collect::<Vec<_>>() {
        let Some(&original) = originals.get(&key(func, &same, inst)) else { continue };
        let location = func.srcloc(original);
        func.set_srcloc(inst, location);
        for (&own, &other) in func.dfg.inst_results(inst).iter().zip(func.dfg.inst_results(original)) {
            same.insert(own, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::condcodes::FloatCC;
    use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    use super::*;

    /// A loop with constants, which the optimiser rematerialises in its body.
    fn function(located: bool) -> Function {
        let mut func = Function::new();
        func.signature.params.push(AbiParam::new(types::F64));
        func.signature.returns.push(AbiParam::new(types::F64));
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let mut line = 0;
        let mut next = |b: &mut FunctionBuilder<'_>| {
            line += 1;
            if located {
                b.set_srcloc(SourceLoc::new(line));
            }
        };
        let [entry, body, exit] = [0; 3].map(|_| b.create_block());
        b.append_block_params_for_function_params(entry);
        b.append_block_param(body, types::F64);
        b.switch_to_block(entry);
        next(&mut b);
        let (half, limit) = (b.ins().f64const(0.5), b.ins().f64const(1e-3));
        let x = b.block_params(entry)[0];
        b.ins().jump(body, &[x.into()]);
        b.switch_to_block(body);
        let x = b.block_params(body)[0];
        next(&mut b);
        let y = b.ins().fmul(x, half);
        next(&mut b);
        let z = b.ins().fadd(y, y);
        next(&mut b);
        let w = b.ins().fdiv(z, limit);
        let again = b.ins().fcmp(FloatCC::GreaterThan, w, limit);
        b.ins().brif(again, body, &[w.into()], exit, &[]);
        b.switch_to_block(exit);
        next(&mut b);
        b.ins().return_(&[w]);
        b.seal_all_blocks();
        b.finalize(isa().frontend_config());
        func
    }

    fn isa() -> cranelift_codegen::isa::OwnedTargetIsa {
        use cranelift_codegen::settings::{self, Configurable};
        let mut flags = settings::builder();
        flags.set("opt_level", "speed").expect("is known");
        cranelift_native::builder()
            .expect("this machine")
            .finish(settings::Flags::new(flags))
            .expect("is known")
    }

    #[test]
    fn locations_change_no_code() {
        let isa = isa();
        let mut plain = Context::for_function(function(false));
        let plain = plain.compile(&*isa, &mut ControlPlane::default()).expect("compiles");
        let located = compile(&mut Context::for_function(function(true)), &*isa).expect("compiles");
        assert_eq!(plain.code_buffer(), located.code_buffer());
        let mut found: Vec<u32> =
            located.buffer.get_srclocs_sorted().iter().map(|piece| piece.loc.bits()).collect();
        found.sort_unstable();
        found.dedup();
        // The first block has constants only, which are made where they are used.
        for line in 2..=5 {
            assert!(found.contains(&line), "{line}: {found:?}");
        }
    }
}
