//! Calls at one point with many directions: the products that matrices of derivatives are made of.
//!
//! A call is given by its numbers that differ from zero, so that a thousand unit vectors are a thousand numbers. All calls
//! of a group lie side by side in the tables ([`crate::wrap::Row`]); where their memory is too much for one dispatch, they
//! are divided.

use std::ops::Range;

use ir::{Scalar, scalar};

use super::{Callee, Number};
use crate::error::Error;
use crate::sparse::Products;
use crate::wrap::{Tables, Wrapped};

/// The fewest arguments and results of the calls of a dispatch that takes all cores.
const LARGE: usize = 1 << 16;
/// The most bytes of arguments and results of the calls of one dispatch.
pub(super) const MOST_BYTES: usize = 1 << 28;

impl Callee {
    /// Calls a kernel's function once for each list of numbers, which follow those of the point, and gives its results from
    /// number `skip` on.
    pub(super) fn call(
        &mut self,
        kernel: &Wrapped,
        point: &[u64],
        calls: &[Vec<u64>],
        skip: usize,
    ) -> Result<Vec<Vec<u64>>, Error> {
        let mut all = Calls::default();
        calls.iter().for_each(|call| all.push(call.iter().copied().enumerate()));
        let mut results = Vec::with_capacity(calls.len());
        self.each(kernel, point, &all, |range, tables, bytes| {
            let numbers = skip..kernel.results.len();
            let number = |call| move |n| kernel.results.read(tables, bytes, n)(call);
            results
                .extend((0..range.len()).map(|call| numbers.clone().map(number(call)).collect::<Vec<_>>()));
        })?;
        Ok(results)
    }

    /// The products that a kernel computes: differentials of these types, which are its results from number `skip` on.
    pub(super) fn products(
        &mut self,
        kernel: &Wrapped,
        point: &[u64],
        calls: &Calls,
        scalars: &[Scalar],
        skip: usize,
    ) -> Result<Products, Error> {
        let mut products = Products::new(calls.len(), scalars.len());
        self.each(kernel, point, calls, |range, tables, bytes| {
            for (row, &s) in scalars.iter().enumerate() {
                let read = kernel.results.read(tables, bytes, skip + row);
                let found = products.row_mut(row)[range.clone()].iter_mut().enumerate();
                found.for_each(|(call, x)| *x = float(s, read(call)));
            }
        })?;
        Ok(products)
    }

    /// Calls a kernel's function in as many dispatches as its memory asks for. If calls may change memory, each starts with
    /// the memory's bound content. `done` takes the calls of each dispatch, and the tables of results with their bytes, in
    /// which these calls are the first.
    fn each(
        &mut self,
        kernel: &Wrapped,
        point: &[u64],
        calls: &Calls,
        mut done: impl FnMut(Range<usize>, &Tables, &[&[u8]]),
    ) -> Result<(), Error> {
        let bytes = 8 * (kernel.args.len() + kernel.results.len()).max(1);
        let most =
            if self.writable.is_some() { 1 } else { (MOST_BYTES / bytes).next_multiple_of(self.group) };
        let writable = self.writable.take();
        let mut start = 0;
        let mut outcome = Ok(());
        while start < calls.len() && outcome.is_ok() {
            let range = start..calls.len().min(start + most.max(self.group));
            for (global, bytes) in writable.iter().flatten() {
                self.runner.bytes_mut_of(*global).copy_from_slice(bytes);
            }
            start = range.end;
            outcome = self.dispatch(kernel, point, calls, range.clone()).map(|()| {
                let globals = self.results.globals.iter();
                let bytes: Vec<&[u8]> = globals.map(|t| self.runner.bytes_of(t.1)).collect();
                done(range, &self.results, &bytes);
            });
        }
        self.writable = writable;
        outcome
    }

    fn dispatch(
        &mut self,
        kernel: &Wrapped,
        point: &[u64],
        calls: &Calls,
        range: Range<usize>,
    ) -> Result<(), Error> {
        // The last group is padded with copies of the first call.
        let threads = range.len().next_multiple_of(self.group);
        self.give(kernel, point, calls, range, threads);
        // Waking other cores takes longer than a small function.
        let is_large = threads * (kernel.args.len() + kernel.results.len()) >= LARGE;
        self.runner.call(kernel.entry, (threads / self.group) as u32, is_large)?;
        Ok(())
    }

    /// Fills the tables for these calls, all at one point.
    pub(super) fn give(
        &mut self,
        kernel: &Wrapped,
        point: &[u64],
        calls: &Calls,
        range: Range<usize>,
        threads: usize,
    ) {
        for (table, &(_, global)) in self.common.globals.iter().enumerate() {
            let bytes = self.runner.zeroed(global, kernel.shared.size(&self.common, table, 1));
            let numbers = point.iter().enumerate().map(|(n, &bits)| (0, n, bits));
            kernel.shared.write(&self.common, table, bytes, numbers);
        }
        for (table, &(_, global)) in self.arguments.globals.iter().enumerate() {
            let bytes = self.runner.zeroed(global, kernel.args.size(&self.arguments, table, threads));
            let call = |thread: usize| range.start + if thread < range.len() { thread } else { 0 };
            let numbers = (0..threads)
                .flat_map(|thread| calls.numbers(call(thread)).map(move |(n, bits)| (thread, n, bits)));
            kernel.args.write(&self.arguments, table, bytes, numbers);
        }
        for (table, &(_, global)) in self.results.globals.iter().enumerate() {
            let size = kernel.results.size(&self.results, table, threads);
            // All of it is written.
            if self.runner.bytes_of(global).len() != size || size == 0 {
                self.runner.bind_global(global, &vec![0; size]);
            }
        }
    }
}

/// The numbers of several calls that differ from zero.
pub(super) struct Calls {
    /// Where each call begins in `numbers`, and the end of the last one.
    starts: Vec<usize>,
    /// The index of each number, and its bits.
    numbers: Vec<(u32, u64)>,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { starts: vec![0], numbers: Vec::new() }
    }
}

impl Calls {
    /// Adds a call with these numbers, each with its index; the others are zero.
    pub(super) fn push(&mut self, numbers: impl IntoIterator<Item = (usize, u64)>) {
        let present = numbers.into_iter().filter(|&(_, bits)| bits != 0);
        self.numbers.extend(present.map(|(n, bits)| (n as u32, bits)));
        self.starts.push(self.numbers.len());
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The numbers of a call.
    pub(super) fn numbers(&self, call: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let own = &self.numbers[self.starts[call]..self.starts[call + 1]];
        own.iter().map(|&(n, bits)| (n as usize, bits))
    }
}

/// The types of the numbers that have tangents.
pub(super) fn scalars(numbers: &[Number]) -> Vec<Scalar> {
    numbers.iter().filter(|n| n.diff).map(|n| n.scalar).collect()
}

/// For each number that has a tangent, a call with the tangents of all of them: one for that number, zero for the others.
pub(super) fn units(numbers: &[Number]) -> Calls {
    let mut calls = Calls::default();
    scalars(numbers).into_iter().enumerate().for_each(|(at, s)| calls.push([(at, scalar::one(s))]));
    calls
}

/// The differentials of the numbers that have tangents, as `f64`.
pub(super) fn floats(numbers: &[Number], bits: &[u64]) -> Vec<f64> {
    let diff = numbers.iter().filter(|n| n.diff);
    diff.zip(bits).map(|(n, &bits)| float(n.scalar, bits)).collect()
}

/// A differential as `f64`. A device that ignores the sign of zero leaves absent ones -0, which is 0 as a number.
fn float(s: Scalar, bits: u64) -> f64 {
    scalar::to_f64(s, bits) + 0.0
}
