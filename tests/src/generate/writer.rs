//! The text of a random program under construction: indented lines, and unique names.

#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) text: String,
    pub(crate) indent: usize,
    names: usize,
}

impl Writer {
    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(&"    ".repeat(self.indent));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a line and opens a block after it.
    pub(crate) fn open(&mut self, line: &str) {
        self.line(line);
        self.line("{");
        self.indent += 1;
    }

    pub(crate) fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    pub(crate) fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }
}
