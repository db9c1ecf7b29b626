//! Finds the item at which a loss or a derivative is infinite or NaN, and describes it.

use std::fmt::Write as _;

use crate::error::{Error, Failure};
use crate::fit::items::Items;
use crate::fit::kernel::Task;
use crate::fit::optimise::least_squares::Residuals as _;
use crate::fit::{Fit, MOST_THREADS, Setup};
use crate::session::Session;
use opt::CheckFinite;

/// An item at which something is infinite or NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The loss, or a residual.
    Loss(u32),
    /// The loss is finite, and a derivative is not.
    Derivative(u32),
}

impl Found {
    /// The item.
    pub fn item(self) -> u32 {
        match self {
            Found::Loss(item) | Found::Derivative(item) => item,
        }
    }
}

impl Fit {
    /// Finds the first item of `order` whose loss or residual, or else the derivative of whose loss, is infinite or NaN at
    /// the point `x`. A sum of finite derivatives that overflows is the fault of no single item.
    pub fn find_trouble(&mut self, x: &[f64], order: &[u32]) -> Result<Option<Found>, Error> {
        self.put(x);
        self.weigh(1);
        let are_residuals = self.kernel.task == Task::Residuals;
        for part in order.chunks(MOST_THREADS) {
            self.choose(part);
            self.dispatch("fit_value", part.len(), None)?;
            let found = self.results(if are_residuals { "fit_residual" } else { "fit_loss" }, part.len())?;
            let each = found.len() / part.len();
            if let Some(at) = found.iter().position(|x| !x.is_finite()) {
                return Ok(Some(Found::Loss(part[at / each])));
            }
        }
        if are_residuals {
            // Their gradient depends on a cotangent for each.
            return Ok(None);
        }
        let mut gradient = vec![0.0; x.len()];
        let mut is_finite = |fit: &mut Fit, order: &[u32]| {
            fit.differentiate(order, &mut gradient)?;
            Ok::<_, Error>(gradient.iter().all(|g| g.is_finite()))
        };
        let mut order = order;
        while order.len() > 1 {
            let (left, right) = order.split_at(order.len() / 2);
            order = if is_finite(self, left)? { right } else { left };
        }
        match order {
            [item] if !is_finite(self, order)? => Ok(Some(Found::Derivative(*item))),
            _ => Ok(None),
        }
    }
}

/// Runs the loss and its derivative of one item again, with checks of all numbers or of differentials, and returns
/// the failure with which that ends: the place where the first of them is infinite or NaN. The session then holds
/// the files of that run.
pub fn find_line(
    session: &mut Session,
    setup: &Setup,
    items: &Items,
    x: &[f64],
    found: Found,
) -> Option<Failure> {
    let mut setup = setup.clone();
    setup.execution.compile.check_finite = match found {
        Found::Loss(_) => CheckFinite::Everything,
        Found::Derivative(_) => CheckFinite::Differentials,
    };
    let mut fit = match Fit::new(session, &setup, items.clone()) {
        Ok(fit) => fit,
        Err(failure) => return Some(failure),
    };
    let done = match setup.task {
        Task::Loss(_) => fit.evaluate(x, &[found.item()], &mut vec![0.0; x.len()]).map(drop),
        Task::Residuals => fit.residuals(x, &mut Vec::new()),
    };
    match done {
        Err(error @ Error::StoppedAt { .. }) => Some(error.into()),
        _ => None,
    }
}

/// An item in words: its number and, if they are few, the numbers of its columns.
pub fn describe(items: &Items, item: u32) -> String {
    let at = item as usize;
    if let Some((view, x, y)) = items.pixel(item) {
        let of = if items.views.len() > 1 { format!(" of view {view}") } else { String::new() };
        return format!("pixel ({x}, {y}){of}");
    }
    let mut text = format!("item {at}");
    let columns = items.columns.iter().filter(|c| !matches!(&c.name[..], "index" | "row" | "value"));
    let mut separator = " (";
    for column in columns.take(MOST_COLUMNS) {
        let numbers = &column.values[at * column.width..(at + 1) * column.width];
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        let _ = write!(text, "{separator}{} = {}", column.name, numbers.join(", "));
        separator = ", ";
    }
    if separator == ", " { text + ")" } else { text }
}

/// The most columns of an item that are shown.
const MOST_COLUMNS: usize = 6;
