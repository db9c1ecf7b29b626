//! Each mistake gives one error: a program with a single change gives exactly one, at the changed line.

use std::path::Path;

use pullback_driver::pipeline::{Failure, Loaded};
use pullback_driver::session::Session;
use syntax::Severity;

const PROGRAM: &str = "\
interface IShape : IDifferentiable { [Differentiable] float area(float scale); }
struct Square : IShape
{
    float side;
    float[2] weights;
    [Differentiable] float area(float scale) { return side * side * scale; }
}
struct Disk : IShape
{
    float radius;
    [Differentiable] float area(float scale) { return 3.0 * radius * radius * scale; }
}
[Differentiable]
float total<T : IShape>(T shape, no_diff int n)
{
    float sum = 0.0;
    [MaxIters(8)]
    for (int i = 0; i < n; i++)
    {
        if (i > 2) sum += shape.area(sum);
        else sum += 1.0;
    }
    return sum;
}
float of(Square s, Disk d)
{
    float2 p = float2(total(s, 2), total<Disk>(d, 3));
    int kind = int(p.x);
    switch (kind) { case 0: return p.x; default: break; }
    while (kind > 0) { kind--; }
    return p.y + p.x + kind + s.weights[1];
}
[numthreads(1, 1, 1)]
void kernel()
{
    Square s = { 2.0, { 1.0, 2.0 } };
    Disk d = { 1.0 };
    printf(\"%f\", of(s, d));
}
";

/// The text to change, its replacement, and the line where an error is expected.
const CHANGES: [(&str, &str, u32); 48] = [
    // A missing token.
    ("float side;", "float side", 4),
    ("return side * side * scale; }", "return side * side * scale }", 6),
    ("float sum = 0.0;", "float sum = 0.0", 17),
    ("sum = 0.0", "sum 0.0", 16),
    ("i < n; i++)", "i < n; i++", 18),
    ("(int i = 0;", "int i = 0;", 18),
    ("if (i > 2)", "if i > 2)", 20),
    ("if (i > 2)", "if (i > 2", 20),
    ("shape.area(sum)", "shape.area(sum", 20),
    ("shape.area", "shapearea", 20),
    ("(T shape, no_diff int n)", "(T shape no_diff int n)", 14),
    ("(T shape, no_diff int n)", "T shape, no_diff int n)", 14),
    ("(T shape, no_diff int n)", "(T shape, no_diff int n", 14),
    ("<T : IShape>", "<T : IShape", 14),
    ("[Differentiable]\nfloat total", "[Differentiable\nfloat total", 13),
    ("[Differentiable]\nfloat total", "Differentiable]\nfloat total", 13),
    ("struct Disk : IShape\n{", "struct Disk : IShape\n", 10),
    ("struct Disk : IShape", "struct Disk IShape", 8),
    ("int n)\n{", "int n)\n", 16),
    ("weights[1]", "weights[1", 31),
    ("float2 p = float2(", "float2 p = float2", 27),
    ("case 0:", "case 0", 29),
    ("\"%f\"", "\"%f", 38),
    // A misspelt word.
    ("struct Disk", "strcut Disk", 8),
    ("interface IShape", "interfce IShape", 1),
    ("for (int i", "fro (int i", 18),
    ("while (kind", "whlie (kind", 30),
    ("switch (kind)", "swich (kind)", 29),
    ("return sum;", "retrun sum;", 23),
    ("else sum", "esle sum", 21),
    ("float side", "flaot side", 4),
    ("no_diff int n", "no_dif int n", 14),
    // An unknown name.
    ("float sum = 0.0", "float some = 0.0", 20),
    ("struct Square", "struct Sqare", 25),
    ("interface IShape", "interface IForm", 2),
    ("float2 p =", "float2 q =", 28),
    ("float total<", "float totel<", 27),
    // A call that does not match its declaration.
    ("total(s, 2)", "total(s)", 27),
    ("total(s, 2)", "total(s, 2, 3)", 27),
    ("shape.area(sum)", "shape.area(shape)", 20),
    ("of(s, d)", "of(d, s)", 38),
    // A superfluous token.
    ("return sum;", "return sum);", 23),
    ("float radius;", "float radius;;)", 10),
    ("shape.area(sum)", "shape.area(sum})", 20),
    // A missing brace.
    ("    return sum;\n}", "    return sum;\n", 25),
    ("Square s = { 2.0", "Square s = 2.0", 36),
    ("float total<T : IShape>", "float total<T : IShap>", 14),
    ("total(s, 2)", "total<Square(s, 2)", 27),
];

/// The line and message of each error.
fn errors(text: &str) -> Vec<(u32, String)> {
    let mut session = Session::default();
    let mut program = session.program();
    let file = session.load_text(&mut program, "a.slang", text.into(), Path::new(""));
    match Loaded::new(program, file).check(false) {
        Ok(_) => Vec::new(),
        Err(Failure::Program(list)) => {
            let errors = list.iter().filter(|d| d.severity == Severity::Error);
            let line = |d: &syntax::Diagnostic| {
                session.sources.line_column(d.primary.span.file, d.primary.span.start).0
            };
            errors.map(|d| (line(d), format!("{} {}", d.code, d.message))).collect()
        }
        Err(Failure::Other(error)) => vec![(0, error.to_string())],
    }
}

#[test]
fn one_mistake_is_one_error() {
    pullback_driver::on_large_stack(|| {
        assert_eq!(errors(PROGRAM), []);
        let mut problems = Vec::new();
        for (from, to, line) in CHANGES {
            assert!(PROGRAM.contains(from), "{from}");
            let found = errors(&PROGRAM.replacen(from, to, 1));
            if found.len() != 1 || found[0].0 != line {
                problems.push(format!("`{from}` → `{to}`, line {line}: {found:#?}"));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    });
}
