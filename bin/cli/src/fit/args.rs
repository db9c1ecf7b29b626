//! The options of `fit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use driver::launch::Backend;

use crate::args::{CompileArgs, LanesArgs, MemoryArgs, MemoryLimitArgs, SourceArgs};
use crate::values::{amount, backend, count, power_of_two, share};

pub(crate) const FIT_HELP: &str = "\
The loss is a [Differentiable] function of the file, by default `loss`. Its differentiable parameters are fitted; \
its `no_diff` parameters are filled from the columns of the items, by name: `index` always, `uv`, `pixel`, `size` and \
`color` for an image, the header's names and `row` for a .csv file, `row` or `value` for an .npy file. The mean of the \
loss over the items is minimised. A parameter that is a `StructuredBuffer` of a column's name takes the column as a \
whole; such a function is called once, and `count` is the number of items.

With `--residuals NAME`, the function returns one or several residuals, and Levenberg–Marquardt minimises half the sum \
of their squares; the standard errors of the parameters are printed, and their covariance is written.

Options may stand in the file, in comments that begin with `// fit:`; paths there are relative to the file. The \
command line comes last and wins.

Examples:
  pullback fit examples/gaussians.slang
  pullback fit line.slang --items @points.csv --optimizer lbfgs
  pullback fit decay.slang --items @decay.csv --residuals residual --bounds rate=0
  pullback fit field.slang --items image:photo.png --param weights=random:-0.1,0.1 --seconds 30
  pullback fit examples/gaussians.slang --checkpoint run.json --resume";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Optimizer {
    /// Stochastic: batches of items, a rate for each field
    Adam,
    /// Adam with decoupled weight decay
    Adamw,
    /// Stochastic gradient descent with momentum
    Sgd,
    /// All items at once, with a line search
    Lbfgs,
    /// Levenberg–Marquardt: least squares of a function of residuals
    Lm,
}

/// How a fit makes its steps.
#[derive(Debug, Args)]
pub(crate) struct OptimizerArgs {
    /// The method [default: adam, and with `--residuals` lm]
    #[arg(long, value_enum)]
    pub(crate) optimizer: Option<Optimizer>,
    /// Learning rate: for all (0.01), for a parameter (x=0.1) or a field (x.center=0.1)
    #[arg(long, value_name = "[NAME=]RATE")]
    pub(crate) rate: Vec<String>,
    /// How the rates change: constant, cosine, exponential or one-cycle; `cosine:0.01` ends with that factor
    #[arg(long, value_name = "SHAPE[:END]", default_value = "constant")]
    pub(crate) schedule: String,
    /// Steps over which the rates grow from zero before the schedule begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warm_up: u64,
    /// Share of the mean gradient that a step keeps [default: 0.9; sgd: 0]
    #[arg(long, value_name = "M", value_parser = share)]
    pub(crate) momentum: Option<f64>,
    /// Weight decay; adamw: decoupled from the gradient
    #[arg(long, value_name = "W", value_parser = amount)]
    pub(crate) weight_decay: Option<f64>,
    /// The largest norm of a gradient; longer ones are scaled down
    #[arg(long, value_name = "NORM", value_parser = amount)]
    pub(crate) clip: Option<f64>,
    /// A factor of the loss while it is differentiated, a power of two, for losses in `half`; gradients are divided by it
    #[arg(long, value_name = "N", value_parser = power_of_two)]
    pub(crate) loss_scale: Option<f64>,
    /// Items in a batch [default: 8192, or all]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) batch: Option<usize>,
    /// Batches whose gradients are added up for a step [default: 1]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) accumulate: Option<usize>,
    /// Bounds of a parameter or field; either may be left out: x=0, or x=,1
    #[arg(long, value_name = "NAME=LO,HI", allow_hyphen_values = true)]
    pub(crate) bounds: Vec<String>,
    /// A parameter or field that keeps its initial value
    #[arg(long, value_name = "NAME")]
    pub(crate) fix: Vec<String>,
    /// lbfgs, lm: end where a step lowers the loss by less than this share [default: 1e-9]
    #[arg(long, value_name = "SHARE", value_parser = amount)]
    pub(crate) tolerance: Option<f64>,
    /// lbfgs, lm: end where no derivative is greater [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = amount)]
    pub(crate) gradient_tolerance: Option<f64>,
    /// lm: the loss of a residual, huber:D or cauchy:D, D being the distance from which on it counts less
    #[arg(long, value_name = "LOSS")]
    pub(crate) robust: Option<String>,
    /// Share of the items that are kept apart: the point that is best for them is the result
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) validation: Option<f64>,
    /// Passes over the items (lbfgs: steps) without progress on those kept apart after which the fit stops [default: 10]
    #[arg(long, value_name = "N", requires = "validation", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) patience: Option<u64>,
}

/// The results of a fit.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The function that makes the picture [default: `render` if there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) render: Option<String>,
    /// Folder for results [default: target/fit or the file's name in the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A function whose mean over the items is reported at the end, and logged
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Vec<String>,
    /// Write what `render` gives for each item: FILE.csv or FILE.npy
    #[arg(long, value_name = "FILE")]
    pub(crate) predict: Option<PathBuf>,
    /// Write step, seconds and loss, one line every ten steps, and the metrics after each pass over the items
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) log: Option<PathBuf>,
    /// Write the loss and the metrics as a log for TensorBoard
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Show the fit while it runs, on a page of this machine at that port [default port: any]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub(crate) watch: Option<u16>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Save the state here at the end and every few seconds
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The function to minimise
    #[arg(long, value_name = "NAME", default_value = "loss", conflicts_with = "residuals")]
    pub(crate) loss: String,
    /// The function that returns residuals, the sum of whose squares is minimised
    #[arg(long, value_name = "NAME")]
    pub(crate) residuals: Option<String>,
    /// The items that the loss is summed over: image:FILE (.png, .jpg, .hdr, .exr), images:TABLE.csv (a column `image`
    /// and numbers for each), image:W,H, @file (.csv, .tsv, .csv.gz, .npy, .npz) or a number
    #[arg(long, value_name = "ITEMS")]
    pub(crate) items: Option<String>,
    /// How a parameter starts: a function of the file, zeros, random:LO,HI, JSON or @file.npy [default: the
    /// function `initial` if there is one, else random:-0.1,0.1]; a field (x.center): zeros, random:LO,HI or a number
    #[arg(long, value_name = "NAME=INIT", allow_hyphen_values = true)]
    pub(crate) param: Vec<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    #[command(flatten)]
    pub(crate) limits: MemoryLimitArgs,
    #[command(flatten)]
    pub(crate) method: OptimizerArgs,
    /// The backend that runs it
    #[arg(long, value_parser = backend(), default_value = Backend::default().name())]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) lanes: LanesArgs,
    /// Steps
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: u64,
    /// Stop after so much time, even if there are steps left
    #[arg(long, value_name = "S", value_parser = amount)]
    pub(crate) seconds: Option<f64>,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) threads: Option<usize>,
    /// Give the same bits in every run and with any number of worker threads
    #[arg(long)]
    pub(crate) deterministic: bool,
    /// Start of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the kernel that is generated around the loss, and stop
    #[arg(long)]
    pub(crate) show_kernel: bool,
    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}
