//! Small programs, many in a file: each is a function of two numbers and an integer, with the functions that
//! it calls, about one error-prone subject ([`Kind`]). Every function is bounded; where it is singular, a
//! condition keeps the program away from the singularity.

mod expressions;
mod functions;
mod statements;

use super::{Rng, Writer};

/// The subject of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Vectors and matrices whose components are on different sides of a condition.
    Sides,
    /// Generic and dispatched callees that ignore arguments, and methods that modify their struct.
    Ignored,
    /// Effects in calls that have no derivative.
    Effects,
    /// Arrays and matrices carried by loops, indices that depend on data, labelled breaks, floating-point
    /// counters.
    Carried,
    /// Structs, arrays, matrices and vectors as parameters and results, in every direction.
    Parameters,
    /// Derivatives of derivatives.
    Nested,
    /// Custom derivatives, and substitutes.
    Written,
    /// Functions that call themselves.
    Recursive,
    /// Memory of a group, barriers, and threads that write the same place.
    Shared,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Sides,
        Kind::Ignored,
        Kind::Effects,
        Kind::Carried,
        Kind::Parameters,
        Kind::Nested,
        Kind::Written,
        Kind::Recursive,
        Kind::Shared,
    ];
}

/// The number of threads of a kernel, in one group.
pub const THREADS: usize = 8;
/// The number of numbers that a thread reads: `x`, `y` and `n`.
pub const GIVEN: usize = 3;
/// The number of numbers that a thread writes: the value, the derivative along [`WAY`], and the gradient.
pub const FOUND: usize = 4;
/// The direction of the forward-mode derivative.
pub const WAY: [f64; 2] = [1.0, -0.5];

/// The text shared by all programs of a file; `scalar` is the type of numbers.
pub fn head(scalar: &str) -> String {
    format!("typedef {scalar} F;\n{}", HEAD)
}

const HEAD: &str = "\
typedef vector<F, 2> F2;
typedef vector<F, 3> F3;
typedef matrix<F, 2, 2> M2;
typedef F A3[3];
RWStructuredBuffer<F> given;
RWStructuredBuffer<F> found;
RWStructuredBuffer<uint> count;
struct S : IDifferentiable
{
    F a; F2 v; F w[2]; no_diff F c; int k;
    [Differentiable] F get(F t) { return sin(a * t) + v.y * c + w[k & 1]; }
    [Differentiable] [mutating] void shift(F t) { a = tanh(a + t); w[(k + 1) & 1] = 0.5 * sin(v.x) * t; k = k + 1; }
}
interface IPick : IDifferentiable
{
    [Differentiable] F pick(F a, F b);
    [Differentiable] [mutating] void step(F t);
}
struct First : IPick
{
    F q;
    [Differentiable] F pick(F a, F b) { return a; }
    [Differentiable] [mutating] void step(F t) { q = q + 0.5 * t; }
}
struct Second : IPick
{
    F q; no_diff F r;
    [Differentiable] F pick(F a, F b) { return sin(b * q) + r; }
    [Differentiable] [mutating] void step(F t) { q = tanh(q * t); }
}
struct Neither : IPick
{
    int n; F2 u;
    [Differentiable] F pick(F a, F b) { return u.x * u.y + n; }
    [Differentiable] [mutating] void step(F t) { n = (n + 1) & 3; }
}
[Differentiable]
IPick make(F a, F b, no_diff int n)
{
    if ((n & 3) == 0) { First f = { a }; return f; }
    if ((n & 3) == 1) { Neither f = { n, F2(a, b) }; return f; }
    Second f = { b, 0.25 };
    return f;
}
[Differentiable] T first<T : IDifferentiable>(T a, T b) { return a; }
[Differentiable] F only<T : IDifferentiable>(F a, T b) { return sin(a); }
[Differentiable] F by<P : IPick>(P p, F a, F b) { return 0.5 * p.pick(a, b); }
[Differentiable] void keep<T : IDifferentiable>(inout T a, T b) { a = b; }
void note(uint at, F x) { if (x > F(-0.25)) InterlockedAdd(count[at], 1u); }
F noted(uint at, F x) { InterlockedAdd(count[at], 1u); return x * 0.5; }
[Differentiable] F counted(uint at, F x) { InterlockedAdd(count[at], 1u); return x * sin(x); }
void linearized(uint at, F x) { let both = __linearize(counted)(at, x); }
void applied(uint at, F x) { let both = __apply(counted)(at, x); }
F slope(uint at, F x) { let (y, push) = __linearize(counted)(at, x); return 0.25 * push(F(1)); }
";

/// One program of a file.
pub struct Small {
    /// Its subject.
    pub kind: Kind,
    /// Its declarations, whose names all end with its number.
    pub text: String,
    /// Derivatives are cut somewhere in the program.
    pub cuts: bool,
    /// Dual numbers cannot evaluate the program as it is.
    pub nested: bool,
    /// The program is a kernel without derivatives.
    pub plain: bool,
}

/// The program for a seed, with index `number` in its file: a function `f` and a kernel `k`.
pub fn small(seed: u64, kind: Kind, number: usize) -> Small {
    let mut rng = Rng::new(seed ^ 0x5_A11);
    // Most faults show up in short programs, and more of these can be run per hour.
    let brief = !rng.one_in(8);
    let mut g = Generator {
        rng,
        kind,
        brief,
        number,
        writer: Writer::default(),
        vars: Vec::new(),
        helpers: Vec::new(),
        loops: 0,
        depth: if brief { 1 } else { 2 },
        returns: None,
        cuts: false,
        nested: false,
    };
    let plain = kind == Kind::Shared;
    if plain {
        g.shared()
    } else {
        g.function()
    }
    Small { kind, text: g.writer.text, cuts: g.cuts, nested: g.nested, plain }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ty {
    Number,
    Two,
    Three,
    Matrix,
    Array,
    Struct,
}

impl Ty {
    const ALL: [Ty; 6] = [Ty::Number, Ty::Two, Ty::Three, Ty::Matrix, Ty::Array, Ty::Struct];

    fn name(self) -> &'static str {
        ["F", "F2", "F3", "M2", "A3", "S"][self as usize]
    }
}

#[derive(Clone)]
struct Var {
    name: String,
    ty: Ty,
    fixed: bool,
}

#[derive(Clone)]
struct Helper {
    name: String,
    params: Vec<(&'static str, Ty)>,
    result: Ty,
    /// The last parameter is the integer.
    counted: bool,
}

struct Generator {
    rng: Rng,
    kind: Kind,
    /// The program has few statements and short expressions.
    brief: bool,
    number: usize,
    writer: Writer,
    vars: Vec<Var>,
    helpers: Vec<Helper>,
    loops: usize,
    depth: usize,
    returns: Option<Ty>,
    cuts: bool,
    nested: bool,
}

impl Generator {
    fn declare(&mut self, name: &str, ty: Ty, fixed: bool) {
        self.vars.push(Var { name: name.to_string(), ty, fixed });
    }

    /// A random number of statements.
    fn few(&mut self, most: usize) -> usize {
        if self.brief { 1 } else { 1 + self.rng.below(most) }
    }

    fn find(&mut self, ty: Ty, assignable: bool) -> Option<String> {
        let fit: Vec<String> = self
            .vars
            .iter()
            .filter(|v| v.ty == ty && !(assignable && v.fixed))
            .map(|v| v.name.clone())
            .collect();
        (!fit.is_empty()).then(|| fit[self.rng.below(fit.len())].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, small};

    #[test]
    fn programs_use_everything() {
        let texts: Vec<String> = (0..400).map(|s| small(s, Kind::ALL[s as usize % 9], 0).text).collect();
        for word in [
            "select(",
            ".step(",
            "note(",
            "for (F",
            "break v",
            "inout M2",
            "out S",
            "bwd_diff(h",
            "fwd_diff(h",
            "PrimalSubstituteOf",
            "n - 2",
            "GroupMemoryBarrier",
            "[Checkpoint(",
            "keep(",
        ] {
            assert!(texts.iter().any(|text| text.contains(word)), "no {word}");
        }
    }
}
