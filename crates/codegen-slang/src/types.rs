//! Writes types in Slang, and tracks the lengths of the arrays that represent stacks.

use ir::{Func, Scalar, Span, Type, TypeData, Types};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::unsupported::{Unsupported, refused};

/// The bounds of a stack and of the stacks nested in it, outermost first; [`OPEN`] or [`OPEN_INNER`]: none.
pub(crate) type Bounds = Vec<u32>;

/// The bound of a stack of a loop that has none, outside of other loops.
pub(crate) const OPEN: u32 = u32::MAX;
/// The same within another loop.
pub(crate) const OPEN_INNER: u32 = u32::MAX - 1;

/// The bounds of stacks of loops that have none, within `depth` other loops.
pub(crate) fn open_bounds(types: &Types, ty: Type, depth: u32) -> Bounds {
    match types[ty] {
        TypeData::Stack(element) => {
            let outer = if depth == 0 { OPEN } else { OPEN_INNER };
            [vec![outer], open_bounds(types, element, depth + 1)].concat()
        }
        TypeData::Array(element, _) | TypeData::Cell(element) => open_bounds(types, element, depth),
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Residuals(_) | TypeData::Buffer(_) => {
            Vec::new()
        }
    }
}

/// Returns true if a stack has no bound.
pub(crate) fn is_open(bound: u32) -> bool {
    bound >= OPEN_INNER
}

/// The bounds of the stacks that functions return, by position.
#[derive(Clone, Debug)]
pub(crate) struct StackBounds {
    /// Bounds of stack results, recorded once a function has been written.
    pub(crate) results: FxHashMap<(Func, usize), Bounds>,
    /// Bounds of stack parameters, recorded at calls.
    pub(crate) params: FxHashMap<(Func, usize), Bounds>,
    /// The parameters that calls of this round have been written for.
    passed: FxHashSet<(Func, usize)>,
    /// A call had other bounds than its callee was written with.
    has_changed: bool,
    /// The stacks without a bound.
    pub(crate) library: StackLibrary,
}

/// The names of the type of stacks without a bound, and of the numbers of their elements.
#[derive(Clone, Debug)]
pub(crate) struct StackLibrary {
    pub(crate) stack: String,
    pub(crate) trips: String,
    pub(crate) inner_trips: String,
}

impl StackLibrary {
    /// The number of elements that a stack without a bound has.
    pub(crate) fn capacity(&self, bound: u32) -> &str {
        if bound == OPEN { &self.trips } else { &self.inner_trips }
    }
}

impl StackBounds {
    pub(crate) fn new(library: StackLibrary) -> StackBounds {
        let (results, params) = (FxHashMap::default(), FxHashMap::default());
        StackBounds { results, params, passed: FxHashSet::default(), has_changed: true, library }
    }

    /// Begins a round in which all functions are written, or returns false if the last one has the bounds of all calls.
    pub(crate) fn begin(&mut self) -> bool {
        self.passed.clear();
        std::mem::take(&mut self.has_changed)
    }

    /// Notes the bounds of an argument; returns false if another call has other ones.
    pub(crate) fn pass(&mut self, callee: Func, k: usize, bounds: &Bounds) -> bool {
        let known = self.params.insert((callee, k), bounds.clone());
        let is_same = known.as_ref() == Some(bounds);
        self.has_changed |= !is_same;
        self.passed.insert((callee, k)) || is_same
    }

    /// The declaration of the type, if a text uses it.
    pub(crate) fn declaration(&self, text: &str) -> String {
        let StackLibrary { stack, trips, inner_trips } = &self.library;
        if !text.contains(&format!("{stack}<")) {
            return String::new();
        }
        // Nested stacks multiply; a thread has room for some of a million elements.
        let depth = (1..).find(|&n| !text.contains(&format!("{stack}<").repeat(n + 1))).unwrap_or(1);
        let inner = [64, 64, 32, 16, 8, 4][depth.saturating_sub(1).min(5)];
        let mut numbers = String::new();
        for (name, number) in [(trips, 1024), (inner_trips, inner)] {
            if text.contains(&format!("{name}>")) {
                numbers += &format!("static const int {name} = {number};\n");
            }
        }
        format!(
            "\
// Loops without `[MaxIters]` keep this many trips for the way back; derivatives of more are NaN.
{numbers}
struct {stack}<T, let N : int>
{{
    T values[N];

    __subscript(int i) -> T
    {{
        get {{ return values[min(i, N - 1)]; }}
        set {{ if (i < N) values[i] = newValue; }}
    }}
}}
"
        )
    }
}

/// The name of a scalar type.
pub fn scalar(scalar: Scalar) -> &'static str {
    scalar.word()
}

/// The name of a vector type.
pub(crate) fn vector(lane: Scalar, n: u32) -> String {
    let short =
        matches!(lane, Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::F16 | Scalar::F32 | Scalar::F64);
    if short && (2..=4).contains(&n) {
        format!("{}{n}", scalar(lane))
    } else if n > 4 {
        format!("CoopVec<{}, {n}>", scalar(lane))
    } else {
        format!("vector<{}, {n}>", scalar(lane))
    }
}

/// The name of a type and the suffix that follows the variable: `float` and `[4]`.
pub(crate) fn declarator(
    types: &Types,
    ty: Type,
    bounds: &[u32],
    span: Span,
) -> Result<(String, String), Unsupported> {
    match types[ty] {
        TypeData::Scalar(s) => Ok((scalar(s).into(), String::new())),
        TypeData::Vector(s, n) => Ok((vector(s, n), String::new())),
        TypeData::Array(element, n) => {
            let (name, rest) = declarator(types, element, bounds, span)?;
            Ok((name, format!("[{n}]{rest}")))
        }
        TypeData::Stack(element) => {
            let Some((&n, inner)) = bounds.split_first() else {
                return Err(refused(span, "values that a loop keeps and another function reads"));
            };
            let (name, rest) = declarator(types, element, inner, span)?;
            match n {
                OPEN => Ok((format!("Stack<{}, MAX_TRIPS>", argument(&name, &rest)), String::new())),
                OPEN_INNER => {
                    Ok((format!("Stack<{}, MAX_INNER_TRIPS>", argument(&name, &rest)), String::new()))
                }
                n => Ok((name, format!("[{}]{rest}", n.max(1)))),
            }
        }
        TypeData::Cell(content) => declarator(types, content, bounds, span),
        TypeData::Residuals(_) => Err(refused(span, "a pullback")),
        TypeData::Buffer(_) => Err(refused(span, "a choice between buffers")),
    }
}

/// A type without a variable, which has the length of the outermost array last: `float[3][2]` for `float x[2][3]`.
fn argument(name: &str, rest: &str) -> String {
    rest.split_inclusive(']').rev().fold(name.to_owned(), |text, length| text + length)
}

/// A type in an expression; the type must not be an array.
pub(crate) fn name(types: &Types, ty: Type, span: Span) -> Result<String, Unsupported> {
    let (name, rest) = declarator(types, ty, &[], span)?;
    Ok(name + &rest)
}

/// A literal of a scalar type, given by its bits.
pub(crate) fn literal(scalar: Scalar, bits: u64) -> String {
    match scalar {
        Scalar::Bool => if bits & 1 == 1 { "true" } else { "false" }.into(),
        Scalar::I32 if bits as u32 == 1 << 31 => "(-2147483647 - 1)".into(),
        Scalar::I32 => (bits as u32 as i32).to_string(),
        Scalar::U32 => format!("{}u", bits as u32),
        Scalar::I64 if bits == 1 << 63 => "(-9223372036854775807ll - 1ll)".into(),
        Scalar::I64 => format!("{}ll", bits as i64),
        Scalar::U64 => format!("{bits}ull"),
        Scalar::I8 => format!("int8_t({})", bits as u8 as i8),
        Scalar::I16 => format!("int16_t({})", bits as u16 as i16),
        Scalar::U8 => format!("uint8_t({})", bits as u8),
        Scalar::U16 => format!("uint16_t({})", bits as u16),
        Scalar::F16 | Scalar::F32 | Scalar::F64 => {
            let value = ir::build::float_value(scalar, bits);
            if !value.is_finite() {
                return match scalar {
                    Scalar::F32 => format!("asfloat({}u)", bits as u32),
                    _ => format!("{}(asfloat({}u))", self::scalar(scalar), (value as f32).to_bits()),
                };
            }
            match scalar {
                Scalar::F64 => format!("{value:?}l"),
                Scalar::F16 => format!("{value:?}h"),
                _ => format!("{:?}", value as f32),
            }
        }
    }
}
