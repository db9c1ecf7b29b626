//! Parses the given files, each as a program, and prints their diagnostics and the time taken. This is meant
//! for checks by hand over a folder of Slang sources; no test depends on it.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pullback_syntax::{
    Ast, Diagnostic, FileId, IncludeLoader, Sources, parse_file, print::print_file, token::lex,
};

struct Disk;

impl IncludeLoader for Disk {
    fn include(&mut self, path: &str, from: FileId, sources: &mut Sources) -> Result<FileId, String> {
        let from = Path::new(&sources.files[from.0 as usize].path);
        let path = from.parent().unwrap_or(Path::new("")).join(path).to_string_lossy().into_owned();
        if let Some(index) = sources.files.iter().position(|f| f.path == path) {
            return Ok(FileId(index as u32));
        }
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        Ok(sources.add(path, text))
    }
}

fn main() -> ExitCode {
    let (mut bad, mut bytes, mut time, mut lexing) = (0, 0, Duration::ZERO, Duration::ZERO);
    let print = std::env::args().any(|a| a == "--print");
    let repeat = if print { 1 } else { 10 };
    for path in std::env::args().skip(1).filter(|a| a != "--print") {
        let text = match std::fs::read(&path) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        };
        bytes += text.len();
        let mut sources = Sources::default();
        let file = sources.add(path.clone(), text);
        let (mut ast, mut diagnostics) = (Ast::default(), Vec::<Diagnostic>::new());
        // The machine may be busy, so the fastest of several runs counts.
        let text = sources.files[file.0 as usize].text.clone();
        let best = |run: &mut dyn FnMut()| {
            let times = (0..repeat).map(|_| {
                let start = Instant::now();
                run();
                start.elapsed()
            });
            times.min().unwrap_or_default()
        };
        lexing += best(&mut || drop(lex(&mut Ast::default().symbols, file, &text)));
        let mut index = 0;
        time += best(&mut || {
            (ast, diagnostics) = (Ast::default(), Vec::new());
            index = parse_file(&mut ast, &mut sources, file, &mut Disk, &[], &mut diagnostics);
        });
        bad += usize::from(!diagnostics.is_empty());
        for d in diagnostics {
            let (line, column) = sources.line_column(d.primary.span.file, d.primary.span.start);
            let path = &sources.files[d.primary.span.file.0 as usize].path;
            eprintln!("{path}:{line}:{column}: {}: {} {}", d.code, d.message, d.primary.message);
        }
        if print {
            let printed = print_file(&ast, &ast.files[index]);
            let mut again = Sources::default();
            let file = again.add(format!("{path} printed"), printed.clone());
            let (mut ast, mut diagnostics) = (Ast::default(), Vec::new());
            let index = parse_file(&mut ast, &mut again, file, &mut Disk, &[], &mut diagnostics);
            let twice = print_file(&ast, &ast.files[index]);
            if twice != printed || !diagnostics.is_empty() {
                eprintln!("{path}: what is printed parses to something else; {diagnostics:?}");
            }
            let _ = std::io::Write::write_all(&mut std::io::stdout(), printed.as_bytes());
        }
    }
    let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
    let (all, lexing) = (speed(time), speed(lexing));
    eprintln!("{bad} files with diagnostics; {bytes} bytes; all {all:.0} MB/s, lexing {lexing:.0} MB/s");
    ExitCode::SUCCESS
}
