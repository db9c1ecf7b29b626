//! Rules for entry points: their attributes, and what they reach.

use syntax::ast::DeclKind;
use syntax::{DeclId, Diagnostic};

use crate::program::Program;
use crate::signature::Level;

/// Attributes that a function has once at most.
const ONCE: [&str; 9] = [
    "numthreads",
    "WaveSize",
    "maxvertexcount",
    "outputtopology",
    "domain",
    "partitioning",
    "outputcontrolpoints",
    "patchconstantfunc",
    "instance",
];

impl Program {
    pub(super) fn check_entry_point(&mut self, decl: DeclId) {
        let DeclKind::Func { body: Some(_), .. } = self.ast.decls[decl].kind else { return };
        self.check_once(decl);
        self.check_wave_size(decl);
        self.check_quads(decl);
        let has_threads = self.attribute(decl, "numthreads").is_some();
        let stage = self.stage(decl).or_else(|| has_threads.then(|| "compute".to_string()));
        let is_kernel = ["CUDAKernel", "CudaKernel"].iter().any(|mark| self.attribute(decl, mark).is_some());
        if is_kernel && self.level(decl) != Level::None {
            self.check_kernel_params(decl);
        }
        let Some(stage) = stage else { return self.check_stages_of_values(decl) };
        self.check_system_values(decl, &stage);
        self.check_varyings(decl, &stage);
        for param in self.params_of(decl) {
            self.check_ignored(param);
        }
        self.check_stage_of_callees(decl, &stage);
    }

    /// Reports attributes that a function has twice.
    fn check_once(&mut self, decl: DeclId) {
        let attributes = self.ast.decls[decl].attributes.clone();
        for (k, attribute) in attributes.iter().enumerate() {
            let name = self.ast.name(attribute.name);
            if !ONCE.iter().any(|once| once.eq_ignore_ascii_case(name)) {
                continue;
            }
            let is_same =
                |first: &&syntax::ast::Attribute| self.ast.name(first.name).eq_ignore_ascii_case(name);
            if let Some(first) = attributes[..k].iter().find(is_same) {
                let error = Diagnostic::error("E31202", attribute.span, format!("a second '[{name}]'"));
                self.report(error.note(first.span, "the first").help("remove one of them"));
            }
        }
    }

    /// Checks that the threads of a group can be divided into the quads between whose threads `ddx` takes differences.
    fn check_quads(&mut self, decl: DeclId) {
        let [square, row] = ["DerivativeGroupQuad", "DerivativeGroupLinear"]
            .map(|name| self.attribute(decl, name).map(|attribute| attribute.span));
        if let (Some(first), Some(second)) = (square, row) {
            let error =
                Diagnostic::error("E31212", second, "the threads of a quad are a square or a row, not both");
            return self
                .report(error.note(first, "here they are a square").help("remove one of the attributes"));
        }
        let Some(numbers) = self.attribute(decl, "numthreads").map(|attribute| attribute.args.clone()) else {
            return;
        };
        let mut size = [1; 3];
        for (k, arg) in numbers.into_iter().enumerate().take(3) {
            let Some(n) = self.const_int_at(decl, arg) else { return };
            size[k] = n;
        }
        let [x, y, z] = size;
        if let Some(span) = square.filter(|_| x % 2 != 0 || y % 2 != 0) {
            let message = format!("a group of {x} by {y} threads cannot be divided into squares of 2 by 2");
            self.report(
                Diagnostic::error("E31210", span, message)
                    .help("the first two numbers of 'numthreads' have to be even"),
            );
        }
        let all = x.saturating_mul(y).saturating_mul(z);
        if let Some(span) = row.filter(|_| all % 4 != 0) {
            let message = format!("a group of {all} threads cannot be divided into quads");
            self.report(
                Diagnostic::error("E31211", span, message)
                    .help("the product of the numbers of 'numthreads' has to be a multiple of 4"),
            );
        }
    }

    fn check_wave_size(&mut self, decl: DeclId) {
        for word in ["instance", "maxvertexcount", "outputcontrolpoints"] {
            let args = self.attribute(decl, word).map_or(Vec::new(), |attribute| attribute.args.clone());
            args.into_iter().for_each(|arg| _ = self.const_int_at(decl, arg));
        }
        let Some(attribute) = self.attribute(decl, "WaveSize").cloned() else { return };
        for &arg in &attribute.args {
            let Some(size) = self.const_int_at(decl, arg) else { continue };
            let is_size =
                u32::try_from(size).is_ok_and(|size| size.is_power_of_two() && (4..=128).contains(&size));
            if !is_size {
                let message = format!("a wave has 4, 8, 16, 32, 64 or 128 threads, not {size}");
                self.error("E31103", self.span(arg), message);
            }
        }
    }

    /// Warns of numbers with derivatives among the parameters of a differentiable CUDA kernel: a kernel returns
    /// nothing, so reverse mode has no place for their gradients.
    fn check_kernel_params(&mut self, decl: DeclId) {
        for param in self.raw_signature(decl).params.clone() {
            if let Some(p) = param.decl.filter(|_| param.has_differential()) {
                let message = "a kernel has no place for the gradient of this parameter";
                let warning = Diagnostic::warning("E31214", self.name_span(p), message);
                self.report(warning.help("pass it in a tensor, or mark it 'no_diff'"));
            }
        }
    }

    /// Warns of what has no effect on a parameter of an entry point.
    fn check_ignored(&mut self, param: DeclId) {
        let span = self.name_span(param);
        let name = self.ast.decl_name(param).to_string();
        let mut ignored = Vec::new();
        for attribute in &self.ast.decls[param].attributes {
            let word = self.ast.name(attribute.name);
            if matches!(word, "vk::binding" | "vk::push_constant" | "push_constant") {
                ignored.push(format!("[[{word}]]"));
            }
        }
        if let DeclKind::Param { semantic: Some(semantic), .. } = self.ast.decls[param].kind {
            let text = self.ast.name(semantic);
            ignored.extend(
                ["register", "packoffset"].iter().filter(|w| text.starts_with(**w)).map(|w| w.to_string()),
            );
        }
        for word in ignored {
            let message = format!("'{word}' has no effect on '{name}', a parameter of an entry point");
            let warning = Diagnostic::warning("E38010", span, message);
            self.report(warning.help("bindings of a global variable can be chosen"));
        }
    }

    /// Reports an entry point that reaches what its stage does not have.
    fn check_stage_of_callees(&mut self, decl: DeclId, stage: &str) {
        let (mut open, mut seen) = (vec![decl], vec![decl]);
        while let Some(func) = open.pop() {
            if self.module_of(func) == self.module_of(decl) {
                self.body(func);
            }
            let is_pixel = matches!(stage, "fragment" | "pixel");
            let discard = self.discards(func).first().filter(|_| !is_pixel).copied();
            let mut refused = discard.map(|span| ("'discard'".to_string(), span));
            let calls: Vec<_> = self.calls_in(func).into_iter().map(|(f, span)| (f.decl, span)).collect();
            for (callee, span) in calls {
                if seen.contains(&callee) {
                    continue;
                }
                seen.push(callee);
                if refused.is_none() && self.excludes_stage(callee, stage) {
                    let place = if self.is_core(callee) { span } else { self.name_span(callee) };
                    refused = Some((format!("'{}'", self.function_name(callee)), place));
                }
                if !self.is_core(callee) {
                    open.push(callee);
                }
            }
            if let Some((what, span)) = refused {
                let name = self.ast.decl_name(decl);
                let message = format!("'{name}' uses {what}, which the {stage} stage does not have");
                let error = Diagnostic::error("E36107", self.name_span(decl), message);
                return self.report(error.note(span, "here"));
            }
        }
    }
}
