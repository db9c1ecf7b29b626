//! Generates kernels whose threads share memory, with and without synchronisation: buffers, fields, memory of
//! the group, pointers.
//!
//! The expected result of such a kernel is that of running one thread after the other, each from barrier to
//! barrier, although programs should not rely on this between groups. The text depends on the seed alone.

use std::fmt::Write as _;

use super::Rng;

/// The number of elements of each buffer.
pub const ELEMENTS: usize = 48;

/// A kernel `main` for groups of this size.
pub fn shared(seed: u64, size: [u32; 3]) -> String {
    let [x, y, z] = size;
    let mut rng = Rng::new(seed ^ 0x5AA5);
    let helper = match rng.below(3) {
        0 => "a[i] += v",
        1 => "b[i] = v + a[i]",
        _ => "c[i].y[i & 1] += v",
    };
    let has_group = rng.one_in(2);
    let mut kernel = Kernel { rng, has_group, loops: 0, text: String::new() };
    let n = 2 + kernel.rng.below(4);
    kernel.statements(n, 1, true);
    let body = kernel.text;
    format!(
        "struct Pair {{ float x; float y[2]; }}\n\
         RWStructuredBuffer<float> a;\nRWStructuredBuffer<float> b;\nRWStructuredBuffer<Pair> c;\n\
         RWStructuredBuffer<int> d;\nuniform float* p;\nStructuredBuffer<float> x;\nStructuredBuffer<int> k;\n\
         uniform int n;\ngroupshared float s[40];\n\
         void put(int i, float v) {{ {helper}; }}\n\
         [shader(\"compute\")] [numthreads({x}, {y}, {z})]\n\
         void main(uint3 tid : SV_DispatchThreadID, uint3 gid : SV_GroupID, uint index : SV_GroupIndex)\n{{\n    \
         int t = int((tid.z * {y} + tid.y) * {x} + tid.x);\n    int g = int(index);\n    float v0 = x[t % 16];\n{body}}}\n"
    )
}

struct Kernel {
    rng: Rng,
    has_group: bool,
    loops: usize,
    text: String,
}

impl Kernel {
    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:width$}{line}", "", width = 4 * depth);
    }

    /// Writes statements; `all` is true if every thread of the group executes them.
    fn statements(&mut self, n: usize, depth: usize, all: bool) {
        for _ in 0..n {
            self.statement(depth, all);
        }
    }

    fn statement(&mut self, depth: usize, all: bool) {
        match self.rng.below(if depth > 3 { 6 } else { 11 }) {
            0 => {
                let (place, value) = (self.place(), self.value(2));
                self.line(depth, &format!("{place} = {value};"));
            }
            1 | 2 => {
                let (place, value) = (self.place(), self.value(2));
                let op = self.rng.of(&["+=", "-=", "+="]);
                self.line(depth, &format!("{place} {op} {value};"));
            }
            3 => {
                let value = self.value(2);
                self.line(depth, &format!("v0 = v0 * 0.5 + {value};"));
            }
            4 => {
                let (i, value) = (self.index(), self.value(1));
                self.line(depth, &format!("put({i}, {value});"));
            }
            5 => {
                let i = self.index();
                self.line(depth, &format!("InterlockedAdd(d[{i}], 1 + g);"));
            }
            6 | 7 => {
                let (c, same) = self.condition();
                self.line(depth, &format!("if ({c})"));
                self.block(depth, all && same);
                if self.rng.one_in(2) {
                    self.line(depth, "else");
                    self.block(depth, all && same);
                }
            }
            8 | 9 => {
                let name = format!("i{}", self.loops);
                let (head, same) = match self.rng.below(5) {
                    0 => (format!("int {name} = 0; {name} < t % 3; {name}++"), false),
                    1 => (format!("int {name} = t; {name} < 40; {name} += 16"), false),
                    2 => (format!("int {name} = 0; {name} < n; {name}++"), true),
                    3 => (format!("int {name} = 8; {name} > 0; {name} /= 2"), true),
                    _ => (format!("int {name} = 0; {name} < {}; {name}++", 2 + self.rng.below(3)), true),
                };
                self.line(depth, &format!("for ({head})"));
                self.loops += 1;
                self.block(depth, all && same);
                self.loops -= 1;
            }
            _ if all && self.has_group => self.line(depth, "GroupMemoryBarrierWithGroupSync();"),
            _ => {
                let value = self.value(1);
                self.line(depth, &format!("v0 -= {value};"));
            }
        }
    }

    fn block(&mut self, depth: usize, all: bool) {
        self.line(depth, "{");
        let n = 1 + self.rng.below(3);
        self.statements(n, depth + 1, all);
        self.line(depth, "}");
    }

    /// A condition, and true if it is the same for all threads of a group.
    fn condition(&mut self) -> (String, bool) {
        match self.rng.below(8) {
            0 => (format!("t == {}", self.rng.below(20)), false),
            1 => ("g == 0".into(), false),
            2 => (format!("t < {}", self.rng.below(30)), false),
            3 => ("k[t % 16] > 3".into(), false),
            4 => ("g % 2 == 0".into(), false),
            5 => (format!("n > {}", self.rng.below(4)), true),
            6 => ("gid.x == 1".into(), true),
            _ => ("v0 > 0".into(), false),
        }
    }

    fn index(&mut self) -> String {
        let c = self.rng.below(5);
        if self.loops > 0 && self.rng.one_in(3) {
            let i = self.rng.below(self.loops);
            return match self.rng.below(5) {
                0 => format!("i{i}"),
                1 => format!("t * 3 + i{i}"),
                2 => format!("t + i{i}"),
                3 => format!("t * 4 + i{i} % 4"),
                _ => format!("i{i} * 16 + g"),
            };
        }
        match self.rng.below(14) {
            0..=4 => "t".into(),
            5 => "g".into(),
            6 => format!("{c}"),
            7 => "k[t % 16]".into(),
            8 => format!("t + {c}"),
            9 => format!("t - {c}"),
            10 => format!("t / {}", c + 1),
            11 => format!("t % {}", c + 3),
            12 => "31 - g".into(),
            _ => format!("t * 2 + {}", c % 2),
        }
    }

    fn place(&mut self) -> String {
        let i = self.index();
        match self.rng.below(if self.has_group { 9 } else { 6 }) {
            0 | 1 => format!("a[{i}]"),
            2 => format!("b[{i}]"),
            3 => format!("c[{i}].x"),
            4 => format!("c[{i}].y[{}]", self.rng.of(&["0", "1", "t & 1", "n & 1"])),
            5 => format!("p[{i}]"),
            _ => format!("s[{i}]"),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        if depth > 0 && self.rng.one_in(2) {
            let (a, b) = (self.value(depth - 1), self.value(depth - 1));
            let op = self.rng.of(&["+", "-", "+"]);
            return format!("({a} {op} {b} * 0.5)");
        }
        match self.rng.below(6) {
            0 => "v0".into(),
            1 => format!("x[{} % 16]", self.rng.of(&["t", "g"])),
            2 => self.rng.of(&["0.75", "float(t)", "float(g) * 0.25"]).into(),
            _ => self.place(),
        }
    }
}
