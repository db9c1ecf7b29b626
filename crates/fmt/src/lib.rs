//! Formats Slang source.
//!
//! The formatter works on the tokens of the text before preprocessing, with its comments and directives (`pieces`),
//! and chooses the white space between them: a light parse (`structure`) tells what each bracket and operator is,
//! `spaces` and `breaks` decide spaces and lines, `layout` indents, and `align` keeps columns. It therefore works in
//! files that do not parse, in every branch of an `#if`, and on macros.
//!
//! Three things hold of every result, whatever the text:
//! - It has the same tokens and comments: they are compared, and a difference is an error rather than a result.
//! - Formatting it again changes nothing: a result is a fixed point of the passes, which are repeated until then.
//! - What a person laid out is kept where it is reasonable: lines, blank lines, columns, continuation lines that are
//!   aligned. Lines are broken only where they are too long.
//!
//! This crate reads no files.
#![forbid(unsafe_code)]

mod align;
mod branches;
mod breaks;
mod edits;
mod layout;
mod pieces;
mod same;
mod spaces;
mod structure;
mod style;
mod write;

pub use edits::{Edit, edits, edits_in, edits_on_type};
pub use same::Changed;
pub use style::{BraceStyle, Indent, Style};

/// The number of times that the passes are repeated; two are enough for nearly every text.
const ROUNDS: usize = 8;

/// Formats a text.
pub fn format(text: &str, style: &Style) -> Result<String, Changed> {
    let mut current = round(text, style);
    for _ in 0..ROUNDS {
        let next = round(&current, style);
        if next == current {
            break;
        }
        current = next;
    }
    same::compare(text, &current)?;
    Ok(current)
}

/// Runs the passes once.
fn round(text: &str, style: &Style) -> String {
    let style = style.resolve(text);
    let pieces = pieces::split(text, style.indent.columns());
    let marks = structure::parse(&pieces);
    let natural = spaces::spaces(&pieces, &marks);
    let mut expanded = Vec::new();
    loop {
        let newlines = breaks::breaks(&pieces, &marks, &style, &expanded);
        let place = |newlines, spaces: &[usize]| layout::layout(&pieces, &marks, &style, newlines, spaces);
        let first = place(newlines, &natural);
        if let Some(block) = first.too_long
            && !expanded.contains(&block)
        {
            expanded.push(block);
            continue;
        }
        let mut spaces = natural.clone();
        align::align(&pieces, &first, &mut spaces);
        let last = place(first.newlines, &spaces);
        return write::write(text, &pieces, &last, &style);
    }
}
