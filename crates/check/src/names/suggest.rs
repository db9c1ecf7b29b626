//! Suggests names that the user may have meant.

use syntax::ast::Attribute;
use syntax::spelling::nearest;
use syntax::{DeclId, Diagnostic};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::types::{Scalar, Ty};

/// Attributes that have a meaning here and that users may misspell.
const ATTRIBUTES: &str = "Differentiable ForwardDifferentiable BackwardDifferentiable MaybeDifferentiable \
    TreatAsDifferentiable ForwardDerivative ForwardDerivativeOf BackwardDerivative \
    BackwardDerivativeOf ImplicitDerivative PrimalSubstitute PrimalSubstituteOf DerivativeMember NoDiffThis \
    deriv_method PreferRecompute PreferCheckpoint Checkpoint CheckpointStates CheckpointBudget MaxIters ForceUnroll \
    ForceInline FastMath AutoPyBindCUDA CUDAKernel CudaKernel CUDADeviceExport TorchEntryPoint \
    SpecializationConstant Specialize UnscopedEnum numthreads NumThreads shader Shader mutating \
    nonmutating anyValueSize unroll";

/// Built-in types, except for numbers and vectors and matrices of them.
const NATIVE_TYPES: &str = "int8_t int16_t int64_t uint8_t uint16_t uint64_t void String vector matrix Array Tuple Optional \
    Ptr DifferentialPair DifferentialPtrPair StructuredBuffer RWStructuredBuffer ConstantBuffer \
    ParameterBlock CoopVec float16_t float32_t";

/// Functions and operators that are not declared in any file.
const NATIVE_FUNCTIONS: [&str; 4] = ["fwd_diff", "bwd_diff", "diffPair", "makeTuple"];

/// Further attributes of Slang that are spelt similarly to some of [`ATTRIBUTES`].
const OTHERS: &str = "CudaDeviceExport CudaHost CUDAHost noinline ForwardDifferential constref";

/// The names of types that are not declared in any file.
fn native_names() -> Vec<String> {
    let mut names: Vec<String> = NATIVE_TYPES.split(' ').map(str::to_string).collect();
    for scalar in Scalar::all().map(Scalar::name).filter(|name| !name.ends_with("_t")) {
        names.push(scalar.to_string());
        for n in 1..=4 {
            names.push(format!("{scalar}{n}"));
            names.extend((1..=4).map(|m| format!("{scalar}{n}x{m}")));
        }
    }
    names
}

impl Program {
    /// Warns about an unknown attribute that is spelt like a known one: unknown attributes have no effect.
    pub(crate) fn check_attribute(&mut self, attribute: &Attribute) {
        let name = self.ast.name(attribute.name);
        let in_any_case = ["numthreads", "shader"].iter().any(|known| name.eq_ignore_ascii_case(known));
        if in_any_case
            || name.starts_with("__")
            || ATTRIBUTES.split(' ').chain(OTHERS.split(' ')).any(|known| known == name)
        {
            return;
        }
        // `[Speed]` is an attribute if the user declares a struct `SpeedAttribute`.
        let own = self.ast.symbols.find(&format!("{name}Attribute")).is_some();
        let Some(similar) = nearest(name, ATTRIBUTES.split(' ')).filter(|_| !own) else { return };
        let warning = Diagnostic::warning("E31000", attribute.span, format!("unknown attribute '{name}'"));
        self.report(warning.help(format!("did you mean '[{similar}]'?")));
    }
}

/// The name of a GLSL vector or matrix type in this language.
fn of_glsl(text: &str) -> Option<String> {
    let is_size = |size: &str| matches!(size, "2" | "3" | "4");
    for (word, scalar) in
        [("vec", "float"), ("ivec", "int"), ("uvec", "uint"), ("bvec", "bool"), ("dvec", "double")]
    {
        if let Some(size) = text.strip_prefix(word).filter(|size| is_size(size)) {
            return Some(format!("{scalar}{size}"));
        }
    }
    let size = text.strip_prefix("mat")?;
    let (columns, rows) = size.split_once('x').unwrap_or((size, size));
    (is_size(columns) && is_size(rows)).then(|| format!("float{rows}x{columns}"))
}

impl Checker<'_> {
    /// A name in scope with a similar spelling.
    pub(crate) fn similar_name(&self, text: &str) -> Option<String> {
        if let Some(name) = of_glsl(text) {
            return Some(name);
        }
        let ast = &self.p.ast;
        let local = nearest(text, self.locals.iter().map(|l| ast.name(l.0)));
        if local.is_some() {
            return local;
        }
        let mut names: Vec<&str> = Vec::new();
        let scopes = ast.enclosing(self.scope).filter_map(|decl| self.p.names_in(decl));
        names.extend(scopes.flat_map(|members| members.keys()).map(|&s| ast.name(s)));
        names.extend(self.p.modules.all[self.module].names.keys().map(|&s| ast.name(s)));
        if let Some(found) = nearest(text, names.into_iter()) {
            return Some(found);
        }
        let library = self.p.modules.all[0].names.keys().map(|&s| ast.name(s));
        let native = native_names();
        let native = native.iter().map(String::as_str);
        nearest(text, library.chain(syntax::parser::WORDS).chain(NATIVE_FUNCTIONS).chain(native))
    }

    /// A member with a similar spelling.
    pub(crate) fn similar_member(&mut self, ty: Ty, text: &str) -> Option<String> {
        if ty == Ty::ERROR {
            return None;
        }
        let containers: Vec<DeclId> = self.p.facets(ty).iter().map(|f| f.container).collect();
        let mut names: Vec<String> = Vec::new();
        for container in containers {
            if let Some(members) = self.p.names_in(container) {
                names.extend(members.keys().map(|&s| self.p.ast.name(s).to_string()));
            }
        }
        names.extend(self.p.fields(ty).iter().map(|f| self.p.ast.decl_name(f.0).to_string()));
        nearest(text, names.iter().map(String::as_str))
    }
}
