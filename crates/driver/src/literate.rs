//! Literate programs: Markdown whose blocks of code are the program (`shade.slang.md`).
//!
//! Everything else becomes blank, so that each line, and each byte of it, stays where it is, and diagnostics show the
//! lines of the document. A block is code if it says that it is `slang` or `hlsl`, or says nothing.

use std::path::Path;

/// Returns true if a file is a document rather than a program.
pub(crate) fn is_literate(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md")
}

/// The program in a document.
pub(crate) fn program(document: &str) -> String {
    let mut program = String::with_capacity(document.len());
    // The fence that ends the block, and true if the block is code.
    let mut block: Option<(&str, bool)> = None;
    for line in document.split_inclusive('\n') {
        let content = line.trim_start();
        let is_indented = line.len() - content.len() > 3;
        let length = |mark| content.len() - content.trim_start_matches(mark).len();
        let fence = &content[..length('`').max(length('~'))];
        let is_code = match block {
            Some((open, _)) if !is_indented && fence.starts_with(open) && content.trim_end() == fence => {
                block = None;
                false
            }
            Some((_, is_code)) => is_code,
            None if fence.len() >= 3 && !is_indented => {
                let language = content[fence.len()..].split_whitespace().next().unwrap_or("");
                block = Some((fence, matches!(language, "" | "slang" | "hlsl")));
                false
            }
            None => false,
        };
        if is_code {
            program.push_str(line);
        } else {
            program.extend(line.bytes().map(|b| if matches!(b, b'\n' | b'\r') { b as char } else { ' ' }));
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn only_code_stays_and_stays_where_it_is() {
        let document = "# Größe\n```slang\nint a;\n```\ntext\n~~~~ hlsl x\n```\n~~~\nint b;\n~~~~\n```python\nc\n```\n```\nint d;";
        let lines: Vec<String> = program(document).lines().map(|l| l.trim_end().to_owned()).collect();
        assert_eq!(lines.join("|"), "||int a;||||```|~~~|int b;||||||int d;");
        assert_eq!(program(document).len(), document.len());
        assert_eq!(program("    ```\nx\n").trim(), "");
    }
}
