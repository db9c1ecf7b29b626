//! Sparse Jacobians and Hessians of a function at a point.
//!
//! The pattern ([`super::pattern`]) is that of the very code that computes the products, along the path that the point takes,
//! so a derivative that a program has written counts, whatever its function depends on. One more product has a direction of
//! random size, and is compared with that of the matrix that was recovered.

use ir::interp::Memory;

use super::{Callee, Point, Wrapped, floats};
use crate::error::Error;
use crate::oracle;
use crate::sparse::columns::Plan;
use crate::sparse::symmetric::{self, Recovery};
use crate::sparse::{Colours, Csr, Pattern};

/// A sparse matrix of derivatives, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse {
    /// The matrix.
    pub matrix: Csr,
    /// The colours of its columns and rows.
    pub plan: Plan,
    /// How its numbers follow from the products.
    pub recovery: Recovery,
}

/// The most bytes of arguments and results of the calls of one dispatch.
const MOST_BYTES: usize = 1 << 28;

impl Callee {
    /// The Jacobian, over the numbers that have tangents, by products in both modes that have all its numbers.
    pub fn sparse_jacobian(&mut self, point: &Point) -> Result<Sparse, Error> {
        let tangents = self.random_tangents();
        let arguments = [&point[..], &tangents].concat();
        let pattern = self.pattern(self.info.jvp, &arguments, point.len(), self.outputs.len())?;
        let plan = Plan::new(&pattern);
        let [mut forward, reverse] = self.both_modes(point, &plan, Some(&tangents))?;
        let product = forward.pop().unwrap_or_default();
        let values = plan.recovered(&pattern, &forward, &reverse);
        let matrix = Csr { pattern, values };
        self.check(&matrix, &tangents, &product)?;
        Ok(Sparse { matrix, plan, recovery: Recovery::Direct })
    }

    /// The Jacobian at another point, with the pattern and the products of one before. Where the product with a random
    /// direction shows that the pattern is another one here, that is found as by [`Self::sparse_jacobian`].
    pub fn sparse_jacobian_again(&mut self, point: &Point, before: &Sparse) -> Result<Sparse, Error> {
        let tangents = self.random_tangents();
        let [mut forward, reverse] = self.both_modes(point, &before.plan, Some(&tangents))?;
        let product = forward.pop().unwrap_or_default();
        let values = before.plan.recovered(&before.matrix.pattern, &forward, &reverse);
        let matrix = Csr { pattern: before.matrix.pattern.clone(), values };
        match matrix.differs(&floats(&self.inputs, &tangents), &product, self.tolerances().1) {
            None => Ok(Sparse { matrix, ..before.clone() }),
            Some(_) => self.sparse_jacobian(point),
        }
    }

    /// The products of a plan, `[forward, reverse]`, and at the end of the former that with one more direction.
    fn both_modes(
        &mut self,
        point: &Point,
        plan: &Plan,
        more: Option<&Vec<u64>>,
    ) -> Result<[Vec<Vec<f64>>; 2], Error> {
        let calls: Vec<Vec<u64>> = directions(&self.inputs, &plan.forward).chain(more.cloned()).collect();
        let jvp = self.derivative(self.jvp.as_ref())?;
        let (outputs, skip) = (self.outputs.clone(), self.outputs.len());
        let forward = self.products(&jvp, point, &calls, &outputs, skip)?;
        let calls: Vec<Vec<u64>> = directions(&self.outputs, &plan.reverse).collect();
        if calls.is_empty() {
            return Ok([forward, Vec::new()]);
        }
        let vjp = self.derivative(self.vjp.as_ref())?;
        let reverse = self.products(&vjp, point, &calls, &self.inputs.clone(), 0)?;
        Ok([forward, reverse])
    }

    /// The second derivatives of the differentiable output number `output`, if they were requested: a symmetric matrix over
    /// the inputs that have tangents.
    pub fn sparse_hessian(
        &mut self,
        point: &Point,
        output: usize,
        recovery: Recovery,
    ) -> Result<Sparse, Error> {
        let tangents = self.random_tangents();
        let along = self.second_order(output);
        let first = point.len() + along(&[]).len() - self.outputs.iter().filter(|n| n.diff).count();
        let arguments = [&point[..], &along(&tangents)].concat();
        let pattern = self.pattern(self.info.derived.first().copied(), &arguments, first, tangents.len())?;
        let pattern = pattern.symmetric();
        let colours = symmetric::coloured(&pattern, recovery);
        let (matrix, product) = self.by_colours(point, output, &pattern, &colours, &tangents)?;
        self.check(&matrix, &tangents, &product)?;
        Ok(Sparse { matrix, plan: Plan { forward: colours, reverse: Colours::default() }, recovery })
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
        let (matrix, product) = self.by_colours(point, output, pattern, colours, &tangents)?;
        match matrix.differs(&floats(&self.inputs, &tangents), &product, self.tolerances().1) {
            None => Ok(Sparse { matrix, ..before.clone() }),
            Some(_) => self.sparse_hessian(point, output, before.recovery),
        }
    }

    /// A Hessian by its colours, and the product with one more direction.
    fn by_colours(
        &mut self,
        point: &Point,
        output: usize,
        pattern: &Pattern,
        colours: &Colours,
        more: &[u64],
    ) -> Result<(Csr, Vec<f64>), Error> {
        let second = self.hessian.clone();
        let second = second.ok_or_else(|| Error::input("the function has no second derivative"))?;
        let along = self.second_order(output);
        let directions = directions(&self.inputs, colours).chain([more.to_vec()]);
        let calls: Vec<Vec<u64>> = directions.map(|direction| along(&direction)).collect();
        let skip = self.inputs.iter().filter(|n| n.diff).count();
        let mut products = self.products(&second, point, &calls, &self.inputs.clone(), skip)?;
        let product = products.pop().unwrap_or_default();
        let values = symmetric::recovered(pattern, colours, &products)
            .ok_or_else(|| Error::Internal("the colouring of a Hessian has a cycle".into()))?;
        Ok((Csr { pattern: pattern.clone(), values }, product))
    }

    /// The arguments after the point of the derivative of the gradient of an output, for each direction.
    fn second_order(&self, output: usize) -> impl Fn(&[u64]) -> Vec<u64> + use<> {
        let cotangents = super::units(&self.outputs).nth(output).unwrap_or_default();
        let still = vec![0; cotangents.len()];
        move |direction| [&cotangents[..], direction, &still].concat()
    }

    /// A copy of the memory that the function reaches, for the interpreter.
    pub(super) fn memory(&self) -> Memory {
        let module = self.runner.module();
        let buffers = self.runner.contents().map(<[u8]>::to_vec).collect();
        oracle::memory(module, buffers)
    }

    /// Tangents between 1 and 2 for the inputs that have them, as bits.
    fn random_tangents(&self) -> Vec<u64> {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            1.0 + (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let scalars = self.inputs.iter().filter(|n| n.diff).map(|n| n.scalar);
        scalars.map(|s| ir::scalar::from_f64(s, next())).collect()
    }

    /// The products that a kernel computes: the differentials of `numbers`, which are its results from number `skip` on.
    fn products(
        &mut self,
        kernel: &Wrapped,
        point: &[u64],
        calls: &[Vec<u64>],
        numbers: &[super::Number],
        skip: usize,
    ) -> Result<Vec<Vec<f64>>, Error> {
        let most = (MOST_BYTES / 8 / calls.first().map_or(1, Vec::len).max(1)).next_multiple_of(self.group);
        let mut products = Vec::with_capacity(calls.len());
        for part in calls.chunks(most.max(self.group)) {
            let found = self.call(kernel, point, part, skip)?;
            products.extend(found.iter().map(|found| floats(numbers, found)));
        }
        Ok(products)
    }

    /// Compares the product of a matrix with that of the run that found its pattern.
    fn check(&self, matrix: &Csr, tangents: &[u64], product: &[f64]) -> Result<(), Error> {
        let Some(row) = matrix.differs(&floats(&self.inputs, tangents), product, self.tolerances().0) else {
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

    /// By how much products may differ that are computed in two ways, relative to their terms: what must not be exceeded
    /// however ill-conditioned the function is, and what shows no more than rounding errors. Where it is exceeded at
    /// another point, the pattern is found again, which costs time and nothing else.
    fn tolerances(&self) -> (f64, f64) {
        let numbers = self.inputs.iter().chain(&self.outputs).filter(|n| n.diff);
        match numbers.map(|n| n.scalar.bytes()).min() {
            Some(2) => (0.2, 1e-2),
            Some(4) => (1e-2, 1e-5),
            _ => (1e-6, 1e-13),
        }
    }
}

/// For each colour, a differential for every number that has one: 1 for those of the colour, 0 for the others.
fn directions(numbers: &[super::Number], colours: &Colours) -> impl Iterator<Item = Vec<u64>> {
    let scalars: Vec<ir::Scalar> = numbers.iter().filter(|n| n.diff).map(|n| n.scalar).collect();
    colours.members().into_iter().map(move |members| {
        let mut direction = vec![0; scalars.len()];
        for at in members {
            direction[at] = ir::scalar::one(scalars[at]);
        }
        direction
    })
}
