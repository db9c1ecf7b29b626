//! `test run`: checks that `; run: f(1.0, 2) == 3.0` holds on the interpreter and on the JIT. `~ 3.0` allows
//! an error of 1e-5; `error TEXT` expects the run to stop with that message; `alike` expects the same results of
//! both, whatever they are. `; stdout: TEXT` lines are the text that the calls print.

use ir::interp::{Memory, RunError, STEP_LIMIT_MESSAGE, Value, call_limited};
use ir::{Func, Module, Space};

use crate::file::TestFile;
use crate::literal::{close, parse_call, parse_values, show};

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let module = super::module(file)?;
    if file.all("run").next().is_none() {
        return Err("there is no '; run:' line".to_string());
    }
    let text = hold(file, &module, "as written")?;
    let printed: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = file.all("stdout").collect();
    if printed != wanted {
        return Err(format!("printed {printed:?} instead of {wanted:?}"));
    }
    Ok(())
}

/// Checks all `; run:` lines; returns the printed text.
pub(super) fn hold(file: &TestFile, module: &Module, when: &str) -> Result<String, String> {
    let mut printed = String::new();
    for text in file.all("run") {
        one(module, text, &mut printed).map_err(|e| format!("{when}: {text}\n{e}"))?;
    }
    Ok(printed)
}

fn one(module: &Module, text: &str, printed: &mut String) -> Result<(), String> {
    let call = parse_call(module, text)?;
    let function = &module.funcs[call.func];
    let mut memory = Memory::new(module, |_| 16);
    crate::arena::bind(module, &mut memory, 1 << 20);
    let interpreted = call_limited(module, call.func, &call.args, &mut memory, super::LIMITS);
    if let Err(e) = &interpreted
        && e.message == STEP_LIMIT_MESSAGE
    {
        // The machine code would never end.
        return Err(e.message.clone());
    }
    // Machine code has no arena.
    let has_arena = module.globals.values().any(|global| global.space == Space::Arena);
    let on_jit = if has_arena { interpreted.clone() } else { jit(module, call.func, &call.args)? };
    printed.push_str(&memory.printed);
    if call.rest == "alike" {
        let [found, want] =
            [on_jit.map_err(|e| format!("jit: {e}"))?, interpreted.map_err(|e| e.to_string())?];
        return match close(module, &function.results, &found, &want, None) {
            true => Ok(()),
            false => Err(format!("jit: {}", show(module, &function.results, &found))),
        };
    }
    let (tolerance, want) = match (call.rest.strip_prefix("=="), call.rest.strip_prefix('~')) {
        (Some(want), _) => (None, want),
        (_, Some(want)) => (Some(1e-5), want),
        _ => {
            let want =
                call.rest.strip_prefix("error").ok_or("expected '==', '~', 'alike' or 'error'")?.trim();
            return match (interpreted, on_jit) {
                (Err(a), Err(b))
                    if a.message.contains(want) && (&a.message, a.span) == (&b.message, b.span) =>
                {
                    Ok(())
                }
                (Err(a), Err(b)) => Err(format!("interpreter: {a}\njit: {b}")),
                (Ok(_), _) => Err("interpreter: it ran".to_string()),
                (_, Ok(_)) => Err("jit: it ran".to_string()),
            };
        }
    };
    let want = parse_values(module, &function.results, want)?;
    for (name, outcome) in [("interpreter", interpreted), ("jit", on_jit)] {
        let found = outcome.map_err(|e| format!("{name}: {e}"))?;
        if !close(module, &function.results, &found, &want, tolerance) {
            return Err(format!("{name}: {}", show(module, &function.results, &found)));
        }
    }
    Ok(())
}

/// Runs the call as machine code.
fn jit(module: &Module, func: Func, args: &[Value]) -> Result<Result<Vec<Value>, RunError>, String> {
    let options = native::Options { functions: vec![func], ..Default::default() };
    // Machine code supports plain numbers only, and no absent differentials.
    let mut module = module.clone();
    opt::run_pass(&mut module, "differentials", &opt::Options::default());
    let compiled = codegen_cranelift::compile(&module, &options).map_err(|e| e.op)?;
    Ok(compiled.call(func, args))
}
