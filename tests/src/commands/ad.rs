//! `test linearize|propagate|unzip|transpose|forward|backward FUNCTION`: a function after a stage of
//! `autodiff`. `test sparsity FUNCTION`: the function of masks of its forward derivative, or `refused`. `test differentiate`: the whole module, for which `; run:` lines must hold afterwards, or `;
//! error: TEXT` must be reported.

use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let mut module = super::module(file)?;
    let command = file.command[0].as_str();
    if command == "differentiate" {
        let (mut options, mut checked) = (autodiff::Options::default(), module.clone());
        let problems = autodiff::differentiate(&mut module, &options);
        options.only_problems = true;
        if autodiff::differentiate(&mut checked, &options) != problems {
            return Err("if only problems are wanted, others are found".into());
        }
        super::well_formed(&checked, "the module of which only problems are wanted")?;
        let found: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        super::well_formed(&module, "the differentiated module")?;
        let asks = |op: &ir::Op| matches!(op, ir::Op::CallDerivative(..));
        if module.funcs.values().any(|f| f.has_body() && f.contains(asks)) {
            return Err("requests of derivatives are left".into());
        }
        if !module.residuals.is_empty() {
            return Err("the types of residuals are still declared, though no value has them".to_string());
        }
        for want in file.all("error") {
            if !found.iter().any(|message| message.contains(want)) {
                return Err(format!("no problem has '{want}':\n{}", found.join("\n")));
            }
        }
        if file.all("error").next().is_none() && !found.is_empty() {
            return Err(found.join("\n"));
        }
        super::run::hold(file, &module, "after differentiation")?;
        return file.match_output(&ir::print::print_module(&module));
    }
    let name = file.command.get(1).ok_or("the command needs the name of a function")?;
    let func = module.find(name).ok_or_else(|| format!("no function is named '{name}'"))?;
    let problems = |problems: Vec<autodiff::Problem>| {
        problems.iter().map(|p| p.message.as_str()).collect::<Vec<_>>().join("\n")
    };
    let shown = match command {
        "forward" => vec![autodiff::forward(&mut module, func).map_err(problems)?],
        "backward" => vec![autodiff::backward(&mut module, func).map_err(problems)?],
        "sparsity" => {
            let forward = autodiff::forward(&mut module, func).map_err(problems)?;
            let [from, n_results] = [&module.funcs[func].params, &module.funcs[func].results].map(Vec::len);
            let is_tangent: Vec<bool> = (0..module.funcs[forward].params.len()).map(|k| k >= from).collect();
            match autodiff::sparsity(&mut module, forward, &is_tangent, n_results) {
                Ok(of_masks) => vec![of_masks],
                Err(_) => return file.match_output("refused"),
            }
        }
        _ => {
            let stages = autodiff::stages(&mut module, func).map_err(problems)?;
            match command {
                "linearize" => vec![stages.linearized],
                "propagate" => vec![stages.propagated],
                "unzip" => vec![stages.primal, stages.linear],
                _ => vec![stages.transposed],
            }
        }
    };
    super::well_formed(&module, &format!("the module after {command}"))?;
    super::run::hold(file, &module, "afterwards")?;
    let texts: Vec<String> =
        shown.iter().map(|&f| ir::print::print_function(&module, &module.funcs[f])).collect();
    file.match_output(&texts.concat())
}
