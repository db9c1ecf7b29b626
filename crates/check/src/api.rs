//! The questions that `lower` and `driver` ask: each is answered on demand and remembered.

use syntax::ast::{BinaryOp, UnaryOp};
use syntax::{DeclId, ExprId, FileId, Span};

use crate::program::Program;
use crate::signature::{
    Accessors, Derivatives, DiffFieldTarget, Resolved, Signature, Subst,
};
use crate::tables::{Callable, FuncRef, Initializer};
use crate::types::{GenericArg, Ty, Val};

/// Finds modules for `import` and `__include`.
pub trait ModuleLoader {
    /// Parses the file into `program.ast` (unless it is there already) and gives its index in `ast.files`;
    /// `None` if there is no such file.
    fn load(&mut self, program: &mut Program, path: &str, quoted: bool, from: FileId) -> Option<usize>;
}

/// A loader that finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModules;

impl ModuleLoader for NoModules {
    fn load(&mut self, _: &mut Program, _: &str, _: bool, _: FileId) -> Option<usize> {
        None
    }
}

impl Program {
    /// A program of the library only. `core` are the indices of its files in `ast.files`.
    pub fn new(ast: syntax::Ast, core: &[usize]) -> Program {
        let _ = core;
        Program { ast, ..Program::default() }
    }

    /// Makes a parsed file (by its index in `ast.files`) a module of the program, with all that it imports and
    /// includes. Nothing is checked yet but the names of its declarations.
    pub fn add_module(&mut self, file: usize, loader: &mut dyn ModuleLoader) {
        let _ = (file, loader);
    }

    /// Makes sure that what belongs to a declaration is checked: a function's body and default arguments, a
    /// variable's or field's initialiser, an accessor's body. Idempotent.
    pub fn body(&mut self, decl: DeclId) {
        let _ = decl;
    }

    /// Checks everything that a file declares (for `pullback check`).
    pub fn check_file(&mut self, file: usize) {
        let _ = file;
    }

    /// The generic parameters of a declaration and of all around it, outermost first.
    pub fn all_generic_params(&self, decl: DeclId) -> Vec<DeclId> {
        let _ = decl;
        Vec::new()
    }

    /// What the generic parameters stand for in this function, and `This`.
    pub fn subst_of(&self, func: &FuncRef) -> Subst {
        let _ = func;
        Subst::default()
    }

    /// Puts arguments in. The result is normalised: associated types of known types are replaced.
    pub fn substitute(&mut self, ty: Ty, env: &Subst) -> Ty {
        let _ = env;
        ty
    }

    /// Puts arguments into a reference to a function (a callee found in a generic body).
    pub fn substitute_func(&mut self, func: &FuncRef, env: &Subst) -> FuncRef {
        let _ = env;
        func.clone()
    }

    /// Puts arguments into a callee.
    pub fn substitute_callable(&mut self, callable: &Callable, env: &Subst) -> Callable {
        let _ = env;
        callable.clone()
    }

    /// A generic argument under a substitution.
    pub fn substitute_arg(&mut self, arg: &GenericArg, env: &Subst) -> GenericArg {
        let _ = env;
        arg.clone()
    }

    /// The type of a declaration (variable, field, parameter, property, …), as declared: may mention parameters.
    pub fn decl_type(&mut self, decl: DeclId) -> Ty {
        let _ = decl;
        Ty::ERROR
    }

    /// The signature of a function with the arguments put in.
    pub fn func_signature(&mut self, func: &FuncRef) -> Signature {
        let _ = func;
        Signature { params: Vec::new(), ret: Ty::ERROR, ret_differentiable: false, this: None }
    }

    /// The signature through `fwd_diff` and `bwd_diff`. Under these operators a receiver is the first parameter.
    pub fn callable_signature(&mut self, callable: &Callable) -> Signature {
        let _ = callable;
        Signature { params: Vec::new(), ret: Ty::ERROR, ret_differentiable: false, this: None }
    }

    /// What fulfils a requirement (method, accessor, constructor, static function) for its `self_ty`. A function
    /// that is no requirement is its own resolution.
    pub fn resolve_requirement(&mut self, func: &FuncRef) -> Resolved {
        Resolved::Func(func.clone())
    }

    /// The accessors of a property or subscript (`decl` of the [`FuncRef`] is the property or subscript).
    pub fn accessors(&mut self, member: &FuncRef) -> Accessors {
        let _ = member;
        Accessors::default()
    }

    /// The user's function for an operator on two values of a type; `None` for built-in numbers.
    pub fn operator_of(&mut self, op: BinaryOp, ty: Ty) -> Option<FuncRef> {
        let _ = (op, ty);
        None
    }

    /// The user's function for a prefix operator on a type.
    pub fn unary_operator_of(&mut self, op: UnaryOp, ty: Ty) -> Option<FuncRef> {
        let _ = (op, ty);
        None
    }

    /// The fields of a struct (or synthesised differential, by primal fields), those of base structs first:
    /// declaration, type, whether it is `no_diff`.
    pub fn fields(&mut self, ty: Ty) -> Vec<(DeclId, Ty, bool)> {
        let _ = ty;
        Vec::new()
    }

    /// The `Differential` of a type; `None` if it is not differentiable.
    pub fn differential(&mut self, ty: Ty) -> Option<Ty> {
        let _ = ty;
        None
    }

    /// The `Differential` of an `IDifferentiablePtrType`.
    pub fn pointer_differential(&mut self, ty: Ty) -> Option<Ty> {
        let _ = ty;
        None
    }

    /// The differentiable fields of a struct and where their differentials are in `T.Differential`.
    pub fn diff_fields(&mut self, ty: Ty) -> Vec<(DeclId, DiffFieldTarget)> {
        let _ = ty;
        Vec::new()
    }

    /// The value of an integer constant expression.
    pub fn const_int(&mut self, expr: ExprId, env: &Subst) -> Option<i64> {
        let _ = (expr, env);
        None
    }

    /// The value of a compile-time integer under a substitution.
    pub fn val_int(&self, val: &Val, env: &Subst) -> Option<i64> {
        let _ = (val, env);
        None
    }

    /// The value of a case of an enumeration.
    pub fn enum_case_value(&mut self, case: DeclId) -> i64 {
        let _ = case;
        0
    }

    /// The integer type that an enumeration is stored as.
    pub fn enum_tag(&mut self, decl: DeclId) -> Ty {
        let _ = decl;
        Ty::INT
    }

    /// Where a function's derivatives come from: attributes on it and `…Of` attributes elsewhere.
    pub fn derivatives_of(&mut self, func: &FuncRef) -> Derivatives {
        let _ = func;
        Derivatives::default()
    }

    /// How a variable of this type starts if it has no initialiser: the type's `__init()`, its fields' initialisers,
    /// else [`Initializer::Default`] (zeros).
    pub fn default_of(&mut self, ty: Ty) -> Initializer {
        Initializer::Default(ty)
    }

    /// A type as Slang writes it.
    pub fn type_name(&self, ty: Ty) -> String {
        let _ = ty;
        String::new()
    }

    /// Functions of a file with `[shader(…)]` or `[numthreads(…)]`, in order.
    pub fn entry_points(&self, file: usize) -> Vec<DeclId> {
        let _ = file;
        Vec::new()
    }

    /// The functions of a module by name; `S.f` and `n.f` name members.
    pub fn find_function(&self, file: usize, name: &str) -> Vec<DeclId> {
        let _ = (file, name);
        Vec::new()
    }

    /// Whether a declaration has an attribute, and the attribute's place.
    pub fn attribute(&self, decl: DeclId, name: &str) -> Option<&syntax::ast::Attribute> {
        let symbol = self.ast.symbols.find(name)?;
        self.ast.decls[decl].attributes.iter().find(|a| a.name == symbol)
    }

    /// The place of a declaration's name.
    pub fn name_span(&self, decl: DeclId) -> Span {
        self.ast.decls[decl].name_span
    }
}
