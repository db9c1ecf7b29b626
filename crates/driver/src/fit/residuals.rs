//! The residuals of a fit, and the products with their Jacobian, for Levenberg–Marquardt: `J v` in forward mode, `Jᵀ u`
//! in reverse mode, each by one dispatch for all items.

use crate::bind;
use crate::error::Error;
use crate::fit::numbers::put_number;
use crate::fit::optimise::least_squares::Residuals;
use crate::fit::{Fit, MOST_THREADS};

impl Residuals for Fit {
    fn residuals(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<(), Error> {
        self.put(x);
        self.each_result("fit_value", "fit_residual", out)
    }

    fn jvp(&mut self, x: &[f64], v: &[f64], out: &mut Vec<f64>) -> Result<(), Error> {
        self.put(x);
        let mut tangents: Vec<Vec<u8>> = self.shares.iter().map(|&share| vec![0; share]).collect();
        for (place, &v) in self.places.iter().zip(v) {
            put_number(&mut tangents[place.param], place.gradient_at, place.gradient_scalar, v);
        }
        for (f, tangent) in self.kernel.fitted.iter().zip(&tangents) {
            self.runner.bind(&format!("fit_tangent_{}", f.name), tangent);
        }
        self.each_result("fit_forward", "fit_change", out)
    }

    fn vjp(&mut self, x: &[f64], u: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.put(x);
        out.fill(0.0);
        let missing = || Error::Internal("the buffer of cotangents is gone".into());
        let element = self.runner.element("fit_cotangent").ok_or_else(missing)?;
        let leaves = bind::scalars(self.runner.mem(), element);
        let stride = self.runner.mem().size(element) as usize;
        let order = self.order();
        for (part, u) in order.chunks(MOST_THREADS).zip(u.chunks(MOST_THREADS * leaves.len())) {
            let mut bytes = vec![0; part.len() * stride];
            for (item, u) in u.chunks(leaves.len()).enumerate() {
                for (&u, &(at, s)) in u.iter().zip(&leaves) {
                    put_number(&mut bytes, item * stride + at, s, u);
                }
            }
            self.runner.bind("fit_cotangent", &bytes);
            self.add_up(part)?;
            self.read_gradient(out)?;
        }
        Ok(())
    }

    fn group(&self) -> usize {
        // The residuals of a function that is called once are of many items.
        let element = self.runner.element("fit_residual").filter(|_| !self.kernel.loss.is_whole());
        element.map_or(1, |element| bind::scalars(self.runner.mem(), element).len())
    }
}

impl Fit {
    /// The numbers of a buffer that an entry point writes for each item.
    fn each_result(&mut self, entry: &str, buffer: &str, out: &mut Vec<f64>) -> Result<(), Error> {
        out.clear();
        for part in self.order().chunks(MOST_THREADS) {
            self.choose(part);
            self.dispatch(entry, part.len(), None)?;
            out.extend(self.results(buffer, part.len())?);
        }
        Ok(())
    }
}
