//! Tests which calls of a large function are replaced by its body.

use std::fmt::Write as _;

use ir::{Function, Inline, Module, Op};
use pullback_opt as opt;

/// A function of 220 instructions that multiplies by its last operand at the end, and one that calls it with these operands.
fn module(calls: &[&str]) -> Module {
    let mut text = "func large(v0: f32, v1: f32, v2: f32) -> (f32) {\n    v3 = mul v0, v1\n".to_string();
    for k in (4..222).step_by(2) {
        let _ = writeln!(text, "    v{k} = mul v{}, v0\n    v{} = add v{k}, v1", k - 1, k + 1);
    }
    text += "    v222 = mul v221, v2\n    yield v222\n}\n";
    text += "func caller(v0: f32, v1: f32, v2: f32, v3: f32, v4: f32) -> (f32) {\n    v5 = mul v0, v1\n";
    for (k, operands) in calls.iter().enumerate() {
        let at = 6 + 2 * k;
        let _ =
            writeln!(text, "    v{at} = call large({operands})\n    v{} = add v{}, v{at}", at + 1, at - 1);
    }
    let _ = writeln!(text, "    yield v{}\n}}", 5 + 2 * calls.len());
    let mut module = ir::parse::parse_module(&text).expect("the text is a module");
    module.funcs.values_mut().for_each(|f| f.inline = Inline::Auto);
    opt::after_ad(&mut module, &opt::Options::default(), &[]);
    assert!(ir::verify::verify_module(&module).is_empty());
    module
}

fn count(f: &Function, wanted: impl Fn(&Op) -> bool) -> usize {
    let mut n = 0;
    f.walk(f.body(), &mut |inst| n += usize::from(wanted(&f.insts[inst].op)));
    n
}

#[test]
fn calls_with_much_the_same_operands_share_what_they_compute() {
    let is_call = |op: &Op| matches!(op, Op::Call(_));
    let counted = |calls: &[&str]| {
        let module = module(calls);
        let caller = module.funcs.values().find(|f| f.name == "caller").expect("it is there").clone();
        (count(&caller, is_call), count(&caller, |op| *op == Op::Mul))
    };
    // All but the last product is the same.
    assert_eq!(counted(&["v0, v1, v2", "v0, v1, v3"]), (0, 112));
    assert_eq!(counted(&["v0, v1, v2", "v0, v1, v3", "v0, v1, v4"]), (0, 113));
    // Little is the same, or there are many calls.
    assert_eq!(counted(&["v0, v1, v2", "v3, v4, v2"]).0, 2);
    let many = ["v0, v1, v2", "v0, v1, v3", "v0, v1, v4", "v0, v1, v0", "v0, v1, v1"];
    assert_eq!(counted(&many).0, 5);
}
