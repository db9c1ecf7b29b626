//! Sparse matrices of derivatives.

use driver::call::Sparse;
use driver::sparse::symmetric::Recovery;

use super::{Arguments, Failure, Function, differentiable, place, point};

/// A matrix of derivatives of which most are zero, in compressed rows.
///
/// The numbers of row `i` are `values()[starts()[i]..starts()[i + 1]]`, and the same range of `columns()` says where they
/// are. All others are zero, whatever the values are on the path that the function takes at the point.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseJacobian {
    outputs: Vec<String>,
    inputs: Vec<String>,
    sparse: Sparse,
}

impl SparseJacobian {
    /// The path of each row.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// The path of each column.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// Where each row begins, and the end of the last one.
    pub fn starts(&self) -> &[usize] {
        &self.sparse.matrix.pattern.starts
    }

    /// The column of each number, in ascending order in each row.
    pub fn columns(&self) -> &[u32] {
        &self.sparse.matrix.pattern.columns
    }

    /// The numbers, row by row.
    pub fn values(&self) -> &[f64] {
        &self.sparse.matrix.values
    }

    /// All numbers, row by row.
    pub fn dense(&self) -> Vec<Vec<f64>> {
        self.sparse.matrix.dense()
    }

    /// The numbers of products of forward and of reverse mode that the matrix was made of.
    pub fn products(&self) -> (usize, usize) {
        (self.sparse.plan.forward.count, self.sparse.plan.reverse.count)
    }
}

impl Function {
    /// All first derivatives, of a function with many parameters and results that each depend on few. The pattern is found
    /// from the program, along the path that it takes, and few products in both modes have all numbers (docs/jacobians.md).
    ///
    /// ```
    /// let module = pullback::Compiler::new().text("a.slang", "
    ///     [Differentiable] double[3] f(double x[3])
    ///     {
    ///         double y[3];
    ///         for (int i = 0; i < 3; i++) y[i] = x[i] * x[i] - (i > 0 ? x[i - 1] : 0.0l);
    ///         return y;
    ///     }")?;
    /// let jacobian = module.function("f")?.sparse_jacobian([("x", [1.0, 2.0, 3.0])])?;
    /// assert_eq!(jacobian.starts(), [0, 1, 3, 5]);
    /// assert_eq!(jacobian.columns(), [0, 0, 1, 1, 2]);
    /// assert_eq!(jacobian.values(), [2.0, -1.0, 4.0, -1.0, 6.0]);
    /// assert_eq!(jacobian.products(), (2, 0));
    /// # Ok::<(), pullback::Failure>(())
    /// ```
    pub fn sparse_jacobian(&self, arguments: impl Into<Arguments>) -> Result<SparseJacobian, Failure> {
        let arguments = arguments.into();
        self.shared.first.on(|callee| {
            let point = point(callee, &arguments)?;
            let (outputs, inputs) = (differentiable(&callee.outputs), differentiable(&callee.inputs));
            Ok(SparseJacobian { outputs, inputs, sparse: callee.sparse_jacobian(&point)? })
        })
    }

    /// [`Self::sparse_jacobian`] at another point, with the pattern and the products of one before, which takes a fraction of
    /// the time. Where the function takes another path, so that more derivatives differ from zero, that shows in the product
    /// with a random direction, and the pattern is found again.
    pub fn sparse_jacobian_again(
        &self,
        arguments: impl Into<Arguments>,
        before: &SparseJacobian,
    ) -> Result<SparseJacobian, Failure> {
        let arguments = arguments.into();
        self.shared.first.on(|callee| {
            let point = point(callee, &arguments)?;
            let (outputs, inputs) = (differentiable(&callee.outputs), differentiable(&callee.inputs));
            self.is_own((&outputs, &inputs), before)?;
            let sparse = callee.sparse_jacobian_again(&point, &before.sparse)?;
            Ok(SparseJacobian { outputs, inputs, sparse })
        })
    }

    /// The second derivatives of the result with that path by all numbers of the parameters, of which most are zero.
    ///
    /// ```
    /// use pullback::Recovery;
    ///
    /// let module = pullback::Compiler::new().text("a.slang", "
    ///     [Differentiable] double f(double x[4])
    ///     {
    ///         double sum = 0;
    ///         for (int i = 0; i < 3; i++) sum += x[i] * x[i + 1];
    ///         return sum;
    ///     }")?;
    /// let (f, x) = (module.function("f")?, [("x", [1.0, 2.0, 3.0, 4.0])]);
    /// let direct = f.sparse_hessian(x, "result", Recovery::Direct)?;
    /// assert_eq!(direct.columns(), [1, 0, 2, 1, 3, 2]);
    /// assert_eq!(direct.values(), [1.0; 6]);
    /// let fewer = f.sparse_hessian(x, "result", Recovery::Substitution)?;
    /// assert_eq!((direct.products(), fewer.products()), ((3, 0), (2, 0)));
    /// # Ok::<(), pullback::Failure>(())
    /// ```
    pub fn sparse_hessian(
        &self,
        arguments: impl Into<Arguments>,
        output: &str,
        recovery: Recovery,
    ) -> Result<SparseJacobian, Failure> {
        let arguments = arguments.into();
        self.second()?.on(|callee| {
            let point = point(callee, &arguments)?;
            let inputs = differentiable(&callee.inputs);
            let output = place(&callee.outputs, output)?;
            let sparse = callee.sparse_hessian(&point, output, recovery)?;
            Ok(SparseJacobian { outputs: inputs.clone(), inputs, sparse })
        })
    }

    /// [`Self::sparse_hessian`] at another point, as [`Self::sparse_jacobian_again`]: with the pattern, the products and the
    /// recovery of one before, of the same result.
    pub fn sparse_hessian_again(
        &self,
        arguments: impl Into<Arguments>,
        output: &str,
        before: &SparseJacobian,
    ) -> Result<SparseJacobian, Failure> {
        let arguments = arguments.into();
        self.second()?.on(|callee| {
            let point = point(callee, &arguments)?;
            let inputs = differentiable(&callee.inputs);
            self.is_own((&inputs, &inputs), before)?;
            let output = place(&callee.outputs, output)?;
            let sparse = callee.sparse_hessian_again(&point, output, &before.sparse)?;
            Ok(SparseJacobian { outputs: inputs.clone(), inputs, sparse })
        })
    }

    /// Refuses a matrix whose rows and columns are others.
    fn is_own(&self, paths: (&Vec<String>, &Vec<String>), before: &SparseJacobian) -> Result<(), Failure> {
        if paths == (&before.outputs, &before.inputs) {
            return Ok(());
        }
        Err(Failure::input(format!("the matrix before is not one of `{}`", self.name())))
    }
}
