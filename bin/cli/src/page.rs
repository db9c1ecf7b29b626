//! `bench --profile PAGE.html`: profiles as one page that needs no other file.

use std::fmt::Write as _;

use driver::profile::{Advice, KernelProfile, Line, Place, Profile};
use syntax::Sources;

use crate::profile::{self, LEGEND, NO_SPILLS, ROUNDING};

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1d2433; --paper: #ffffff; --soft: #667085; --rule: #e4e7ec; --tint: #f6f7f9; \
--primal: #2f6fde; --values: #12a5a5; --derivs: #d9534f; --threads: #a0a9b8; --elsewhere: #d0d5dd; --note: #fff7e0; \
--edge: #e0a800 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #14171f; --soft: #98a2b3; --rule: #2a2f3a; \
--tint: #1b1f29; --primal: #6aa0ff; --values: #3cc6c6; --derivs: #ff7b74; --threads: #667085; --elsewhere: #3a4150; \
--note: #2d2713; --edge: #b98f12 } }
body { margin: 0 auto; max-width: 84rem; padding: 2rem 1.5rem 4rem; color: var(--ink); background: var(--paper); \
font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 2.5rem 0 .75rem } h1 code { font-size: 1em } h1:first-child { margin-top: 0 }
.kernel { display: grid; grid-template-columns: 5rem 1fr; gap: .25rem 1rem; align-items: center; margin: .5rem 0 }
.kernel b { font-weight: 600 } .kernel p { grid-column: 2; margin: 0; color: var(--soft); font-size: 13px }
.bar { display: flex; height: 1rem; border-radius: 3px; overflow: hidden; background: var(--tint) }
.bar i { display: block; height: 100% }
.primal { background: var(--primal) } .values { background: var(--values) } .derivs { background: var(--derivs) }
.threads { background: var(--threads) } .elsewhere { background: var(--elsewhere) }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 1.25rem; color: var(--soft); font-size: 13px }
.key i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-right: .4rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; \
font-variant-numeric: tabular-nums }
th { text-align: right; font-weight: 600; color: var(--soft); padding: .3rem .6rem; border-bottom: 1px solid var(--rule); \
white-space: nowrap } th.code { text-align: left }
td { padding: .05rem .6rem; text-align: right; white-space: nowrap } td.line { color: var(--soft); padding-right: .4rem }
td.code { text-align: left; white-space: pre; width: 99% } td.heat { padding: 0 .4rem; width: 7rem; min-width: 7rem } td.heat .bar { height: .4rem; border-radius: 2px; background: none; margin: 1px 0 }
tr:hover td { background: var(--tint) } tr.note td { background: var(--note); white-space: normal; text-align: left; \
font-family: system-ui, sans-serif; padding: .4rem .8rem; border-left: 3px solid var(--edge) }
ul.advice { background: var(--note); border-left: 3px solid var(--edge); margin: 1rem 0; padding: .6rem 1rem .6rem 2rem }
.legend { color: var(--soft); font-size: 13px; max-width: 60rem }
";

/// Text as HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A sentence as HTML, with code between backticks.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for (k, part) in text.split('`').enumerate() {
        match k % 2 {
            0 => out.push_str(&escaped(part)),
            _ => out += &format!("<code>{}</code>", escaped(part)),
        }
    }
    out
}

/// The page.
pub(crate) fn page(sources: &Sources, all: &[Profile]) -> String {
    let names: Vec<&str> = all.iter().map(|profile| profile.subject.name()).collect();
    let title = escaped(&format!("profile of {}", names.join(", ")));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    all.iter().for_each(|profile| section(&mut out, sources, profile));
    out.push_str("</body>\n</html>\n");
    out
}

/// A bar of parts, each of a class and with a share of the whole.
fn bar(out: &mut String, parts: &[(&str, f64)]) {
    out.push_str("<div class=\"bar\">");
    for (class, share) in parts.iter().filter(|part| part.1 > 0.0) {
        let width = 100.0 * share.min(1.0);
        let _ = write!(out, "<i class=\"{class}\" style=\"width:{width:.2}%\"></i>");
    }
    out.push_str("</div>");
}

fn section(out: &mut String, sources: &Sources, profile: &Profile) {
    let _ = writeln!(out, "<h1>Profile of <code>{}</code></h1>", escaped(profile.subject.name()));
    for (k, kernel) in profile.kernels.iter().enumerate() {
        let _ = write!(out, "<div class=\"kernel\"><b>{}</b>", profile.names()[k]);
        bar(out, &parts(profile, k, kernel));
        let most = profile::most(sources, profile, k);
        let doubt = kernel.doubt.as_ref().map_or(String::new(), |doubt| format!("<p>{}</p>", escaped(doubt)));
        let _ = writeln!(
            out,
            "<p>{}</p>{doubt}<p>Most of it: {}</p></div>",
            escaped(&profile::sum(kernel)),
            escaped(&most)
        );
    }
    out.push_str("<div class=\"key\">");
    for (class, name) in [
        ("primal", "the function"),
        ("values", "the gradient: values of the program"),
        ("derivs", "the gradient: derivatives"),
        ("threads", "loop over threads, arguments and results"),
        ("elsewhere", "dispatch and runtime"),
    ] {
        let _ = write!(out, "<span><i class=\"{class}\"></i>{name}</span>");
    }
    out.push_str("</div>\n");
    let general: Vec<&Advice> = profile.advice.iter().filter(|advice| advice.place.is_none()).collect();
    if !general.is_empty() {
        out.push_str("<ul class=\"advice\">\n");
        for advice in general {
            let _ = writeln!(out, "<li>{}</li>", prose(&advice.text));
        }
        out.push_str("</ul>\n");
    }
    table(out, sources, profile);
    let _ = writeln!(out, "<p class=\"legend\">{}</p>", escaped(&LEGEND.join(" ")));
    if !profile.has_spills {
        let _ = writeln!(out, "<p class=\"legend\">{NO_SPILLS}</p>");
    }
    if profile.rounding.is_some() {
        let _ = writeln!(out, "<p class=\"legend\">{ROUNDING}</p>");
    }
}

/// The parts of a kernel's time.
fn parts(profile: &Profile, k: usize, kernel: &KernelProfile) -> Vec<(&'static str, f64)> {
    let whole = kernel.total().max(1e-9);
    let sum =
        |time: fn(&Line) -> f64| profile.lines.iter().map(time).fold(0.0, |sum, time| sum + time) / whole;
    let is_apart = k > 0 || profile.kernels.len() == 1 && profile::has_derivatives(profile);
    let mut all = match is_apart {
        false => vec![("primal", sum(|line| line.primal))],
        true => vec![
            ("values", sum(|line| line.gradient.primal)),
            ("derivs", sum(|line| line.gradient.derivative)),
        ],
    };
    all.extend([("threads", kernel.threads / whole), ("elsewhere", kernel.elsewhere / whole)]);
    all
}

fn table(out: &mut String, sources: &Sources, profile: &Profile) {
    let columns = profile::columns(profile);
    let n = columns.len() + 3;
    // The longest bar is that of the line that takes longest in either kernel.
    let longest =
        profile.lines.iter().map(|line| line.primal.max(line.gradient.total())).fold(1e-9, f64::max);
    out.push_str("<div class=\"scroll\"><table>\n");
    let mut file = None;
    for row in profile::shown(profile) {
        let Some((place, line)) = row else {
            let _ =
                writeln!(out, "<tr><td colspan=\"{}\"></td><td class=\"line\">⋮</td><td></td></tr>", n - 2);
            continue;
        };
        if file.replace(place.file) != Some(place.file) {
            out.push_str("<tr>");
            columns.iter().for_each(|column| {
                let _ = write!(out, "<th>{}</th>", column.0);
            });
            let path = escaped(profile::path(sources, place.file));
            let _ = writeln!(out, "<th></th><th></th><th class=\"code\">{path}</th></tr>");
        }
        out.push_str("<tr>");
        for (_, cell) in &columns {
            let _ = write!(out, "<td>{}</td>", escaped(&line.map_or(String::new(), cell)));
        }
        out.push_str("<td class=\"heat\">");
        if let Some(line) = line.filter(|line| line.primal.max(line.gradient.total()) > 0.0) {
            bar(out, &[("primal", line.primal / longest)]);
            let gradient = line.gradient;
            bar(out, &[("values", gradient.primal / longest), ("derivs", gradient.derivative / longest)]);
        }
        let text = escaped(profile::source(sources, place));
        let _ =
            writeln!(out, "</td><td class=\"line\">{}</td><td class=\"code\">{text}</td></tr>", place.line);
        notes(out, profile, place, n);
    }
    out.push_str("</table></div>\n");
}

/// The advice on a line, below it.
fn notes(out: &mut String, profile: &Profile, place: Place, n: usize) {
    for advice in profile.advice.iter().filter(|advice| advice.place == Some(place)) {
        let _ = writeln!(out, "<tr class=\"note\"><td colspan=\"{n}\">{}</td></tr>", prose(&advice.text));
    }
}

#[cfg(test)]
mod tests {
    use driver::profile::{Counts, Time};

    use super::*;

    /// A profile of two lines that are far apart.
    fn profile() -> Profile {
        let kernel = KernelProfile {
            measured: 10.0,
            lines: 8.0,
            threads: 1.5,
            elsewhere: 0.5,
            samples: 100,
            lanes: 8,
            doubt: None,
        };
        let line = |line: u32, time: f64| Line {
            place: Place { file: 0, line },
            primal: time,
            gradient: Time { primal: time, derivative: 2.0 * time },
            counts: [Counts { instructions: 1.0, ..Counts::default() }; 2],
        };
        let place = Some(Place { file: 0, line: 12 });
        let text = "use `a < b` & mind \"this\"".to_string();
        Profile {
            subject: driver::bench::Subject::Function("f<float>".to_string()),
            kernels: vec![kernel.clone(), kernel],
            lines: vec![line(1, 2.0), line(12, 6.0)],
            has_spills: false,
            advice: vec![
                Advice { place, remedy: "layout", text: text.clone() },
                Advice { place: None, remedy: "no_diff", text },
            ],
            rounding: None,
        }
    }

    /// The sources with one file of 12 lines.
    fn sources() -> Sources {
        let mut sources = Sources::default();
        let text: String =
            (1..=12).map(|k| format!("float f{k}(float x) {{ return x < {k} ? x : 1; }}\n")).collect();
        sources.add("f.slang", text);
        sources
    }

    #[test]
    fn the_page_is_well_formed() {
        let page = page(&sources(), &[profile()]);
        // Every element that is opened is closed, in order; text has no characters that need escapes.
        let mut open: Vec<&str> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document");
        while let Some((text, tail)) = rest.split_once('<') {
            assert!(open.last() == Some(&"style") || !text.contains('>'), "{text}");
            let (tag, tail) = tail.split_once('>').expect("a tag ends");
            rest = tail;
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None => {
                    let name = tag.split_whitespace().next().expect("a tag has a name");
                    if name != "meta" {
                        open.push(name);
                    }
                    assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                }
            }
        }
        assert_eq!(open, Vec::<&str>::new());
        // It needs no other file.
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("url("));
    }

    #[test]
    fn the_page_shows_lines_and_advice() {
        let page = page(&sources(), &[profile()]);
        assert!(page.contains("<code>f&lt;float&gt;</code>"), "{page}");
        assert!(page.contains("float f12(float x) { return x &lt; 12 ? x : 1; }"), "{page}");
        assert!(!page.contains("float f6(") && page.contains("⋮"), "{page}");
        let note = "use <code>a &lt; b</code> &amp; mind &quot;this&quot;";
        assert!(page.contains(&format!("<td colspan=\"14\">{note}</td>")), "{page}");
        assert!(page.contains(&format!("<li>{note}</li>")), "{page}");
        assert!(page.contains(NO_SPILLS));
    }
}
