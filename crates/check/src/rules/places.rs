//! Rules about where declarations and modifiers may stand.

use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic, keywords as kw};

use crate::program::Program;
use crate::types::TyKind;

impl Program {
    /// Reports a kind of declaration that its surroundings cannot have.
    pub(crate) fn check_place(&mut self, decl: DeclId) {
        let d = &self.ast.decls[decl];
        let owner = d.parent.map(|p| &self.ast.decls[p].kind);
        let is_open = matches!(owner, None | Some(DeclKind::Namespace { .. }));
        let in_interface = matches!(owner, Some(DeclKind::Interface { .. }));
        let in_type = matches!(
            owner,
            Some(
                DeclKind::Struct { .. }
                    | DeclKind::Interface { .. }
                    | DeclKind::Extension { .. }
                    | DeclKind::Enum { .. }
            )
        );
        let (what, help) = match d.kind {
            DeclKind::Init { .. } if !in_type => ("a constructor", "declare it in a struct or an extension"),
            DeclKind::Subscript { .. } if is_open => {
                ("a subscript", "declare it in a struct or an extension")
            }
            DeclKind::Extension { .. } if in_type => ("an extension", "declare it outside of all types"),
            DeclKind::Interface { .. } if in_type => ("an interface", "declare it outside of all types"),
            DeclKind::Namespace { .. } if in_type => ("a namespace", "declare it outside of all types"),
            DeclKind::Struct { .. } if in_interface => {
                ("a struct", "require a type of that name: `associatedtype T;`")
            }
            DeclKind::AssociatedType { .. } if is_open && d.name != kw::EMPTY => {
                ("an associated type", "declare it in an interface, or write `typealias`")
            }
            _ => return,
        };
        let message = format!("{what} cannot be declared here");
        self.report(Diagnostic::error("E31400", d.name_span, message).help(help));
    }

    /// Reports `const` and `globallycoherent` before a pointer: they would be of what it leads to.
    fn check_pointer_marks(&mut self, decl: DeclId) {
        let (DeclKind::Var { ty: Some(written), .. } | DeclKind::Param { ty: Some(written), .. }) =
            self.ast.decls[decl].kind
        else {
            return;
        };
        let modifiers = self.ast.decls[decl].modifiers;
        let (is_star, first) = match &self.ast.exprs[written].kind {
            ExprKind::Pointer(_) => (true, None),
            ExprKind::Generic { args, .. } => (false, args.first().copied()),
            _ => (false, None),
        };
        let is_fixed = first.filter(
            |&arg| matches!(self.ast.exprs[arg].kind, ExprKind::Modified(marks, _) if marks.has(Modifiers::CONST)),
        );
        let is_coherent = modifiers.has(Modifiers::GLOBALLYCOHERENT);
        if !is_star && is_fixed.is_none() && !is_coherent {
            return;
        }
        let ty = self.decl_type(decl);
        if !matches!(self.types[ty], TyKind::Pointer(..)) {
            return;
        }
        let span = self.ast.exprs[written].span;
        let help = "a pointer through which nothing is written is a `Ptr<T, Access.Read>`";
        if is_star && modifiers.has(Modifiers::CONST) {
            let message = "`const` before `T*` would be of what the pointer leads to, which is not supported";
            self.report(Diagnostic::error("E20017", span, message).help(help));
        }
        if let Some(arg) = is_fixed {
            let message = "a pointer to what is `const` is not supported";
            self.report(Diagnostic::error("E20018", self.ast.exprs[arg].span, message).help(help));
        }
        if is_coherent {
            let message = "a pointer cannot be `globallycoherent`: buffers can";
            self.error("E30078", span, message);
        }
    }

    /// Reports modifiers that do not apply to what they stand before.
    pub(crate) fn check_modifiers(&mut self, decl: DeclId) {
        self.check_pointer_marks(decl);
        let d = &self.ast.decls[decl];
        let (modifiers, span) = (d.modifiers, d.name_span);
        let is_callable = matches!(
            d.kind,
            DeclKind::Func { .. }
                | DeclKind::Init { .. }
                | DeclKind::Subscript { .. }
                | DeclKind::Property { .. }
                | DeclKind::Accessor { .. }
        );
        let is_field = matches!(d.kind, DeclKind::Var { .. })
            && d.parent.is_some_and(|p| matches!(self.ast.decls[p].kind, DeclKind::Struct { .. }))
            && !modifiers.has(Modifiers::STATIC);
        if modifiers.has(Modifiers::CONSTEXPR) {
            let (code, message) = if is_callable {
                ("E31228", "`constexpr` has no effect before a function")
            } else {
                ("E31227", "`constexpr` is read as `const`")
            };
            let warning = Diagnostic::warning(code, span, message);
            self.report(match (is_callable, self.is_global(decl)) {
                (true, _) => warning.help("remove it: a call is evaluated where its result is needed"),
                (false, true) => warning.help("write `static const`"),
                (false, false) => warning.help("write `const`"),
            });
        }
        if is_field {
            let refused = [
                (Modifiers::REF, "__ref"),
                (Modifiers::CONSTREF, "__constref"),
                (Modifiers::GROUPSHARED, "groupshared"),
            ];
            for (_, word) in refused.into_iter().filter(|r| modifiers.has(r.0)) {
                let message = format!("a field cannot be `{word}`");
                let help = match word {
                    "groupshared" => "only variables outside of types are shared by a group",
                    _ => "a field holds a value; a pointer, `T*`, refers to one elsewhere",
                };
                self.report(Diagnostic::error("E31201", span, message).help(help));
            }
        }
    }
}
