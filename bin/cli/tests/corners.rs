//! Checks that `docs/corners.md` is correct: every row of its tables is computed in forward and in reverse
//! mode, on both backends, and compared with the page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A row of a table: its line, the expression, the point, the value, and the derivatives by forward and by
/// reverse mode.
struct Row {
    line: usize,
    expression: String,
    at: Vec<(String, String)>,
    value: String,
    forward: Vec<String>,
    reverse: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let list = |text: &str| -> Vec<String> { text.split(',').map(|x| x.trim().to_string()).collect() };
    let mut rows = Vec::new();
    for (idx, line) in page.lines().enumerate().filter(|(_, line)| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, expression, at, value, derivative, _, why, _] = cells[..] else {
            panic!("line {}: not a row of six columns", idx + 1)
        };
        assert!(!why.is_empty(), "line {}: no reason", idx + 1);
        let at = list(at).into_iter().map(|part| {
            let (name, value) = part.split_once('=').expect("NAME = VALUE");
            (name.trim().to_string(), value.trim().to_string())
        });
        let (forward, reverse) = match derivative.split_once(';') {
            Some((forward, reverse)) => {
                let word = |text: &str, word: &str| -> Vec<String> {
                    list(text.trim().strip_prefix(word).expect("forward and reverse are named"))
                };
                (word(forward, "forward"), word(reverse, "reverse"))
            }
            None => (list(derivative), list(derivative)),
        };
        rows.push(Row {
            line: idx + 1,
            expression: expression.trim_matches('`').to_string(),
            at: at.collect(),
            value: value.to_string(),
            forward,
            reverse,
        });
    }
    rows
}

/// A kernel that writes the value, forward derivatives and gradient of each row. Points come from a buffer,
/// so that nothing is constant-folded.
fn program(rows: &[Row]) -> (String, Vec<String>) {
    let mut functions = String::from("RWStructuredBuffer<float> at;\nRWStructuredBuffer<float> result;\n");
    let (mut body, mut points, mut n) = (String::new(), Vec::new(), 0);
    let mut put = |body: &mut String, what: &str| {
        let _ = writeln!(body, "    result[{n}] = {what};");
        n += 1;
    };
    for (k, row) in rows.iter().enumerate() {
        let names: Vec<&str> = row.at.iter().map(|a| a.0.as_str()).collect();
        let params: Vec<String> = names.iter().map(|name| format!("float {name}")).collect();
        let _ = writeln!(
            functions,
            "[Differentiable] float f{k}({}) {{ return {}; }}",
            params.join(", "),
            row.expression
        );
        let first = points.len();
        points.extend(row.at.iter().map(|a| a.1.clone()));
        let places: Vec<String> = (first..points.len()).map(|p| format!("at[{p}]")).collect();
        put(&mut body, &format!("f{k}({})", places.join(", ")));
        for along in 0..names.len() {
            let pair =
                |(i, place): (usize, &String)| format!("diffPair({place}, {}.0)", u8::from(i == along));
            let pairs: Vec<String> = places.iter().enumerate().map(pair).collect();
            put(&mut body, &format!("fwd_diff(f{k})({}).d", pairs.join(", ")));
        }
        let pairs: Vec<String> = (0..names.len()).map(|i| format!("p{k}_{i}")).collect();
        for (pair, place) in pairs.iter().zip(&places) {
            let _ = writeln!(body, "    DifferentialPair<float> {pair} = diffPair({place});");
        }
        let _ = writeln!(body, "    bwd_diff(f{k})({}, 1.0);", pairs.join(", "));
        for pair in &pairs {
            put(&mut body, &format!("{pair}.d"));
        }
    }
    let text = format!("{functions}[numthreads(1, 1, 1)]\nvoid computeMain()\n{{\n{body}}}\n");
    (text, points)
}

fn results(path: &Path, points: &[String], n: usize, backend: &str) -> Vec<f64> {
    let out = Command::new(env!("CARGO_BIN_EXE_pullback"))
        // Step functions have rows, too; their zero derivatives would otherwise be an error.
        .args(["run", "--out", "result", "--backend", backend, "--warn", "41022"])
        .args(["--bind", &format!("at=[{}]", points.join(",")), "--bind", &format!("result=zeros:{n}")])
        .arg(path)
        .output()
        .expect("the program starts");
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let numbers = text.trim().strip_prefix("result:").expect("the buffer is printed");
    numbers.split_whitespace().map(|x| x.parse().expect("a number")).collect()
}

/// Compares a number with the text of the page, to six digits.
fn agrees(said: &str, found: f64) -> bool {
    let said: f64 = match said {
        "NaN" => f64::NAN,
        text => text.parse().unwrap_or_else(|_| panic!("`{text}` is no number")),
    };
    said == found || said.is_nan() && found.is_nan() || (said - found).abs() <= 1e-5 * said.abs()
}

#[test]
fn the_page_about_singular_points_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/corners.md");
    let rows = rows(&std::fs::read_to_string(page).expect("the page is there"));
    assert!(rows.len() > 60, "{} rows", rows.len());
    let (text, points) = program(&rows);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("corners.slang");
    std::fs::write(&path, text).expect("the test folder is writable");
    let n = rows.iter().map(|row| 1 + 2 * row.at.len()).sum();
    for backend in ["interp", "cranelift"] {
        let mut found = results(&path, &points, n, backend).into_iter();
        let mut wrong = String::new();
        for row in &rows {
            let said = std::iter::once(&row.value).chain(&row.forward).chain(&row.reverse);
            let given: Vec<f64> = found.by_ref().take(1 + 2 * row.at.len()).collect();
            let said: Vec<&String> = said.collect();
            let fits = said.len() == given.len() && said.iter().zip(&given).all(|(s, &g)| agrees(s, g));
            if !fits {
                let _ = writeln!(wrong, "line {}: `{}` gives {given:?}", row.line, row.expression);
            }
        }
        assert!(wrong.is_empty(), "{backend}:\n{wrong}");
    }
}
