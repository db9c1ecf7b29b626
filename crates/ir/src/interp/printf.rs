//! Formats the text of `printf`, for the interpreter and for the JIT's runtime.
//!
//! The format is that of C: flags `-+ 0#`, width, precision, the conversions `d i u x X o c f F e E g G s %`;
//! length modifiers are skipped. No combination is an error: an integer conversion of a float truncates it
//! (saturating), a float conversion of an integer converts it, `%s` formats a number by its type, and a
//! conversion without an argument is printed as written.
//!
//! One more conversion is internal to the compiler: a choice of texts ([`choice_of_texts`]), whose argument
//! is the number of the text to print.

use crate::scalar;
use crate::types::Scalar;

/// The characters that begin the conversion of a choice of texts, end each text, and end the conversion.
const CHOICE: [char; 3] = ['\u{1}', '\u{2}', '\u{3}'];

/// The conversion, to follow `%` and its flags, by which an argument chooses one of these texts.
pub fn choice_of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let [start, next, end] = CHOICE;
    let mut out = String::from(start);
    for text in texts {
        out.extend(text.chars().map(|c| if CHOICE.contains(&c) { '\u{fffd}' } else { c }));
        out.push(next);
    }
    out.push(end);
    out
}

struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    alt: bool,
    width: usize,
    precision: Option<usize>,
}

/// The text that `printf(fmt, args…)` prints; each argument is a scalar type and canonical bits.
pub fn format_printf(fmt: &str, args: &[(Scalar, u64)]) -> String {
    let mut out = String::with_capacity(fmt.len());
    let mut args = args.iter();
    let mut rest = fmt;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some((spec, conversion, len)) = parse_spec(rest) else {
            out.push('%');
            rest = &rest[1..];
            continue;
        };
        if conversion == '%' {
            out.push('%');
        } else {
            match args.next() {
                Some(&(_, number)) if conversion == CHOICE[0] => {
                    out.push_str(&chosen(&spec, &rest[..len], number));
                }
                Some(&(s, bits)) => out.push_str(&convert(&spec, conversion, s, bits)),
                None => out.push_str(&rest[..len]),
            }
        }
        rest = &rest[len..];
    }
    out.push_str(rest);
    out
}

/// Replaces the choices of texts in a format whose numbers are known by the chosen texts. Returns the format
/// and the arguments that the choices consumed.
pub fn without_choices(fmt: &str, known: impl Fn(usize) -> Option<u64>) -> Option<(String, Vec<usize>)> {
    let mut out = String::with_capacity(fmt.len());
    let mut gone = Vec::new();
    let mut argument = 0;
    let mut rest = fmt;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let Some((spec, conversion, len)) = parse_spec(rest) else {
            out.push('%');
            rest = &rest[1..];
            continue;
        };
        if conversion == CHOICE[0] {
            out.push_str(&chosen(&spec, &rest[..len], known(argument)?).replace('%', "%%"));
            gone.push(argument);
        } else {
            out.push_str(&rest[..len]);
        }
        argument += usize::from(conversion != '%');
        rest = &rest[len..];
    }
    out.push_str(rest);
    Some((out, gone))
}

/// The text with this number in the table of a conversion.
fn chosen(spec: &Spec, conversion: &str, number: u64) -> String {
    let texts = conversion.split_once(CHOICE[0]).map_or("", |(_, texts)| texts);
    let text = texts.split(CHOICE[1]).nth(number as usize).unwrap_or_default();
    let text = text.trim_end_matches(CHOICE[2]);
    let shown = spec.precision.unwrap_or(usize::MAX);
    pad(spec, "", text.chars().take(shown).collect(), false)
}

/// Parses the specification that `text` starts with; returns it with its conversion and its length in bytes.
fn parse_spec(text: &str) -> Option<(Spec, char, usize)> {
    let mut spec =
        Spec { left: false, plus: false, space: false, zero: false, alt: false, width: 0, precision: None };
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'0' => spec.zero = true,
            b'#' => spec.alt = true,
            _ => break,
        }
        at += 1;
    }
    let number = |at: &mut usize| {
        let mut n = 0usize;
        while let Some(digit) = bytes.get(*at).filter(|b| b.is_ascii_digit()) {
            // Limit the width, so that a user's format cannot exhaust the memory.
            n = (n * 10 + (digit - b'0') as usize).min(1000);
            *at += 1;
        }
        n
    };
    spec.width = number(&mut at);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        spec.precision = Some(number(&mut at));
    }
    while matches!(bytes.get(at), Some(b'h' | b'l' | b'z' | b'j' | b't' | b'L')) {
        at += 1;
    }
    let conversion = *bytes.get(at)? as char;
    if conversion == CHOICE[0] {
        let end = text[at..].find(CHOICE[2])?;
        return Some((spec, conversion, at + end + 1));
    }
    "diuxXocfFeEgGs%".contains(conversion).then_some((spec, conversion, at + 1))
}

fn convert(spec: &Spec, conversion: char, s: Scalar, bits: u64) -> String {
    match conversion {
        'd' | 'i' => {
            let n = if s.is_float() {
                scalar::to_f64(s, bits).trunc() as i64 as i128
            } else {
                scalar::to_i128(s, bits)
            };
            integer(spec, n < 0, n.unsigned_abs().to_string(), "")
        }
        'u' | 'x' | 'X' | 'o' => {
            let n = if s.is_float() { scalar::to_f64(s, bits).trunc() as i64 as u64 } else { bits };
            let (digits, prefix) = match conversion {
                'x' => (format!("{n:x}"), "0x"),
                'X' => (format!("{n:X}"), "0X"),
                'o' => (format!("{n:o}"), "0"),
                _ => (n.to_string(), ""),
            };
            let spec = Spec { plus: false, space: false, ..*spec };
            integer(&spec, false, digits, if spec.alt && n != 0 { prefix } else { "" })
        }
        'c' => pad(spec, "", char::from_u32(bits as u32).unwrap_or('\u{fffd}').to_string(), false),
        's' => pad(spec, "", crate::print::scalar_text(s, bits), false),
        _ => {
            let x = if s.is_float() {
                scalar::to_f64(s, bits)
            } else {
                f64::from_bits(scalar::convert(s, Scalar::F64, bits))
            };
            float(spec, conversion, x)
        }
    }
}

fn sign(spec: &Spec, negative: bool) -> &'static str {
    match () {
        () if negative => "-",
        () if spec.plus => "+",
        () if spec.space => " ",
        () => "",
    }
}

fn integer(spec: &Spec, negative: bool, digits: String, prefix: &str) -> String {
    let digits = match spec.precision {
        Some(n) => format!("{digits:0>n$}"),
        None => digits,
    };
    pad(spec, &format!("{}{prefix}", sign(spec, negative)), digits, spec.precision.is_none())
}

fn float(spec: &Spec, conversion: char, x: f64) -> String {
    let negative = x.is_sign_negative() && !x.is_nan();
    let x = x.abs();
    let text = if x.is_nan() {
        "nan".to_string()
    } else if x.is_infinite() {
        "inf".to_string()
    } else {
        match conversion {
            'f' | 'F' => format!("{x:.*}", spec.precision.unwrap_or(6)),
            'e' | 'E' => exponential(x, spec.precision.unwrap_or(6)),
            _ => general(x, spec.precision.unwrap_or(6).max(1), spec.alt),
        }
    };
    let text = if conversion.is_ascii_uppercase() { text.to_uppercase() } else { text };
    pad(spec, sign(spec, negative), text, x.is_finite())
}

/// Formats a number as `d.ddde±dd`.
fn exponential(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Formats a number as `%g` does: the shorter of `%e` and `%f` at that many significant digits, without
/// trailing zeros.
fn general(x: f64, precision: usize, keep_zeros: bool) -> String {
    let rounded = format!("{x:.*e}", precision - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let strip = |text: &str| {
        if keep_zeros || !text.contains('.') {
            text.to_string()
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    };
    if exponent < -4 || exponent >= precision as i32 {
        let text = exponential(x, precision - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        format!("{}e{exponent}", strip(mantissa))
    } else {
        strip(&format!("{x:.*}", (precision as i32 - 1 - exponent).max(0) as usize))
    }
}

fn pad(spec: &Spec, prefix: &str, text: String, zeros_allowed: bool) -> String {
    let fill = spec.width.saturating_sub(prefix.len() + text.chars().count());
    if spec.left {
        format!("{prefix}{text}{}", " ".repeat(fill))
    } else if spec.zero && zeros_allowed {
        format!("{prefix}{}{text}", "0".repeat(fill))
    } else {
        format!("{}{prefix}{text}", " ".repeat(fill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_does() {
        let f = |x: f32| (Scalar::F32, x.to_bits() as u64);
        let i = |x: i32| (Scalar::I32, x as u32 as u64);
        let check = |fmt, args: &[(Scalar, u64)], want: &str| assert_eq!(format_printf(fmt, args), want);
        check("%d %i %u %x %%\n", &[i(-5), i(5), i(-1), i(255)], "-5 5 4294967295 ff %\n");
        check(
            "%f|%.3f|%8.2f|%-8.2f|",
            &[f(1.5), f(-0.0625), f(2.0), f(2.0)],
            "1.500000|-0.062|    2.00|2.00    |",
        );
        check("%e %g %g %g", &[f(12345.5), f(0.00001), f(1000000.0), f(0.5)], "1.234550e+04 1e-05 1e+06 0.5");
        check("%05d|%+d|%#x|%.3d", &[i(-42), i(3), i(16), i(7)], "-0042|+3|0x10|007");
        check("%s %d %q %f", &[f(0.1), f(2.9)], "0.1 2 %q %f");
        check("%g %f", &[f(f32::INFINITY), f(f32::NAN)], "inf nan");
        check("100%", &[], "100%");
    }
}
