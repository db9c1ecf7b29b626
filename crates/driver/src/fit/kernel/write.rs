//! The text of the kernels.

use std::fmt::Write as _;

use ir::Scalar;

use super::{Argument, Fitted, Function, GROUP, Kernel, Reduction, Task};
use crate::fit::optimise::rule::Rule;
use crate::fit::shape::Leaf;

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
        let others = self.render.iter().chain(&self.metrics).chain(initial);
        for function in std::iter::once(&self.loss).chain(others) {
            for argument in &function.arguments {
                if let Argument::Item(name, ty) | Argument::Column(name, ty) = argument {
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
        writeln!(t, "StructuredBuffer<uint> fit_order;")?;
        writeln!(t, "uniform uint fit_first;")?;
        writeln!(t, "uniform uint fit_count;")?;
        writeln!(t, "uniform uint fit_items;")?;
        let result = &self.loss.result;
        match self.task {
            Task::Loss(_) => {
                writeln!(t, "RWStructuredBuffer<{result}> fit_loss;")?;
                writeln!(t, "uniform {result} fit_weight;\n")?;
            }
            Task::Residuals => {
                writeln!(t, "RWStructuredBuffer<{result}> fit_residual;")?;
                writeln!(t, "RWStructuredBuffer<{result}> fit_change;")?;
                writeln!(t, "StructuredBuffer<{result}> fit_cotangent;\n")?;
            }
        }
        for f in &self.fitted {
            loader(t, f, "value", &f.element)?;
        }
        match self.reduction {
            Reduction::Atomic => {
                self.gradient(t)?;
                match self.task {
                    Task::Loss(rule) => self.steps(t, rule)?,
                    Task::Residuals => self.forward(t)?,
                }
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
        for (k, metric) in self.metrics.iter().enumerate() {
            self.metric(t, k, metric)?;
        }
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
        let call = self.arguments(&self.loss, "fit_item", "pair_", "fit_items");
        let comma = if call.is_empty() { "" } else { ", " };
        let cotangent = match self.task {
            Task::Loss(_) => "fit_weight",
            Task::Residuals => "fit_cotangent[fit_thread.x]",
        };
        writeln!(t, "    bwd_diff({})({call}{comma}{cotangent});", self.loss.name)?;
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

    /// The derivatives of an item's residuals along a direction.
    fn forward(&self, t: &mut String) -> std::fmt::Result {
        for f in &self.fitted {
            writeln!(t, "StructuredBuffer<{}> fit_tangent_{};", f.gradient, f.name)?;
            loader(t, f, "tangent", &f.gradient)?;
        }
        self.entry(t, "fit_forward", "fit_count")?;
        writeln!(t, "    uint fit_item = fit_order[fit_thread.x];")?;
        self.load(t)?;
        for f in &self.fitted {
            let tangent = match f.length {
                Some(_) => format!("fit_load_tangent_{}()", f.name),
                None => format!("fit_tangent_{}[0]", f.name),
            };
            writeln!(t, "    let pair_{0} = diffPair({0}, {tangent});", f.name)?;
        }
        let call = self.arguments(&self.loss, "fit_item", "pair_", "fit_items");
        writeln!(t, "    fit_change[fit_thread.x] = fwd_diff({})({call}).d;\n}}\n", self.loss.name)
    }

    /// The kernels that move the parameters by a step of a first-order method: they read the
    /// gradient, clear it, and write the new values beside the old ones.
    fn steps(&self, t: &mut String, rule: Rule) -> std::fmt::Result {
        for name in ["fit_x", "fit_mean", "fit_square"] {
            writeln!(t, "RWStructuredBuffer<double> {name};")?;
        }
        for name in ["fit_rates", "fit_low", "fit_high"] {
            writeln!(t, "StructuredBuffer<double> {name};")?;
        }
        writeln!(t, "RWStructuredBuffer<uint> fit_watch;")?;
        for name in ["fit_scale", "fit_clip", "fit_bias_mean", "fit_bias_square", "fit_far"] {
            writeln!(t, "uniform double {name};")?;
        }
        mover(t, rule)?;
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
                    "{} = {ty}(fit_move({place}, {rate}, double({gradient}))); {gradient} = {ty}(0);",
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
        let call = self.arguments(&self.loss, "fit_item", "", "fit_items");
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

    /// Writes the kernel that computes the loss, or the residuals, alone.
    fn value(&self, t: &mut String) -> std::fmt::Result {
        self.entry(t, "fit_value", "fit_count")?;
        writeln!(t, "    uint fit_item = fit_order[fit_thread.x];")?;
        self.load(t)?;
        let call = self.arguments(&self.loss, "fit_item", "", "fit_items");
        let result = match self.task {
            Task::Loss(_) => "fit_loss[fit_thread.x] = fit_weight * ",
            Task::Residuals => "fit_residual[fit_thread.x] = ",
        };
        writeln!(t, "    {result}{}({call});\n}}\n", self.loss.name)
    }

    /// Writes the kernel of metric `k`.
    fn metric(&self, t: &mut String, k: usize, metric: &Function) -> std::fmt::Result {
        writeln!(t, "RWStructuredBuffer<{}> fit_metric_result_{k};\n", metric.result)?;
        self.entry(t, &format!("fit_metric_{k}"), "fit_count")?;
        writeln!(t, "    uint fit_item = fit_order[fit_thread.x];")?;
        self.load(t)?;
        let call = self.arguments(metric, "fit_item", "", "fit_items");
        writeln!(t, "    fit_metric_result_{k}[fit_thread.x] = {}({call});\n}}\n", metric.name)
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
        let call = self.arguments(render, "fit_item", "", "fit_items");
        writeln!(t, "    fit_image[fit_item] = {}({call});\n}}", render.name)
    }

    /// Copies the parameters from their buffers into local variables of the same names.
    fn load(&self, t: &mut String) -> std::fmt::Result {
        for f in &self.fitted {
            match f.length {
                Some(n) => writeln!(t, "    {} {1}[{n}] = fit_load_value_{1}();", f.element, f.name)?,
                None => writeln!(t, "    {} {1} = fit_value_{1}[0];", f.element, f.name)?,
            }
        }
        Ok(())
    }

    fn arguments(&self, function: &Function, item: &str, prefix: &str, count: &str) -> String {
        let texts = function.arguments.iter().map(|argument| match argument {
            Argument::Fitted(k) => format!("{prefix}{}", self.fitted[*k].name),
            Argument::Item(name, ty) => format!("{}[{item}]", self.column_buffer(name, ty)),
            Argument::Column(name, ty) => self.column_buffer(name, ty),
            Argument::Index(ty) => format!("{ty}(fit_thread.x)"),
            Argument::Count(ty) => format!("{ty}({count})"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Writes a function that reads a whole array. The kernels' own copy is then never written and need not be
/// copied.
fn loader(t: &mut String, f: &Fitted, what: &str, element: &str) -> std::fmt::Result {
    let Some(n) = f.length else { return Ok(()) };
    let name = &f.name;
    writeln!(t, "Array<{element}, {n}> fit_load_{what}_{name}()\n{{")?;
    writeln!(t, "    {element} all[{n}];")?;
    writeln!(t, "    for (int i = 0; i < {n}; i++) all[i] = fit_{what}_{name}[i];")?;
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

/// Writes the function that moves a number as [`Rule::update`] does. It notes for the host
/// how many gradients are not finite, and the first number that has become NaN or too large.
fn mover(t: &mut String, rule: Rule) -> std::fmt::Result {
    let most = f64::MAX;
    let body: String = rule.text().lines().map(|line| format!("        {line}\n")).collect();
    write!(
        t,
        "
double fit_move(uint place, uint of, double gradient)
{{
    double x = fit_x[place];
    double rate = fit_rates[of];
    if (abs(gradient) <= {most:e}L)
    {{
{body}        if (x < fit_low[of]) x = fit_low[of];
        if (x > fit_high[of]) x = fit_high[of];
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
    use crate::fit::optimise::rule::Method;
    use crate::fit::shape::Shape;

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
            task: Task::Loss(Rule { method: Method::Adam, momentum: 0.9, decay: 0.0 }),
            metrics: Vec::new(),
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
            "if (fit_part == 0) { fit_next_w[fit_element].at[0] = float(fit_move(fit_number + 0, 0 + 0, ",
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
