//! Runs kernels as users of `pullback build` do: in a C program, linked with the object file by the system's
//! compiler.
//!
//! Each dispatch is a separate process with limits of time and memory, so code that crashes or does not end
//! is an error like any other, and the test continues.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use driver::build;
use driver::pipeline::{Failure, Loaded, Options};

/// The memory of a dispatch in bytes, and its limit of processor time in seconds.
const MEMORY: u64 = 4 << 30;
const SECONDS: u32 = 20;

/// `main(SECONDS, KERNEL, X, Y, Z)`: reads buffers, each preceded by its number of elements and of bytes;
/// runs the kernel; writes the content of the buffers. This text follows the header, the table `kernels` and
/// the number `BUFFERS`.
const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int stop(const char *why) {
    fprintf(stderr, "%s\n", why);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 6) return stop("five arguments are needed");
    rlim_t most = strtoul(argv[1], NULL, 10);
    struct rlimit seconds = { most, most }, memory = { MEMORY, MEMORY };
    if (setrlimit(RLIMIT_CPU, &seconds)) return stop("the time is not limited");
    setrlimit(RLIMIT_AS, &memory); /* not every system has it */
    pullback_buffer buffers[BUFFERS + 1];
    uint64_t bytes[BUFFERS + 1];
    for (int k = 0; k < BUFFERS; k++) {
        uint64_t head[2];
        if (fread(head, sizeof head, 1, stdin) != 1) return stop("a buffer is missing");
        buffers[k].count = head[0];
        bytes[k] = head[1];
        buffers[k].data = bytes[k] ? malloc(bytes[k]) : NULL;
        if (bytes[k] && (!buffers[k].data || fread(buffers[k].data, bytes[k], 1, stdin) != 1))
            return stop("a buffer's content is missing");
    }
    for (size_t n = 0; n < sizeof kernels / sizeof *kernels; n++) {
        if (strcmp(kernels[n].name, argv[2])) continue;
        int status = kernels[n].run(buffers, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
        if (status) {
            const char *message = library_message(status);
            return stop(message ? message : "an error without a message");
        }
        for (int k = 0; k < BUFFERS; k++)
            if (bytes[k] && fwrite(buffers[k].data, bytes[k], 1, stdout) != 1) return stop("no output");
        return fflush(stdout) ? stop("no output") : 0;
    }
    return stop("there is no such kernel");
}
"#;

/// A program that runs kernels.
pub struct Library {
    /// The folder of the generated files, removed at the end.
    folder: PathBuf,
    /// The names of the buffers, in the order of the kernels' arguments.
    buffers: Vec<String>,
    /// The limit of processor time of a dispatch in seconds.
    pub seconds: u32,
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns true if there is a C compiler, which libraries need.
pub fn has_compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok()
}

fn other(text: impl ToString) -> Failure {
    driver::Error::input(text.to_string()).into()
}

/// The standard output of a process, if it succeeded.
fn output_of(name: &str, output: std::io::Result<Output>) -> Result<Vec<u8>, Failure> {
    let output = output.map_err(other)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(other(format!("`{name}`: {}: {}", output.status, text.trim())))
        }
    }
}

impl Library {
    /// Builds the named kernels of a file.
    pub fn new(loaded: &mut Loaded, kernels: Vec<String>, compile: &Options) -> Result<Library, Failure> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let options = build::Options {
            compile: compile.clone(),
            kernels: kernels.clone(),
            native: true,
            prefix: "library".to_string(),
            ..build::Options::default()
        };
        let built = build::build(loaded, &options)?;
        let list = built.header.split_once("in this order: ").and_then(|(_, rest)| rest.split_once(". */"));
        let (list, _) = list.ok_or_else(|| other("the header does not list the buffers"))?;
        let buffers: Vec<String> = list.split(", ").map(str::to_string).collect();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pullback-tests-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(other)?;
        let library = Library { folder, buffers, seconds: SECONDS };
        let mut text = built.header.clone();
        text += "static const struct {\n    const char *name;\n    \
                 int (*run)(const pullback_buffer *, uint32_t, uint32_t, uint32_t);\n} kernels[] = {\n";
        for kernel in &kernels {
            let _ = writeln!(text, "    {{ \"{kernel}\", {kernel} }},");
        }
        text += "};\n";
        let _ = writeln!(text, "#define BUFFERS {}\n#define MEMORY {MEMORY}", library.buffers.len());
        let path = |name: &str| library.folder.join(name);
        build::write(&built, &path("library.o"))?;
        std::fs::write(path("main.c"), text + MAIN).map_err(other)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-o", "run", "main.c", "library.o", "-lm"]).current_dir(&library.folder);
        output_of("cc", compiler.output())?;
        Ok(library)
    }

    /// Returns true if a kernel uses the buffer.
    pub fn has(&self, buffer: &str) -> bool {
        self.buffers.iter().any(|name| name == buffer)
    }

    /// Runs a kernel on named buffers, given the bytes and the element size of each; the other buffers are
    /// empty.
    pub fn dispatch(
        &self,
        kernel: &str,
        bound: &mut [(&str, &mut [u8], usize)],
        groups: [u32; 3],
    ) -> Result<(), Failure> {
        let mut input = Vec::new();
        // For each buffer, the index in `bound` of its content.
        let places: Vec<Option<usize>> =
            self.buffers.iter().map(|name| bound.iter().position(|b| b.0 == name)).collect();
        for place in &places {
            let (bytes, size) = place.map_or((&[][..], 1), |at| (&*bound[at].1, bound[at].2));
            input.extend(((bytes.len() / size) as u64).to_ne_bytes());
            input.extend((bytes.len() as u64).to_ne_bytes());
            input.extend(bytes);
        }
        let mut command = Command::new(self.folder.join("run"));
        command.arg(self.seconds.to_string()).arg(kernel).args(groups.map(|n| n.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(other)?;
        // A process that ends before it has read all its input reports the reason itself.
        let _ = process.stdin.take().map(|mut stdin| stdin.write_all(&input));
        let output = output_of(kernel, process.wait_with_output())?;
        let mut rest = &output[..];
        for at in places.into_iter().flatten() {
            let (now, after) = rest
                .split_at_checked(bound[at].1.len())
                .ok_or_else(|| other(format!("`{kernel}` gives too little")))?;
            bound[at].1.copy_from_slice(now);
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
    use driver::session::{FileOptions, Session};

    use super::{Library, has_compiler};

    const TEXT: &str = "\
RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(4, 1, 1)]
void squares(uint3 t : SV_DispatchThreadID) { o[t.x] *= o[t.x]; }
[shader(\"compute\")] [numthreads(1, 1, 1)]
void endless() { for (;;) o[0] += 1; }
int deeper(int n) { return n <= 0 ? 0 : 1 + deeper(n - 1) * deeper(n - 2); }
[shader(\"compute\")] [numthreads(1, 1, 1)]
void deep() { o[0] = deeper(100000); }
";

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
    }

    #[test]
    fn code_that_fails_is_an_error_and_the_next_runs() {
        if !has_compiler() {
            return;
        }
        on_large_stack(|| {
            let mut session = Session::new(FileOptions::default());
            let mut program = session.program();
            let id = session.load_text(&mut program, "library.slang", TEXT.to_string(), ".".as_ref());
            let mut loaded = Loaded::new(program, id);
            let kernels = ["squares", "endless", "deep"].map(str::to_string).to_vec();
            let mut library = Library::new(&mut loaded, kernels, &Options::default()).expect("a library");
            library.seconds = 1;
            let run = |kernel: &str| {
                let mut bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
                let done = library.dispatch(kernel, &mut [("o", &mut bytes[..], 4)], [1, 1, 1]);
                match done {
                    Ok(()) => Ok(floats(&bytes)),
                    Err(Failure::Other(error)) => Err(error.to_string()),
                    Err(Failure::Program(list)) => Err(format!("{list:?}")),
                }
            };
            let endless = run("endless").expect_err("a limit");
            assert!(endless.contains("`endless`: signal"), "{endless}");
            let deep = run("deep").expect_err("a limit");
            assert!(deep.contains("nested"), "{deep}");
            assert_eq!(run("squares"), Ok(vec![1.0, 4.0, 9.0, 16.0]));
        });
    }

    #[test]
    fn parameters_that_are_too_short_end_in_zeros() {
        if !has_compiler() {
            return;
        }
        on_large_stack(|| {
            const TEXT: &str = "
StructuredBuffer<float> w;
RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(8, 1, 1)]
void sums(uint3 t : SV_DispatchThreadID)
{
    for (int k = 0; k < 6; k++)
        o[t.x] += w[k] * w[t.x & 3];
}";
            let mut session = Session::new(FileOptions::default());
            let mut program = session.program();
            let id = session.load_text(&mut program, "short.slang", TEXT.to_string(), ".".as_ref());
            let mut loaded = Loaded::new(program, id);
            let library =
                Library::new(&mut loaded, vec!["sums".to_string()], &Options::default()).expect("a library");
            for n in [0, 2, 6] {
                let w: Vec<f32> = (1..=n).map(|k| k as f32).collect();
                let mut bytes: Vec<u8> = w.iter().flat_map(|x| x.to_le_bytes()).collect();
                let mut out = vec![0; 32];
                let mut bound = [("w", &mut bytes[..], 4), ("o", &mut out[..], 4)];
                library.dispatch("sums", &mut bound, [1, 1, 1]).expect("runs");
                let sum: f32 = w.iter().sum();
                let wanted: Vec<f32> = (0..8).map(|t| sum * w.get(t & 3).unwrap_or(&0.0)).collect();
                assert_eq!(floats(&out), wanted, "{n} weights");
            }
        });
    }
}
