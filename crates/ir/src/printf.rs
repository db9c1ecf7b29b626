//! The formats of `printf`: how they are read, changed while a program is compiled, and printed.
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

/// The letter of a choice of texts.
const CHOOSES: char = CHOICE[0];

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

/// A part of a format.
enum Piece<'a> {
    /// Text that is printed as it is; `%%` is the text `%`.
    Text(&'a str),
    /// A conversion, which takes an argument.
    Conversion(Conversion<'a>),
}

/// A conversion of a format, which takes an argument.
pub struct Conversion<'a> {
    /// The whole conversion, from its `%`.
    text: &'a str,
    letter: char,
    spec: Spec,
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

impl Conversion<'_> {
    /// The conversion `%s`, with or without flags.
    pub fn is_of_text(&self) -> bool {
        self.letter == 's'
    }

    /// The same conversion of a choice of texts.
    pub fn of_choice(&self, choice: &str) -> String {
        self.text[..self.text.len() - self.letter.len_utf8()].to_owned() + choice
    }

    /// The characters that the conversion prints for a text.
    pub fn print_text(&self, text: &str) -> String {
        let shown = self.spec.precision.unwrap_or(usize::MAX);
        pad(&self.spec, text.chars().take(shown).collect())
    }

    /// The text with this number of a choice of texts, if the conversion is one, as it is printed.
    pub fn print_choice(&self, number: u64) -> Option<String> {
        let (_, texts) = (self.letter == CHOOSES).then(|| self.text.split_once(CHOOSES))??;
        let text = texts.split(CHOICE[1]).nth(number as usize).unwrap_or_default();
        Some(self.print_text(text.trim_end_matches(CHOICE[2])))
    }

    /// The conversion is a choice of texts.
    pub fn is_choice(&self) -> bool {
        self.letter == CHOOSES
    }

    fn print(&self, s: Scalar, bits: u64) -> String {
        self.print_choice(bits).unwrap_or_else(|| convert(&self.spec, self.letter, s, bits))
    }
}

/// The text that `printf(format, args…)` prints; each argument is a scalar type and canonical bits.
pub fn print(format: &str, args: &[(Scalar, u64)]) -> String {
    let mut args = args.iter();
    let mut out = String::with_capacity(format.len());
    for piece in pieces(format) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Conversion(conversion) => match args.next() {
                Some(&(s, bits)) => out.push_str(&conversion.print(s, bits)),
                None => out.push_str(conversion.text),
            },
        }
    }
    out
}

/// Something that takes the place of a conversion.
pub enum Replacement {
    /// Characters that are printed.
    Text(String),
    /// Another conversion.
    Conversion(String),
}

/// A format with some of its conversions replaced, in their order; `None` keeps one.
pub fn replace(format: &str, mut replacement: impl FnMut(&Conversion<'_>) -> Option<Replacement>) -> String {
    let mut out = String::with_capacity(format.len());
    for piece in pieces(format) {
        match piece {
            Piece::Text(text) => out.push_str(&text.replace('%', "%%")),
            Piece::Conversion(conversion) => match replacement(&conversion) {
                Some(Replacement::Text(text)) => out.push_str(&text.replace('%', "%%")),
                Some(Replacement::Conversion(text)) => out.push_str(&text),
                None => out.push_str(conversion.text),
            },
        }
    }
    out
}

/// The pieces of a format, in their order. A `%` that begins no conversion is text.
fn pieces(format: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        let start = rest.find('%').unwrap_or(rest.len());
        let (piece, len) = match conversion(rest).filter(|_| start == 0) {
            Some(conversion) if conversion.letter == '%' => (Piece::Text("%"), conversion.text.len()),
            Some(conversion) => {
                let len = conversion.text.len();
                (Piece::Conversion(conversion), len)
            }
            None => {
                let len = start.max(1).min(rest.len());
                (Piece::Text(&rest[..len]), len)
            }
        };
        rest = &rest[len..];
        (len > 0).then_some(piece)
    })
}

/// Parses the conversion that `text` starts with.
fn conversion(text: &str) -> Option<Conversion<'_>> {
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
    let letter = *bytes.get(at)? as char;
    let end = match letter {
        CHOOSES => at + text[at..].find(CHOICE[2])?,
        _ => "diuxXocfFeEgGs%".contains(letter).then_some(at)?,
    };
    Some(Conversion { text: &text[..=end], letter, spec })
}

fn convert(spec: &Spec, conversion: char, s: Scalar, bits: u64) -> String {
    match conversion {
        'd' | 'i' => {
            let n = if s.is_float() {
                scalar::to_f64(s, bits).trunc() as i64 as i128
            } else {
                scalar::to_i128(s, bits)
            };
            integer(spec, sign(spec, n < 0), n.unsigned_abs().to_string(), "")
        }
        'u' | 'x' | 'X' | 'o' => {
            let n = if s.is_float() { scalar::to_f64(s, bits).trunc() as i64 as u64 } else { bits };
            let (digits, prefix) = match conversion {
                'x' => (format!("{n:x}"), "0x"),
                'X' => (format!("{n:X}"), "0X"),
                'o' => (format!("{n:o}"), "0"),
                _ => (n.to_string(), ""),
            };
            integer(spec, "", digits, if spec.alt && n != 0 { prefix } else { "" })
        }
        'c' => pad(spec, char::from_u32(bits as u32).unwrap_or('\u{fffd}').to_string()),
        's' => pad(spec, crate::print::scalar_text(s, bits)),
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

fn integer(spec: &Spec, sign: &str, digits: String, prefix: &str) -> String {
    let digits = match spec.precision {
        Some(n) => format!("{digits:0>n$}"),
        None => digits,
    };
    pad_number(spec, &format!("{sign}{prefix}"), digits, spec.precision.is_none())
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
    pad_number(spec, sign(spec, negative), text, x.is_finite())
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

/// Fills a text up to the width, with spaces.
fn pad(spec: &Spec, text: String) -> String {
    let fill = " ".repeat(spec.width.saturating_sub(text.chars().count()));
    if spec.left { text + &fill } else { fill + &text }
}

/// Fills a number up to the width, with zeros between sign and digits if the flags and the number allow them.
fn pad_number(spec: &Spec, sign: &str, digits: String, zeros_allowed: bool) -> String {
    let fill = spec.width.saturating_sub(sign.len() + digits.chars().count());
    if spec.zero && !spec.left && zeros_allowed {
        return format!("{sign}{}{digits}", "0".repeat(fill));
    }
    pad(spec, sign.to_owned() + &digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_does() {
        let f = |x: f32| (Scalar::F32, x.to_bits() as u64);
        let i = |x: i32| (Scalar::I32, x as u32 as u64);
        let check = |fmt, args: &[(Scalar, u64)], want: &str| assert_eq!(print(fmt, args), want);
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
        check("%ld|%5%|%", &[i(3)], "3|%|%");
    }

    #[test]
    fn replaced_conversions_print_the_same() {
        let choice = choice_of_texts(["", "ab%", "c"]);
        let format = replace("100%! %ld %-4s|%%", |c| {
            c.is_of_text().then(|| Replacement::Conversion(c.of_choice(&choice)))
        });
        let (three, first) = ((Scalar::I32, 3), (Scalar::U32, 1));
        assert_eq!(print(&format, &[three, first]), "100%! 3 ab% |%");
        let known = replace(&format, |c| c.print_choice(1).map(Replacement::Text));
        assert_eq!(print(&known, &[three]), "100%! 3 ab% |%");
    }
}
