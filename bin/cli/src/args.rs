//! The command line as data. Each command is implemented in the file of its name.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use driver::dump::Stage;
use driver::launch::{Backend, CodeOptions};

use crate::fit::args::{FIT_HELP, FitArgs};
use crate::precision::{DERIVE_HELP, DeriveArgs, PRECISION_HELP, PrecisionArgs};
use crate::recurrence::RecurrenceArgs;
use crate::sparse::JacobianArgs;
use crate::values::{amount, backend, bytes, choice, code, count, lanes, lint, seconds};

/// Compiler for differentiable kernels: reads Slang, differentiates it, runs it on the CPU.
#[derive(Debug, Parser)]
#[command(name = "pullback", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a compute kernel (or `main`) and print its buffers
    #[command(
        after_help = "Example:\n  pullback run kernel.slang --bind 'x=[1,2,3]' --bind out=zeros:3 --groups 3"
    )]
    Run(RunArgs),
    /// Check every declaration of a file, and that every differentiable function can be differentiated
    #[command(
        after_help = "Examples:\n  pullback check kernel.slang\n  pullback check *.slang\n  generate | pullback check -"
    )]
    Check(CheckArgs),
    /// Print what a stage of the compiler makes of a file
    #[command(
        after_help = "Examples:\n  pullback emit kernel.slang --stage transpose\n  pullback emit kernel.slang --target wgsl"
    )]
    Emit(EmitArgs),
    /// Show a function after each pass of differentiation
    #[command(after_help = "Example:\n  pullback explain kernel.slang loss")]
    Explain(ExplainArgs),
    /// Print the derivative of a function as Slang source
    #[command(after_help = DERIVE_HELP)]
    Derive(DeriveArgs),
    /// Print the value and the gradient of a function at a point
    #[command(
        after_help = "Example:\n  pullback grad kernel.slang f --at x=1.5,y=[1,2,3]\n  pullback grad kernel.slang loss --at x=1.5 --mode hessian --json"
    )]
    Grad(GradArgs),
    /// Compute a sparse Jacobian or Hessian of a function, from few products with directions
    #[command(
        after_help = "Examples:\n  pullback jacobian kernel.slang residuals --at @point.json\n  pullback jacobian kernel.slang energy --at @point.json --hessian --out hessian.npz"
    )]
    Jacobian(JacobianArgs),
    /// Differentiate a recurrence that is too long for memory, with states on disk
    #[command(
        after_help = "Examples:\n  pullback recurrence wave.slang advance --loss energy --steps 10000 --segment 1000 --at @start.json\n  pullback recurrence wave.slang advance --loss energy --steps 10000 --at @start.json --run 500\n\nA run that was stopped goes on where it was. Exit status 3 if `--run` ended it before the last segment."
    )]
    Recurrence(RecurrenceArgs),
    /// Compare derivatives with finite differences, and forward with reverse mode
    #[command(
        after_help = "Example:\n  pullback gradcheck kernel.slang f --points 5\n  pullback gradcheck kernel.slang f --at x=1.5\n\nExit status 1 if they do not agree."
    )]
    Gradcheck(GradcheckArgs),
    /// Check every differentiable function of a file, on every backend and level of optimisation
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Measure the error of derivatives that are written by hand, in units of the last digit
    #[command(after_help = RULETEST_HELP)]
    Ruletest(RuletestArgs),
    /// Estimate the rounding error of a function by variable, and propose narrower types
    #[command(after_help = PRECISION_HELP)]
    Precision(PrecisionArgs),
    /// Minimise a differentiable function of a file
    #[command(after_help = FIT_HELP)]
    Fit(Box<FitArgs>),
    /// Time functions and their gradients, by many threads of a kernel
    #[command(after_help = "Example:\n  pullback bench kernel.slang loss --at x=1.5")]
    Bench(BenchArgs),
    /// Make a library of C functions, or a module of WebAssembly: functions with their derivatives, and kernels
    #[cfg(any(feature = "llvm", feature = "wasm"))]
    #[command(after_help = BUILD_HELP)]
    Build(BuildArgs),
    /// Format programs in place; no token changes
    #[command(
        after_help = "Examples:\n  pullback fmt kernel.slang\n  pullback fmt --check src\n  generate | pullback fmt -\n\nExit status 1 if `--check` finds a difference, or if a file cannot be formatted."
    )]
    Fmt(FmtArgs),
    /// List the backends, the devices of this machine that each can use, and those that are missing; programs run on the
    /// first device of a backend
    Devices(DevicesArgs),
    /// Print the script by which a shell completes commands
    #[command(
        after_help = "Example:\n  pullback completions bash > ~/.local/share/bash-completion/completions/pullback"
    )]
    Completions(CompletionsArgs),
    /// Write a manual page for each command to a folder
    #[command(after_help = "Example:\n  pullback manual ~/.local/share/man/man1")]
    Manual(ManualArgs),
    /// Serve an editor: the language server protocol on standard input and output
    #[command(
        after_help = "Settings come from the editor: `includeDirs` and `defines` in its initialization options."
    )]
    Lsp,
    /// Serve the playground, a page that runs the compiler in a browser, at an address of this machine
    #[cfg(not(target_family = "wasm"))]
    #[command(
        after_help = "Example:\n  pullback playground --folder target/site/playground\n\nA build with the feature `playground` has the page; others serve what `scripts/playground.sh` has built."
    )]
    Playground(PlaygroundArgs),
}

/// The options of `playground`.
#[cfg(not(target_family = "wasm"))]
#[derive(Debug, Args)]
pub(crate) struct PlaygroundArgs {
    /// The port; 0: any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// The folder with the page [default: the page of this build]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

#[cfg(all(feature = "llvm", feature = "wasm"))]
const BUILD_HELP: &str = "Examples:\n  pullback build kernel.slang -o libkernel.so --header kernel.h\n  pullback build kernel.slang -o kernel.wasm";
#[cfg(all(feature = "llvm", not(feature = "wasm")))]
const BUILD_HELP: &str = "Example:\n  pullback build kernel.slang -o libkernel.so --header kernel.h";
#[cfg(all(not(feature = "llvm"), feature = "wasm"))]
const BUILD_HELP: &str = "Example:\n  pullback build kernel.slang -o kernel.wasm";

const RULETEST_HELP: &str = "\
The derivatives of functions with a rule of their own are compared with differences in numbers of twice a double's \
digits, second derivatives included. The word `core` in the place of a file stands for the library's rules.

Examples:
  pullback ruletest rules.slang
  pullback ruletest rules.slang cube --points 1000 --range x=0.1,10 --json
  pullback ruletest core --points 20

Exit status 1 if an error is larger than `--ulps`, or if nothing could be tested.";

const VERIFY_HELP: &str = "\
In double precision, forward mode, reverse mode, dual numbers on the code before differentiation, and differences \
must agree at random points. With the numbers that the program declares, every backend must give what the interpreter \
gives of the same code.

Examples:
  pullback verify kernel.slang
  pullback verify kernel.slang loss --backend llvm,interp -O 0,2 --points 20 --json
  pullback verify kernel.slang --bind 'x=[1,2,3]' --bind out=zeros:3

Exit status 1 if anything differs, or if nothing could be checked.";

/// The options of all commands that read a program.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// The program; `-`: standard input
    #[arg(value_name = "FILE.slang")]
    pub(crate) file: PathBuf,
    /// Define a macro of the preprocessor
    #[arg(long = "define", short = 'D', value_name = "NAME[=V]")]
    pub(crate) defines: Vec<String>,
    /// Look for imported and included files here, too
    #[arg(short = 'I', value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Do not show warnings of this code
    #[arg(long, value_name = "CODE,…", value_delimiter = ',', value_parser = code)]
    pub(crate) allow: Vec<String>,
    /// Only warn where a derivative is lost (38033, 41022, 41031): it is zero there; warn of loops without a bound that
    /// graphics processors could not run backwards (0931)
    #[arg(long, value_name = "CODE,…", value_delimiter = ',', value_parser = lint)]
    pub(crate) warn: Vec<u32>,
    /// The layout of matrices in memory for which the program specifies none
    #[arg(long, value_enum, default_value_t)]
    pub(crate) matrix_layout: Layout,
    /// Files see the names of GLSL, as if they said `import glsl;`
    #[arg(long)]
    pub(crate) allow_glsl: bool,
    /// The bits from which bit-fields fill their words: the lowest, or as in Microsoft's C compiler
    #[arg(long, value_enum, default_value_t)]
    pub(crate) bit_fields: BitFields,
    /// Link a module that the program does not import: it exports what the program declares as `extern`
    #[arg(long, value_name = "FILE")]
    pub(crate) link: Vec<PathBuf>,
    /// The number of resources in an array that is declared without a length
    #[arg(long, value_name = "NAME=N", value_parser = length)]
    pub(crate) length: Vec<(String, u32)>,
    /// After each pass, run the function that it changed and its predecessor in the interpreter, and compare them
    #[arg(long)]
    pub(crate) verify_passes: bool,
}

fn length(text: &str) -> Result<(String, u32), String> {
    let parts =
        text.rsplit_once('=').and_then(|(name, n)| Some((name.trim().to_owned(), n.trim().parse().ok()?)));
    parts.filter(|(name, _)| !name.is_empty()).ok_or_else(|| "expected NAME=N".to_owned())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BitFields {
    #[default]
    Low,
    Msvc,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    #[default]
    Row,
    Column,
}

/// How to compile.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompileArgs {
    /// Apply rules that hold for real numbers but may lose a NaN, an infinity or the sign of a zero
    #[arg(long)]
    pub(crate) fast_math: bool,
    /// Fuse products with sums, so that `a * b + c` is rounded once
    #[arg(long)]
    pub(crate) fp_contract: bool,
    /// Multiply cooperative matrices by matrix units where an NVIDIA device has them (from sm_80 on); they round
    /// sums of floats in their own way
    #[arg(long)]
    pub(crate) matrix_units: bool,
    /// Optimisation level: 0, 1 or 2
    #[arg(short = 'O', value_name = "LEVEL", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) level: u8,
    /// Report what reverse mode keeps of each function, and why
    #[arg(long)]
    pub(crate) report_checkpoints: bool,
    /// Stop where a derivative first becomes infinite or NaN, and report the operation
    #[arg(long)]
    pub(crate) check_nan: bool,
}

/// In how many lanes threads run.
#[derive(Clone, Debug, Args)]
pub(crate) struct LanesArgs {
    /// Threads that run side by side in lanes [default: chosen for the machine and the program; 1: none]
    #[arg(long, value_name = "N", value_parser = lanes)]
    pub(crate) lanes: Option<u32>,
}

/// The memory that the program reaches.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Content of a buffer, tensor or uniform: JSON, zeros:N[,M…], words:W,W,… or @file (.npy, .npz:NAME, .png, .jpg, .hdr, .exr)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) bind: Vec<String>,
}

/// The memory that a program may take.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MemoryLimitArgs {
    /// Memory that the program may take for large arrays and for what reverse mode keeps, as 512M or 8G [default: 2G]
    #[arg(long = "memory", value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
}

impl MemoryLimitArgs {
    /// The limits of a command whose `--seconds` say how long it goes on. A launch may take as long, and at least as long as
    /// elsewhere: only one that does not end at all is stopped.
    pub(crate) fn limits(&self, seconds: Option<f64>) -> CodeOptions {
        let seconds = Some(seconds.unwrap_or(0.0).max(SECONDS));
        CodeOptions { memory: self.memory, seconds, ..CodeOptions::default() }
    }
}

/// The default for the seconds that a launch may take.
const SECONDS: f64 = 600.0;
/// The same for commands that make many launches.
const SECONDS_OF_CALLS: f64 = 60.0;

/// The memory and time that a program may take.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    memory: MemoryLimitArgs,
    /// Seconds that a launch of the program may take; `inf`: any [default: 600; verify: 60]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> CodeOptions {
        let seconds = Some(self.seconds.unwrap_or(SECONDS));
        CodeOptions { memory: self.memory.memory, seconds, ..CodeOptions::default() }
    }

    /// The limits of calls of single functions, of which there are many.
    pub(crate) fn limits_of_calls(&self) -> CodeOptions {
        CodeOptions { seconds: Some(self.seconds.unwrap_or(SECONDS_OF_CALLS)), ..self.limits() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Programs, or folders, of which all `.slang` files are formatted; `-`: standard input, to standard output
    #[arg(value_name = "FILE.slang", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Change no file; show what would change, and exit with status 1 if anything would
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) check: bool,
    /// Write to standard output
    #[arg(long)]
    pub(crate) stdout: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The entry point [default: a `main` that is no kernel if nothing is bound, else the only one, else computeMain]
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,
    /// Thread groups to dispatch
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1,1,1")]
    pub(crate) groups: String,
    /// Threads of a group, for kernels that do not say it themselves [default: 1,1,1]
    #[arg(long, value_name = "X[,Y[,Z]]")]
    pub(crate) block: Option<String>,
    /// The backend that runs it
    #[arg(long, value_parser = backend(), default_value = Backend::default().name())]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// A type that conforms to an interface, by the number that dynamic dispatch uses
    #[arg(long, value_name = "TYPE:INTERFACE=ID")]
    pub(crate) conform: Vec<String>,
    /// Print only these buffers; `none` prints none; NAME=@FILE writes one (.npy, or a picture's ending)
    #[arg(long, value_name = "NAME[=@FILE]")]
    pub(crate) out: Vec<String>,
    /// Dispatch so many times on the same buffers, and report the seconds of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) threads: Option<usize>,
    /// Give the same bits in every run and with any number of worker threads
    #[arg(long)]
    pub(crate) deterministic: bool,
    /// Let machine code replace subnormal numbers by zeros, since they are slow on many processors
    #[arg(long)]
    pub(crate) flush_subnormals: bool,
    /// Neither look for compiled kernels in the cache nor keep them there
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Stop at the first buffer access out of range, and say where
    #[arg(long)]
    pub(crate) trap: bool,
    /// Run on the interpreter, and stop with the places that several threads access, of which one writes, with neither a
    /// barrier nor atomic operations to order them
    #[arg(long, conflicts_with_all = ["backend", "trap"])]
    pub(crate) check_races: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The functions [default: every differentiable function of the file]
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: Vec<String>,
    /// Time a kernel of the program instead, on the memory that `--bind` gives
    #[arg(long, value_name = "NAME", conflicts_with_all = ["function", "at", "count"])]
    pub(crate) entry: Option<String>,
    /// Thread groups to dispatch of the kernel
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1,1,1", requires = "entry")]
    pub(crate) groups: String,
    /// Threads of a group, for a kernel that does not say it itself [default: 1,1,1]
    #[arg(long, value_name = "X[,Y[,Z]]", requires = "entry")]
    pub(crate) block: Option<String>,
    /// Arguments as JSON values; those left out are numbers between 0.25 and 0.75, and integers 4
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) at: Vec<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// Threads that call a function
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    /// Let machine code replace subnormal numbers by zeros, since they are slow on many processors
    #[arg(long)]
    pub(crate) flush_subnormals: bool,
    /// How long each kernel is measured [default: 0.3, or 1 for a profile]
    #[arg(long, value_name = "S", value_parser = amount)]
    pub(crate) seconds: Option<f64>,
    /// The backend that runs it [default: llvm if it is on this machine, else cranelift]
    #[arg(long, value_parser = backend())]
    pub(crate) backend: Option<Backend>,
    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
    /// Worker threads; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Show what each line costs, beside the source; with a path, as a page for a browser, too
    #[arg(long, value_name = "PAGE.html")]
    pub(crate) profile: Option<Option<PathBuf>>,
    /// Show what each line contributes to the rounding error of the result in the profile, too
    #[arg(long, requires = "profile", conflicts_with = "entry")]
    pub(crate) rounding: bool,
    #[command(flatten)]
    pub(crate) limits: MemoryLimitArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A target of `build`.
#[cfg(any(feature = "llvm", feature = "wasm"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildTarget {
    /// A library of C functions
    #[cfg(feature = "llvm")]
    Native,
    /// A module of WebAssembly
    #[cfg(feature = "wasm")]
    Wasm,
    /// A module of WebAssembly with relaxed SIMD
    #[cfg(feature = "wasm")]
    WasmRelaxed,
}

#[cfg(any(feature = "llvm", feature = "wasm"))]
impl BuildTarget {
    /// The target of an output, if this build has it.
    pub(crate) fn of_output(is_module: bool) -> Option<BuildTarget> {
        BuildTarget::value_variants().iter().copied().find(|target| target.is_module() == is_module)
    }

    /// Returns true for modules of WebAssembly.
    pub(crate) fn is_module(self) -> bool {
        match self {
            #[cfg(feature = "llvm")]
            BuildTarget::Native => false,
            #[cfg(feature = "wasm")]
            BuildTarget::Wasm | BuildTarget::WasmRelaxed => true,
        }
    }
}

#[cfg(any(feature = "llvm", feature = "wasm"))]
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The functions [default: every differentiable function of the file, unless something is named]
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: Vec<String>,
    /// The kernels [default: all of the file, unless something is named]
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Vec<String>,
    /// Begin the name of every function with this and `_` [default: the name of the library, where a function's own name
    /// has another meaning in C]
    #[arg(long, value_name = "NAME")]
    pub(crate) prefix: Option<String>,
    /// The library: .o, .a, .so or .wasm, or with `--module` the module
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// Write the module as a file that `import` and `--link` read in place of its source: PATH.pullback-module
    #[arg(long, conflicts_with_all = ["function", "entry", "prefix", "target", "header", "rust", "native", "exclusive"])]
    pub(crate) module: bool,
    /// The kind of library [default: what the ending of the output says]
    #[arg(long, value_enum)]
    pub(crate) target: Option<BuildTarget>,
    /// Write a header for C and C++ here
    #[arg(long, value_name = "PATH.h")]
    pub(crate) header: Option<PathBuf>,
    /// Write bindings for Rust here: safe functions around those of the library
    #[arg(long, value_name = "PATH.rs")]
    pub(crate) rust: Option<PathBuf>,
    /// Code for this machine only, with its widest vectors [default: for x86-64-v3, machines since 2013]
    #[arg(long)]
    pub(crate) native: bool,
    /// Promise that no two calls of kernels on the same buffers run at a time: sums are added up by plain additions
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Print diagnostics as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// More programs, each of which is checked by itself
    #[arg(value_name = "FILE.slang")]
    pub(crate) more: Vec<PathBuf>,
    /// Report what reverse mode keeps of each differentiable function, and why
    #[arg(long)]
    pub(crate) report_checkpoints: bool,
    /// Accepted for symmetry with `run`; everything is checked
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,
    /// Report what this target refuses of the entry points, too
    #[cfg(feature = "gpu")]
    #[arg(long, value_parser = choice(driver::gpu::Target::ALL))]
    pub(crate) target: Option<driver::gpu::Target>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// A folder that exists
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EmitArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// Which stage
    #[arg(long, value_parser = choice(Stage::ALL), default_value = "ir")]
    pub(crate) stage: Stage,
    /// The program in a language of graphics processors
    #[cfg(feature = "gpu")]
    #[arg(long, value_parser = choice(driver::gpu::Target::ALL), conflicts_with = "stage")]
    pub(crate) target: Option<driver::gpu::Target>,
    /// For devices whose subgroups have 32 lanes, in the order of the threads of a group: lanes of waves exchange values by
    /// them, and not through group-shared memory
    #[cfg(feature = "gpu")]
    #[arg(long, requires = "target")]
    pub(crate) subgroups: bool,
    /// Write to this file [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print diagnostics as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Only what this entry point reaches [default: all entry points and differentiable functions]
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The function
    #[arg(value_name = "FUNCTION", required_unless_present = "witnesses")]
    pub(crate) function: Option<String>,
    /// Say which derivative each call gets, and from where
    #[arg(long)]
    pub(crate) witnesses: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// One pass for each input number
    Forward,
    /// One pass for each output number
    #[default]
    Reverse,
    /// Second derivatives of a scalar result: forward over reverse
    Hessian,
    /// The second derivatives times the direction `--along`, in one pass
    Hvp,
}

/// A function that is called, and how.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The function
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: String,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// The backend that runs it
    #[arg(long, value_parser = backend(), default_value = Backend::INTERP.name())]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A function that is called at one point.
#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    #[command(flatten)]
    pub(crate) call: CallArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// Arguments as JSON values: `x=1.5,y=[1,2,3]`
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) at: Vec<String>,
}

/// The arguments of functions that are called at random points.
#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    /// Arguments as JSON values; those left out are random
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) at: Vec<String>,
    /// Random numbers are drawn from here: all, or those of a parameter or field [default: the ranges of the file's
    /// `// fit:` comments and `[Range(LO, HI)]` attributes, else -2,2]
    #[arg(long, value_name = "[NAME=]LO,HI", allow_hyphen_values = true)]
    pub(crate) range: Vec<String>,
    /// Start of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The points where derivatives are compared.
#[derive(Debug, Args)]
pub(crate) struct PointArgs {
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    /// Random points
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) points: u32,
    /// Largest relative error that is accepted in double precision
    #[arg(long, value_name = "X", default_value_t = 1e-5, value_parser = amount)]
    pub(crate) tolerance: f64,
}

#[derive(Debug, Args)]
pub(crate) struct GradArgs {
    #[command(flatten)]
    pub(crate) point: AtArgs,
    /// How derivatives are computed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// The direction of `--mode hvp`, as JSON values; what is left out is zero
    #[arg(long, value_name = "NAME=VALUE,…", required_if_eq("mode", "hvp"))]
    pub(crate) along: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GradcheckArgs {
    #[command(flatten)]
    pub(crate) call: CallArgs,
    #[command(flatten)]
    pub(crate) points: PointArgs,
    /// Stop where a derivative first becomes infinite or NaN, and report the operation
    #[arg(long)]
    pub(crate) check_nan: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RuletestArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The functions [default: every function that has a derivative of its own]
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: Vec<String>,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    /// Random points
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) points: u32,
    /// Largest error that is accepted, in units of the last digit
    #[arg(long, value_name = "X", default_value_t = 100.0, value_parser = amount)]
    pub(crate) ulps: f64,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// The backend that computes the derivatives
    #[arg(long, value_parser = backend(), default_value = Backend::INTERP.name())]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The functions [default: every differentiable function of the file]
    #[arg(value_name = "FUNCTION")]
    pub(crate) function: Vec<String>,
    #[command(flatten)]
    pub(crate) points: PointArgs,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// The backends that are checked [default: all that this build has, and graphics processors where there is one]
    #[arg(long, value_parser = backend(), value_name = "BACKEND,…", value_delimiter = ',')]
    pub(crate) backend: Vec<Backend>,
    /// Optimisation levels
    #[arg(short = 'O', value_name = "LEVEL,…", value_delimiter = ',', default_value = "0,1,2",
        value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) level: Vec<u8>,
    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
