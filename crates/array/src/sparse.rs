//! Sparse Jacobians and Hessians of a function at one point.

use driver::call::{Callee, Sparse};
use driver::launch::{Backend, fork};
use driver::pipeline::{self, Failure};
use driver::sparse::Csr;
use driver::sparse::symmetric::Recovery;
use driver::{Request, on_large_stack};
use lower::Step;
use serde_json::Value;
use syntax::Sources;

use crate::error::Error;
use crate::function::{Function, locked};
use crate::inspect::{Number, binds, bits};
use crate::program::plain;

/// A matrix of derivatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First derivatives: a row for each number of the outputs, a column for each of the inputs.
    First,
    /// Second derivatives of the only number of the outputs, which follow from products in this way.
    Second(Recovery),
}

/// A compiled function, and the last matrix for the next call at another point.
pub(crate) struct Prepared {
    callee: Callee,
    before: Option<Sparse>,
    /// For diagnostics.
    sources: Sources,
}

impl Function {
    /// The derivatives that may differ from zero, over the numbers that have derivatives. `point` lists the numbers of all
    /// leaves of all inputs, in order. The pattern of the call before is taken if it fits the point, unless the function
    /// reaches memory.
    pub fn sparse(&self, point: &[Number], memory: &[(String, Value)], order: Order) -> Result<Csr, Error> {
        let place = &self.prepared[usize::from(order != Order::First)];
        let kept = if memory.is_empty() { locked(place).take() } else { None };
        let mut prepared = match kept {
            Some(prepared) => prepared,
            None => self.prepare(memory, order)?,
        };
        let _work = fork::at_work();
        // Another pattern is found by code that is compiled for it.
        let found = on_large_stack(|| prepared.matrix(&self.name, point, order));
        let matrix = found.map_err(|failure| Error::of(&prepared.sources, failure))?;
        if memory.is_empty() {
            *locked(place) = Some(prepared);
        }
        Ok(matrix)
    }

    fn prepare(&self, memory: &[(String, Value)], order: Order) -> Result<Prepared, Error> {
        let ((callee, warnings), sources) = self.program.with(|session, loaded| {
            loaded.errors()?;
            let (function, _) = plain(session, loaded, &self.wanted)?;
            let derived = match order {
                Order::First => Vec::new(),
                Order::Second(_) => vec![vec![Step::SparseVjp, Step::SparseJvp]],
            };
            let functions = vec![function];
            let request =
                Request { functions, derivatives: true, sparse: true, derived, ..Request::default() };
            let compiled = loaded.compile(&request, &pipeline::Options::default())?;
            let warnings = compiled.warnings.clone();
            let memory = binds(&compiled, memory);
            let options = &self.program.options.execution.code;
            let mut callee = Callee::new(compiled, Backend::SOONEST, options, &memory)?;
            callee.bind(loaded, &memory)?;
            Ok((callee, warnings))
        })?;
        self.program.warn(&warnings, &sources);
        Ok(Prepared { callee, before: None, sources })
    }
}

impl Prepared {
    fn matrix(&mut self, name: &str, point: &[Number], order: Order) -> Result<Csr, Failure> {
        let Prepared { callee, before, .. } = self;
        let point = bits(callee, point)?;
        let outputs = callee.outputs.iter().filter(|n| n.diff).count();
        if order != Order::First && outputs != 1 {
            let message = format!("`{name}` gives {outputs} numbers, not one");
            return Err(driver::Error::input(message).into());
        }
        let found = match (order, before.as_ref()) {
            (Order::First, None) => callee.sparse_jacobian(&point)?,
            (Order::First, Some(before)) => callee.sparse_jacobian_again(&point, before)?,
            (Order::Second(recovery), Some(before)) if before.recovery == recovery => {
                callee.sparse_hessian_again(&point, 0, before)?
            }
            (Order::Second(recovery), _) => callee.sparse_hessian(&point, 0, recovery)?,
        };
        let Sparse { matrix, plan, recovery } = found;
        // The next matrix has other numbers.
        let pattern = matrix.pattern.clone();
        *before = Some(Sparse { matrix: Csr { pattern, values: Vec::new() }, plan, recovery });
        Ok(matrix)
    }
}
