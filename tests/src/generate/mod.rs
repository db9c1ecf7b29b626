//! Generates random programs in the language.
//!
//! [`program`] makes differentiable programs: a few helper functions and `F f(F x, F y, S s, no_diff int n)`.
//! Every expression is bounded and smooth between branches, so that finite differences can check derivatives;
//! every loop ends. [`kernel`] makes programs with numbers of all types. The text depends on the seed alone.

mod declarations;
mod expressions;
pub mod functions;
mod kernel;
pub mod probe;
mod second;
mod shared;
pub mod small;
mod statements;
mod steps;
mod writer;

pub(crate) use writer::Writer;

pub use kernel::kernel;
pub use second::{Way, directional};
pub use shared::{ELEMENTS, shared};
pub use steps::steps;

/// A small pseudo-random number generator (xorshift64*), so that a seed always gives the same program.
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from any seed.
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03);
        if rng.0 == 0 {
            rng.0 = 1;
        }
        for _ in 0..4 {
            rng.bits();
        }
        rng
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n
    }

    /// Returns true with probability 1/`n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of the texts.
    pub fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }

    /// A number in [-2, 2), in steps of 1/64, so that it prints exactly.
    pub fn float(&mut self) -> f64 {
        self.below(256) as f64 / 64.0 - 2.0
    }
}

/// A differentiable program and properties of its derivatives.
pub struct Program {
    /// The source.
    pub text: String,
    /// Numbers are converted to narrower types: finite differences are meaningless, and sums have few digits.
    pub lossy: bool,
    /// Derivatives are cut somewhere: finite differences are meaningless.
    pub cuts: bool,
    /// The program itself calls derivatives: dual numbers cannot evaluate it.
    pub nested: bool,
}

/// The program for a seed, with float type `scalar` (`float` or `double`).
pub fn program(seed: u64, scalar: &str) -> Program {
    let mut rng = Rng::new(seed);
    let features = Features {
        lossy: rng.one_in(5),
        cuts: rng.one_in(4),
        nested: rng.one_in(3),
        vectors: !rng.one_in(3),
    };
    let mut generator = Generator {
        rng,
        writer: Writer::default(),
        scope: Scope::default(),
        features,
        used: Features::default(),
    };
    generator.program(scalar);
    let Features { lossy, cuts, nested, .. } = generator.used;
    Program { text: generator.writer.text, lossy, cuts, nested }
}

/// The features that a program may use.
#[derive(Clone, Copy, Default)]
struct Features {
    lossy: bool,
    cuts: bool,
    nested: bool,
    vectors: bool,
}

/// The types of variables that have derivatives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ty {
    /// `F`
    Float,
    /// `vector<F, n>`
    Vector(usize),
    /// `matrix<F, r, c>`
    Matrix(usize, usize),
    /// `F[n]`
    Array(usize),
    /// `F[2][3]`
    Table,
    /// `S`
    Struct,
    /// `S[2]`
    Structs,
    /// `T`, which holds the others
    Outer,
}

#[derive(Clone)]
struct Var {
    name: String,
    ty: Ty,
    constant: bool,
}

#[derive(Clone, Default)]
struct Scope {
    vars: Vec<Var>,
    /// Expressions of type `int`.
    ints: Vec<String>,
    /// Variables of integer types that may be assigned to.
    counters: Vec<(String, &'static str)>,
    /// Helper functions that may be called: name and shape.
    helpers: Vec<(String, Shape)>,
    /// The type that `return` takes, if it is allowed here.
    returns: Option<Ty>,
    /// The methods of `S` have been declared.
    methods: bool,
    in_loop: bool,
    /// `break` leaves a `switch`.
    in_switch: bool,
    /// The number of enclosing loops.
    loops: usize,
    /// The labels of enclosing loops.
    labels: Vec<String>,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `F h(F a, F b)`
    Pure,
    /// `F h<T : IBlend>(F a, F b)`
    Generic,
    /// `F h(inout F a, F b)`
    InOut,
    /// `void h(S s, out F a)`
    Out,
    /// `S h(S s, F a)`
    Struct,
    /// `F h(F a[4], int i)`
    Array,
    /// `F h(F a, no_diff F c)`
    NoDiff,
    /// `vector<F, 3> h(vector<F, 3> a, inout T t)`
    Vector,
    /// `F h(F a, F b, no_diff int n)`, which is recursive
    Recursive,
    /// `F h(F a, F b, no_diff int k)`, which uses values of interface type
    Dynamic,
    /// `F h(F a, F b)` with custom derivatives
    Written,
}

struct Generator {
    rng: Rng,
    writer: Writer,
    scope: Scope,
    features: Features,
    used: Features,
}

impl Generator {
    fn declare(&mut self, name: &str, ty: Ty, constant: bool) {
        self.scope.vars.push(Var { name: name.to_string(), ty, constant });
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_seed_means_one_program() {
        assert_eq!(super::program(7, "float").text, super::program(7, "float").text);
        assert_ne!(super::program(7, "float").text, super::program(8, "float").text);
    }

    #[test]
    fn programs_use_everything() {
        let texts: Vec<String> = (0..100).map(|seed| super::program(seed, "double").text).collect();
        for word in [
            "[Checkpoint]",
            "[Checkpoint(",
            "[PreferRecompute]",
            "_fwd(",
            "_bwd(",
            "fwd_diff(h",
            "bwd_diff(h",
            "IPart part",
            "part.move(",
            "break label",
            "F next =",
            ") * 5)",
            "+= F(",
            "= old",
        ] {
            assert!(texts.iter().any(|text| text.contains(word)), "no {word}");
        }
    }
}
