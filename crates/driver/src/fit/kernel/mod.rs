//! Generates the kernels around a user's function, written in Slang itself.
//!
//! Each item has a thread: `fit_gradient` computes `bwd_diff` of the function and adds the gradients to buffers
//! atomically, `fit_value` computes the loss or the residuals, `fit_forward` their derivatives along a direction,
//! `fit_metric_…` a number to report, and `fit_render` evaluates a function to show. A function that takes a column as
//! a whole, a `StructuredBuffer`, is evaluated once, by one thread. The parameters are in buffers; the
//! optimiser reads a parameter's loads and additions through to them, so that a thread touches only the elements that its
//! item needs. `fit_step_…` is a step of a first-order method, with a thread for each element. `fit_initial_…` fills the
//! parameters. `--show-kernel` prints the text.
//!
//! Graphics processors add floats atomically only slowly, if at all ([`Reduction::Workers`]): there each thread is a worker that
//! differentiates the sum of the losses of several items, and `fit_sum_…` adds the gradients of all workers
//! to those of the first worker, so that the host reads the gradient once.

mod write;

use check::Program;
use check::signature::ParamSig;
use check::tables::FuncRef;
use check::types::{BufferKind, Ty, TyKind};
use check::{Direction, Subst};

use crate::error::Error;
use crate::fit::items::Items;
use crate::fit::optimise::rule::Rule;
use crate::fit::shape::Shape;

/// A fitted parameter: an array, or a single value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// Its name.
    pub name: String,
    /// The type of an element, as written in the language.
    pub element: String,
    /// The type of an element's gradient.
    pub gradient: String,
    /// Gradients are of a built-in type: `+` adds them and `0` is the zero gradient.
    pub builtin: bool,
    /// The number of elements; `None` for a value that is not an array.
    pub length: Option<u64>,
    /// The numbers of an element; `None` if there is a part that the kernels cannot reach by name.
    pub shape: Option<Shape>,
    /// The function that computes an element's initial value, if there is one.
    pub initial: Option<Function>,
}

impl Fitted {
    /// The number of elements in its buffer.
    pub fn n(&self) -> usize {
        self.length.unwrap_or(1) as usize
    }

    /// The number of threads that take a step for one element: one, or several if it contains long arrays.
    fn parts(&self) -> u64 {
        self.shape.as_ref().map_or(1, |shape| shape.longest().div_ceil(4).min(MOST_PARTS))
    }

    /// The number of threads that take a step.
    pub fn step_threads(&self) -> usize {
        self.n() * self.parts() as usize
    }
}

/// How the gradients of all items are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The thread of each item adds to the same buffers.
    Atomic,
    /// Each of a number of workers adds up the gradients of its items, up to that many in a dispatch, and
    /// then the gradients of the workers are added up.
    Workers(usize),
}

/// A function that is called for each item, and the arguments to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in the file.
    pub name: String,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
    /// The return type.
    pub result: String,
}

/// An argument of a [`Function`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The fitted parameter with that index.
    Fitted(usize),
    /// A column of the items, by name, and the parameter's type.
    Item(String, String),
    /// A column as a whole, by name, and the type of an element.
    Column(String, String),
    /// The index of the element (initial values only).
    Index(String),
    /// The number of elements (initial values), or of items (functions of whole columns).
    Count(String),
}

impl Function {
    /// Returns true if the function is evaluated once, and not for each item.
    pub fn is_whole(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument, Argument::Column(..)))
    }

    /// The columns that the function reads, in the order of its parameters.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Item(name, _) | Argument::Column(name, _) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns true if the function reads a column of that name.
    pub fn reads(&self, column: &str) -> bool {
        self.columns().any(|name| name == column)
    }
}

/// The kind of function that is minimised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Task {
    /// The mean of a loss; kernels make the steps of a first-order method.
    Loss(Rule),
    /// The sum of the squares of residuals, or of a robust loss of them.
    Residuals,
}

/// All data from which the program text is generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The user's file, as `#include` finds it.
    pub include: String,
    /// The fitted parameters.
    pub fitted: Vec<Fitted>,
    /// The function that is minimised, or whose results are residuals.
    pub loss: Function,
    /// The kind of that function.
    pub task: Task,
    /// The function that is shown.
    pub render: Option<Function>,
    /// Functions whose mean over the items is reported.
    pub metrics: Vec<Function>,
    /// How gradients are added up.
    pub reduction: Reduction,
}

/// Threads per group.
pub const GROUP: u32 = 64;
/// The maximum number of threads that take a step for one element.
const MOST_PARTS: u64 = 256;

/// Analyses the function to minimise: its differentiable parameters are fitted, the others come from the items.
pub fn objective(
    program: &mut Program,
    func: &FuncRef,
    items: &Items,
    task: Task,
) -> Result<(Vec<Fitted>, Function), Error> {
    let (mut function, params) = read(program, func);
    let name = function.name.clone();
    let mut fitted = Vec::new();
    for (param, sig) in params {
        if !matches!(sig.dir, Direction::In | Direction::ConstRef) {
            return Err(Error::input(format!("`{name}`: parameter `{param}` is written; a loss only reads")));
        }
        if sig.has_tangent() && !sig.no_diff {
            function.arguments.push(Argument::Fitted(fitted.len()));
            fitted.push(fitted_param(program, &name, param, sig.ty)?);
        } else {
            function.arguments.push(item(program, items, &name, param, sig.ty)?);
        }
    }
    if fitted.is_empty() {
        return Err(Error::input(format!("`{name}` has no differentiable parameter to fit")));
    }
    check_arguments(&function)?;
    let signature = program.func_signature(func);
    let is_right = signature.returns_differential()
        && match task {
            Task::Loss(_) => is_number(&function.result),
            Task::Residuals => {
                Shape::of(program, signature.ret, signature.ret).is_some_and(|shape| shape.is_of_numbers())
            }
        };
    if !is_right {
        let (result, wanted) = match task {
            Task::Loss(_) => {
                (&function.result, "a loss returns a differentiable `float`, `double` or `half`")
            }
            Task::Residuals => (
                &function.result,
                "residuals are a differentiable number, or a vector or an array of numbers",
            ),
        };
        return Err(Error::input(format!("`{name}` returns `{result}`; {wanted}")));
    }
    Ok((fitted, function))
}

fn is_number(ty: &str) -> bool {
    matches!(ty, "float" | "double" | "half")
}

/// Checks that a function that takes columns as a whole has no parameter for a single item.
fn check_arguments(function: &Function) -> Result<(), Error> {
    let single = function.arguments.iter().find_map(|a| match a {
        Argument::Item(name, _) => Some(name),
        _ => None,
    });
    match single.filter(|_| function.is_whole()) {
        Some(single) => Err(Error::input(format!(
            "`{}` takes columns as a whole, so it is called once: its parameter `{single}` must be a \
             `StructuredBuffer`, too",
            function.name
        ))),
        None => Ok(()),
    }
}

/// Analyses a function that is evaluated for each item with the fitted parameters.
pub fn render(
    program: &mut Program,
    func: &FuncRef,
    items: &Items,
    fitted: &[Fitted],
) -> Result<Function, Error> {
    let (mut function, params) = read(program, func);
    for (param, sig) in params {
        function.arguments.push(match fitted.iter().position(|f| f.name == param) {
            Some(k) => Argument::Fitted(k),
            None => item(program, items, &function.name, param, sig.ty)?,
        });
    }
    check_arguments(&function)?;
    Ok(function)
}

/// Analyses a function whose mean over the items is reported.
pub fn metric(
    program: &mut Program,
    func: &FuncRef,
    items: &Items,
    fitted: &[Fitted],
) -> Result<Function, Error> {
    let function = render(program, func, items, fitted)?;
    match is_number(&function.result) {
        true => Ok(function),
        false => Err(Error::input(format!(
            "`{}` returns `{}`; a metric returns a `float`, `double` or `half`",
            function.name, function.result
        ))),
    }
}

/// Analyses a function that computes an element's initial value from its `index`, the `count` of all
/// elements, and an item.
pub fn initial(program: &mut Program, func: &FuncRef, items: &Items) -> Result<Function, Error> {
    let (mut function, params) = read(program, func);
    for (param, sig) in params {
        function.arguments.push(match param.as_str() {
            "index" => Argument::Index(program.type_name(sig.ty)),
            "count" => Argument::Count(program.type_name(sig.ty)),
            _ => item(program, items, &function.name, param, sig.ty)?,
        });
    }
    Ok(function)
}

/// A function without arguments, and its parameters with their names.
fn read(program: &mut Program, func: &FuncRef) -> (Function, Vec<(String, ParamSig)>) {
    let signature = program.func_signature(func);
    let name_of = |decl| program.ast.name(program.ast.decls[decl].name).to_string();
    let named = |param: ParamSig| (param.decl.map_or_else(String::new, name_of), param);
    let (name, params) = (name_of(func.decl), signature.params.into_iter().map(named).collect());
    (Function { name, arguments: Vec::new(), result: program.type_name(signature.ret) }, params)
}

/// An argument that comes from the items.
fn item(program: &mut Program, items: &Items, func: &str, name: String, ty: Ty) -> Result<Argument, Error> {
    if name == "count" && items.column(&name).is_none() && matches!(program.types[ty], TyKind::Scalar(_)) {
        return Ok(Argument::Count(program.type_name(ty)));
    }
    if let TyKind::Buffer(BufferKind::StructuredBuffer, element) = program.types[ty] {
        check_column(program, items, func, &name, element)?;
        return Ok(Argument::Column(name, program.type_name(element)));
    }
    check_column(program, items, func, &name, ty)?;
    Ok(Argument::Item(name, program.type_name(ty)))
}

fn fitted_param(program: &mut Program, loss: &str, name: String, ty: Ty) -> Result<Fitted, Error> {
    let (element_ty, length) = match program.types[ty].clone() {
        TyKind::Array(element, Some(n)) => {
            let n = program
                .val_int(&n, &Subst::default())
                .filter(|&n| n > 0)
                .ok_or_else(|| Error::input(format!("`{loss}`: the length of `{name}` is not known")))?;
            (element, Some(n as u64))
        }
        TyKind::Array(_, None) => {
            return Err(Error::input(format!("`{loss}`: the array `{name}` needs a length")));
        }
        _ => (ty, None),
    };
    let gradient = program
        .differential(element_ty)
        .ok_or_else(|| Error::input(format!("`{loss}`: `{name}` is not differentiable")))?;
    let shape = Shape::of(program, element_ty, gradient).filter(|shape| !shape.is_empty());
    let builtin =
        matches!(program.types[element_ty], TyKind::Scalar(_) | TyKind::Vector(..) | TyKind::Matrix(..));
    let element = program.type_name(element_ty);
    let gradient = if gradient == element_ty { element.clone() } else { format!("{element}.Differential") };
    Ok(Fitted { name, element, gradient, builtin, length, shape, initial: None })
}

/// Checks that a parameter has a column of its name, or, if it is a struct, a column for each field.
fn check_column(program: &mut Program, items: &Items, func: &str, name: &str, ty: Ty) -> Result<(), Error> {
    if items.column(name).is_some() {
        return Ok(());
    }
    if matches!(program.types[ty], TyKind::Struct(..)) {
        for (decl, field_ty, _) in program.fields(ty) {
            let field = program.ast.name(program.ast.decls[decl].name).to_string();
            check_column(program, items, func, &field, field_ty)?;
        }
        return Ok(());
    }
    let known: Vec<&str> = items.columns.iter().map(|c| c.name.as_str()).collect();
    Err(Error::input(format!(
        "`{func}`: the items have no column `{name}`, but {}; a parameter to be fitted must be differentiable",
        known.join(", ")
    )))
}
