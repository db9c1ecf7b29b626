//! The kernel that evaluates a random program: its value, its derivative along a direction and its gradient
//! at each of many points, with one group per point. Each evaluation occurs once in the text, so that the
//! compilers' time is spent on the program.

use super::Rng;

/// The number of differentiable inputs: `x`, `y`, `s.a`, `s.b[0..3]`.
pub const INPUTS: usize = 6;

/// The number of numbers in [`Point::numbers`].
pub const NUMBERS: usize = 2 * INPUTS + 3;

/// The number of numbers that the kernel writes per point: the value, the derivative along the direction, and
/// the gradient.
pub const RESULTS: usize = 2 + INPUTS;

/// A point at which a program is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The differentiable inputs.
    pub floats: [f64; INPUTS],
    /// `s.c`, which is not differentiable.
    pub c: f64,
    /// `s.k`
    pub k: i32,
    /// The last argument.
    pub n: i32,
}

impl Point {
    /// A random point.
    pub fn of(rng: &mut Rng) -> Point {
        Point {
            // No two numbers are equal, since at a tie the derivative is split in halves that finite
            // differences do not see.
            floats: std::array::from_fn(|k| rng.float() + 0.013 * (k + 1) as f64),
            c: rng.float(),
            k: rng.below(5) as i32,
            n: rng.below(4) as i32,
        }
    }

    /// The numbers that the kernel reads for this point and a direction.
    pub fn numbers(&self, direction: [f64; INPUTS]) -> impl Iterator<Item = f64> {
        let rest = [self.c, f64::from(self.k), f64::from(self.n)];
        self.floats.into_iter().chain(direction).chain(rest)
    }

    /// This point, moved by `h` along an input.
    pub fn moved(mut self, input: usize, h: f64) -> Point {
        self.floats[input] += h;
        self
    }
}

/// The program with the kernel. If a point is given, its inputs are constants of the program; otherwise they
/// are read.
pub fn with_probe(text: &str, constants: Option<&Point>) -> String {
    let of = |k: usize, constant: &dyn Fn(&Point) -> String| match constants {
        Some(point) => constant(point),
        None => format!("probe_points[at + {k}]"),
    };
    let float = |k: usize| format!("F({})", of(k, &|point| format!("{:?}lf", point.floats[k])));
    let direction = |k: usize| format!("F(probe_points[at + {}])", INPUTS + k);
    let c = of(2 * INPUTS, &|point| format!("{:?}lf", point.c));
    let k = of(2 * INPUTS + 1, &|point| point.k.to_string());
    let n = of(2 * INPUTS + 2, &|point| point.n.to_string());
    let mut out = text.to_string();
    out += "RWStructuredBuffer<double> probe_points;\nRWStructuredBuffer<double> probe_results;\n";
    out += "[numthreads(1, 1, 1)]\nvoid probe(uint3 group : SV_GroupID)\n{\n";
    out += &format!("    uint at = group.x * {NUMBERS};\n    uint to = group.x * {RESULTS};\n");
    out += &format!("    F x = {};\n    F y = {};\n    int n = int({n});\n", float(0), float(1));
    out += &format!(
        "    S s = {{ {}, int({k}), {{ {}, {}, {} }}, {c} }};\n",
        float(2),
        float(3),
        float(4),
        float(5)
    );
    out += "    probe_results[to] = f(x, y, s, n);\n";
    let d: Vec<String> = (0..INPUTS).map(direction).collect();
    out += &format!("    S.Differential d = {{ {}, {{ {}, {}, {} }} }};\n", d[2], d[3], d[4], d[5]);
    out += &format!(
        "    var fx = DifferentialPair<F>(x, {});\n    var fy = DifferentialPair<F>(y, {});\n",
        d[0], d[1]
    );
    out += "    probe_results[to + 1] = fwd_diff(f)(fx, fy, DifferentialPair<S>(s, d), n).d;\n";
    out += "    var px = DifferentialPair<F>(x, 0);\n    var py = DifferentialPair<F>(y, 0);\n    var ps = diffPair(s);\n";
    out += "    bwd_diff(f)(px, py, ps, n, F(1));\n";
    for (k, place) in ["px.d", "py.d", "ps.d.a", "ps.d.b[0]", "ps.d.b[1]", "ps.d.b[2]"].iter().enumerate() {
        out += &format!("    probe_results[to + {}] = {place};\n", 2 + k);
    }
    out + "}\n"
}
