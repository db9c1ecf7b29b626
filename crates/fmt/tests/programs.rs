//! Formats programs: every public one, what is left of them when they are cut off, and noise. Whatever the text,
//! formatting must succeed, which includes that no token changed, and formatting again must change nothing.

use std::path::PathBuf;

use pullback_fmt::{Style, format};
use test_support::{Random, files, programs, repository};

/// The endings of programs, also of other compilers.
const ENDINGS: [&str; 4] = ["slang", "slangh", "hlsl", "hlsli"];

/// Formats a text twice; returns what is wrong.
fn problem(text: &str) -> Option<String> {
    let style = Style::default();
    let once = match format(text, &style) {
        Ok(once) => once,
        Err(changed) => {
            let end =
                text[changed.offset..].char_indices().nth(60).map_or(text.len(), |c| changed.offset + c.0);
            return Some(format!("{changed}: {:?}", &text[changed.offset..end]));
        }
    };
    let twice = format(&once, &style).expect("what was formatted can be formatted");
    let line = once.lines().zip(twice.lines()).position(|(a, b)| a != b);
    if once == twice {
        return None;
    }
    let line = line.unwrap_or(0);
    let of = |text: &str| text.lines().nth(line).unwrap_or_default().to_owned();
    Some(format!("line {}: first {:?}, then {:?}", line + 1, of(&once), of(&twice)))
}

fn check_folders(folders: &[PathBuf]) -> (usize, usize) {
    let paths: Vec<PathBuf> = folders.iter().flat_map(|folder| files(folder, &ENDINGS)).collect();
    let mut problems = Vec::new();
    let mut bytes = 0;
    let mut read = 0;
    for path in &paths {
        // Some tests of other compilers are no text.
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        read += 1;
        bytes += text.len();
        if let Some(problem) = problem(&text) {
            problems.push(format!("{}: {problem}", path.display()));
        }
    }
    assert!(problems.is_empty(), "{} of {read}:\n{}", problems.len(), problems.join("\n"));
    (read, bytes)
}

#[test]
fn programs_of_the_repository() {
    let folders =
        ["tests", "examples", "crates/driver/core", "docs", "benches"].map(|f| repository().join(f));
    assert!(check_folders(&folders).0 > 300);
}

/// Set `PULLBACK_FMT_FOLDER` to a folder of programs.
#[test]
fn programs_elsewhere() {
    let Ok(folder) = std::env::var("PULLBACK_FMT_FOLDER") else { return };
    let (files, bytes) = check_folders(&[folder.into()]);
    eprintln!("{files} programs of {bytes} bytes");
}

#[test]
fn programs_that_are_cut_off() {
    let paths = programs(&["tests/run"]);
    let mut random = Random(7);
    for path in paths.iter().step_by(3) {
        let text = std::fs::read_to_string(path).expect("it is a text");
        let ends = [random.below(text.len()), random.below(text.len())];
        let (mut from, mut to) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        while !text.is_char_boundary(from) {
            from += 1;
        }
        while !text.is_char_boundary(to) {
            to += 1;
        }
        for part in [&text[..to], &text[from..], &text[from..to.max(from)]] {
            assert_eq!(problem(part), None, "{}: {part}", path.display());
        }
    }
}

#[test]
fn noise() {
    const PARTS: &[&str] = &[
        "if",
        "else",
        "for",
        "while",
        "do",
        "switch",
        "case",
        "default",
        "return",
        "struct",
        "enum",
        "namespace",
        "operator",
        "x",
        "float3",
        "T",
        "1",
        "2.0f",
        "0x1F",
        "\"s\"",
        "'c'",
        "R\"(a\n)\"",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ">>",
        ">=",
        "=",
        "==",
        "+",
        "-",
        "++",
        "--",
        "*",
        "&",
        "&&",
        "!",
        "~",
        "?",
        ":",
        "::",
        ";",
        ",",
        ".",
        "...",
        "->",
        "=>",
        "// c\n",
        "/* b */",
        "/* b\n  b */",
        "\\\n",
        "\n#if A\n",
        "\n#else\n",
        "\n#endif\n",
        "\n#define F(a) #a\n",
        "F",
        "\n  # define G \\\n  x\n",
        "\n",
        "\n\n\n\n",
        "\r\n",
        "\t",
        "  ",
        "é",
        "$",
        "@",
        "#",
        "##",
        "\"",
        "/*",
        "\\",
        "\u{feff}",
        "// pullback-fmt off\n",
        "// pullback-fmt on\n",
        "// e \\\n",
    ];
    let mut random = Random(11);
    for round in 0..4000 {
        let mut text = String::new();
        for _ in 0..random.below(40) {
            text += PARTS[random.below(PARTS.len())];
            if random.below(3) > 0 {
                text.push(' ');
            }
        }
        assert_eq!(problem(&text), None, "round {round}: {text:?}\n{text}");
    }
}
