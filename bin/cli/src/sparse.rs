//! `jacobian`: sparse Jacobians and Hessians of one function at a point.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use driver::call::{Callee, Number, Sparse, parse_arguments};
use driver::launch::Backend;
use driver::output::{number_json, number_text};
use driver::sparse::symmetric::Recovery;
use driver::sparse::{Colours, picture, write};
use driver::{Error, Request, Step};
use ir::Scalar;

use crate::args::AtArgs;
use crate::derive::{Called, callee};
use crate::outputs::Outputs;
use crate::report::{self, Stop};

#[derive(Debug, Args)]
#[command(mut_arg("backend", |arg| arg.default_value(Backend::SOONEST.name())))]
pub(crate) struct JacobianArgs {
    #[command(flatten)]
    pub(crate) point: AtArgs,
    /// Compute the second derivatives of one output
    #[arg(long)]
    pub(crate) hessian: bool,
    /// The output that `--hessian` is of, if there are several
    #[arg(long, value_name = "NAME", requires = "hessian")]
    pub(crate) of: Option<String>,
    /// Let numbers of a Hessian follow from others by subtraction, which may take fewer products and is less accurate
    #[arg(long, requires = "hessian")]
    pub(crate) substitution: bool,
    /// Write the matrix in compressed rows to an .npz file, as SciPy's `load_npz` reads it, or to an .mtx file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Draw the pattern, in a colour for each product
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
}

/// The most rows and numbers of a row that are printed.
const MAX_ROWS: usize = 20;
const MAX_COLUMNS: usize = 12;

pub(crate) fn jacobian(args: &JacobianArgs) -> u8 {
    report::finish(&args.point.call.source, args.point.call.json, |session| {
        let named = parse_arguments("--at", &args.point.at).map_err(report::usage)?;
        for (option, path, is_known) in [
            ("--out", &args.out, args.out.as_deref().is_none_or(write::is_known)),
            ("--picture", &args.picture, args.picture.as_deref().is_none_or(driver::pictures::is_picture)),
        ] {
            if let Some(path) = path.as_ref().filter(|_| !is_known) {
                let wanted = if option == "--out" { ".npz or .mtx" } else { "a picture's ending, as .png" };
                return Err(Stop::Usage(format!("`{option} {}`: expected {wanted}", path.display())));
            }
        }
        let derived = if args.hessian { vec![vec![Step::SparseVjp, Step::SparseJvp]] } else { Vec::new() };
        let request = Request { derived, ..Request::default() };
        let options = report::options(&args.point.compile);
        let Called { mut callee, .. } = callee(&args.point.call, session, (request, &options), None)?;
        Outputs::of(&session.sources)
            .writes("--out", args.out.as_deref())
            .writes("--picture", args.picture.as_deref())
            .check()?;
        let point = callee.point(&named, &mut |_| None)?;
        let inputs = names(&callee.inputs);
        let (sparse, rows, what) = match args.hessian {
            false => (callee.sparse_jacobian(&point)?, names(&callee.outputs), "jacobian"),
            true => {
                let output = chosen(args, &callee)?;
                let recovery = if args.substitution { Recovery::Substitution } else { Recovery::Direct };
                (callee.sparse_hessian(&point, output, recovery)?, inputs.clone(), "hessian")
            }
        };
        if let Some(path) = &args.out {
            write::write(path, &sparse.matrix)?;
        }
        if let Some(path) = &args.picture {
            picture::write(path, &sparse.matrix.pattern, &sparse.plan)?;
        }
        let text = if args.point.call.json {
            json(&sparse)
        } else {
            summary(what, &args.point.call.function, &sparse) + &numbers(&sparse, &rows, &inputs)
        };
        report::out(&text);
        Ok(0)
    })
}

/// The differentiable output that a Hessian is of.
fn chosen(args: &JacobianArgs, callee: &Callee) -> Result<usize, Error> {
    let outputs = names(&callee.outputs);
    let list = || outputs.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (&args.of, outputs.len()) {
        (None, 1) => Ok(0),
        (None, 0) => {
            Err(Error::input(format!("`{}` has no differentiable output", args.point.call.function)))
        }
        (None, n) if n > MAX_COLUMNS => Err(Error::input(format!(
            "`{}` has {n} outputs: `--of NAME` says which",
            args.point.call.function
        ))),
        (None, _) => Err(Error::input(format!("`--of` says which of {}", list()))),
        (Some(name), _) => outputs
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| Error::input(format!("`--of {name}`: no differentiable output has that name"))),
    }
}

fn names(numbers: &[Number]) -> Vec<String> {
    numbers.iter().filter(|n| n.diff).map(|n| n.name.clone()).collect()
}

fn plural(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

fn summary(what: &str, function: &str, sparse: &Sparse) -> String {
    let pattern = &sparse.matrix.pattern;
    let modes = match what {
        "hessian" => vec![(sparse.plan.forward.count, "with directions")],
        _ => vec![
            (sparse.plan.forward.count, "of forward mode"),
            (sparse.plan.reverse.count, "of reverse mode"),
        ],
    };
    let products =
        modes.iter().filter(|mode| mode.0 > 0).map(|(n, mode)| format!("{} {mode}", plural(*n, "product")));
    let products: Vec<String> = products.collect();
    let products = if products.is_empty() { "no products".to_string() } else { products.join(" and ") };
    format!(
        "{what} of {function}: {} × {}, {} in the pattern, from {products}\n",
        pattern.n_rows(),
        pattern.n_columns,
        plural(pattern.len(), "number"),
    )
}

/// The first rows, a line each.
fn numbers(sparse: &Sparse, rows: &[String], columns: &[String]) -> String {
    let pattern = &sparse.matrix.pattern;
    let mut text = String::new();
    for (row, name) in rows.iter().enumerate().take(MAX_ROWS) {
        let range = pattern.starts[row]..pattern.starts[row + 1];
        let more = range.len().saturating_sub(MAX_COLUMNS);
        let shown = range.take(MAX_COLUMNS).map(|at| {
            let value = number_text(Scalar::F64, sparse.matrix.values[at].to_bits());
            format!("{} = {value}", columns[pattern.columns[at] as usize])
        });
        let mut shown: Vec<String> = shown.collect();
        if more > 0 {
            shown.push(format!("… and {more} more"));
        }
        let _ =
            writeln!(text, "  {name}: {}", if shown.is_empty() { "none".into() } else { shown.join(", ") });
    }
    if rows.len() > MAX_ROWS {
        let _ = writeln!(text, "… and {} more; `--out` writes all", plural(rows.len() - MAX_ROWS, "row"));
    }
    text
}

fn json(sparse: &Sparse) -> String {
    let pattern = &sparse.matrix.pattern;
    let values: Vec<String> =
        sparse.matrix.values.iter().map(|x| number_json(Scalar::F64, x.to_bits())).collect();
    let colours = |colours: &Colours| serde_json::json!(colours.of);
    format!(
        "{{\"shape\":[{},{}],\"starts\":{},\"columns\":{},\"values\":[{}],\"products\":{{\"forward\":{},\"reverse\":{}}},\
         \"column_colours\":{},\"row_colours\":{}}}\n",
        pattern.n_rows(),
        pattern.n_columns,
        serde_json::json!(pattern.starts),
        serde_json::json!(pattern.columns),
        values.join(","),
        sparse.plan.forward.count,
        sparse.plan.reverse.count,
        colours(&sparse.plan.forward),
        colours(&sparse.plan.reverse),
    )
}
