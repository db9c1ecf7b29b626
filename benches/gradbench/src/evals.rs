//! The evals: for each its program, its buffers, and the kernels that its functions dispatch.

use driver::Error;
use driver::module::Module;
use serde_json::{Value as Json, json};

use crate::input::{at_most, count, expect, field, integers, length, number, numbers, rows, transposed};
use crate::{Plan, Step};

/// An eval.
pub(crate) struct Eval {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) functions: &'static [&'static str],
    /// Creates the buffers of a function for an input.
    pub(crate) prepare: fn(&mut Module, &str, &Json) -> Result<Plan, Error>,
}

macro_rules! eval {
    ($name:ident, $($function:literal),*) => {
        Eval {
            name: stringify!($name),
            source: include_str!(concat!("../", stringify!($name), ".slang")),
            functions: &[$($function),*],
            prepare: $name,
        }
    };
}

/// All evals.
pub(crate) const EVALS: &[Eval] = &[
    eval!(hello, "square", "double"),
    eval!(gmm, "objective", "jacobian"),
    eval!(ba, "objective", "jacobian"),
    eval!(lstm, "objective", "jacobian"),
    eval!(ht, "objective", "jacobian"),
    eval!(kmeans, "cost", "dir"),
    eval!(llsq, "primal", "gradient"),
    eval!(lse, "primal", "gradient"),
    eval!(ode, "primal", "gradient"),
    eval!(particle, "ff", "fr", "rf", "rr"),
    eval!(saddle, "ff", "fr", "rf", "rr"),
    eval!(det, "primal", "gradient"),
];

/// A step that runs a kernel on as many groups as give `threads` threads along the first dimension; see
/// [`Module`].
fn run(module: &Module, kernel: &str, threads: usize) -> Result<Step, Error> {
    let kernel = module.kernel(kernel)?;
    Ok(Step::Dispatch(kernel, kernel.groups(threads)))
}

fn sizes(module: &mut Module, sizes: &[(&str, usize)]) -> Result<(), Error> {
    sizes.iter().try_for_each(|&(name, size)| module.write(name, &[size as i32]))
}

/// A plan whose result is the first number of a buffer.
fn first_of(steps: Vec<Step>, buffer: &'static str) -> Plan {
    Plan { steps, output: Box::new(move |m| Ok(json!(m.read_at::<f64>(buffer, 0)?))) }
}

/// A plan whose result is the content of a buffer.
fn all_of(steps: Vec<Step>, buffer: &'static str) -> Plan {
    Plan { steps, output: Box::new(move |m| Ok(json!(m.read::<f64>(buffer)?))) }
}

fn hello(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let x = input.as_f64().ok_or_else(|| Error::input("input: no number"))?;
    module.write("x", &[x])?;
    module.allocate("result", 1)?;
    let kernel = if function == "square" { "value" } else { "slope" };
    Ok(first_of(vec![run(module, kernel, 1)?], "result"))
}

fn gmm(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let [n, d, k, m] = ["n", "d", "k", "m"].map(|name| count(input, name));
    let (n, d, k, m) = (n?, d?, k?, m?);
    at_most("d", d, 128)?;
    at_most("k", k, 256)?;
    let triangle = d * d.saturating_sub(1) / 2;
    let x = numbers(input, "x")?;
    expect("x", x.len(), n * d)?;
    module.write("x", &transposed(&x, d))?;
    for (name, n) in [("alpha", k), ("mu", k * d), ("q", k * d), ("l", k * triangle)] {
        let content = numbers(input, name)?;
        expect(name, content.len(), n)?;
        module.write(name, &content)?;
        module.allocate(&format!("{name}Gradient"), n)?;
    }
    sizes(module, &[("n", n), ("d", d), ("k", k), ("m", m)])?;
    module.write("gamma", &[number(input, "gamma")?])?;
    for (name, n) in [("diagonal", k * d), ("diagonalGradient", k * d), ("sumq", k), ("sumqGradient", k)] {
        module.allocate(name, n)?;
    }
    module.allocate("result", 1)?;
    let prepare = run(module, "prepare", k)?;
    if function == "objective" {
        let steps =
            vec![Step::Clear("result"), prepare, run(module, "points", n)?, run(module, "prior", k.max(1))?];
        return Ok(first_of(steps, "result"));
    }
    let gradients =
        ["alphaGradient", "muGradient", "qGradient", "lGradient", "diagonalGradient", "sumqGradient"];
    let mut steps: Vec<Step> = gradients.into_iter().map(Step::Clear).collect();
    steps.push(prepare);
    steps.push(run(module, "pointsGradient", n)?);
    steps.push(run(module, "priorGradient", k.max(1))?);
    steps.push(run(module, "prepareGradient", k)?);
    let output = move |m: &Module| {
        Ok(json!({
            "alpha": m.read::<f64>("alphaGradient")?,
            "mu": rows(&m.read::<f64>("muGradient")?, d),
            "q": rows(&m.read::<f64>("qGradient")?, d),
            "l": if triangle == 0 { json!(vec![Vec::<f64>::new(); k]) } else { rows(&m.read::<f64>("lGradient")?, triangle) },
        }))
    };
    Ok(Plan { steps, output: Box::new(output) })
}

fn ba(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let (n, m, p) = (count(input, "n")?, count(input, "m")?, count(input, "p")?);
    let (camera, point, feature) = (numbers(input, "cam")?, numbers(input, "x")?, numbers(input, "feat")?);
    for (name, found, wanted) in
        [("cam", camera.len(), 11), ("x", point.len(), 3), ("feat", feature.len(), 2)]
    {
        expect(name, found, wanted)?;
    }
    if n == 0 || m == 0 || p == 0 {
        return Err(Error::input("input: there are no observations"));
    }
    module.write("cameras", &camera.repeat(n))?;
    module.write("points", &point.repeat(m))?;
    module.write("weights", &vec![number(input, "w")?; p])?;
    module.write("features", &feature.repeat(p))?;
    let observations: Vec<i32> = (0..p).flat_map(|i| [(i % n) as i32, (i % m) as i32]).collect();
    module.write("observations", &observations)?;
    sizes(module, &[("n", n), ("m", m), ("p", p)])?;
    for (name, n) in
        [("errors", p), ("weightErrors", p), ("rows", 3 * p + 1), ("columns", 31 * p), ("values", 31 * p)]
    {
        module.allocate(name, n)?;
    }
    if function == "objective" {
        let output = move |m: &Module| {
            Ok(json!({
                "reproj_error": {
                    "elements": [m.read_at::<f64>("errors", 0)?, m.read_at::<f64>("errors", 1)?],
                    "repeated": p,
                },
                "w_err": { "element": m.read_at::<f64>("weightErrors", 0)?, "repeated": p },
            }))
        };
        return Ok(Plan { steps: vec![run(module, "objective", p)?], output: Box::new(output) });
    }
    let output = move |m: &Module| {
        // The first thirty entries and the last one.
        let ends = |length: usize| (0..30.min(length)).chain([length - 1]);
        let integers = |name: &str, n: usize| -> Result<Vec<i32>, Error> {
            ends(n).map(|i| m.read_at::<i32>(name, i)).collect()
        };
        let values: Result<Vec<f64>, Error> = ends(31 * p).map(|i| m.read_at("values", i)).collect();
        Ok(json!({
            "rows": integers("rows", 3 * p + 1)?,
            "cols": integers("columns", 31 * p)?,
            "vals": values?,
        }))
    };
    let steps = vec![run(module, "jacobian", p)?, run(module, "weightJacobian", p + 1)?];
    Ok(Plan { steps, output: Box::new(output) })
}

/// The room in `lstm.slang` for the signals of a time, and for the parameters of a kind.
const STRIDE: usize = 32;

fn lstm(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let layers = length(input, "main_params")? / 2;
    let times = length(input, "sequence")?;
    let (parameters, extra) = (numbers(input, "main_params")?, numbers(input, "extra_params")?);
    let (state, sequence) = (numbers(input, "state")?, numbers(input, "sequence")?);
    let bits = extra.len() / 3;
    at_most("bits", bits, 21)?;
    expect("main_params", parameters.len(), 8 * layers * bits)?;
    expect("state", state.len(), 2 * layers * bits)?;
    expect("sequence", sequence.len(), times * bits)?;
    if times < 2 || bits == 0 {
        return Err(Error::input("input: there is no next character"));
    }
    sizes(module, &[("layers", layers), ("bits", bits), ("length", times)])?;
    let mut apart = vec![0.0; 8 * layers * STRIDE];
    for (own, row) in apart.chunks_mut(STRIDE).zip(parameters.chunks(bits)) {
        own[..bits].copy_from_slice(row);
    }
    module.write("parameters", &apart)?;
    module.write("extra", &extra)?;
    module.write("state", &state)?;
    module.write("sequence", &sequence)?;
    module.allocate("parametersGradient", apart.len())?;
    module.allocate("extraGradient", extra.len())?;
    for name in ["signals", "signalsGradient"] {
        module.allocate(name, (layers + 1) * (times - 1) * STRIDE)?;
    }
    module.allocate("result", 1)?;
    let forward = run(module, "forward", bits)?;
    if function == "objective" {
        let steps = vec![Step::Clear("result"), forward, run(module, "loss", times - 1)?];
        return Ok(first_of(steps, "result"));
    }
    // After each run the gradients of the signals are zero again: the kernel that computes a signal consumes
    // its gradient.
    let steps = vec![
        Step::Clear("parametersGradient"),
        Step::Clear("extraGradient"),
        forward,
        run(module, "lossGradient", times - 1)?,
        run(module, "backward", bits)?,
    ];
    let output = move |m: &Module| {
        let apart = m.read::<f64>("parametersGradient")?;
        let mut all: Vec<f64> = apart.chunks(STRIDE).flat_map(|own| &own[..bits]).copied().collect();
        all.extend(m.read::<f64>("extraGradient")?);
        Ok(json!(all))
    };
    Ok(Plan { steps, output: Box::new(output) })
}

fn ht(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    const BONES: usize = 22;
    const THETAS: usize = 26;
    let theta = numbers(input, "theta")?;
    expect("theta", theta.len(), THETAS)?;
    let model = field(input, "data.model")?;
    let parents = integers(model, "parents")?;
    expect("parents", parents.len(), BONES)?;
    let positions = numbers(model, "base_positions")?;
    let vertices = positions.len() / 4;
    let weights = numbers(model, "weights")?;
    expect("weights", weights.len(), vertices * BONES)?;
    let triangles = integers(model, "triangles")?;
    let points = numbers(input, "data.points")?;
    let correspondences = integers(input, "data.correspondences")?;
    let n = correspondences.len();
    expect("points", points.len(), 3 * n)?;
    let us = numbers(input, "us")?;
    let own = if us.is_empty() { 0 } else { 2 };
    expect("us", us.len(), own * n)?;
    let mut corners = Vec::with_capacity(3 * n);
    for &c in &correspondences {
        let triangle = usize::try_from(c).ok().and_then(|c| triangles.get(3 * c..3 * c + 3));
        match triangle {
            _ if own == 0 => corners.extend([c; 3]),
            Some(triangle) => corners.extend(triangle),
            None => return Err(Error::input(format!("input: there is no triangle {c}"))),
        }
    }
    if let Some(corner) = corners.iter().find(|&&c| c < 0 || c as usize >= vertices) {
        return Err(Error::input(format!("input: there is no vertex {corner}")));
    }
    for (name, path) in
        [("baseRelatives", "base_relatives"), ("inverseBaseAbsolutes", "inverse_base_absolutes")]
    {
        let matrices = numbers(model, path)?;
        expect(path, matrices.len(), 16 * BONES)?;
        module.write(name, &matrices)?;
    }
    let is_mirrored = field(model, "is_mirrored")?.as_bool().unwrap_or(false);
    sizes(module, &[("vertexCount", vertices), ("isMirrored", usize::from(is_mirrored)), ("own", own)])?;
    module.write("theta", &theta)?;
    module.write("parents", &parents)?;
    module.write("basePositions", &positions)?;
    module.write("weights", &weights)?;
    module.write("corners", &corners)?;
    module.write("points", &points)?;
    module.write("us", &us)?;
    let entries = 12 * BONES + 3;
    let width = THETAS + own;
    for (name, n) in [
        ("transforms", entries),
        ("transformsTangent", entries * THETAS),
        ("positions", 3 * vertices),
        ("positionsTangent", 3 * vertices * THETAS),
        ("errors", 3 * n),
        ("jacobian", 3 * n * width),
    ] {
        module.allocate(name, n)?;
    }
    let bones = run(module, "bones", 1)?;
    let skin = run(module, "skin", vertices)?;
    if function == "objective" {
        return Ok(all_of(vec![bones, skin, run(module, "compare", n)?], "errors"));
    }
    let steps = vec![
        bones,
        skin,
        run(module, "bonesForward", THETAS)?,
        Step::Dispatch(module.kernel("skinForward")?, [1, vertices as u32, 1]),
        Step::Dispatch(module.kernel("compareForward")?, [1, n as u32, 1]),
    ];
    let output = move |m: &Module| Ok(rows(&m.read::<f64>("jacobian")?, width));
    Ok(Plan { steps, output: Box::new(output) })
}

fn kmeans(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let (n, k) = (length(input, "points")?, length(input, "centroids")?);
    let (points, centroids) = (numbers(input, "points")?, numbers(input, "centroids")?);
    let d = centroids.len() / k.max(1);
    at_most("d", d, 32)?;
    expect("points", points.len(), n * d)?;
    expect("centroids", centroids.len(), k * d)?;
    sizes(module, &[("n", n), ("k", k), ("d", d)])?;
    module.write("points", &transposed(&points, d))?;
    module.write("centroids", &centroids)?;
    for name in ["gradient", "curvature", "direction"] {
        module.allocate(name, k * d)?;
    }
    module.allocate("result", 1)?;
    if function == "cost" {
        return Ok(first_of(vec![Step::Clear("result"), run(module, "cost", n)?], "result"));
    }
    let steps = vec![
        Step::Clear("gradient"),
        Step::Clear("curvature"),
        run(module, "derivatives", n)?,
        run(module, "quotient", k * d)?,
    ];
    let output = move |m: &Module| Ok(rows(&m.read::<f64>("direction")?, d));
    Ok(Plan { steps, output: Box::new(output) })
}

fn llsq(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let (n, x) = (count(input, "n")?, numbers(input, "x")?);
    sizes(module, &[("n", n), ("m", x.len())])?;
    module.write("x", &x)?;
    module.allocate("gradient", x.len())?;
    module.allocate("result", 1)?;
    if function == "primal" {
        return Ok(first_of(vec![Step::Clear("result"), run(module, "primal", n)?], "result"));
    }
    Ok(all_of(vec![Step::Clear("gradient"), run(module, "jacobian", n)?], "gradient"))
}

fn lse(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    const BLOCK: usize = 4096;
    let x = numbers(input, "x")?;
    let parts = module.kernel("ofParts")?;
    let blocks = x.len().div_ceil(BLOCK);
    let n_parts = blocks * parts.group()[0] as usize;
    sizes(module, &[("n", x.len()), ("parts", n_parts)])?;
    module.write("x", &x)?;
    module.allocate("gradient", x.len())?;
    for buffer in ["largest", "partial", "partialGradient"] {
        module.allocate(buffer, n_parts)?;
    }
    module.allocate("result", 1)?;
    let of_parts = |name: &str| Ok(Step::Dispatch(module.kernel(name)?, [blocks as u32, 1, 1]));
    let mut steps = vec![of_parts("ofParts")?];
    if function == "primal" {
        steps.push(run(module, "ofAll", 1)?);
        return Ok(first_of(steps, "result"));
    }
    steps.extend([run(module, "ofAllGradient", 1)?, of_parts("ofPartsGradient")?]);
    Ok(all_of(steps, "gradient"))
}

fn ode(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    const EACH: usize = 64;
    let (x, steps) = (numbers(input, "x")?, count(input, "s")?);
    let n = x.len();
    if n == 0 || steps == 0 {
        return Err(Error::input("input: there is nothing to solve"));
    }
    // The numbers are divided into parts; number i is at index k of its part, and sixteen parts are
    // interleaved. An extra part at the end serves as the predecessor of the first part.
    const SIDE: usize = 16;
    let parts = n.div_ceil(EACH);
    let blocks = parts.div_ceil(SIDE) + 1;
    let place = |part: usize, k: usize| part / SIDE * (SIDE * EACH) + k * SIDE + part % SIDE;
    let at = move |i: usize| place(i / EACH, i % EACH);
    let size = blocks * SIDE * EACH;
    let mut all = vec![0.0; size];
    x.iter().enumerate().for_each(|(i, &x)| all[at(i)] = x);
    let mut y = vec![0.0; (steps + 1) * size];
    (0..=steps).for_each(|step| y[step * size + place((blocks - 1) * SIDE, EACH - 1)] = 1.0);
    let counts = [("parts", parts), ("blocks", blocks), ("steps", steps), ("step", 0), ("last", at(n - 1))];
    sizes(module, &counts)?;
    module.write("x", &all)?;
    module.write("y", &y)?;
    module.allocate("gradient", size)?;
    module.allocate("yGradient", if function == "primal" { 0 } else { 2 * size })?;
    let forward = module.kernel("forward")?;
    let mut plan = Vec::new();
    for step in 0..steps {
        plan.push(Step::Set("step", step as i32));
        plan.push(Step::Dispatch(forward, forward.groups(parts)));
    }
    let in_order = move |all: &[f64]| json!((0..n).map(|i| all[at(i)]).collect::<Vec<f64>>());
    if function == "primal" {
        let output = move |m: &Module| Ok(in_order(&m.read::<f64>("y")?[steps * size..]));
        return Ok(Plan { steps: plan, output: Box::new(output) });
    }
    plan.push(Step::Clear("gradient"));
    plan.push(Step::Clear("yGradient"));
    plan.push(run(module, "seed", 1)?);
    let backward = module.kernel("backward")?;
    for step in (0..steps).rev() {
        plan.push(Step::Set("step", step as i32));
        plan.push(Step::Dispatch(backward, backward.groups(parts)));
    }
    let output = move |m: &Module| Ok(in_order(&m.read::<f64>("gradient")?));
    Ok(Plan { steps: plan, output: Box::new(output) })
}

fn particle(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    module.write("start", &[number(input, "w")?])?;
    module.allocate("result", 1)?;
    Ok(first_of(vec![run(module, function, 1)?], "result"))
}

fn saddle(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let start = numbers(input, "start")?;
    expect("start", start.len(), 2)?;
    module.write("start", &start)?;
    module.allocate("result", 2)?;
    Ok(all_of(vec![run(module, function, 1)?], "result"))
}

fn det(module: &mut Module, function: &str, input: &Json) -> Result<Plan, Error> {
    let (ell, matrix) = (count(input, "ell")?, numbers(input, "A")?);
    at_most("ell", ell, 12)?;
    if ell < 2 {
        return Err(Error::input("input: `ell` is less than 2"));
    }
    expect("A", matrix.len(), ell * ell)?;
    sizes(module, &[("ell", ell)])?;
    module.write("matrix", &matrix)?;
    module.allocate("gradient", ell * ell)?;
    module.allocate("result", 1)?;
    if function == "primal" {
        return Ok(first_of(vec![Step::Clear("result"), run(module, "primal", ell * ell)?], "result"));
    }
    Ok(all_of(vec![Step::Clear("gradient"), run(module, "jacobian", ell * ell)?], "gradient"))
}
