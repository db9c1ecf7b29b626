//! Generates the kernels around a user's loss, written in Slang itself.
//!
//! Each item has a thread: `fit_gradient` computes `bwd_diff(loss)` and adds the gradients to buffers
//! atomically, `fit_value` computes the loss, and `fit_render` evaluates a function to show. The parameters are in buffers; the
//! optimiser reads a parameter's loads and additions through to them, so that a thread touches only the elements that its
//! item needs. `fit_step_…` is a step of Adam, with a thread for each element. `fit_initial_…` fills the
//! parameters. `--show-kernel` prints the text.
//!
//! Graphics processors add floats atomically only slowly, if at all ([`Reduction::Workers`]): there each thread is a worker that
//! differentiates the sum of the losses of several items, and `fit_sum_…` adds the gradients of all workers
//! to those of the first worker, so that the host reads the gradient once.

use std::fmt::Write as _;

use check::Program;
use check::signature::ParamSig;
use check::tables::FuncRef;
use check::types::{Ty, TyKind};
use check::{Direction, Subst};
use ir::Scalar;

use crate::error::Error;
use crate::fit::items::Items;
use crate::fit::optimise::{BETA_MEAN, BETA_SQUARE, LEAST_ROOT};
use crate::fit::shape::{Leaf, Shape};

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
    /// The index of the element (initial values only).
    Index(String),
    /// The number of elements (initial values only).
    Count(String),
}

/// All data from which the program text is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The user's file, as `#include` finds it.
    pub include: String,
    /// The fitted parameters.
    pub fitted: Vec<Fitted>,
    /// The function that is minimised.
    pub loss: Function,
    /// The function that is shown.
    pub render: Option<Function>,
    /// How gradients are added up.
    pub reduction: Reduction,
}

/// Threads per group.
pub const GROUP: u32 = 64;
/// The maximum number of threads that take a step for one element.
const MOST_PARTS: u64 = 256;

/// Analyses the loss: its differentiable parameters are fitted, the others come from the items.
pub fn loss(program: &mut Program, func: &FuncRef, items: &Items) -> Result<(Vec<Fitted>, Function), Error> {
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
    let is_differentiable = program.func_signature(func).returns_differential();
    if !matches!(function.result.as_str(), "float" | "double" | "half") || !is_differentiable {
        return Err(Error::input(format!(
            "`{name}` returns `{}`; a loss returns a differentiable `float`, `double` or `half`",
            function.result
        )));
    }
    Ok((fitted, function))
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
    Ok(function)
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

impl Kernel {
    /// The text of the program.
    pub fn text(&self) -> String {
        let mut t = String::new();
        self.write(&mut t).expect("text can be written");
        t
    }

    /// Every column that some function reads, with its name and type.
    pub fn columns(&self) -> Vec<(String, String)> {
        let initial = self.fitted.iter().filter_map(|f| f.initial.as_ref());
        let mut columns: Vec<(String, String)> = Vec::new();
        for function in std::iter::once(&self.loss).chain(&self.render).chain(initial) {
            for argument in &function.arguments {
                if let Argument::Item(name, ty) = argument {
                    let column = (name.clone(), ty.clone());
                    if !columns.contains(&column) {
                        columns.push(column);
                    }
                }
            }
        }
        columns
    }

    /// The name of a column's buffer.
    pub fn column_buffer(&self, name: &str, ty: &str) -> String {
        let first = self.columns().into_iter().find(|c| c.0 == name).is_none_or(|c| c.1 == ty);
        // Two functions may want the same column as different types.
        if first { format!("fit_item_{name}") } else { format!("fit_item_{name}_{}", word(ty)) }
    }

    fn write(&self, t: &mut String) -> std::fmt::Result {
        writeln!(t, "#include \"{}\"\n", self.include.replace('\\', "/"))?;
        for f in &self.fitted {
            match f.length.filter(|_| self.has_workers()) {
                // All threads read the same values, and devices have fast uniform memory for them unless they
                // are too large.
                Some(n) => writeln!(t, "uniform {} fit_value_{}[{n}];", f.element, f.name)?,
                None => writeln!(t, "StructuredBuffer<{}> fit_value_{};", f.element, f.name)?,
            }
            writeln!(t, "RWStructuredBuffer<{}> fit_gradient_{};", f.gradient, f.name)?;
        }
        for (name, ty) in self.columns() {
            writeln!(t, "StructuredBuffer<{ty}> {};", self.column_buffer(&name, &ty))?;
        }
        let real = &self.loss.result;
        writeln!(t, "RWStructuredBuffer<{real}> fit_loss;")?;
        writeln!(t, "StructuredBuffer<uint> fit_order;")?;
        writeln!(t, "uniform uint fit_first;")?;
        writeln!(t, "uniform uint fit_count;")?;
        writeln!(t, "uniform {real} fit_weight;\n")?;
        for f in &self.fitted {
            loader(t, f)?;
        }
        match self.reduction {
            Reduction::Atomic => {
                self.gradient(t)?;
                self.steps(t)?;
            }
            Reduction::Workers(items) => {
                writeln!(t, "uniform uint fit_workers;\n")?;
                self.gradient_of_share(t, items)?;
                for f in &self.fitted {
                    self.sum(t, f)?;
                }
            }
        }
        self.value(t)?;
        for f in &self.fitted {
            if let Some(initial) = &f.initial {
                self.initial(t, f, initial)?;
            }
        }
        match &self.render {
            Some(render) => self.render(t, render),
            None => Ok(()),
        }
    }

    /// Returns true if kernels add up the gradients of workers.
    pub fn has_workers(&self) -> bool {
        matches!(self.reduction, Reduction::Workers(_))
    }

    /// Begins an entry point for `threads` threads; any threads beyond return at once.
    fn entry(&self, t: &mut String, name: &str, threads: &str) -> std::fmt::Result {
        writeln!(t, "[shader(\"compute\")]\n[numthreads({GROUP}, 1, 1)]")?;
        writeln!(t, "void {name}(uint3 fit_thread : SV_DispatchThreadID)\n{{")?;
        writeln!(t, "    if (fit_thread.x >= {threads}) return;")
    }

    /// The gradients of an item's loss, added to those of the other items.
    fn gradient(&self, t: &mut String) -> std::fmt::Result {
        self.entry(t, "fit_gradient", "fit_count")?;
        writeln!(t, "    uint fit_item = fit_order[fit_thread.x];")?;
        self.load(t)?;
        for f in &self.fitted {
            writeln!(t, "    var pair_{0} = diffPair({0});", f.name)?;
        }
        let call = self.arguments(&self.loss, "fit_item", "pair_", "");
        let comma = if call.is_empty() { "" } else { ", " };
        writeln!(t, "    bwd_diff({})({call}{comma}fit_weight);", self.loss.name)?;
        for f in &self.fitted {
            let (name, Some(shape)) = (&f.name, &f.shape) else { continue };
            writeln!(t, "    let gradient_{name} = pair_{name}.d;")?;
            let (i, element) = if f.length.is_some() { ("i", "[i]") } else { ("0", "") };
            let add = |leaf: Leaf<'_>| {
                let path = leaf.path;
                format!("InterlockedAdd(fit_gradient_{name}[{i}]{path}, gradient_{name}{element}{path});")
            };
            match f.length {
                Some(n) => {
                    writeln!(t, "    for (int i = 0; i < {n}; i++)\n    {{")?;
                    shape.each(t, 8, &add)?;
                    writeln!(t, "    }}")?;
                }
                None => shape.each(t, 4, &add)?,
            }
        }
        writeln!(t, "}}\n")
    }

    /// The kernels that move the parameters by a step of Adam (see [`super::optimise::Adam`]): they read the
    /// gradient, clear it, and write the new values beside the old ones.
    fn steps(&self, t: &mut String) -> std::fmt::Result {
        for name in ["fit_x", "fit_mean", "fit_square"] {
            writeln!(t, "RWStructuredBuffer<double> {name};")?;
        }
        writeln!(t, "StructuredBuffer<double> fit_rates;")?;
        writeln!(t, "RWStructuredBuffer<uint> fit_watch;")?;
        for name in ["fit_scale", "fit_bias_mean", "fit_bias_square", "fit_far"] {
            writeln!(t, "uniform double {name};")?;
        }
        mover(t)?;
        let (mut first, mut first_rate) = (0, 0);
        for f in &self.fitted {
            let (name, Some(shape)) = (&f.name, &f.shape) else { continue };
            let (n, parts) = (shape.len(), f.parts());
            writeln!(t, "RWStructuredBuffer<{}> fit_next_{name};", f.element)?;
            self.entry(t, &format!("fit_step_{name}"), &f.step_threads().to_string())?;
            writeln!(t, "    uint fit_element = fit_thread.x / {parts};")?;
            writeln!(t, "    uint fit_part = fit_thread.x % {parts};")?;
            writeln!(t, "    uint fit_number = {first} + fit_element * {n};")?;
            let one = |leaf: Leaf<'_>| {
                let (path, number) = (leaf.path, leaf.number);
                let of = |buffer: &str| format!("fit_{buffer}_{name}[fit_element]{path}");
                let (gradient, ty) = (of("gradient"), scalar_name(leaf.scalar));
                let (place, rate) = (format!("fit_number + {number}"), format!("{first_rate} + {number}"));
                format!(
                    "{} = {ty}(fit_move({place}, fit_rates[{rate}], double({gradient}))); {gradient} = {ty}(0);",
                    of("next")
                )
            };
            match parts {
                1 => shape.each(t, 4, &one)?,
                parts => shape.each_of_part(t, 4, ("fit_part", parts), &one)?,
            }
            writeln!(t, "}}\n")?;
            (first, first_rate) = (first + f.n() * n, first_rate + n);
        }
        Ok(())
    }

    /// Replaces each number of the first worker's gradient by its sum over all workers.
    fn sum(&self, t: &mut String, f: &Fitted) -> std::fmt::Result {
        let (name, n) = (&f.name, f.n());
        self.entry(t, &format!("fit_sum_{name}"), &n.to_string())?;
        writeln!(t, "    {} sum = fit_gradient_{name}[fit_thread.x];", f.gradient)?;
        writeln!(t, "    for (uint k = 1; k < fit_workers; k++)")?;
        let next = format!("fit_gradient_{name}[k * {n} + fit_thread.x]");
        let sum = add(f, "sum".into(), next);
        writeln!(t, "        {sum}\n    fit_gradient_{name}[fit_thread.x] = sum;\n}}\n")
    }

    /// On a device, the share of a worker is one function with a single derivative, which accumulates all
    /// gradients in place: a thread has no memory for separate sums for the current item and for all items,
    /// nor for the residuals of all items.
    fn gradient_of_share(&self, t: &mut String, items: usize) -> std::fmt::Result {
        let (real, name) = (&self.loss.result, &self.loss.name);
        let params: Vec<String> = self
            .fitted
            .iter()
            .map(|f| match f.length {
                Some(n) => format!("{} {}[{n}]", f.element, f.name),
                None => format!("{} {}", f.element, f.name),
            })
            .collect();
        let (params, names) = (params.join(", "), self.names(""));
        let call = self.arguments(&self.loss, "fit_item", "", "");
        writeln!(t, "[Differentiable] [PreferRecompute]")?;
        writeln!(t, "{real} fit_item_loss({params}, no_diff uint fit_item)")?;
        writeln!(t, "{{\n    return fit_weight * {name}({call});\n}}\n")?;
        writeln!(t, "[Differentiable]\n{real} fit_share({params}, no_diff uint fit_worker)\n{{")?;
        writeln!(t, "    {real} fit_total = 0;\n    [MaxIters({items})]")?;
        writeln!(t, "    for (uint fit_k = fit_worker; fit_k < fit_count; fit_k += fit_workers)")?;
        writeln!(
            t,
            "        fit_total += fit_item_loss({names}, fit_order[fit_k]);\n    return fit_total;\n}}\n"
        )?;
        self.entry(t, "fit_gradient", "fit_workers")?;
        self.load(t)?;
        for f in &self.fitted {
            writeln!(t, "    var pair_{0} = diffPair({0});", f.name)?;
        }
        writeln!(t, "    bwd_diff(fit_share)({}, fit_thread.x, {real}(1));", self.names("pair_"))?;
        for f in &self.fitted {
            let name = &f.name;
            match f.length {
                Some(n) => {
                    writeln!(t, "    let gradient_{name} = pair_{name}.d;")?;
                    let place = format!("fit_gradient_{name}[fit_thread.x * {n} + i]");
                    writeln!(t, "    for (int i = 0; i < {n}; i++) {place} = gradient_{name}[i];")?;
                }
                None => writeln!(t, "    fit_gradient_{name}[fit_thread.x] = pair_{name}.d;")?,
            }
        }
        writeln!(t, "}}\n")
    }

    /// The fitted parameters as a list of arguments.
    fn names(&self, prefix: &str) -> String {
        let names: Vec<String> = self.fitted.iter().map(|f| format!("{prefix}{}", f.name)).collect();
        names.join(", ")
    }

    /// Writes the kernel that computes the loss alone.
    fn value(&self, t: &mut String) -> std::fmt::Result {
        self.entry(t, "fit_value", "fit_count")?;
        writeln!(t, "    uint fit_item = fit_order[fit_thread.x];")?;
        self.load(t)?;
        let call = self.arguments(&self.loss, "fit_item", "", "");
        writeln!(t, "    fit_loss[fit_thread.x] = fit_weight * {}({call});\n}}\n", self.loss.name)
    }

    fn initial(&self, t: &mut String, f: &Fitted, initial: &Function) -> std::fmt::Result {
        writeln!(t, "RWStructuredBuffer<{}> fit_start_{};\n", f.element, f.name)?;
        self.entry(t, &format!("fit_initial_{}", f.name), &f.n().to_string())?;
        writeln!(t, "    uint fit_item = fit_order[fit_thread.x];")?;
        let call = self.arguments(initial, "fit_item", "", &f.n().to_string());
        writeln!(t, "    fit_start_{}[fit_thread.x] = {}({call});\n}}\n", f.name, initial.name)
    }

    fn render(&self, t: &mut String, render: &Function) -> std::fmt::Result {
        writeln!(t, "RWStructuredBuffer<{}> fit_image;\n", render.result)?;
        self.entry(t, "fit_render", "fit_count")?;
        writeln!(t, "    uint fit_item = fit_first + fit_thread.x;")?;
        self.load(t)?;
        let call = self.arguments(render, "fit_item", "", "");
        writeln!(t, "    fit_image[fit_item] = {}({call});\n}}", render.name)
    }

    /// Copies the parameters from their buffers into local variables of the same names.
    fn load(&self, t: &mut String) -> std::fmt::Result {
        for f in &self.fitted {
            match f.length {
                Some(n) => writeln!(t, "    {} {1}[{n}] = fit_load_{1}();", f.element, f.name)?,
                None => writeln!(t, "    {} {1} = fit_value_{1}[0];", f.element, f.name)?,
            }
        }
        Ok(())
    }

    fn arguments(&self, function: &Function, item: &str, prefix: &str, count: &str) -> String {
        let texts = function.arguments.iter().map(|argument| match argument {
            Argument::Fitted(k) => format!("{prefix}{}", self.fitted[*k].name),
            Argument::Item(name, ty) => format!("{}[{item}]", self.column_buffer(name, ty)),
            Argument::Index(ty) => format!("{ty}(fit_thread.x)"),
            Argument::Count(ty) => format!("{ty}({count})"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Writes a function that reads a whole array. The kernels' own copy is then never written and need not be
/// copied.
fn loader(t: &mut String, f: &Fitted) -> std::fmt::Result {
    let Some(n) = f.length else { return Ok(()) };
    writeln!(t, "Array<{}, {n}> fit_load_{}()\n{{", f.element, f.name)?;
    writeln!(t, "    {} all[{n}];", f.element)?;
    writeln!(t, "    for (int i = 0; i < {n}; i++) all[i] = fit_value_{}[i];", f.name)?;
    writeln!(t, "    return all;\n}}\n")
}

/// A statement that adds a gradient to the one stored in a place.
fn add(f: &Fitted, place: String, d: String) -> String {
    if f.builtin {
        format!("{place} = {place} + {d};")
    } else {
        format!("{place} = {}.dadd({place}, {d});", f.gradient)
    }
}

/// Writes the function that moves a number as [`super::optimise::Adam::update`] does. It notes for the host
/// how many gradients are not finite, and the first number that has become NaN or too large.
fn mover(t: &mut String) -> std::fmt::Result {
    let (mean, square, least, most) = (BETA_MEAN, BETA_SQUARE, LEAST_ROOT, f64::MAX);
    write!(
        t,
        "
double fit_move(uint place, double rate, double gradient)
{{
    double x = fit_x[place];
    if (abs(gradient) <= {most:e}L)
    {{
        double mean = {mean}L * fit_mean[place] + (1.0L - {mean}L) * gradient;
        double square = {square}L * fit_square[place] + (1.0L - {square}L) * gradient * gradient;
        fit_mean[place] = mean;
        fit_square[place] = square;
        x -= rate * fit_scale * (mean / fit_bias_mean) / (sqrt(square / fit_bias_square) + {least:e}L);
        fit_x[place] = x;
        if (!(abs(x) <= fit_far)) InterlockedMin(fit_watch[1], place);
    }}
    else InterlockedAdd(fit_watch[0], 1);
    return x;
}}

"
    )
}

/// The language's name of a scalar type.
fn scalar_name(s: Scalar) -> &'static str {
    match s {
        Scalar::F16 => "half",
        Scalar::F64 => "double",
        _ => "float",
    }
}

/// A type's text in a form usable within a name.
fn word(ty: &str) -> String {
    ty.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_part() {
        let item = |name: &str, ty: &str| Argument::Item(name.into(), ty.into());
        let kernel = Kernel {
            include: "a.slang".into(),
            fitted: vec![Fitted {
                name: "w".into(),
                element: "Blob".into(),
                gradient: "Blob.Differential".into(),
                builtin: false,
                length: Some(4),
                shape: Some(Shape::Parts(vec![
                    (".at[0]".into(), Shape::Number(Scalar::F32)),
                    (".w".into(), Shape::Array(64, Box::new(Shape::Number(Scalar::F16)))),
                ])),
                initial: Some(Function {
                    name: "initial".into(),
                    arguments: vec![Argument::Index("uint".into()), item("uv", "float2")],
                    result: "Blob".into(),
                }),
            }],
            loss: Function {
                name: "loss".into(),
                arguments: vec![Argument::Fitted(0), item("uv", "float2"), item("color", "float3")],
                result: "float".into(),
            },
            render: None,
            reduction: Reduction::Atomic,
        };
        let text = kernel.text();
        for part in [
            "#include \"a.slang\"",
            "StructuredBuffer<float2> fit_item_uv;",
            "bwd_diff(loss)(pair_w, fit_item_uv[fit_item], fit_item_color[fit_item], fit_weight);",
            "InterlockedAdd(fit_gradient_w[i].at[0], gradient_w[i].at[0]);",
            "InterlockedAdd(fit_gradient_w[i].w[i8], gradient_w[i].w[i8]);",
            "if (fit_part == 0) { fit_next_w[fit_element].at[0] = float(fit_move(fit_number + 0, fit_rates[0 + 0], ",
            "for (int i4 = int(fit_part); i4 < 64; i4 += 16)",
            "fit_next_w[fit_element].w[i4] = half(fit_move(fit_number + (1 + uint(i4) * 1), ",
            "fit_start_w[fit_thread.x] = initial(uint(fit_thread.x), fit_item_uv[fit_item]);",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("fit_sum"));
        assert_eq!(kernel.columns().len(), 2);
        let text = Kernel { reduction: Reduction::Workers(8), ..kernel }.text();
        for part in [
            "[numthreads(64, 1, 1)]\nvoid fit_gradient(",
            "if (fit_thread.x >= fit_workers) return;",
            "sum = Blob.Differential.dadd(sum, fit_gradient_w[k * 4 + fit_thread.x]);",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
