//! Intervals have the values of operations, computed in numbers of twice a double's digits, and stop where they leave a
//! decision open.

use pullback_ir::interp::Lane;
use pullback_ir::interp::interval::Interval;
use pullback_ir::interp::precise::{Number, Precise};
use pullback_ir::{Math, Op, Scalar, scalar};

/// Random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An interval, often narrow, often around zero.
    fn interval(&mut self) -> (f64, f64) {
        let (at, width) = (8.0 * self.unit() - 4.0, 4.0 * self.unit().powi(6));
        (at - width, at + width)
    }
}

const OPS: [Op; 31] = [
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Div,
    Op::Neg,
    Op::Math(Math::Sin),
    Op::Math(Math::Cos),
    Op::Math(Math::Tan),
    Op::Math(Math::Asin),
    Op::Math(Math::Acos),
    Op::Math(Math::Atan),
    Op::Math(Math::Atan2),
    Op::Math(Math::Sinh),
    Op::Math(Math::Cosh),
    Op::Math(Math::Tanh),
    Op::Math(Math::Asinh),
    Op::Math(Math::Acosh),
    Op::Math(Math::Atanh),
    Op::Math(Math::Exp),
    Op::Math(Math::Exp2),
    Op::Math(Math::Log),
    Op::Math(Math::Log2),
    Op::Math(Math::Log10),
    Op::Math(Math::Pow),
    Op::Math(Math::Sqrt),
    Op::Math(Math::Floor),
    Op::Math(Math::Round),
    Op::Math(Math::Min),
    Op::Math(Math::Max),
    Op::Math(Math::Abs),
    Op::Math(Math::Fma),
];

/// The values of each op at random points within random intervals, in numbers of twice a double's digits, are within
/// the bounds, and so are those that doubles give.
#[test]
fn bounds_hold() {
    let mut random = Random(1);
    for op in OPS {
        let n = match &op {
            Op::Math(m) => m.arity(),
            Op::Neg => 1,
            _ => 2,
        };
        let mut finite = 0;
        for _ in 0..400 {
            let x: Vec<(f64, f64)> = (0..n).map(|_| random.interval()).collect();
            let args: Vec<Interval> = x.iter().map(|&(a, b)| Interval::within(0, a, b)).collect();
            let made = Interval::elementwise(&op, Scalar::F64, Scalar::F64, &args).expect("of doubles");
            let (low, high) = made.bounds(Scalar::F64);
            finite += usize::from(low.is_finite() && high.is_finite());
            for k in 0..6 {
                let place = |&(a, b): &(f64, f64)| match k {
                    0 => a,
                    1 => b,
                    _ => (a + (b - a) * random.unit()).clamp(a, b),
                };
                let points: Vec<f64> = x.iter().map(place).collect();
                let wide: Vec<Precise> = points.iter().map(|&p| Number::from(p).into()).collect();
                let exact = Precise::elementwise(&op, Scalar::F64, Scalar::F64, &wide).expect("of doubles");
                let exact = exact.number();
                let is_within =
                    exact.hi.is_nan() || Number::from(low) <= exact && exact <= Number::from(high);
                assert!(is_within, "{op:?} of {points:?} is {exact:?}, not within {low:e} and {high:e}");
                let bits: Vec<u64> = points.iter().map(|p| p.to_bits()).collect();
                let plain = scalar::elementwise(&op, Scalar::F64, Scalar::F64, &bits).expect("of doubles");
                let plain = f64::from_bits(plain);
                assert!(plain.is_nan() || (low..=high).contains(&plain), "{op:?} of {points:?}: {plain:e}");
            }
        }
        assert!(finite > 20, "{op:?} has bounds {finite} times");
    }
}

#[test]
fn decisions_are_open_where_bounds_overlap() {
    let within = |a, b| Interval::within(0, a, b);
    let of = |op: Op, a, b| Interval::elementwise(&op, Scalar::F64, Scalar::Bool, &[a, b]).expect("a bool");
    let (low, high) = (within(0.0, 1.0), within(1.0, 2.0));
    assert!(of(Op::Lt, low, high).decided().is_err() && of(Op::Le, low, high).decided().is_ok());
    assert!(of(Op::Gt, low, within(3.0, 4.0)).decided().is_ok());
    assert!(of(Op::Eq, low, low).decided().is_err() && of(Op::Eq, low, within(3.0, 4.0)).decided().is_ok());
    // A selection between two bounds has both.
    let open = of(Op::Lt, low, high);
    assert_eq!(open.selected(low, high, Scalar::F64).bounds(Scalar::F64), (0.0, 2.0));
}
