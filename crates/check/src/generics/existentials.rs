//! Handles values of interface type: existential types, the types that their values may have, and parameters
//! of interface type.

use syntax::ast::{Ast, Decl, DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, ExprId, Span, StmtId, Symbol};

use crate::exprs::infer::Checker;
use crate::facts::Magic;
use crate::names::enter::last_name;
use crate::names::lookup::Ref;
use crate::program::Program;
use crate::tables::Meaning;
use crate::types::{GenericArg, Ty, TyKind};

impl Program {
    /// Returns true if the values of a type have types that are only known at run time: an interface, or an
    /// associated type of one.
    pub fn is_existential(&self, ty: Ty) -> bool {
        let mut at = ty;
        loop {
            match self.types[at] {
                TyKind::Interface(..) => return true,
                TyKind::Assoc(base, _) => at = base,
                _ => return false,
            }
        }
    }

    /// Returns true if an associated type is `IDifferentiable`'s `Differential`.
    pub fn is_differential(&self, assoc: DeclId) -> bool {
        self.container_of(assoc).and_then(|c| self.magics.of.get(&c)) == Some(&Magic::Differentiable)
    }

    /// The structs of the program that conform to an interface and have no generic parameters, in order of
    /// declaration.
    pub fn conforming_structs(&mut self, interface: Ty) -> Vec<Ty> {
        let decls: Vec<DeclId> = self.ast.decls.keys().collect();
        let mut found = Vec::new();
        for decl in decls {
            if matches!(self.ast.decls[decl].kind, DeclKind::Struct { .. })
                && !self.is_core(decl)
                && self.all_generic_params(decl).is_empty()
            {
                let ty = self.self_type(decl);
                if self.conforms(ty, interface) {
                    found.push(ty);
                }
            }
        }
        found
    }

    /// Replaces the arguments of an interface, if they are only known at run time, by those with which a type
    /// conforms to it.
    pub fn own_arguments(&mut self, ty: Ty, interface: DeclId, args: &mut [GenericArg]) {
        let existential =
            |p: &Program, arg: &GenericArg| matches!(arg, GenericArg::Type(ty) if p.is_existential(*ty));
        if !args.iter().any(|arg| existential(self, arg)) {
            return;
        }
        for found in self.interfaces_of(ty) {
            if let TyKind::Interface(decl, own) = &self.types[found]
                && *decl == interface
            {
                let known = own.clone().into_iter();
                args.iter_mut().zip(known).for_each(|(arg, own)| *arg = own);
                return;
            }
        }
    }

    /// The first place in a function, or in one that it calls, where a member of a generic parameter's type is
    /// called.
    pub fn first_dispatch(&self, func: DeclId, param: DeclId) -> Option<Span> {
        self.first_dispatch_within(func, param, &mut Vec::new())
    }

    fn first_dispatch_within(&self, func: DeclId, param: DeclId, seen: &mut Vec<DeclId>) -> Option<Span> {
        if seen.contains(&func) {
            return None;
        }
        seen.push(func);
        let calls = self.calls_in(func);
        let is_param = |ty: Ty| self.types[ty] == TyKind::Param(param);
        calls.into_iter().find_map(|(callee, span)| {
            if callee.self_ty.is_some_and(is_param) {
                return Some(span);
            }
            let params = self.all_generic_params(callee.decl);
            let mut given = params.into_iter().zip(&callee.args);
            let passed = given.find(|(_, arg)| matches!(arg, GenericArg::Type(ty) if is_param(*ty)))?;
            self.first_dispatch_within(callee.decl, passed.0, seen)
        })
    }

    /// The interface whose attributes determine the memory layout of an existential type's values.
    pub fn bound_of(&mut self, ty: Ty) -> Option<DeclId> {
        self.interfaces_of(ty).first().and_then(|&interface| self.interface_decl(interface))
    }

    /// Makes the functions that have been entered generic.
    pub(crate) fn make_functions_generic(&mut self) {
        for func in std::mem::take(&mut self.opened.functions) {
            self.make_generic(func);
        }
    }

    /// Makes a function with parameters of interface type generic: `float f(IShape s)` becomes
    /// `float f<T : IShape>(T s)`, where `T` may be `IShape` itself. The call determines the type. A
    /// parameter that is written keeps the interface type, since it may be assigned a value of another type.
    pub(crate) fn make_generic(&mut self, func: DeclId) {
        let (DeclKind::Func { params, body, .. } | DeclKind::Init { params, body, .. }) =
            self.ast.decls[func].kind.clone()
        else {
            return;
        };
        for param in params {
            let DeclKind::Param { ty: Some(ty), .. } = self.ast.decls[param].kind else { continue };
            if self.length_of_argument(func, param, ty) {
                continue;
            }
            let mut at = ty;
            while let ExprKind::Modified(_, inner) = self.ast.exprs[at].kind {
                at = inner;
            }
            let head = match &self.ast.exprs[at].kind {
                ExprKind::Generic { base, .. } => *base,
                _ => at,
            };
            let name = match self.ast.exprs[head].kind {
                ExprKind::Name(name) => name,
                ExprKind::FuncType(..) => self.ast.symbols.intern("IFunc"),
                _ => continue,
            };
            let modifiers = self.ast.decls[param].modifiers;
            let written = Modifiers(Modifiers::OUT.0 | Modifiers::INOUT.0 | Modifiers::REF.0);
            let is_named = self.opened.names.contains(&name)
                || self.ast.name(name) == "IDifferentiable"
                || self.is_function_interface(name);
            if modifiers.has(written) || !is_named {
                continue;
            }
            let own_name = self.ast.decls[param].name;
            if body.is_some_and(|body| self.is_written_in(body, own_name)) {
                continue;
            }
            let found = Checker::new(self, func).lookup(name);
            let interface = match found {
                Ref::Type(ty) => self.interface_decl(ty),
                Ref::Generic(decl, _) => Some(decl),
                _ => None,
            };
            let is_interface = |d: &DeclId| matches!(self.ast.decls[*d].kind, DeclKind::Interface { .. });
            let Some(interface) = interface.filter(is_interface) else { continue };
            if self.has_derivative_attribute(func) {
                // The derivative was written in terms of pairs of the interface.
                let this = self.self_type(interface);
                if self.differential(this).is_some() {
                    continue;
                }
            }
            let text = format!("some {}", self.ast.name(name));
            let kind = DeclKind::TypeParam { bases: vec![at], default: None };
            let type_param = self.add_parameter(func, param, kind, &text);
            let ty = self.types.intern(TyKind::Param(type_param));
            self.tables.decl_types[param] = Some(ty);
        }
    }

    /// `int f(int a[])` becomes `int f<let N : int>(int a[N])`: the argument determines the length.
    fn length_of_argument(&mut self, func: DeclId, param: DeclId, ty: ExprId) -> bool {
        let is_unsized = matches!(&self.ast.exprs[ty].kind, ExprKind::Index { args, .. } if args.is_empty());
        if !is_unsized || self.container_of(func).is_some() || self.has_derivative_attribute(func) {
            return false;
        }
        let name = format!("length of {}", self.ast.decl_name(param));
        let length = self.add_parameter(func, param, DeclKind::ValueParam { ty: None, default: None }, &name);
        self.opened.lengths.insert(param, length);
        true
    }

    /// Adds a generic parameter that the source does not name, for a parameter of the function.
    fn add_parameter(&mut self, func: DeclId, param: DeclId, kind: DeclKind, name: &str) -> DeclId {
        let name = self.ast.symbols.intern(name);
        let added = self.add_decl(Decl::new(kind, name, self.name_span(param), Some(func)));
        for owner in [func].into_iter().chain(self.solver_of(func)) {
            self.opened.of.entry(owner).or_default().push(added);
        }
        self.scopes.param_owner.insert(added, func);
        self.opened.params.insert(added);
        added
    }

    /// Returns true if an attribute, here or elsewhere, names a derivative of a function of this name.
    fn has_derivative_attribute(&self, func: DeclId) -> bool {
        let words = ["ForwardDerivative", "BackwardDerivative", "PrimalSubstitute"];
        words.iter().any(|word| self.attribute(func, word).is_some())
            || self.registry.derivative_of.contains_key(&self.ast.decls[func].name)
    }

    /// Returns true if a call of a generic function with a value of interface type for this parameter opens
    /// the value. Parameters made by [`Program::make_generic`] keep the interface as their type.
    pub fn opens(&self, func: DeclId, param: DeclId) -> bool {
        self.ast.decls[func].generics.as_ref().is_some_and(|g| g.params.contains(&param))
    }

    /// The index of the first parameter of a function that takes a value of this generic parameter's type.
    pub fn first_of_type(&mut self, func: DeclId, generic: DeclId) -> Option<usize> {
        let ty = self.types.intern(TyKind::Param(generic));
        let signature = self.raw_signature(func);
        signature.params.iter().position(|p| p.ty == ty && p.dir != crate::Direction::Out)
    }

    /// Gives a parsed file the scope of another file's module, without adding its names there.
    pub fn join_module(&mut self, index: usize, module_of: usize) {
        let module = self.modules.of_index.get(&module_of).copied().unwrap_or(0);
        self.modules.of_file.insert(self.ast.files[index].file, module);
        self.modules.of_index.insert(index, module);
    }

    /// Enters a file of `typealias`es as if it were part of another file's module, and returns the types that
    /// they name; `None` where there is no such type.
    pub fn aliases(&mut self, index: usize, module_of: usize) -> Vec<Option<Ty>> {
        self.join_module(index, module_of);
        let decls = self.ast.files[index].decls.clone();
        let mut found = Vec::new();
        for decl in decls {
            let DeclKind::TypeAlias(expr) = self.ast.decls[decl].kind else { continue };
            let mut checker = Checker::new(self, decl);
            checker.infer_any(expr, None);
            found.push(match self.tables.exprs[expr].meaning {
                Meaning::Type(ty) => Some(ty),
                _ => None,
            });
        }
        found
    }
}

impl Program {
    /// Returns true if a body assigns to the variable of this name as a whole, or passes it to a function
    /// that may. A variable of the same name inside the body counts too.
    fn is_written_in(&self, body: StmtId, name: Symbol) -> bool {
        let ast = &self.ast;
        let (mut stmts, mut exprs) = (vec![body], Vec::new());
        loop {
            while let Some(expr) = exprs.pop() {
                if let ExprKind::Assign(_, target, _) = ast.exprs[expr].kind
                    && is_name(ast, target, name)
                {
                    return true;
                }
                if let ExprKind::Call { callee, args } = &ast.exprs[expr].kind
                    && let Some(at) = args.iter().position(|&a| is_name(ast, a, name))
                    && let Some(callee) = last_name(ast, *callee)
                    && self.writes_parameter(callee, at)
                {
                    return true;
                }
                ast.exprs[expr].kind.operands(&mut exprs);
            }
            let Some(stmt) = stmts.pop() else { return false };
            let kind = &ast.stmts[stmt].kind;
            kind.statements(&mut stmts);
            kind.expressions(&mut exprs);
            for &decl in kind.declarations() {
                exprs.extend(ast.decls[decl].kind.init());
            }
        }
    }

    /// Returns true if a function of this name writes its parameter at this index.
    fn writes_parameter(&self, name: Symbol, at: usize) -> bool {
        let written = Modifiers(Modifiers::OUT.0 | Modifiers::INOUT.0 | Modifiers::REF.0);
        self.declared_anywhere(name).into_iter().any(|f| {
            let params = self.params_of(f);
            params.get(at).is_some_and(|&p| self.ast.decls[p].modifiers.has(written))
        })
    }
}

fn is_name(ast: &Ast, expr: ExprId, name: Symbol) -> bool {
    match ast.exprs[expr].kind {
        ExprKind::Name(own) => own == name,
        ExprKind::Paren(inner) => is_name(ast, inner, name),
        _ => false,
    }
}
