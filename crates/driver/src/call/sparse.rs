//! Sparse Jacobians and Hessians of a function at a point.
//!
//! The pattern ([`super::pattern`]) is that of the very code that computes the products, along the path that the point takes,
//! so a derivative that a program has written counts, whatever its function depends on. One more product has a direction of
//! random size, and is compared with that of the matrix that was recovered.

use std::sync::Arc;

use ir::Func;
use ir::interp::Memory;

use super::{Callee, Calls, Point, floats, scalars};
use crate::error::Error;
use crate::gradcheck::Random;
use crate::oracle;
use crate::sparse::columns::Plan;
use crate::sparse::symmetric::{self, Recovery};
use crate::sparse::{Colours, Csr, Pattern, Products};
use crate::wrap;

/// A sparse matrix of derivatives, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse {
    /// The matrix.
    pub matrix: Csr,
    /// The colours of its columns and rows.
    pub plan: Arc<Plan>,
    /// How its numbers follow from the products.
    pub recovery: Recovery,
}

impl Callee {
    /// The Jacobian, over the numbers that have tangents, by products in both modes that have all its numbers.
    pub fn sparse_jacobian(&mut self, point: &Point) -> Result<Sparse, Error> {
        self.loses_none()?;
        let tangents = self.random_tangents();
        let (arguments, at) = self.of_jacobian(point, &tangents);
        let pattern = self.pattern(self.info.jvp, &arguments, at.0, at.1)?;
        let plan = Arc::new(Plan::new(&pattern));
        let (matrix, product) = self.both_modes(point, &Arc::new(pattern), &plan, &tangents)?;
        self.check(&matrix, &tangents, &product, &self.used(&plan))?;
        Ok(Sparse { matrix, plan, recovery: Recovery::Direct })
    }

    /// The arguments of forward mode in a direction, the number of the first tangent among them, and that of the first one
    /// among the results.
    fn of_jacobian(&self, point: &Point, tangents: &[u64]) -> (Vec<u64>, (usize, usize)) {
        ([point, tangents].concat(), (point.len(), self.outputs.len()))
    }

    /// The Jacobian at another point, with the pattern and the products of one before. Where masks or the product with a
    /// random direction show that the pattern is another one here, that is found as by [`Self::sparse_jacobian`].
    pub fn sparse_jacobian_again(&mut self, point: &Point, before: &Sparse) -> Result<Sparse, Error> {
        let tangents = self.random_tangents();
        let (arguments, at) = self.of_jacobian(point, &tangents);
        if !self.holds(self.info.jvp, &arguments, at, &before.matrix.pattern) {
            return self.sparse_jacobian(point);
        }
        let (matrix, product) = self.both_modes(point, &before.matrix.pattern, &before.plan, &tangents)?;
        let (_, tolerance) = self.tolerances(&self.used(&before.plan));
        match matrix.gives(&floats(&self.inputs, &tangents), &product, tolerance) {
            true => Ok(Sparse { matrix, plan: before.plan.clone(), recovery: before.recovery }),
            false => self.sparse_jacobian(point),
        }
    }

    /// The matrix by the products of a plan, and the product with one more direction.
    fn both_modes(
        &mut self,
        point: &Point,
        pattern: &Arc<Pattern>,
        plan: &Plan,
        more: &[u64],
    ) -> Result<(Csr, Vec<f64>), Error> {
        let (inputs, outputs) = (scalars(&self.inputs), scalars(&self.outputs));
        let calls = directions(&inputs, &plan.forward, Some(more));
        let jvp = self.derivative(self.jvp.as_ref())?;
        let forward = self.products(&jvp, point, &calls, &outputs, self.outputs.len())?;
        let calls = directions(&outputs, &plan.reverse, None);
        let reverse = match calls.len() {
            0 => Products::default(),
            _ => {
                let vjp = self.derivative(self.vjp.as_ref())?;
                self.products(&vjp, point, &calls, &inputs, 0)?
            }
        };
        let values = plan.recovered(pattern, &forward, &reverse);
        Ok((Csr { pattern: pattern.clone(), values }, forward.product(plan.forward.count)))
    }

    /// The second derivatives of the differentiable output number `output`, if they were requested: a symmetric matrix over
    /// the inputs that have tangents.
    pub fn sparse_hessian(
        &mut self,
        point: &Point,
        output: usize,
        recovery: Recovery,
    ) -> Result<Sparse, Error> {
        self.loses_none()?;
        let tangents = self.random_tangents();
        let (arguments, at) = self.of_hessian(point, output, &tangents);
        let pattern = self.pattern(self.info.derived.first().copied(), &arguments, at.0, at.1)?;
        let pattern = Arc::new(pattern.symmetric());
        let colours = symmetric::coloured(&pattern, recovery);
        let (matrix, product) = self.by_colours(point, output, &pattern, &colours, &tangents)?;
        self.check(&matrix, &tangents, &product, &[self.info.derived.first().copied()])?;
        let plan = Plan { forward: colours, reverse: Colours::default() };
        Ok(Sparse { matrix, plan: Arc::new(plan), recovery })
    }

    /// As [`Self::of_jacobian`], of the derivative of the gradient of an output.
    fn of_hessian(&self, point: &Point, output: usize, tangents: &[u64]) -> (Vec<u64>, (usize, usize)) {
        let n_outputs = scalars(&self.outputs).len();
        let first = point.len() + n_outputs;
        let mut arguments = point.clone();
        arguments.resize(first + tangents.len() + n_outputs, 0);
        for (n, bits) in self.second_order(output, tangents.iter().copied().enumerate()) {
            arguments[point.len() + n] = bits;
        }
        (arguments, (first, tangents.len()))
    }

    /// The second derivatives at another point, as [`Self::sparse_jacobian_again`].
    pub fn sparse_hessian_again(
        &mut self,
        point: &Point,
        output: usize,
        before: &Sparse,
    ) -> Result<Sparse, Error> {
        let tangents = self.random_tangents();
        let (pattern, colours) = (&before.matrix.pattern, &before.plan.forward);
        let (arguments, at) = self.of_hessian(point, output, &tangents);
        if !self.holds(self.info.derived.first().copied(), &arguments, at, pattern) {
            return self.sparse_hessian(point, output, before.recovery);
        }
        let (matrix, product) = self.by_colours(point, output, pattern, colours, &tangents)?;
        let (_, tolerance) = self.tolerances(&[self.info.derived.first().copied()]);
        match matrix.gives(&floats(&self.inputs, &tangents), &product, tolerance) {
            true => Ok(Sparse { matrix, plan: before.plan.clone(), recovery: before.recovery }),
            false => self.sparse_hessian(point, output, before.recovery),
        }
    }

    /// A Hessian by its colours, and the product with one more direction.
    fn by_colours(
        &mut self,
        point: &Point,
        output: usize,
        pattern: &Arc<Pattern>,
        colours: &Colours,
        more: &[u64],
    ) -> Result<(Csr, Vec<f64>), Error> {
        let calls = directions(&scalars(&self.inputs), colours, Some(more));
        let products = self.second(point, output, &calls)?;
        let values = symmetric::recovered(pattern, colours, &products)
            .ok_or_else(|| Error::Internal("the colouring of a Hessian has a cycle".into()))?;
        Ok((Csr { pattern: pattern.clone(), values }, products.product(colours.count)))
    }

    /// A copy of the memory that the function reaches, for the interpreter.
    pub(super) fn memory(&self) -> Memory {
        let module = self.runner.module();
        let buffers = self.runner.contents().map(<[u8]>::to_vec).collect();
        oracle::memory(module, buffers)
    }

    /// Tangents between 1 and 2 for the inputs that have them, as bits.
    fn random_tangents(&self) -> Vec<u64> {
        let mut random = Random::new(1);
        let scalars = self.inputs.iter().filter(|n| n.diff).map(|n| n.scalar);
        scalars.map(|s| ir::scalar::from_f64(s, 1.0 + random.unit())).collect()
    }

    /// Refuses a function of which forward mode lacks a part: the pattern, and most of the numbers, are found by that mode.
    fn loses_none(&self) -> Result<(), Error> {
        match &self.lost {
            None => Ok(()),
            Some(message) => Err(Error::input(format!(
                "a sparse matrix of `{}` needs forward mode, but {message}",
                self.info.name
            ))),
        }
    }

    /// Compares the product of a matrix with that of the run that found its pattern.
    fn check(
        &self,
        matrix: &Csr,
        tangents: &[u64],
        product: &[f64],
        by: &[Option<Func>],
    ) -> Result<(), Error> {
        let (tolerance, _) = self.tolerances(by);
        let Some(row) = matrix.differs(&floats(&self.inputs, tangents), product, tolerance) else {
            return Ok(());
        };
        let name = &self.info.name;
        let message = format!(
            "the derivatives of `{name}` do not make a sparse matrix: row {row} gives another product than \
             the derivative itself; is a derivative that the program has written linear, and the same in \
             both modes?"
        );
        Err(Error::input(message))
    }

    /// By how much products of these functions may differ that are computed in two ways, relative to their terms: what must
    /// not be exceeded however ill-conditioned the function is, and what shows no more than rounding errors. Where it is
    /// exceeded at another point, the pattern is found again, which costs time and nothing else.
    fn tolerances(&self, funcs: &[Option<Func>]) -> (f64, f64) {
        let module = self.runner.module();
        match funcs.iter().flatten().filter_map(|&func| wrap::narrowest(module, func)).min() {
            Some(2) => (0.2, 1e-2),
            Some(4) => (1e-2, 1e-5),
            _ => (1e-6, 1e-13),
        }
    }

    /// The functions that compute the products of a plan.
    fn used(&self, plan: &Plan) -> [Option<Func>; 2] {
        [self.info.jvp, self.info.vjp.filter(|_| plan.reverse.count > 0)]
    }
}

/// For each colour, a call with a differential for every number: 1 for those of the colour, 0 for the others. If there is one
/// `more` direction, it is the last.
fn directions(scalars: &[ir::Scalar], colours: &Colours, more: Option<&[u64]>) -> Calls {
    let mut calls = Calls::default();
    for members in colours.members() {
        calls.push(members.into_iter().map(|at| (at, ir::scalar::one(scalars[at]))));
    }
    if let Some(more) = more {
        calls.push(more.iter().copied().enumerate());
    }
    calls
}
