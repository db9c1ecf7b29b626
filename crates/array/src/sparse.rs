//! Sparse Jacobians and Hessians of a function at one point.

use driver::Request;
use driver::call::{Callee, Sparse};
use driver::launch::Backend;
use driver::pipeline;
use driver::sparse::Csr;
use driver::sparse::symmetric::Recovery;
use lower::Step;
use serde_json::Value;

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

/// State for the next call at another point: the compiled function and the last matrix.
pub(crate) struct Prepared {
    callee: Callee,
    before: Option<Sparse>,
}

impl Function {
    /// The derivatives that may differ from zero, over the numbers that have derivatives. `point` lists the numbers of all
    /// leaves of all inputs, in order. The pattern of the call before is taken if it fits the point, unless the function
    /// reaches memory.
    pub fn sparse(&self, point: &[Number], memory: &[(String, Value)], order: Order) -> Result<Csr, Error> {
        let place = &self.prepared[usize::from(order != Order::First)];
        let mut kept = if memory.is_empty() { locked(place).take() } else { None };
        let found = self.program.with(|session, loaded| {
            let mut prepared = match kept.take() {
                Some(prepared) => prepared,
                None => {
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
                    let memory = binds(&compiled, memory);
                    let options = &self.program.options.execution.code;
                    let mut callee = Callee::new(compiled, Backend::SOONEST, options, &memory)?;
                    callee.bind(loaded, &memory)?;
                    Prepared { callee, before: None }
                }
            };
            let Prepared { callee, before } = &mut prepared;
            let point = bits(callee, point)?;
            let outputs = callee.outputs.iter().filter(|n| n.diff).count();
            if order != Order::First && outputs != 1 {
                let message = format!("`{}` gives {outputs} numbers, not one", self.name);
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
            let matrix = found.matrix.clone();
            *before = Some(found);
            Ok((matrix, prepared))
        });
        let ((matrix, prepared), _) = found?;
        if memory.is_empty() {
            *locked(place) = Some(prepared);
        }
        Ok(matrix)
    }
}
