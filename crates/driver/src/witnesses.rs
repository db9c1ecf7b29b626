//! Prints the output of `pullback explain --witnesses`: a line for each call, indented below its caller's
//! line.
//!
//! The format is `file:line:column: call: how 'derivative', file:line (module)`; the first line of a tree
//! also shows the mode and the module that requests the derivative.

use std::fmt::Write as _;

use check::{How, Witnessed};
use syntax::{Sources, Span};

/// The listing as text. With a name, only the trees of that function, whether or not it is the operand of an
/// operator.
pub fn text(sources: &Sources, listed: &[Witnessed], name: Option<&str>) -> String {
    let mut text = String::new();
    let mut shown = true;
    for witnessed in listed {
        let Witnessed { depth, call, how, derivative, backward, .. } = witnessed;
        if *depth == 0 {
            let operand = witnessed.name.split_once('(').map(|(_, rest)| rest.trim_end_matches(')'));
            shown = name.is_none_or(|n| witnessed.name == n || operand == Some(n));
        }
        if !shown {
            continue;
        }
        let (line, column) = sources.line_column(call.file, call.start);
        let file = path(sources, *call);
        let indent = "  ".repeat(*depth);
        let mode = match (depth, backward) {
            (0, true) => "backward",
            (0, false) => "forward",
            _ => "",
        };
        let mode = match mode {
            "" => String::new(),
            mode => {
                let asks = witnessed.asks.as_deref().unwrap_or_else(|| stem(file));
                format!("{mode}, for module {asks}: ")
            }
        };
        let _ = write!(text, "{indent}{file}:{line}:{column}: {}: {mode}{}", witnessed.name, how.words());
        if let Some((name, place, module)) = derivative {
            let module = module.as_deref().unwrap_or_else(|| stem(path(sources, *place)));
            let _ = write!(text, " '{name}', {} (module {module})", at(sources, *place));
        } else if matches!(how, How::Derived | How::DerivedAbove) {
            let _ = write!(text, ", {}", at(sources, witnessed.declared));
        }
        text.push('\n');
    }
    if text.is_empty() {
        text.push_str("nothing is differentiated here\n");
    }
    text
}

fn path(sources: &Sources, span: Span) -> &str {
    sources.files.get(span.file.0 as usize).map_or("", |f| f.path.as_str())
}

/// A file's name without its folder and everything from the first dot: the module name of a file that
/// declares none.
fn stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

fn at(sources: &Sources, span: Span) -> String {
    let (line, _) = sources.line_column(span.file, span.start);
    format!("{}:{line}", path(sources, span))
}
