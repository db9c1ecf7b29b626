//! Computes the values of number, string and character tokens.

use crate::ast::Symbol;
use crate::keywords as kw;

/// The value of an integer and its suffix as written; `None` if it does not fit or has an invalid digit.
pub(crate) fn int_value(text: &str) -> Option<(u64, &str)> {
    let (radix, rest) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        [b'0', b'0'..=b'9', ..] => (8, &text[1..]),
        _ => (10, text),
    };
    let digits = rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len());
    let value = u64::from_str_radix(&rest[..digits], radix).ok()?;
    Some((value, &rest[digits..]))
}

/// The symbol of an integer's suffix, in lower case.
pub(crate) fn int_suffix(text: &str) -> Option<Symbol> {
    if text.contains("Ll") || text.contains("lL") {
        return None;
    }
    Some(match text.to_ascii_lowercase().as_str() {
        "" => kw::EMPTY,
        "u" => kw::U,
        "l" => kw::L,
        "ul" | "lu" => kw::UL,
        "ll" => kw::LL,
        "ull" | "llu" => kw::ULL,
        "z" => kw::Z,
        "uz" | "zu" => kw::UZ,
        _ => return None,
    })
}

/// The suffix for the type of an integer. If the suffix in the source does not determine the type, it is the
/// first of `int`, `int64_t` and `uint64_t` that can hold the value; digits of another base also try `uint`
/// and `uint64_t` after the signed type of the same size.
pub(crate) fn int_type(value: u64, other_base: bool, suffix: Symbol) -> Symbol {
    let (int, uint, long) = (i32::MAX as u64, u64::from(u32::MAX), i64::MAX as u64);
    match suffix {
        kw::EMPTY | kw::L if value <= int => kw::EMPTY,
        kw::EMPTY | kw::L if other_base && value <= uint => kw::U,
        kw::EMPTY | kw::L | kw::LL if value <= long => kw::LL,
        kw::U | kw::UL if value <= uint => kw::U,
        kw::Z | kw::UZ => suffix,
        _ => kw::ULL,
    }
}

/// The value of a floating-point literal and its suffix.
pub(crate) fn float_value(text: &str) -> Option<(f64, Symbol)> {
    if let Some(at) = text.find("#INF") {
        return Some((f64::INFINITY, float_suffix(&text[at + 4..])?));
    }
    if text.starts_with("0x") || text.starts_with("0X") {
        return hex_float(text);
    }
    let end = text
        .char_indices()
        .find(|&(at, c)| {
            let exponent = matches!(c, 'e' | 'E')
                && text[at + 1..].starts_with(|n: char| n.is_ascii_digit() || n == '+' || n == '-');
            c.is_ascii_alphabetic() && !exponent || c == '_'
        })
        .map_or(text.len(), |(at, _)| at);
    let suffix = float_suffix(&text[end..])?;
    // A literal of type `float` is rounded only once.
    let value = match suffix {
        kw::F => f64::from(text[..end].parse::<f32>().ok()?),
        kw::H => half(text[..end].parse().ok()?),
        _ => text[..end].parse().ok()?,
    };
    Some((value, suffix))
}

fn float_suffix(text: &str) -> Option<Symbol> {
    let is_mixed = text.contains(char::is_uppercase) && text.contains(char::is_lowercase);
    if is_mixed {
        return None;
    }
    Some(match text.to_ascii_lowercase().as_str() {
        "" => kw::EMPTY,
        "f" => kw::F,
        "h" | "hf" | "fh" => kw::H,
        "l" => kw::L,
        "lf" | "fl" => kw::LF,
        _ => return None,
    })
}

/// The nearest `half`, ties to even, within its range.
fn half(value: f64) -> f64 {
    let exponent = (value.to_bits() >> 52 & 0x7FF) as i32 - 1023;
    let step = f64::from(exponent.clamp(-14, 20) - 10).exp2();
    (value / step).round_ties_even() * step
}

/// The shortest text, without the suffix, that denotes the number in a literal with this suffix.
pub(crate) fn float_text(value: f64, suffix: Symbol) -> String {
    match suffix {
        kw::F => format!("{:?}", value as f32),
        kw::H => (0..6)
            .filter_map(|digits| format!("{value:.digits$e}").parse::<f64>().ok())
            .find(|&short| half(short) == value)
            .map_or_else(|| format!("{value:?}"), |short| format!("{short:?}")),
        _ => format!("{value:?}"),
    }
}

/// Parses `0x1.8p-3`, rounded once, to nearest, ties to even, to the type that the suffix selects (`half` to
/// `double`).
fn hex_float(text: &str) -> Option<(f64, Symbol)> {
    let Hex { bits, scale, sticky, suffix } = hex_parts(text)?;
    let (digits, least) = precision(suffix);
    let value = rounded(bits, scale, sticky, digits, least);
    let value = if suffix == kw::F && value > f64::from(f32::MAX) { f64::INFINITY } else { value };
    Some((value, suffix))
}

/// A hexadecimal floating-point literal: `bits · 2^scale`, and `sticky` if it has further digits.
struct Hex {
    bits: u64,
    scale: i32,
    sticky: bool,
    suffix: Symbol,
}

/// The number of binary digits of a type, and the exponent of the least of them.
fn precision(suffix: Symbol) -> (u32, i32) {
    match suffix {
        kw::H => (11, -24),
        kw::F => (24, -149),
        _ => (53, -1074),
    }
}

fn hex_parts(text: &str) -> Option<Hex> {
    let rest = &text[2..];
    let at = rest.find(['p', 'P'])?;
    // The first 64 bits, the binary exponent of the lowest of them, and whether any further bits are set.
    let (mut bits, mut scale, mut sticky) = (0u64, 0i32, false);
    let mut fraction = false;
    for c in rest[..at].chars() {
        if c == '.' && !fraction {
            fraction = true;
            continue;
        }
        let digit = u64::from(c.to_digit(16)?);
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
        } else {
            sticky |= digit != 0;
            scale = scale.saturating_add(4);
        }
        scale = scale.saturating_sub(if fraction { 4 } else { 0 });
    }
    let exponent = &rest[at + 1..];
    let end = exponent.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(exponent.len());
    let power: i32 = exponent[..end].parse().ok()?;
    let suffix = float_suffix(&exponent[end..])?;
    Some(Hex { bits, scale: scale.saturating_add(power), sticky, suffix })
}

/// The loss of a floating-point literal in its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is too large, and becomes infinite.
    Range,
    /// It is too small, and becomes zero.
    Everything,
    /// A hexadecimal literal has more digits than its type. (Decimal ones hardly ever are exact.)
    Digits,
}

/// The loss of a literal, and the name of its type; a literal without a suffix is a `float`.
pub(crate) fn float_loss(text: &str) -> Option<(Loss, &'static str)> {
    // Without an exponent, a short number is in the range of `float`.
    let is_plain = text.len() < 30 && !text.contains(['e', 'E', 'x', 'X', 'h', 'H']);
    if is_plain || text.contains('#') {
        return None;
    }
    let hex = hex_parts_of(text);
    let (value, suffix) = float_value(text)?;
    let suffix = if suffix == kw::EMPTY { kw::F } else { suffix };
    let (digits, least) = precision(suffix);
    let value = match (&hex, suffix) {
        (Some(hex), _) => rounded(hex.bits, hex.scale, hex.sticky, digits, least),
        // Of literals without a suffix the value has the digits of a `double`.
        (None, kw::F) => {
            let end = text.find(['f', 'F']).unwrap_or(text.len());
            f64::from(text[..end].parse::<f32>().ok()?)
        }
        (None, _) => value,
    };
    let (name, max) = match suffix {
        kw::H => ("half", 65504.0),
        kw::F => ("float", f64::from(f32::MAX)),
        _ => ("double", f64::MAX),
    };
    let significand = text.split(['e', 'E']).next().unwrap_or(text);
    let is_zero = match &hex {
        Some(hex) => hex.bits == 0,
        None => !significand.contains(|c: char| ('1'..='9').contains(&c)),
    };
    let loss = if value > max {
        Loss::Range
    } else if value == 0.0 && !is_zero {
        Loss::Everything
    } else if hex.is_some_and(|hex| hex.is_rounded(digits, least)) {
        Loss::Digits
    } else {
        return None;
    };
    Some((loss, name))
}

fn hex_parts_of(text: &str) -> Option<Hex> {
    if text.starts_with("0x") || text.starts_with("0X") { hex_parts(text) } else { None }
}

impl Hex {
    /// Returns true if rounding to `digits` binary digits, none of them below `2^least`, changes the number.
    fn is_rounded(&self, digits: u32, least: i32) -> bool {
        let length = 64 - self.bits.leading_zeros();
        let dropped = i64::from(length.saturating_sub(digits)).max(i64::from(least) - i64::from(self.scale));
        self.sticky || dropped > i64::from(self.bits.trailing_zeros())
    }
}

/// `bits · 2^scale` rounded to `digits` binary digits, none of them below `2^least`.
fn rounded(bits: u64, scale: i32, sticky: bool, digits: u32, least: i32) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let length = 64 - bits.leading_zeros();
    let dropped = i64::from(length.saturating_sub(digits)).max(i64::from(least) - i64::from(scale));
    let (kept, scale) = match u32::try_from(dropped) {
        Err(_) | Ok(0) => (bits, scale),
        Ok(n) if n > 64 => return 0.0,
        Ok(n) => {
            let kept = bits.checked_shr(n).unwrap_or(0);
            let half = 1u64 << (n - 1);
            let below = bits & (half - 1) != 0 || sticky;
            let up = bits & half != 0 && (below || kept & 1 == 1);
            (kept + u64::from(up), scale.saturating_add_unsigned(n))
        }
    };
    // This is exact; it takes two steps, since the power of two itself may not be representable.
    let scale = scale.clamp(-2200, 2200);
    kept as f64 * f64::from(scale / 2).exp2() * f64::from(scale - scale / 2).exp2()
}

/// The literal of a string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            '\0'..='\x1f' => out += &format!("\\{:03o}", u32::from(c)),
            _ => out.push(c),
        }
    }
    out + "\""
}

/// The text of a quoted literal; `None` if an escape is unknown. `\x` and octal escapes denote bytes of
/// UTF-8.
pub(crate) fn unescape(quoted: &str) -> Option<String> {
    let inner = quoted.get(1..quoted.len() - 1)?;
    if !inner.contains('\\') {
        return Some(inner.to_owned());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let (unit, after) = escape(&rest[at + 1..])?;
        rest = after;
        match unit {
            Escape::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Escape::Byte(code) => out.push(u8::try_from(code).ok()?),
            Escape::Nothing => {}
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// The code of a character literal; `None` if it does not contain exactly one character.
pub(crate) fn char_value(quoted: &str) -> Option<u64> {
    let inner = quoted.get(1..quoted.len() - 1)?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        // The code may be any 32-bit number, not only a character.
        let (code, rest) = match (escaped.strip_prefix('u'), escaped.strip_prefix('U')) {
            (Some(digits), _) => code_point(digits, 4)?,
            (_, Some(digits)) => code_point(digits, 8)?,
            _ => match escape(escaped)? {
                (Escape::Byte(code), rest) => (code, rest),
                (Escape::Char(c), rest) => (u32::from(c), rest),
                (Escape::Nothing, _) => return None,
            },
        };
        return rest.is_empty().then_some(u64::from(code));
    }
    let mut chars = inner.chars();
    let first = chars.next()?;
    chars.next().is_none().then_some(u64::from(u32::from(first)))
}

/// The meaning of an escape sequence.
enum Escape {
    Char(char),
    Byte(u32),
    /// An escaped line end, which stands for nothing.
    Nothing,
}

/// Decodes the escape after a backslash; also returns the text after it.
fn escape(text: &str) -> Option<(Escape, &str)> {
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    let same = |c: char| Some((Escape::Char(c), rest));
    match first {
        'n' => same('\n'),
        't' => same('\t'),
        'r' => same('\r'),
        'a' => same('\x07'),
        'b' => same('\x08'),
        'f' => same('\x0c'),
        'v' => same('\x0b'),
        '\\' | '\'' | '"' | '?' => same(first),
        '\n' => Some((Escape::Nothing, rest)),
        'x' => code_point(rest, usize::MAX).map(|(code, rest)| (Escape::Byte(code), rest)),
        'u' => code_point(rest, 4).and_then(|(code, rest)| Some((Escape::Char(char::from_u32(code)?), rest))),
        'U' => code_point(rest, 8).and_then(|(code, rest)| Some((Escape::Char(char::from_u32(code)?), rest))),
        '0'..='7' => {
            let n = text.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let code = u32::from_str_radix(&text[..n], 8).ok()?;
            Some((Escape::Byte(code), &text[n..]))
        }
        _ => None,
    }
}

/// Parses hexadecimal digits, either in braces or exactly `wanted` many (all that follow, for `\x`).
fn code_point(text: &str, wanted: usize) -> Option<(u32, &str)> {
    let (digits, rest) = match text.strip_prefix('{') {
        Some(inside) => inside.split_once('}')?,
        None => {
            let n = text.bytes().take(wanted).take_while(u8::is_ascii_hexdigit).count();
            if wanted != usize::MAX && n < wanted {
                return None;
            }
            text.split_at(n)
        }
    };
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(int_value("0xFFu"), Some((255, "u")));
        assert_eq!(int_value("18446744073709551615"), Some((u64::MAX, "")));
        assert_eq!(int_value("18446744073709551616"), None);
        assert_eq!(int_value("017"), Some((15, "")));
        assert_eq!(int_value("08"), None);
        assert_eq!(int_suffix("LLU"), Some(kw::ULL));
        assert_eq!(float_value("2.5e-1h"), Some((0.25, kw::H)));
        assert_eq!(float_value("2.f"), Some((2.0, kw::F)));
        assert_eq!(float_value("0x1.8p-1f"), Some((0.75, kw::F)));
        assert_eq!(float_value("8388608.5000000000000000001f"), Some((8388609.0, kw::F)));
        assert_eq!(float_value("0x1.0000010000001p0f"), Some((f64::from(1.0f32 + f32::EPSILON), kw::F)));
        assert_eq!(float_value("0x1.000001p0f"), Some((1.0, kw::F)));
        assert_eq!(float_value("61456.0001h"), Some((61472.0, kw::H)));
        assert_eq!(float_value("61456.0h"), Some((61440.0, kw::H)));
        assert_eq!(float_value("0x1p-25hf"), Some((0.0, kw::H)));
        assert_eq!(float_value("0x1p-1074"), Some((5e-324, kw::EMPTY)));
        assert_eq!(float_value("0x1p-1075"), Some((0.0, kw::EMPTY)));
        assert_eq!(float_value("0x3p-1075"), Some((1e-323, kw::EMPTY)));
        assert_eq!(float_value("0x1.fffffep127f"), Some((f64::from(f32::MAX), kw::F)));
        assert_eq!(float_value("0x1p128f"), Some((f64::INFINITY, kw::F)));
        assert_eq!(float_value("0x1.fffffffffffffp1023"), Some((f64::MAX, kw::EMPTY)));
        assert_eq!(float_value("0x1p99999999999f"), None);
        assert_eq!(float_value("1.#INFlf"), Some((f64::INFINITY, kw::LF)));
        assert_eq!(float_value("0x1.0#INFhf"), Some((f64::INFINITY, kw::H)));
        assert_eq!(float_value("1e0FH"), Some((1.0, kw::H)));
        assert_eq!(float_value("1e0fl"), Some((1.0, kw::LF)));
        assert_eq!(float_value("1.0x"), None);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape(r#""a\n\x41\101\"""#).as_deref(), Some("a\nAA\""));
        assert_eq!(unescape(r#""\u{1F60A}\u00E4\xC3\xA4""#).as_deref(), Some("\u{1F60A}\u{E4}\u{E4}"));
        assert_eq!(char_value(r"'\377'"), Some(255));
        assert_eq!(char_value(r"'\U12345678'"), Some(0x1234_5678));
        assert_eq!(char_value("'\u{4E16}'"), Some(0x4E16));
        assert_eq!(char_value("'ab'"), None);
        assert_eq!(char_value(r"'\nb'"), None);
        assert_eq!(char_value("''"), None);
        assert_eq!(unescape(r#""\q""#), None);
        assert_eq!(unescape(r#""\xFFFFFFFFFF""#), None);
    }
}
