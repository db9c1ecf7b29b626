//! Formats declarations and signatures for readers, and extracts the comment before a declaration.

use check::signature::{Level, Signature};
use check::tables::{Callable, DiffOp, FuncRef};
use check::types::{GenericArg, Ty, TyKind, Val};
use check::{Direction, ModuleId, View};
use syntax::DeclId;
use syntax::ast::{DeclKind, Modifiers};

use crate::Analysis;
use crate::cursor::function_of;

/// The maximum number of fields to list.
const MAX_FIELDS: usize = 12;

impl Analysis {
    /// The name of a declaration.
    pub(crate) fn name_of(&self, decl: DeclId) -> &str {
        self.program.ast.name(self.program.ast.decls[decl].name)
    }

    /// A function as a callable, with its own parameters as arguments.
    pub(crate) fn as_callable(&mut self, decl: DeclId) -> Callable {
        let args = self
            .program
            .all_generic_params(decl)
            .into_iter()
            .map(|p| match self.program.ast.decls[p].kind {
                DeclKind::ValueParam { .. } => GenericArg::Val(Val::Param(p)),
                _ => GenericArg::Type(self.program.types.intern(TyKind::Param(p))),
            })
            .collect();
        let self_ty = self.program.receiver_of(decl);
        Callable::Func(FuncRef { decl, args, self_ty })
    }

    /// `float f(float x, inout float3 y)`, through derivative operators `void bwd_diff(f)(…)`.
    pub(crate) fn callable_text(&mut self, callable: &Callable) -> String {
        let signature = self.program.callable_signature(callable);
        let name = self.callable_name(callable);
        self.signature_text(&name, &signature)
    }

    fn callable_name(&self, callable: &Callable) -> String {
        match callable {
            Callable::Func(func) => {
                let name = match self.program.ast.decls[func.decl].kind {
                    DeclKind::Init { .. } => "__init",
                    _ => self.name_of(func.decl),
                };
                match func.self_ty {
                    Some(ty) => format!("{}.{name}", self.program.type_name(ty)),
                    None => name.to_string(),
                }
            }
            Callable::Derived(op, inner, _) => format!("{}({})", op.word(), self.callable_name(inner)),
            Callable::Synthesized(member, ty) => format!("{}.{}", self.program.type_name(*ty), member.name()),
        }
    }

    fn signature_text(&self, name: &str, signature: &Signature) -> String {
        let mut params = Vec::new();
        for param in &signature.params {
            let direction = match param.dir {
                Direction::In => "",
                Direction::Out => "out ",
                Direction::InOut => "inout ",
                Direction::Ref => "ref ",
                Direction::ConstRef => "__constref ",
            };
            let no_diff = if param.no_diff { "no_diff " } else { "" };
            let name = param.decl.map_or("resultGradient", |d| self.name_of(d));
            let ty = self.program.type_name(param.ty);
            params.push(format!("{no_diff}{direction}{ty} {name}").trim_end().to_string());
        }
        let result = self.program.type_name(signature.ret);
        format!("{result} {name}({})", params.join(", "))
    }

    /// A function and its derivatives, if any, on a line each.
    pub(crate) fn function_lines(&mut self, callable: &Callable) -> Vec<String> {
        let mut lines = vec![self.callable_text(callable)];
        if let Callable::Func(func) = callable {
            let func = func.clone();
            let derivatives = self.program.derivatives_of(&func, View::default());
            let derived = |op| Callable::of(func.clone(), &[op], ModuleId(0));
            if derivatives.level >= Level::Forward || derivatives.fwd.is_some() {
                lines.push(self.callable_text(&derived(DiffOp::Fwd)));
            }
            if derivatives.level >= Level::Backward || derivatives.bwd.is_some() {
                lines.push(self.callable_text(&derived(DiffOp::Bwd)));
            }
        } else if let Some(decl) = function_of(callable) {
            let original = self.as_callable(decl);
            lines.push(self.callable_text(&original));
        }
        lines
    }

    /// A declaration on one or a few lines, without its body.
    pub(crate) fn declaration_text(&mut self, decl: DeclId) -> String {
        let name = self.name_of(decl).to_string();
        match self.program.ast.decls[decl].kind.clone() {
            DeclKind::Func { .. } | DeclKind::Init { .. } => {
                let callable = self.as_callable(decl);
                self.function_lines(&callable).join(";\n")
            }
            DeclKind::Struct { .. } | DeclKind::Interface { .. } => {
                let ty = self.program.decl_type(decl);
                self.type_text(ty, decl)
            }
            DeclKind::Enum { cases, .. } => {
                let cases: Vec<&str> = cases.iter().take(MAX_FIELDS).map(|&c| self.name_of(c)).collect();
                format!("enum {name} {{ {} }}", cases.join(", "))
            }
            DeclKind::EnumCase(_) => {
                let value = self.program.enum_case_value(decl);
                let ty = self.program.decl_type(decl);
                format!("{}.{name} = {value}", self.program.type_name(ty))
            }
            DeclKind::TypeAlias(_) => {
                let ty = self.program.decl_type(decl);
                format!("typealias {name} = {}", self.program.type_name(ty))
            }
            DeclKind::TypeParam { .. } => format!("generic type {name}"),
            DeclKind::AssociatedType { .. } => format!("associatedtype {name}"),
            DeclKind::Namespace { .. } => format!("namespace {name}"),
            DeclKind::CBuffer { .. } => format!("cbuffer {name}"),
            _ => {
                let ty = self.program.decl_type(decl);
                let ty = self.program.type_name(ty);
                let modifiers = self.program.ast.decls[decl].modifiers;
                let mut text = String::new();
                let words = [
                    (Modifiers::NO_DIFF, "no_diff "),
                    (Modifiers::STATIC, "static "),
                    (Modifiers::GROUPSHARED, "groupshared "),
                    (Modifiers::UNIFORM, "uniform "),
                    (Modifiers::CONST, "const "),
                    (Modifiers::IN, "in "),
                    (Modifiers::OUT, "out "),
                    (Modifiers::INOUT, "inout "),
                ];
                for (modifier, word) in words {
                    if modifiers.has(modifier) {
                        text += word;
                    }
                }
                format!("{text}{ty} {name}")
            }
        }
    }

    /// A type: its name, and the fields of a struct.
    pub(crate) fn type_text(&mut self, ty: Ty, decl: DeclId) -> String {
        let name = self.program.type_name(ty);
        let word = match self.program.ast.decls[decl].kind {
            DeclKind::Interface { .. } => return format!("interface {name}"),
            DeclKind::Struct { .. } => "struct",
            _ => return name,
        };
        let fields = self.program.fields(ty);
        let mut text = format!("{word} {name}\n{{\n");
        for (field, ty, no_diff) in fields.iter().take(MAX_FIELDS) {
            let no_diff = if *no_diff { "no_diff " } else { "" };
            text += &format!("    {no_diff}{} {};\n", self.program.type_name(*ty), self.name_of(*field));
        }
        if fields.len() > MAX_FIELDS {
            text += "    …\n";
        }
        text + "}"
    }

    /// The comment lines directly before a declaration, without their slashes.
    pub(crate) fn comment_of(&self, decl: DeclId) -> Option<String> {
        let d = &self.program.ast.decls[decl];
        let start = d.attributes.iter().map(|a| a.span.start).min().unwrap_or(d.span.start).min(d.span.start);
        let text = &self.session.sources.files.get(d.span.file.0 as usize)?.text;
        let before = text.get(..start as usize)?;
        let (before, _) = before.rsplit_once('\n')?;
        let mut lines = Vec::new();
        for line in before.lines().rev() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { break };
            lines.push(comment.trim_start_matches('/').trim().to_string());
        }
        lines.reverse();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}
