//! Conversions of floats that are only stored, at every value, between each two of them, and beyond, compared with an
//! oracle that knows the values of a format in their order and looks up which is nearest.

use std::cmp::Ordering;

use pullback_driver::launch::Execution;
use pullback_driver::module::Module;
use pullback_driver::session::{FileOptions, Session};

const PROGRAM: &str = "
RWStructuredBuffer<double> doubles;
RWStructuredBuffer<float> floats;
RWStructuredBuffer<int64_t> longs;
RWStructuredBuffer<uint64_t> words;
RWStructuredBuffer<uint> bits;
RWStructuredBuffer<double> values;
#define ALL(NAME, T, U) \\
    [numthreads(1, 1, 1)] void NAME##_doubles(uint3 t : SV_DispatchThreadID) \\
    { bits[t.x] = bit_cast<U>(T(doubles[t.x])); } \\
    [numthreads(1, 1, 1)] void NAME##_floats(uint3 t : SV_DispatchThreadID) \\
    { bits[t.x] = bit_cast<U>((vector<T, 2>(float2(0, floats[t.x]))).y); } \\
    [numthreads(1, 1, 1)] void NAME##_longs(uint3 t : SV_DispatchThreadID) \\
    { \\
        int64_t x = longs[t.x]; \\
        bits[t.x] = x == int64_t(int(x)) && t.x % 2 == 1 ? bit_cast<U>(T(int(x))) : bit_cast<U>(T(x)); \\
    } \\
    [numthreads(1, 1, 1)] void NAME##_words(uint3 t : SV_DispatchThreadID) \\
    { \\
        uint64_t x = words[t.x]; \\
        bits[t.x] = x == uint64_t(uint(x)) && t.x % 2 == 1 ? bit_cast<U>(T(uint(x))) : bit_cast<U>(T(x)); \\
    } \\
    [numthreads(1, 1, 1)] void NAME##_values(uint3 t : SV_DispatchThreadID) \\
    { values[t.x] = double(bit_cast<T>(U(t.x))); }
ALL(bfloat, BFloat16, uint16_t)
ALL(e4m3, FloatE4M3, uint8_t)
ALL(e5m2, FloatE5M2, uint8_t)
";

struct Format {
    name: &'static str,
    bits: u32,
    fraction: u32,
    bias: i32,
    /// The code of what is too large.
    over: u32,
}

const FORMATS: [Format; 3] = [
    Format { name: "bfloat", bits: 16, fraction: 7, bias: 127, over: 0x7f80 },
    Format { name: "e4m3", bits: 8, fraction: 3, bias: 7, over: 0x7f },
    Format { name: "e5m2", bits: 8, fraction: 2, bias: 15, over: 0x7c },
];

impl Format {
    fn sign(&self) -> u32 {
        1 << (self.bits - 1)
    }

    /// The value of a code without a sign that is less than `over`.
    fn magnitude(&self, code: u32) -> f64 {
        let (exponent, part) = (code >> self.fraction, code & ((1 << self.fraction) - 1));
        let (lead, exponent) = if exponent == 0 { (0, 1) } else { (1 << self.fraction, exponent) };
        f64::from(lead + part) * 2f64.powi(exponent as i32 - self.bias - self.fraction as i32)
    }

    fn value(&self, code: u32) -> f64 {
        let (sign, code) = (if code & self.sign() != 0 { -1.0 } else { 1.0 }, code & (self.sign() - 1));
        sign * match code.cmp(&self.over) {
            Ordering::Less => self.magnitude(code),
            Ordering::Equal if self.over != self.sign() - 1 => f64::INFINITY,
            _ => f64::NAN,
        }
    }

    /// The boundary between a code and the next one.
    fn boundary(&self, code: u32) -> f64 {
        let low = self.magnitude(code);
        low + (if code == 0 { self.magnitude(1) } else { self.step(code) }) / 2.0
    }

    /// From a code to the next one, if that had a value.
    fn step(&self, code: u32) -> f64 {
        2f64.powi((code >> self.fraction).max(1) as i32 - self.bias - self.fraction as i32)
    }

    /// The code nearest to a number at least 0, which is compared with others by `is`.
    fn nearest(&self, is: impl Fn(f64) -> Ordering) -> u32 {
        let (mut low, mut high) = (0, self.over);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is(self.magnitude(middle)) == Ordering::Less { high = middle } else { low = middle }
        }
        match is(self.boundary(low)) {
            Ordering::Less => low,
            Ordering::Greater => low + 1,
            Ordering::Equal => low + (low & 1),
        }
    }

    fn of_double(&self, x: f64) -> u32 {
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        sign | self.nearest(|y| x.abs().partial_cmp(&y).expect("a number"))
    }

    fn of_integer(&self, x: i128) -> u32 {
        let sign = if x < 0 { self.sign() } else { 0 };
        // Boundaries of which not all bits are in front of the point are small.
        let is = |y: f64| {
            if y < 2f64.powi(40) {
                (x.abs() as f64).min(2f64.powi(50)).total_cmp(&y)
            } else {
                x.abs().cmp(&(y as i128))
            }
        };
        sign | self.nearest(is)
    }

    /// Every value, every boundary, and what is next to a boundary, with both signs.
    fn doubles(&self) -> Vec<f64> {
        let mut all = vec![f64::INFINITY, f64::MAX, 1e300, 1e-300, f64::from_bits(1), 0.0];
        for code in 0..self.over {
            let boundary = self.boundary(code);
            all.extend([self.magnitude(code), boundary.next_down(), boundary, boundary.next_up()]);
        }
        all.iter().flat_map(|&x| [x, -x]).collect()
    }
}

#[test]
fn conversions_round_to_the_nearest_value() {
    let mut session = Session::new(FileOptions::default());
    let mut module =
        Module::from_text(&mut session, "stored.slang", PROGRAM, &Execution::default()).expect("compiles");
    for format in &FORMATS {
        let kernel =
            |module: &Module, of: &str| module.kernel(&format!("{}_{of}", format.name)).expect("a kernel");
        let run = |module: &mut Module, of: &str, n: usize| -> Vec<u32> {
            for name in ["doubles", "floats", "longs", "words", "values"] {
                if name != of {
                    module.allocate(name, 1).expect("a buffer");
                }
            }
            module.allocate("bits", n).expect("a buffer");
            let kernel = kernel(module, of);
            module.dispatch(kernel, [n as u32, 1, 1]).expect("runs");
            module.read::<u32>("bits").expect("bits")
        };

        let doubles = format.doubles();
        module.write("doubles", &doubles).expect("doubles");
        for (x, found) in doubles.iter().zip(run(&mut module, "doubles", doubles.len())) {
            assert_eq!(found, format.of_double(*x), "{} of {x:e}", format.name);
        }

        let mut floats: Vec<f32> = Vec::new();
        for x in &doubles {
            let near = *x as f32;
            floats.extend([near.next_down(), near, near.next_up()]);
        }
        module.write("floats", &floats).expect("floats");
        for (x, found) in floats.iter().zip(run(&mut module, "floats", floats.len())) {
            assert_eq!(found, format.of_double(f64::from(*x)), "{} of the float {x:e}", format.name);
        }

        let mut integers: Vec<i128> = vec![i128::from(i64::MAX), i128::from(i64::MIN), i128::from(u64::MAX)];
        for x in doubles.iter().filter(|x| x.abs() < 2e19) {
            integers.extend([-1, 0, 1].map(|more| *x as i128 + more));
        }
        let longs: Vec<i64> = integers.iter().filter_map(|&x| i64::try_from(x).ok()).collect();
        module.write("longs", &longs).expect("integers");
        for (x, found) in longs.iter().zip(run(&mut module, "longs", longs.len())) {
            assert_eq!(found, format.of_integer(i128::from(*x)), "{} of {x}", format.name);
        }
        let words: Vec<u64> = integers.iter().filter_map(|&x| u64::try_from(x).ok()).collect();
        module.write("words", &words).expect("integers");
        for (x, found) in words.iter().zip(run(&mut module, "words", words.len())) {
            assert_eq!(found, format.of_integer(i128::from(*x)), "{} of {x}", format.name);
        }

        // NaN stays NaN, and every value is what its bits say.
        module.write("doubles", &[f64::NAN]).expect("doubles");
        let nan = run(&mut module, "doubles", 1)[0];
        assert!(format.value(nan).is_nan(), "{} of NaN: {nan:x}", format.name);
        let n = 1u32 << format.bits;
        module.allocate("values", n as usize).expect("a buffer");
        run(&mut module, "values", n as usize);
        for (code, found) in module.read::<f64>("values").expect("values").into_iter().enumerate() {
            let wanted = format.value(code as u32);
            let same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
            assert!(same, "{} {code:x} is {wanted:e}, not {found:e}", format.name);
        }
    }
}
