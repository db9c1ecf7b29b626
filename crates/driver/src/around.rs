//! Functions that are written around the user's: text that is parsed and joins the user's module.

use check::signature::Signature;
use check::tables::FuncRef;
use check::{Direction, types::Ty};
use syntax::{DeclId, Diagnostic};

use crate::pipeline::{Failure, Loaded};
use crate::session::Session;

/// What the names of globals begin with that stand for parameters.
pub const MEMORY: &str = "__memory_";

impl Loaded {
    /// As [`Self::entry`]; `fwd_diff(f)` and `bwd_diff(f)` are kernels that call the derivative of a kernel whose
    /// parameters have no derivatives themselves (tensors carry theirs).
    pub fn entry_or_derivative(
        &mut self,
        session: &mut Session,
        name: Option<&str>,
    ) -> Result<DeclId, Failure> {
        let split = name.and_then(|n| n.strip_suffix(')')?.split_once('('));
        let Some((op @ ("fwd_diff" | "bwd_diff"), inner)) = split else { return self.entry(name) };
        let kernel = self.entry(Some(inner))?;
        let sig = self.program.func_signature(&FuncRef { decl: kernel, args: Vec::new(), self_ty: None });
        let mut params = Vec::new();
        for param in &sig.params {
            let Some(decl) = param.decl else { continue };
            let name = self.name(decl).to_owned();
            if param.differentiable {
                let help =
                    format!("write a kernel that calls `{op}({inner})`, or write `no_diff` before its type");
                let message = format!("the parameter `{name}` of `{inner}` has a derivative itself");
                let span = self.program.ast.decls[decl].name_span;
                return Err(Failure::Program(vec![Diagnostic::error("E0706", span, message).help(help)]));
            }
            params.push((self.program.type_name(param.ty), name));
        }
        let group = self.program.attribute(kernel, "numthreads").map(|a| {
            let text = &session.sources.files[a.span.file.0 as usize].text;
            format!("[{}]", text[a.span.start as usize..a.span.end as usize].trim_matches(['[', ']']))
        });
        let list: Vec<String> = params.iter().map(|(ty, name)| format!("{ty} {name}")).collect();
        let args: Vec<&str> = params.iter().map(|p| p.1.as_str()).collect();
        let text = format!(
            "{}[CUDAKernel] void __{op}_kernel({}) {{ {op}({inner})({}); }}\n",
            group.unwrap_or_default(),
            list.join(", "),
            args.join(", ")
        );
        let index = session.parse_text(&mut self.program, &format!("--entry {op}({inner})"), text);
        self.program.join_module(index, self.file);
        self.errors()?;
        Ok(self.program.ast.files[index].decls[0])
    }

    /// A function of all parameters of another one but those that are memory, by their number: these are globals with
    /// their names after [`MEMORY`].
    pub fn without_memory(
        &mut self,
        session: &mut Session,
        function: &FuncRef,
        is_memory: &[bool],
    ) -> Result<FuncRef, Failure> {
        let Signature { params, ret, ret_differentiable, .. } = self.program.func_signature(function);
        let name = self.name(function.decl).to_owned();
        let (mut globals, mut list, mut args) = (String::new(), Vec::new(), Vec::new());
        for (param, &is_memory) in params.iter().zip(is_memory) {
            let Some(decl) = param.decl else { continue };
            let (ty, name) = (self.program.type_name(param.ty), self.name(decl).to_owned());
            if is_memory {
                globals += &format!("uniform {ty} {MEMORY}{name};\n");
                args.push(format!("{MEMORY}{name}"));
                continue;
            }
            let no_diff = if param.no_diff { "no_diff " } else { "" };
            let direction = match param.dir {
                Direction::In | Direction::ConstRef => "",
                Direction::Out => "out ",
                Direction::InOut | Direction::Ref => "inout ",
            };
            list.push(format!("{no_diff}{direction}{ty} {name}"));
            args.push(name);
        }
        let marks = ["Differentiable", "BackwardDifferentiable", "ForwardDifferentiable"];
        let mark = marks.iter().find(|mark| self.program.attribute(function.decl, mark).is_some());
        let mark = mark.map_or_else(String::new, |mark| format!("[{mark}] "));
        let (returns, no_diff) = match ret {
            Ty::VOID => ("", ""),
            _ if !ret_differentiable && !mark.is_empty() => ("return ", "no_diff "),
            _ => ("return ", ""),
        };
        let ty = self.program.type_name(ret);
        let (list, args) = (list.join(", "), args.join(", "));
        let text =
            format!("{globals}{mark}{no_diff}{ty} __without_memory({list}) {{ {returns}{name}({args}); }}\n");
        let index = session.parse_text(&mut self.program, &format!("a call of {name}"), text);
        self.program.extend_module(index, self.file);
        self.errors()?;
        let decl = self.program.ast.files[index].decls.last().copied();
        Ok(FuncRef { decl: decl.unwrap_or(function.decl), args: Vec::new(), self_ty: None })
    }
}
