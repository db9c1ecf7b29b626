//! The algebraic rules, as a table of patterns and replacements.
//!
//! A rule is two expressions over operands. On the left, a name stands for any operand of its kind, and for
//! the same value wherever it occurs again:
//!
//! | name | kind |
//! | --- | --- |
//! | `x y z` | anything |
//! | `f g` | floats |
//! | `i j` | integers and truth values |
//! | `n m` | integers |
//! | `u`, `s` | unsigned and signed integers |
//! | `b c` | truth values |
//! | `C D` | constants, all lanes of which are equal |
//! | `0 -0 1 -1 ones` | this constant; for truth values, `0` is false and `1` is true |
//! | `absent` | the absent differential |
//!
//! The operands of `add`, `mul`, `and`, `or`, `xor`, `eq` and `ne` match in either order. On the right, an
//! expression of constants is computed, and everything else becomes an instruction. A rule applies only if
//! the types of the new expression are right, so that no rule needs to say what it means for vectors.
//!
//! `Exact` rules give the same bits (except for the payload of a NaN, which the semantics leave open). `Once`
//! rules are exact as well, but worthwhile only if the inner expressions on the left have no other use. `Fast`
//! rules hold for real numbers, which fast mathematics assumes; `FastPrimal` rules are left out for linear
//! values, whose signs stay where they are. The tests compute both sides of every rule for many operands.

use std::mem::{Discriminant, discriminant};
use std::sync::LazyLock;

use ir::{Inst, Math, Op, Scalar, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Simplify, Step};

/// The condition under which a rule is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Exact,
    Once,
    Fast,
    FastPrimal,
}

use When::{Exact, Fast, FastPrimal, Once};

/// The rules. For one op, the first that matches is used.
const RULES: &[(When, &str, &str)] = &[
    // Differentials.
    (Exact, "(add x absent)", "x"),
    (Exact, "(scale absent x)", "absent"),
    (Exact, "(unscale absent x)", "absent"),
    (Exact, "(scale x 1)", "x"),
    (Exact, "(unscale x 1)", "x"),
    (Exact, "(unscale x -1)", "(scale x -1)"),
    (Exact, "(scale (scale x -1) -1)", "x"),
    (Exact, "(mask absent x)", "absent"),
    (Exact, "(mask x absent)", "absent"),
    (Exact, "(mask (present x) y)", "y"),
    (Exact, "(present absent)", "0"),
    (Exact, "(present (present x))", "(present x)"),
    (Exact, "(detach (detach x))", "(detach x)"),
    (Exact, "(detach C)", "C"),
    (Exact, "(detach absent)", "absent"),
    (Exact, "(convert absent)", "absent"),
    (Exact, "(convert x)", "x"),
    // Floats. The sum of x and -0 is x, that of x and 0 is 0 if x is -0.
    (Exact, "(neg (neg x))", "x"),
    (Fast, "(neg (sub f g))", "(sub g f)"),
    (Exact, "(neg (sub n m))", "(sub m n)"),
    (Exact, "(add f -0)", "f"),
    (Fast, "(add f 0)", "f"),
    (Exact, "(add f (neg g))", "(sub f g)"),
    (Exact, "(sub f 0)", "f"),
    (Fast, "(sub f -0)", "f"),
    (Exact, "(sub -0 f)", "(neg f)"),
    (Fast, "(sub 0 f)", "(neg f)"),
    (Exact, "(sub f (neg g))", "(add f g)"),
    (Fast, "(sub f f)", "0"),
    (FastPrimal, "(sub (neg f) g)", "(neg (add f g))"),
    (Once, "(add f (mul (neg g) x))", "(sub f (mul g x))"),
    (Once, "(sub f (mul (neg g) x))", "(add f (mul g x))"),
    (Exact, "(mul f 1)", "f"),
    (Exact, "(mul f -1)", "(neg f)"),
    (Fast, "(mul f 0)", "0"),
    (Fast, "(mul f -0)", "0"),
    (Exact, "(mul (neg f) (neg g))", "(mul f g)"),
    (Once, "(mul (neg f) C)", "(mul f (neg C))"),
    (FastPrimal, "(mul (neg f) g)", "(neg (mul f g))"),
    (Exact, "(div f 1)", "f"),
    (Exact, "(div f -1)", "(neg f)"),
    (Fast, "(div f f)", "1"),
    // Integers, and bits. A quotient by 0 is the dividend, and sums wrap.
    (Exact, "(add n 0)", "n"),
    (Exact, "(sub n 0)", "n"),
    (Exact, "(or i 0)", "i"),
    (Exact, "(xor i 0)", "i"),
    (Exact, "(shl n 0)", "n"),
    (Exact, "(shr n 0)", "n"),
    (Exact, "(mul n 1)", "n"),
    (Exact, "(div n 1)", "n"),
    (Exact, "(and i ones)", "i"),
    (Exact, "(mul n 0)", "0"),
    (Exact, "(and i 0)", "0"),
    (Exact, "(shl 0 n)", "0"),
    (Exact, "(shr 0 n)", "0"),
    (Exact, "(div 0 n)", "0"),
    (Exact, "(rem 0 n)", "0"),
    (Exact, "(rem n 1)", "0"),
    (Exact, "(div n 0)", "n"),
    (Exact, "(rem n 0)", "0"),
    (Exact, "(or i ones)", "ones"),
    (Exact, "(sub n n)", "0"),
    (Exact, "(xor i i)", "0"),
    (Exact, "(and i i)", "i"),
    (Exact, "(or i i)", "i"),
    (Exact, "(sub 0 n)", "(neg n)"),
    (Exact, "(xor b 1)", "(not b)"),
    (Exact, "(and b (not b))", "0"),
    (Exact, "(or b (not b))", "1"),
    (Exact, "(add (add n C) D)", "(add n (add C D))"),
    (Exact, "(sub (add n C) D)", "(add n (sub C D))"),
    (Exact, "(add (sub C n) D)", "(sub (add C D) n)"),
    (Exact, "(sub (sub C n) D)", "(sub (sub C D) n)"),
    (Exact, "(add (sub n C) D)", "(add n (sub D C))"),
    (Exact, "(sub (sub n C) D)", "(add n (neg (add C D)))"),
    (Exact, "(sub C (sub D n))", "(add n (sub C D))"),
    (Exact, "(sub (add n m) m)", "n"),
    (Exact, "(add (sub n m) m)", "n"),
    // Comparisons. NaN differs from itself, and is neither below nor above any number.
    (Exact, "(not (not x))", "x"),
    (Exact, "(not (eq x y))", "(ne x y)"),
    (Exact, "(not (ne x y))", "(eq x y)"),
    (Exact, "(not (lt n m))", "(ge n m)"),
    (Exact, "(not (le n m))", "(gt n m)"),
    (Exact, "(not (gt n m))", "(le n m)"),
    (Exact, "(not (ge n m))", "(lt n m)"),
    (Exact, "(eq i i)", "1"),
    (Exact, "(le n n)", "1"),
    (Exact, "(ge n n)", "1"),
    (Exact, "(ne i i)", "0"),
    (Exact, "(lt n n)", "0"),
    (Exact, "(gt n n)", "0"),
    (Exact, "(eq b 1)", "b"),
    (Exact, "(ne b 0)", "b"),
    (Exact, "(eq b 0)", "(not b)"),
    (Exact, "(ne b 1)", "(not b)"),
    (Exact, "(lt u 0)", "0"),
    (Exact, "(ge u 0)", "1"),
    (Exact, "(gt 0 u)", "0"),
    (Exact, "(le 0 u)", "1"),
    (Exact, "(eq (convert b) 1)", "b"),
    (Exact, "(ne (convert b) 0)", "b"),
    (Exact, "(eq (convert b) 0)", "(not b)"),
    (Exact, "(ne (convert b) 1)", "(not b)"),
    // Selections.
    (Exact, "(select c x x)", "x"),
    (Exact, "(select 0 x y)", "y"),
    (Exact, "(select 1 x y)", "x"),
    (Exact, "(select (not c) x y)", "(select c y x)"),
    (Exact, "(select c (select c x y) z)", "(select c x z)"),
    (Exact, "(select c x (select c y z))", "(select c x z)"),
    (Exact, "(select c 1 0)", "c"),
    (Exact, "(select c 0 1)", "(not c)"),
    (Exact, "(select c 1 b)", "(or c b)"),
    (Exact, "(select c b 0)", "(and c b)"),
    // Functions.
    (Exact, "(min x x)", "x"),
    (Exact, "(max x x)", "x"),
    (Exact, "(abs (abs x))", "(abs x)"),
    (Exact, "(abs (neg f))", "(abs f)"),
    (Exact, "(abs (neg s))", "(abs s)"),
];

/// An expression.
#[derive(Clone, Debug)]
enum Term {
    Op(Op, Vec<Term>),
    /// An operand, by its name.
    Any(char),
    Constant(Constant),
    Absent,
}

/// A constant of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constant {
    Zero,
    MinusZero,
    One,
    MinusOne,
    Ones,
}

impl Constant {
    /// Its bits; `None` if the type has no such constant.
    fn bits(self, s: Scalar) -> Option<u64> {
        let negated = |bits: u64| ir::scalar::unary(&Op::Neg, s, bits);
        match self {
            Constant::Zero => Some(0),
            Constant::MinusZero => negated(0).filter(|_| s.is_float()),
            Constant::One => Some(ir::scalar::one(s)),
            Constant::MinusOne => negated(ir::scalar::one(s)),
            Constant::Ones => (!s.is_float()).then(|| ir::scalar::canonical(s, u64::MAX)),
        }
    }
}

struct Rule {
    when: When,
    left: Term,
    right: Term,
    /// The shapes of the operands on the left.
    shapes: Shapes,
}

/// The shapes of operands, by which most rules are told not to match before they are tried: 0 if an operand
/// may be anything, else that of a constant, of an absent differential, or of the result of an op.
type Shapes = SmallVec<[u8; 3]>;

const CONSTANT: u8 = 1;

fn shape_of(op: &Op) -> u8 {
    match op {
        Op::Absent => 2,
        Op::Add => 3,
        Op::Sub => 4,
        Op::Mul => 5,
        Op::Neg => 6,
        Op::Not => 7,
        Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => 8,
        Op::Convert => 9,
        Op::Select => 10,
        Op::Detach => 11,
        Op::Scale => 12,
        Op::Present => 13,
        Op::Math(Math::Abs) => 14,
        _ => 0,
    }
}

impl Term {
    fn shape(&self) -> u8 {
        match self {
            Term::Op(op, _) => shape_of(op),
            Term::Absent => shape_of(&Op::Absent),
            Term::Constant(_) => CONSTANT,
            Term::Any(name) => u8::from(name.is_uppercase()) * CONSTANT,
        }
    }
}

impl Rule {
    fn new(when: When, left: &str, right: &str) -> Rule {
        let (left, right) = (parse(left), parse(right));
        let shapes = match &left {
            Term::Op(_, args) => args.iter().map(Term::shape).collect(),
            Term::Any(_) | Term::Constant(_) | Term::Absent => Shapes::new(),
        };
        Rule { when, left, right, shapes }
    }

    /// Returns true unless the shapes of the operands exclude this rule.
    fn may_match(&self, op: &Op, given: &Shapes) -> bool {
        let fits = |(&wanted, &given): (&u8, &u8)| wanted == 0 || wanted == given;
        self.shapes.iter().zip(given).all(fits)
            || op.commutes() && self.shapes.iter().zip(given.iter().rev()).all(fits)
    }
}

/// The rules by the op of their left side.
static TABLE: LazyLock<FxHashMap<Discriminant<Op>, Vec<Rule>>> = LazyLock::new(|| {
    let mut table: FxHashMap<_, Vec<Rule>> = FxHashMap::default();
    for rule in RULES.iter().map(|&(when, left, right)| Rule::new(when, left, right)) {
        if let Term::Op(op, _) = &rule.left {
            table.entry(discriminant(op)).or_default().push(rule);
        }
    }
    table
});

/// Parses an expression of the table.
fn parse(text: &str) -> Term {
    let text = text.replace('(', "( ").replace(')', " )");
    term(&mut text.split_whitespace()).expect("the table's expressions are complete")
}

/// Parses the next expression; `None` at a closing parenthesis.
fn term<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<Term> {
    Some(match words.next()? {
        ")" => return None,
        "(" => {
            let op = op(words.next()?);
            Term::Op(op, std::iter::from_fn(|| term(words)).collect())
        }
        "0" => Term::Constant(Constant::Zero),
        "-0" => Term::Constant(Constant::MinusZero),
        "1" => Term::Constant(Constant::One),
        "-1" => Term::Constant(Constant::MinusOne),
        "ones" => Term::Constant(Constant::Ones),
        "absent" => Term::Absent,
        name => Term::Any(name.chars().next()?),
    })
}

fn op(name: &str) -> Op {
    let ops = [
        ("add", Op::Add),
        ("sub", Op::Sub),
        ("mul", Op::Mul),
        ("div", Op::Div),
        ("rem", Op::Rem),
        ("neg", Op::Neg),
        ("and", Op::And),
        ("or", Op::Or),
        ("xor", Op::Xor),
        ("not", Op::Not),
        ("shl", Op::Shl),
        ("shr", Op::Shr),
        ("eq", Op::Eq),
        ("ne", Op::Ne),
        ("lt", Op::Lt),
        ("le", Op::Le),
        ("gt", Op::Gt),
        ("ge", Op::Ge),
        ("convert", Op::Convert),
        ("select", Op::Select),
        ("detach", Op::Detach),
        ("scale", Op::Scale),
        ("unscale", Op::Unscale),
        ("mask", Op::Mask),
        ("present", Op::Present),
        ("min", Op::Math(Math::Min)),
        ("max", Op::Math(Math::Max)),
        ("abs", Op::Math(Math::Abs)),
    ];
    ops.into_iter().find(|op| op.0 == name).expect("the table's ops are in the list").1
}

/// Returns true if a name of the table stands for operands of this type.
fn is_kind(name: char, s: Option<Scalar>) -> bool {
    match name {
        'f' | 'g' => s.is_some_and(Scalar::is_float),
        'i' | 'j' => s.is_some_and(|s| !s.is_float()),
        'n' | 'm' => s.is_some_and(Scalar::is_int),
        'u' => s.is_some_and(|s| s.is_int() && !s.is_signed_int()),
        's' => s.is_some_and(Scalar::is_signed_int),
        'b' | 'c' => s == Some(Scalar::Bool),
        _ => true,
    }
}

/// The operands that the names of a rule stand for.
type Bound = SmallVec<[(char, Value); 4]>;

fn bound(operands: &Bound, name: char) -> Option<Value> {
    operands.iter().find(|operand| operand.0 == name).map(|operand| operand.1)
}

impl Simplify<'_> {
    /// Applies the first rule that matches an instruction.
    pub(super) fn apply_rules(&mut self, inst: Inst) -> Option<Step> {
        let data = &self.func.insts[inst];
        let result = data.results[0];
        let shapes: Shapes = data.args.iter().map(|&v| self.shape(v)).collect();
        for rule in TABLE.get(&discriminant(&data.op))? {
            let is_used = match rule.when {
                Exact | Once => true,
                Fast => self.fast,
                FastPrimal => self.fast && !self.func.is_linear(result),
            };
            let Term::Op(op, terms) = &rule.left else { continue };
            let data = &self.func.insts[inst];
            let mut operands = Bound::new();
            if is_used
                && data.op == *op
                && rule.may_match(op, &shapes)
                && self.match_all(op, terms, &data.args, &mut operands, rule.when)
                && self.fits(&rule.right, &operands, result)
            {
                return Some(self.replace_by(inst, &rule.right, &operands));
            }
        }
        None
    }

    fn shape(&self, v: Value) -> u8 {
        if self.uniform(v).is_some() { CONSTANT } else { self.op(v).map_or(0, shape_of) }
    }

    /// Matches the operands of an op. With [`Once`], those that are taken apart must have no other use.
    fn match_all(&self, op: &Op, terms: &[Term], args: &[Value], operands: &mut Bound, when: When) -> bool {
        let is_own = |v: Value| when != Once || self.uses.as_ref().is_some_and(|uses| uses[v] == 1);
        let before = operands.len();
        let mut in_order = |args: [Option<&Value>; 3]| {
            operands.truncate(before);
            let mut pairs = terms.iter().zip(args);
            pairs.all(|(term, v)| {
                let own = |&v: &Value| !matches!(term, Term::Op(..)) || is_own(v);
                v.is_some_and(|v| own(v) && self.matches(term, *v, operands))
            })
        };
        let [a, b, c] = [args.first(), args.get(1), args.get(2)];
        args.len() == terms.len() && (in_order([a, b, c]) || op.commutes() && in_order([b, a, c]))
    }

    fn matches(&self, term: &Term, v: Value, operands: &mut Bound) -> bool {
        match term {
            Term::Op(op, terms) => self
                .operands(v, |other| other == op)
                .is_some_and(|args| self.match_all(op, terms, &args, operands, Exact)),
            Term::Constant(c) => self.uniform(v).is_some_and(|(s, bits)| c.bits(s) == Some(bits)),
            Term::Absent => self.is_absent(v),
            &Term::Any(name) => {
                if let Some(other) = bound(operands, name) {
                    return self.same(v, other);
                }
                operands.push((name, v));
                if name.is_uppercase() {
                    return self.uniform(v).is_some();
                }
                is_kind(name, self.types.scalar_of(self.ty(v)))
            }
        }
    }

    /// Returns true if the right side of a rule can replace a value.
    fn fits(&self, right: &Term, operands: &Bound, result: Value) -> bool {
        match right {
            Term::Op(Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge, _) => true,
            Term::Op(Op::Select, args) => args[1..].iter().all(|arg| self.fits(arg, operands, result)),
            Term::Op(_, args) => args.iter().all(|arg| self.fits(arg, operands, result)),
            Term::Any(name) => bound(operands, *name).is_some_and(|v| self.ty(v) == self.ty(result)),
            Term::Constant(_) => self.types.is_numeric(self.ty(result)),
            Term::Absent => self.types.is_differentiable(self.ty(result)),
        }
    }

    fn replace_by(&mut self, inst: Inst, right: &Term, operands: &Bound) -> Step {
        let result = self.func.result(inst);
        match right {
            Term::Op(op, args) => {
                let args: SmallVec<[Value; 4]> =
                    args.iter().map(|arg| self.build(arg, operands, result)).collect();
                self.rewrite(inst, op.clone(), &args)
            }
            Term::Any(name) => {
                let by = bound(operands, *name).expect("names on the right occur on the left");
                self.replace(inst, by)
            }
            Term::Absent => self.rewrite(inst, Op::Absent, &[]),
            Term::Constant(Constant::Zero) => self.be_zero(inst),
            Term::Constant(c) => {
                let ty = self.ty(result);
                let s = self.types.scalar_of(ty).expect("a constant is numeric");
                let bits = c.bits(s).expect("the type has the constant");
                let n = self.types.lanes(ty).unwrap_or(1);
                self.be_lanes(inst, s, &vec![bits; n as usize])
            }
        }
    }

    /// The value of an expression that has the type of `result`.
    fn build(&mut self, term: &Term, operands: &Bound, result: Value) -> Value {
        if let &Term::Any(name) = term {
            return bound(operands, name).expect("names on the right occur on the left");
        }
        let ty = self.ty(result);
        if let Some((s, bits)) =
            self.types.scalar_of(ty).and_then(|s| Some((s, self.computed(term, operands, s)?)))
        {
            let c = self.constant(s, bits);
            return if self.types.lanes(ty).is_some() { self.emit(Op::Splat, &[c], ty) } else { c };
        }
        let Term::Op(op, args) = term else {
            return self.emit_marked(Op::Absent, &[], ty, self.func.is_linear(result));
        };
        let args: SmallVec<[Value; 4]> = args.iter().map(|arg| self.build(arg, operands, result)).collect();
        let linear = args.iter().any(|&v| self.func.is_linear(v));
        let made = self.emit_marked(op.clone(), &args, ty, linear);
        self.func.values[made].differential = self.func.values[result].differential;
        made
    }

    /// The bits of an expression of constants.
    fn computed(&self, term: &Term, operands: &Bound, s: Scalar) -> Option<u64> {
        match term {
            Term::Constant(c) => c.bits(s),
            Term::Any(name) if name.is_uppercase() => self.uniform(bound(operands, *name)?).map(|c| c.1),
            Term::Op(op, args) => {
                let args: Option<SmallVec<[u64; 4]>> =
                    args.iter().map(|arg| self.computed(arg, operands, s)).collect();
                ir::scalar::elementwise(op, s, s, &args?)
            }
            Term::Any(_) | Term::Absent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random operands, among them NaN, infinities, signed zeros, subnormals and the ends of each type.
    struct Operands {
        state: u64,
        known: Vec<(char, Scalar, u64)>,
    }

    impl Operands {
        fn next(&mut self) -> u64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.state
        }

        fn number(&mut self, s: Scalar) -> u64 {
            let special =
                [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310, 6e-8, 0.5];
            match self.next() % 3 {
                0 if s.is_float() => ir::scalar::from_f64(s, special[self.next() as usize % special.len()]),
                0 => {
                    ir::scalar::canonical(s, [0, 1, u64::MAX, 1 << (s.bits() - 1)][self.next() as usize % 4])
                }
                1 if s.is_float() => ir::scalar::from_f64(s, (self.next() % 64) as f64 / 8.0 - 4.0),
                1 => ir::scalar::canonical(s, (self.next() % 9).wrapping_sub(4)),
                _ => ir::scalar::canonical(s, self.next()),
            }
        }

        fn operand(&mut self, name: char, s: Scalar) -> Option<u64> {
            if !is_kind(name, Some(s)) {
                return None;
            }
            if let Some(known) = self.known.iter().find(|known| known.0 == name) {
                return (known.1 == s).then_some(known.2);
            }
            let bits = self.number(s);
            self.known.push((name, s, bits));
            Some(bits)
        }

        /// The bits of an expression of type `s`, in which comparisons and conversions are of numbers of type
        /// `of`; `None` if there is no such expression.
        fn value(&mut self, term: &Term, s: Scalar, of: Scalar) -> Option<u64> {
            match term {
                &Term::Any(name) => self.operand(name, s),
                Term::Constant(c) => c.bits(s),
                Term::Absent => s.is_float().then(|| ir::scalar::absent(s)),
                Term::Op(op, args) => {
                    let is_test = matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge);
                    if is_test && s != Scalar::Bool {
                        return None;
                    }
                    let from = match op {
                        _ if is_test => of,
                        Op::Convert if matches!(args[..], [Term::Any('b')]) => Scalar::Bool,
                        _ => s,
                    };
                    let mut bits: SmallVec<[u64; 4]> = SmallVec::new();
                    for (k, arg) in args.iter().enumerate() {
                        let is_condition = *op == Op::Select && k == 0;
                        bits.push(self.value(arg, if is_condition { Scalar::Bool } else { from }, of)?);
                    }
                    ir::scalar::elementwise(op, from, s, &bits)
                }
            }
        }
    }

    #[test]
    fn both_sides_of_every_rule_are_the_same_number() {
        for &(when, left, right) in RULES {
            let (l, r) = (parse(left), parse(right));
            let mut tried = 0;
            for (at, s) in Scalar::ALL.into_iter().enumerate() {
                for of in Scalar::ALL {
                    for k in 0..200 {
                        let state = 0x9e37_79b9_7f4a_7c15 ^ (at as u64) << 32 ^ (k + 1);
                        let mut operands = Operands { state, known: Vec::new() };
                        let Some(x) = operands.value(&l, s, of) else { continue };
                        let Some(y) = operands.value(&r, s, of) else { continue };
                        let float = |s: Scalar, bits: u64| ir::scalar::to_f64(s, bits);
                        let is_fast = matches!(when, Fast | FastPrimal);
                        let all =
                            operands.known.iter().map(|known| (known.1, known.2)).chain([(s, x), (s, y)]);
                        if is_fast && all.clone().any(|(s, bits)| s.is_float() && !float(s, bits).is_finite())
                        {
                            continue;
                        }
                        tried += 1;
                        let same = ir::scalar::same(s, x, y) || is_fast && float(s, x) == float(s, y);
                        assert!(
                            same,
                            "{left} is {x:#x} and {right} is {y:#x} as {s:?}: {:x?}",
                            operands.known
                        );
                    }
                }
            }
            assert!(tried >= 200, "{left} is computed {tried} times only");
        }
    }
}
