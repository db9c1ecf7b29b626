//! `fit` as a process: interruptions, checkpoints, and options that a method would ignore.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder with a program and its data.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("pullback-cli-fit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let program = "
[Differentiable] float residual(float slope, float height, no_diff float x, no_diff float y)
{
    return slope * x + height - y;
}
[Differentiable] float loss(float slope, float height, no_diff float x, no_diff float y)
{
    float r = residual(slope, height, x, y);
    return r * r;
}
float off(float slope, float height, float x, float y) { return abs(slope * x + height - y); }
float render(float slope, float height, float x) { return slope * x + height; }
[Differentiable] float late(float slope, float height, no_diff float x) { return log(1.0 - slope * x) * x + height; }
[Differentiable] float edge(float slope, float height, no_diff float x) { return asin(slope - 0.0 * x) + height; }
";
        std::fs::write(folder.join("line.slang"), program).expect("the program is written");
        let rows: String = (0..40).map(|k| format!("{k},{}\n", 2 * k + 1)).collect();
        std::fs::write(folder.join("line.csv"), format!("x,y\n{rows}")).expect("the data is written");
        Folder(folder)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        command.args(["fit", "line.slang", "--items", "@line.csv", "--backend", "cranelift"]);
        command.args(arguments.split_whitespace()).current_dir(&self.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &str) -> (i32, String, String) {
        finished(self.command(arguments).output().expect("it starts"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs any command, which must succeed.
    fn pullback(&self, arguments: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        let output =
            command.args(arguments.split_whitespace()).current_dir(&self.0).output().expect("it starts");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn finished(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Waits until a file is there.
fn wait_for(path: &Path, child: &mut Child) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < Duration::from_secs(100), "{} is not written", path.display());
        assert!(child.try_wait().expect("its state is known").is_none(), "the fit has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill runs");
    assert!(done.success());
}

const ENDLESS: &str = "--steps 1000000000000 --rate 1e-9 --threads 1 --quiet";

#[cfg(unix)]
#[test]
fn an_interruption_ends_the_step_and_writes_results() {
    let folder = Folder::new("interrupt");
    let mut child = folder.command(&format!("{ENDLESS} --log log.csv")).spawn().expect("it starts");
    // The log is opened just before the first step.
    wait_for(&folder.path("log.csv"), &mut child);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    let (status, stdout, stderr) = finished(child.wait_with_output().expect("it ends"));
    assert_eq!(status, 130, "{stdout}{stderr}");
    assert!(
        stdout.contains(": interrupted\n") && stdout.contains("wrote target/fit/line-slope.npy"),
        "{stdout}"
    );
    assert!(stderr.contains("--checkpoint target/fit/line-checkpoint.json --resume"), "{stderr}");
    assert!(folder.path("target/fit/line-parameters.json").exists());
    let log = std::fs::read_to_string(folder.path("log.csv")).expect("the log reads");
    assert!(log.starts_with("step,seconds,loss,validation\n0,"), "{log}");
    let go_on = "--steps 1 --quiet --checkpoint target/fit/line-checkpoint.json --resume";
    let (status, stdout, stderr) = folder.run(go_on);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("all 1 steps are made") && !stdout.starts_with("1 steps"), "{stdout}");
}

#[cfg(unix)]
#[test]
fn a_killed_fit_leaves_a_checkpoint_that_loads() {
    let folder = Folder::new("kill");
    let checkpoint = folder.path("state.json");
    for _ in 0..3 {
        let arguments = format!("{ENDLESS} --checkpoint state.json --resume");
        let mut child = folder.command(&arguments).spawn().expect("it starts");
        wait_for(&checkpoint, &mut child);
        std::thread::sleep(Duration::from_millis(100));
        signal(&child, "-KILL");
        child.wait().expect("it ends");
        let (status, _, stderr) = folder.run("--steps 1 --quiet --checkpoint state.json --resume");
        assert_eq!(status, 0, "{stderr}");
    }
    // That of another method is refused.
    let (status, _, stderr) =
        folder.run("--steps 1 --quiet --checkpoint state.json --resume --optimizer lbfgs");
    assert!(status == 1 && stderr.contains("the checkpoint is of `loss` by adam"), "{stderr}");
}

#[test]
fn options_that_a_method_ignores_are_refused() {
    let folder = Folder::new("options");
    for (arguments, wanted) in [
        ("--optimizer lbfgs --rate 0.1", "`--rate` has no meaning for `--optimizer lbfgs`"),
        ("--optimizer lbfgs --batch 4", "`--batch` has no meaning"),
        ("--optimizer lbfgs --schedule=cosine", "`--schedule` has no meaning"),
        ("--tolerance 1e-3", "`--tolerance` has no meaning for `--optimizer adam`"),
        ("--robust huber:1", "`--robust` has no meaning"),
        ("--residuals residual --optimizer adam", "`--residuals` is for `--optimizer lm`"),
        ("--residuals residual --validation 0.1", "`--validation` has no meaning"),
        ("--residuals residual --robust huber:0", "expected huber:D or cauchy:D"),
        ("--schedule linear", "`--schedule linear`: expected constant"),
        ("--bounds slope=3,1", "expected NAME=LO,HI with LO at most HI"),
        ("--fix slope --fix height", "every parameter is fixed"),
        ("--predict out.csv --render none", "there is no function `none`"),
    ] {
        let (status, _, stderr) = folder.run(arguments);
        assert!(status != 0 && stderr.contains(wanted), "{arguments}: {stderr}");
    }
    let (status, _, stderr) = folder.run("--bounds width=0,1");
    assert!(status == 1 && stderr.contains("what is fitted is height, slope"), "{stderr}");
}

#[test]
fn results_can_be_given_back() {
    let folder = Folder::new("results");
    let arguments = "--residuals residual --metric off --predict out.csv --tensorboard events --json";
    let (status, stdout, stderr) = folder.run(arguments);
    assert_eq!(status, 0, "{stderr}");
    let result: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let near =
        |found: &serde_json::Value, wanted: f64| found.as_f64().is_some_and(|x| (x - wanted).abs() < 1e-4);
    assert!(
        near(&result["parameters"]["slope"], 2.0) && near(&result["parameters"]["height"], 1.0),
        "{stdout}"
    );
    assert!(
        near(&result["metrics"]["off"], 0.0) && result["standard_errors"]["slope"].is_number(),
        "{stdout}"
    );
    let predicted = std::fs::read_to_string(folder.path("out.csv")).expect("it reads");
    assert!(predicted.starts_with("value\n") && predicted.lines().count() == 41, "{predicted}");
    assert_eq!(std::fs::read_dir(folder.path("events")).expect("a folder").count(), 1);
    let (status, stdout, stderr) =
        folder.run("--param @target/fit/line-parameters.json --steps 1 --rate 0 --json");
    assert_eq!(status, 0, "{stderr}");
    let again: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(again["parameters"], result["parameters"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    command.args(["grad", "line.slang", "loss", "--at", "@target/fit/line-parameters.json,x=1,y=3"]);
    let output = command.current_dir(&folder.0).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The rows of a log, without the seconds.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.split(',').enumerate().filter(|&(k, _)| k != 1).map(|(_, cell)| cell.to_string()).collect()
    };
    text.lines().map(cells).collect()
}

#[test]
fn logs_have_the_metrics_of_each_pass() {
    let folder = Folder::new("metrics");
    let log = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the log reads");
    for (method, every) in [("adam --batch 20", 10), ("lbfgs", 1)] {
        let options = format!(
            "--optimizer {method} --metric off --metric loss --deterministic --quiet --validation 0.1 --log log.csv"
        );
        let (status, stdout, stderr) =
            folder.run(&format!("{options} --steps 40 --tensorboard {method}", method = &method[..4]));
        assert_eq!(status, 0, "{stderr}");
        let text = log("log.csv");
        let rows = rows(&text);
        assert_eq!(
            rows[0],
            ["step", "loss", "validation", "off", "metric loss", "validation off", "metric validation loss"],
            "{text}"
        );
        let steps: Vec<f64> = rows[1..].iter().map(|row| row[0].parse().expect("a number")).collect();
        assert!(steps.windows(2).all(|two| two[0] < two[1]), "one row for each step: {text}");
        let of = |row: &[String]| row[3].parse::<f64>().ok();
        let metrics: Vec<f64> = rows[1..].iter().filter_map(|row| of(row)).collect();
        assert!(metrics.len() >= if every == 1 { 2 } else { 5 } && metrics[0] > 10.0, "{text}");
        assert!(metrics.last() < metrics.first(), "{text}");
        // The metrics of the start are those of the parameters there, and a log changes nothing of the fit.
        let (_, without, _) = folder.run(&format!("{} --steps 40", options.replace("--log log.csv", "")));
        let parameters = |text: &str| -> Vec<String> {
            text.lines().filter(|line| line.starts_with("  ")).map(String::from).collect()
        };
        assert_eq!(parameters(&stdout), parameters(&without));
        // The events have the same numbers.
        let events =
            std::fs::read_dir(folder.path(&method[..4])).expect("a folder").flatten().next().expect("a file");
        let events = std::fs::read(events.path()).expect("it reads");
        for tag in ["off", "metric loss", "validation loss"] {
            let has = events.windows(tag.len()).filter(|bytes| *bytes == tag.as_bytes()).count();
            assert!(has >= 2, "{tag}: {has}");
        }
        let first = (metrics[0] as f32).to_le_bytes();
        assert!(events.windows(4).any(|bytes| bytes == first), "the first value of the metric");
    }
}

#[test]
fn a_log_goes_on_with_a_fit_that_is_resumed() {
    let folder = Folder::new("log");
    let log = |name: &str| std::fs::read_to_string(folder.path(name)).expect("the log reads");
    for method in ["adam --batch 20", "lbfgs --tolerance 0"] {
        let begin = format!("--optimizer {method} --metric off --deterministic --quiet --param slope=0");
        let (status, _, stderr) = folder.run(&format!("{begin} --steps 4 --log whole.csv"));
        assert_eq!(status, 0, "{stderr}");
        let part = format!("{begin} --log part.csv --checkpoint state.json --resume");
        let _ = std::fs::remove_file(folder.path("state.json"));
        let (status, _, stderr) = folder.run(&format!("{part} --steps 2"));
        assert_eq!(status, 0, "{stderr}");
        // A line that was cut off, as when the process was killed, and one after the checkpoint.
        let cut = log("part.csv") + "3,0.1,7,,7\n4,0.";
        std::fs::write(folder.path("part.csv"), cut).expect("it is written");
        let (status, _, stderr) = folder.run(&format!("{part} --steps 4"));
        assert_eq!(status, 0, "{stderr}");
        assert_eq!(rows(&log("part.csv")), rows(&log("whole.csv")), "{method}");
        // Another fit does not go on with it.
        let other = part.replace("--metric off", "");
        let (status, _, stderr) = folder.run(&format!("{other} --steps 5"));
        assert!(status == 1 && stderr.contains("cannot write `part.csv`: it has the columns"), "{stderr}");
        assert_eq!(rows(&log("part.csv")), rows(&log("whole.csv")), "{method}");
    }
}

#[test]
fn items_kept_apart_have_metrics_of_their_own_and_all_columns_are_plotted() {
    let folder = Folder::new("apart");
    let program = "
[Differentiable] float2 render(float slope, float height, no_diff float x) { return float2(slope * x, x + height); }
[Differentiable] float loss(float slope, float height, no_diff float x, no_diff float a, no_diff float b)
{
    float2 off = render(slope, height, x) - float2(a, b);
    return dot(off, off);
}
float is_even(float slope, float x) { return 1.0 - x % 2.0; }
float apart(float slope, StructuredBuffer<float> x) { return x[3]; }
";
    std::fs::write(folder.path("line.slang"), program).expect("the program is written");
    let rows: String = (0..40).map(|k| format!("{k},{},{}\n", 2 * k, k + 1)).collect();
    std::fs::write(folder.path("line.csv"), format!("x,a,b\n{rows}")).expect("the data is written");
    let arguments = "--optimizer lbfgs --validation 0.25 --metric is_even --metric apart --json";
    let (status, stdout, stderr) = folder.run(arguments);
    assert_eq!(status, 0, "{stderr}");
    let result: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let metric = |name: &str| result["metrics"][name].as_f64();
    let (fitted, apart) = (metric("is_even"), metric("validation is_even"));
    let (fitted, apart) = (fitted.expect("a mean of 30"), apart.expect("a mean of 10"));
    assert!((30.0 * fitted + 10.0 * apart - 20.0).abs() < 1e-4, "{stdout}");
    // That of a whole column is one number.
    assert_eq!((metric("apart"), metric("validation apart")), (Some(3.0), None), "{stdout}");
    assert!(stdout.contains("line-fit.png") && folder.path("target/fit/line-fit.png").exists(), "{stdout}");
    // The table that was fitted is read by `run`, too.
    let sum = "
StructuredBuffer<float3> rows;
RWStructuredBuffer<float> out;
[shader(\"compute\")] [numthreads(1, 1, 1)] void main() { for (int k = 0; k < 40; k++) out[0] += rows[k].y; }
";
    std::fs::write(folder.path("sum.slang"), sum).expect("the program is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    command.args(["run", "sum.slang", "--bind", "rows=@line.csv", "--bind", "out=zeros:1"]);
    let (status, stdout, stderr) = finished(command.current_dir(&folder.0).output().expect("it starts"));
    assert!(status == 0 && stdout.trim() == "out: 1560.0", "{stdout}{stderr}");
}

#[test]
fn a_fit_that_becomes_nan_names_step_item_and_line() {
    let folder = Folder::new("nan");
    let (status, _, stderr) = folder.run("--loss late --param slope=0 --rate 0.01 --quiet");
    assert_eq!(status, 1, "{stderr}");
    for part in ["the fit stopped at step", "item ", "log(-", "line.slang:13:", "line-parameters-best.json"] {
        assert!(stderr.contains(part), "`{part}` in {stderr}");
    }
    assert!(folder.path("target/fit/line-slope-best.npy").exists());
    // Residuals that are not finite, and a derivative that is not although the residuals are.
    let (status, _, stderr) = folder.run("--residuals late --param slope=3 --quiet");
    assert!(status == 1 && stderr.contains("at the start, at item 1 (x = 1"), "{stderr}");
    assert!(stderr.contains("line.slang:13:") && !stderr.contains("internal"), "{stderr}");
    for method in ["--residuals edge", "--loss edge --optimizer lbfgs"] {
        let (status, _, stderr) = folder.run(&format!("{method} --param slope=1 --quiet"));
        assert!(status == 1 && stderr.contains("the derivative by `slope` is inf"), "{stderr}");
    }
    std::fs::write(folder.path("line.csv"), "x,y\n1,2\n3,nan\n").expect("the data is written");
    let (status, _, stderr) = folder.run("");
    assert!(status == 1 && stderr.contains("row 2, column `y`"), "{stderr}");
}

#[test]
fn fields_have_initial_values() {
    let folder = Folder::new("fields");
    let program = "
struct P : IDifferentiable { float slope; float2 rest; }
[Differentiable] float loss(P p[3], float q, no_diff float x, no_diff float y)
{
    float off = p[0].slope * x + p[1].rest.x + p[2].rest.y + q - y;
    return off * off;
}
";
    std::fs::write(folder.path("line.slang"), program).expect("the program is written");
    let fit = "--param p.slope=random:5,6 --param p=random:0,1 --param p.rest=-2 --rate 0 --steps 1 --json";
    let (status, stdout, stderr) = folder.run(fit);
    assert_eq!(status, 0, "{stderr}");
    let result: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let p = result["parameters"]["p"].as_array().expect("a list");
    let slopes: Vec<f64> = p.iter().filter_map(|p| p["slope"].as_f64()).collect();
    assert!(slopes.len() == 3 && slopes.iter().all(|x| (5.0..=6.0).contains(x)), "{stdout}");
    assert!(slopes[0] != slopes[1], "{stdout}");
    assert!(p.iter().all(|p| p["rest"] == serde_json::json!([-2.0, -2.0])), "{stdout}");
    assert!(result["parameters"]["q"].as_f64().is_some_and(|x| x.abs() <= 0.1), "{stdout}");
    for (param, wanted) in [
        ("p.height=1", "`--param p.height`: there is no such field to fit"),
        ("p.slope=[1,2,3]", "`--param p.slope`: a field has a number, zeros or random:LO,HI"),
        ("r.slope=1", "`--param r.slope`: the loss has no such parameter to fit"),
    ] {
        let (status, _, stderr) = folder.run(&format!("--param {param} --steps 1"));
        assert!(status == 1 && stderr.contains(wanted), "{param}: {stderr}");
    }
}

/// A folder with a program that fits two pictures, and a function that runs `pullback` there.
fn two_views(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::write(
        folder.path("copy.slang"),
        "
Texture2D<float3> picture;
TensorView<float> image;
[shader(\"compute\")] [numthreads(8, 8, 1)]
void main(uint3 at : SV_DispatchThreadID)
{
    if (at.x >= 12 || at.y >= 8) return;
    float3 c = picture[at.xy] * 0.5 + (float(at.x) / 24.0);
    for (uint k = 0; k < 3; k++) image.store(at.y, at.x, k, c[k]);
}
",
    )
    .expect("the program is written");
    std::fs::write(folder.path("views.slang"), "
[Differentiable] float3 render(float3 slope, float gain[2], no_diff float2 uv, no_diff float offset, no_diff int view)
{
    return slope * uv.x * gain[view] + offset;
}
[Differentiable] float loss(float3 slope, float gain[2], no_diff float2 uv, no_diff float3 color, no_diff float offset, no_diff int view)
{
    let off = render(slope, gain, uv, offset, view) - color;
    return dot(off, off);
}
").expect("the program is written");
    // Two pictures that grow brighter from the left, by `run`, one from the other.
    std::fs::write(folder.path("zero.npy"), npy(&[8, 12, 3])).expect("the array is written");
    let run = "run copy.slang --entry main --groups 2,1 --bind image=zeros:8,12,3 --out image=@";
    folder.pullback(&format!("{run}a.png --bind picture=@zero.npy"));
    folder.pullback(&format!("{run}b.png --bind picture=@a.png"));
    std::fs::write(folder.path("views.csv"), "image,offset\na.png,0\nb.png,0\n")
        .expect("the table is written");
    folder
}

#[test]
fn pictures_of_several_views_are_fitted() {
    let folder = two_views("views");
    let fit =
        "fit views.slang --items images:views.csv --optimizer lbfgs --fix gain --param gain=[1,1.5] --json";
    let result: serde_json::Value = serde_json::from_str(&folder.pullback(fit)).expect("JSON");
    for name in ["views-0.png", "views-1.png", "views-1-compare.png"] {
        assert!(folder.path("target/fit").join(name).exists(), "{result}");
    }
    // The colours of `a` are x/24, those of `b` x/48 + x/24, and `uv.x` is (x + ½)/12.
    let slope = result["parameters"]["slope"][0].as_f64().expect("a number");
    assert!((slope - 0.5).abs() < 0.05 && result["metrics"]["PSNR-1"].as_f64() > Some(30.0), "{result}");
}

#[cfg(unix)]
#[test]
fn a_page_shows_a_fit() {
    let folder = Folder::new("watch");
    let mut child = folder.command(&format!("{ENDLESS} --metric off --watch")).spawn().expect("it starts");
    let address = address(&mut child);
    let get = |path: &str| {
        let (status, body) = get(&address, path);
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, body) = get("/");
    assert!(status.contains("200") && body.contains("<canvas id=\"loss\""), "{status}");
    let begin = Instant::now();
    loop {
        let (_, body) = get("/numbers");
        let shown: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let has_loss = shown["loss"][1][1].is_number() && shown["step"].as_u64() > Some(10);
        if has_loss && shown["parameters"][0][0] == "slope" {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{body}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(get("/nothing").0.contains("404"));
    if let Some(page) = page(&address) {
        assert!(page.contains("running: step") && page.contains("<td>slope</td>"), "{page}");
        assert!(page.contains(", off "), "the metric: {page}");
    }
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_page_shows_the_pictures_of_all_views() {
    let folder = two_views("pictures");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
    let fit = "fit views.slang --items images:views.csv --backend cranelift --param slope=[0.1,0.2,0.3] --param gain=[1,3] --watch";
    command.args(fit.split(' ')).args(ENDLESS.split(' ')).current_dir(&folder.0);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let address = address(&mut child);
    let begin = Instant::now();
    let picture = |view: usize| loop {
        let (status, bytes) = get(&address, &format!("/picture/{view}.png"));
        if status.contains("200") {
            break bytes;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{status}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let (first, second) = (picture(0), picture(1));
    assert!(first.starts_with(b"\x89PNG") && second.starts_with(b"\x89PNG") && first != second);
    for wrong in ["/picture/2.png", "/picture/-1.png", "/picture/0.jpg", "/picture/", "/picture/../k"] {
        assert!(get(&address, wrong).0.contains("404"), "{wrong}");
    }
    if let Some(page) = page(&address) {
        for view in 0..2 {
            assert!(page.contains(&format!("src=\"picture/{view}.png?")), "{page}");
            assert!(page.contains(&format!("<figcaption>view {view}</figcaption>")), "{page}");
        }
    }
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// The address that a fit tells.
#[cfg(unix)]
fn address(child: &mut Child) -> String {
    use std::io::{BufRead as _, BufReader};
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    // Whatever else it says is read, so that it does not wait for a reader.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    line.trim().strip_prefix("watch this fit at http://").expect("an address").to_string()
}

/// The first line and the content of an answer.
#[cfg(unix)]
fn get(address: &str, path: &str) -> (String, Vec<u8>) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it is sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    (head.lines().next().unwrap_or_default().to_string(), bytes[end + 4..].to_vec())
}

/// The page as a browser shows it, where there is one.
#[cfg(unix)]
fn page(address: &str) -> Option<String> {
    let browser = "chromium --headless=new --no-sandbox --disable-gpu --virtual-time-budget=3000 --dump-dom";
    let mut words = browser.split(' ');
    let mut command = Command::new(words.next().expect("a name"));
    match command.args(words).arg(format!("http://{address}/")).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            eprintln!("the page is not opened in a browser: {error}");
            None
        }
    }
}

/// An `.npy` file of zeros.
fn npy(shape: &[usize]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {:?}, }}\n", shape);
    let header = header.replace('[', "(").replace(']', ")");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; 4 * shape.iter().product::<usize>()]);
    bytes
}
