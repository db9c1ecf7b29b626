//! The variables of a program, and which of them each operation belongs to.
//!
//! An operation belongs to the variable that is assigned the value that it is a part of: the innermost initialiser,
//! assignment or `return` around its place in the source. What is in none of them belongs to its line.

use check::Program;
use check::tables::Meaning;
use check::types::{Scalar, Ty, TyKind};
use ir::Scalar as Number;
use rustc_hash::FxHashMap;
use syntax::ast::{DeclKind, ExprKind, Modifiers, StmtKind, UnaryOp};
use syntax::{DeclId, ExprId, FileId, Sources, Span, StmtId};

use super::structs;
use crate::error::source_span;

/// A variable, a field, or the returned value of a function.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name; `return` for a returned value.
    pub name: String,
    /// The function or struct that it is in; empty outside of them.
    pub function: String,
    /// Where it is declared.
    pub span: Span,
    /// Its type in source syntax.
    pub ty: String,
    /// The change of the source that gives it another type, or the reason why there is none.
    pub change: Result<Change, &'static str>,
}

impl Variable {
    /// The name with that of the function before it, `f: x`.
    pub fn path(&self) -> String {
        match (&self.name[..], &self.function[..]) {
            ("", _) => "(none)".to_string(),
            (name, "") => name.to_string(),
            (name, function) => format!("{function}: {name}"),
        }
    }
}

/// How the source gives a variable another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The type of its numbers.
    pub from: Number,
    /// The places.
    pub place: Place,
}

/// The places in the source that say what type a variable has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The name of a type: `float` in `float3x3`, whose first bytes these are.
    Name(Span),
    /// The initialiser of a variable that has its type, which has so many components if it is a vector.
    Initialiser(Span, Option<u32>),
}

impl Place {
    /// The location.
    pub fn span(self) -> Span {
        match self {
            Place::Name(span) | Place::Initialiser(span, _) => span,
        }
    }
}

/// The variables of all files of a program that are not the library's.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// The variables.
    pub variables: Vec<Variable>,
    /// Values that are assigned to a variable.
    sites: Vec<(Span, usize)>,
    known: FxHashMap<(DeclId, bool), usize>,
}

/// The name of a type of numbers in the source.
pub fn name_of(s: Number) -> &'static str {
    match s {
        Number::F16 => "half",
        Number::F32 => "float",
        _ => "double",
    }
}

impl Owners {
    /// The variables of a program whose reached code has been checked. `top` is the function whose parameters and result
    /// are given, `root` the file whose text may be changed, and `reached` has the places of all functions that run.
    pub fn of(
        program: &Program,
        sources: &Sources,
        root: FileId,
        top: DeclId,
        reached: &[ir::Span],
    ) -> Owners {
        let library = program.library_files();
        let reached: Vec<Span> = reached.iter().map(|&span| source_span(span)).collect();
        let structs = structs::inner(program, sources, root, top, &reached);
        let mut find = Find { program, sources, root, top, reached, structs, owners: Owners::default() };
        for file in &program.ast.files {
            if library.binary_search(&file.file.0).is_err() {
                file.decls.iter().for_each(|&decl| find.declaration(decl, ""));
            }
        }
        for decl in find.structs.clone() {
            let name = program.ast.name(program.ast.decls[decl].name);
            for &member in program.ast.decls[decl].kind.members() {
                find.variable(member, name);
            }
        }
        let mut owners = find.owners;
        // The innermost of several around a place is the shortest.
        owners.sites.sort_by_key(|(span, _)| span.end - span.start);
        owners
    }

    /// The variable that an operation at this place belongs to.
    pub fn owner(&self, place: Span) -> Option<usize> {
        let is_around = |s: &Span| s.file == place.file && s.start <= place.start && place.end <= s.end;
        self.sites.iter().find(|(span, _)| is_around(span)).map(|site| site.1)
    }
}

struct Find<'p> {
    program: &'p Program,
    sources: &'p Sources,
    root: FileId,
    top: DeclId,
    reached: Vec<Span>,
    /// The structs whose fields may have other types.
    structs: Vec<DeclId>,
    owners: Owners,
}

impl Find<'_> {
    fn declaration(&mut self, decl: DeclId, path: &str) {
        let data = &self.program.ast.decls[decl];
        let name = self.program.ast.name(data.name);
        let is_here =
            |s: &Span| s.file == data.span.file && data.span.start <= s.start && s.end <= data.span.end;
        if !self.reached.iter().any(is_here) {
            return;
        }
        let inner = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match &data.kind {
            DeclKind::Namespace { members } | DeclKind::Struct { members, .. } => {
                members.iter().for_each(|&member| self.declaration(member, &inner(name)));
            }
            DeclKind::Interface { members, .. } | DeclKind::Extension { members, .. } => {
                members.iter().for_each(|&member| self.declaration(member, path));
            }
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                accessors.iter().for_each(|&accessor| self.declaration(accessor, &inner(name)));
            }
            DeclKind::Func { params, body: Some(body), .. } | DeclKind::Init { params, body: Some(body) } => {
                let (params, body, function) = (params.clone(), *body, inner(name));
                for param in params {
                    self.variable(param, &function);
                }
                self.statement(body, decl, &function);
            }
            DeclKind::Accessor { body: Some(body), .. } => self.statement(*body, decl, &inner(name)),
            _ => {}
        }
    }

    fn statement(&mut self, stmt: StmtId, function: DeclId, path: &str) {
        let kind = &self.program.ast.stmts[stmt].kind;
        for &decl in kind.declarations() {
            let owner = self.variable(decl, path);
            if let Some(init) = self.program.ast.decls[decl].kind.init() {
                if let Some(owner) = owner {
                    let span = self.program.ast.exprs[init].span;
                    self.owners.sites.push((span, owner));
                }
                self.expression(init, path);
            }
        }
        if let StmtKind::Return(Some(value)) = kind {
            let owner = self.returned(function, path);
            let span = self.program.ast.exprs[*value].span;
            self.owners.sites.push((span, owner));
        }
        let (mut exprs, mut inner) = (Vec::new(), Vec::new());
        kind.expressions(&mut exprs);
        kind.statements(&mut inner);
        exprs.into_iter().for_each(|e| self.expression(e, path));
        inner.into_iter().for_each(|s| self.statement(s, function, path));
    }

    /// The assignments in an expression.
    fn expression(&mut self, expr: ExprId, path: &str) {
        let mut work = vec![expr];
        while let Some(e) = work.pop() {
            let data = &self.program.ast.exprs[e];
            let target = match data.kind {
                ExprKind::Assign(_, target, _) => Some(target),
                ExprKind::Unary(UnaryOp::PreInc | UnaryOp::PreDec, target) | ExprKind::Postfix(_, target) => {
                    Some(target)
                }
                _ => None,
            };
            if let Some(owner) = target.and_then(|target| self.assigned(target, path)) {
                self.owners.sites.push((data.span, owner));
            }
            data.kind.operands(&mut work);
        }
    }

    /// The variable of which an expression is the whole or a part.
    fn assigned(&mut self, target: ExprId, path: &str) -> Option<usize> {
        let mut at = target;
        loop {
            match (&self.program.tables.exprs[at].meaning, &self.program.ast.exprs[at].kind) {
                (Meaning::Var(decl), _) => return self.variable(*decl, path),
                (_, ExprKind::Member { base, .. } | ExprKind::Index { base, .. } | ExprKind::Paren(base)) => {
                    at = *base;
                }
                (Meaning::Field { field, .. }, _) => return self.variable(*field, path),
                _ => return None,
            }
        }
    }

    /// The number of a variable; `None` for what is no variable, and for code that is not reached.
    fn variable(&mut self, decl: DeclId, function: &str) -> Option<usize> {
        if let Some(&known) = self.owners.known.get(&(decl, false)) {
            return Some(known);
        }
        let data = &self.program.ast.decls[decl];
        let (ty_expr, init) = match data.kind {
            DeclKind::Var { ty, init, .. } => (ty, init),
            DeclKind::Param { ty, .. } => (ty, None),
            _ => return None,
        };
        let ty = self.program.tables.decl_types[decl]?;
        let change = self.change(decl, ty, ty_expr, init);
        let parent = data.parent.map(|parent| &self.program.ast.decls[parent]);
        let function = match parent {
            Some(parent) if matches!(parent.kind, DeclKind::Struct { .. }) => {
                self.program.ast.name(parent.name)
            }
            Some(_) => function,
            None => "",
        };
        Some(self.add((decl, false), self.program.ast.name(data.name), function, data.name_span, ty, change))
    }

    /// The number of the returned value of a function.
    fn returned(&mut self, decl: DeclId, function: &str) -> usize {
        if let Some(&known) = self.owners.known.get(&(decl, true)) {
            return known;
        }
        let data = &self.program.ast.decls[decl];
        let result = match data.kind {
            DeclKind::Func { result, .. } => result,
            _ => None,
        };
        let ty = result.and_then(|result| match self.program.tables.exprs[result].meaning {
            Meaning::Type(ty) => Some(ty),
            _ => None,
        });
        let change = match (ty, result) {
            _ if decl == self.top => Err("it is the result"),
            (Some(ty), Some(result)) => self.change_of_type(ty, result),
            _ => Err("no type is written"),
        };
        let ty = ty.map_or(String::new(), |ty| self.program.type_name(ty));
        let number = self.owners.variables.len();
        let function = function.to_string();
        self.owners.variables.push(Variable {
            name: "return".into(),
            function,
            span: data.name_span,
            ty,
            change,
        });
        self.owners.known.insert((decl, true), number);
        number
    }

    fn add(
        &mut self,
        key: (DeclId, bool),
        name: &str,
        function: &str,
        span: Span,
        ty: Ty,
        change: Result<Change, &'static str>,
    ) -> usize {
        let number = self.owners.variables.len();
        self.owners.variables.push(Variable {
            name: name.to_string(),
            function: function.to_string(),
            span,
            ty: self.program.type_name(ty),
            change,
        });
        self.owners.known.insert(key, number);
        number
    }

    /// How a declaration can be given another type.
    fn change(
        &self,
        decl: DeclId,
        ty: Ty,
        ty_expr: Option<ExprId>,
        init: Option<ExprId>,
    ) -> Result<Change, &'static str> {
        let data = &self.program.ast.decls[decl];
        let parent = data.parent.map(|parent| &self.program.ast.decls[parent].kind);
        let is_param = matches!(data.kind, DeclKind::Param { .. });
        let written =
            Modifiers(Modifiers::OUT.0 | Modifiers::INOUT.0 | Modifiers::REF.0 | Modifiers::CONSTREF.0);
        match parent {
            _ if data.parent == Some(self.top) && is_param => return Err("it is a parameter"),
            _ if is_param && data.modifiers.has(written) => return Err("it is passed by reference"),
            _ if is_param => {}
            Some(DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. })
                if !data.modifiers.has(Modifiers::STATIC) => {}
            Some(DeclKind::Struct { .. }) if !data.modifiers.has(Modifiers::STATIC) => {
                let is_inner = data.parent.is_some_and(|parent| self.structs.contains(&parent));
                if !is_inner {
                    return Err("its struct is used elsewhere");
                }
            }
            _ => return Err("it is not local"),
        }
        match (ty_expr, init) {
            (Some(ty_expr), _) => self.change_of_type(ty, ty_expr),
            (None, Some(init)) => {
                let (n, from) = match self.program.types[ty] {
                    TyKind::Scalar(_) => (None, self.number(ty)),
                    TyKind::Vector(element, ref n, _) => {
                        let n = self.program.val_int(n, &check::Subst::default());
                        let n = n.and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=4).contains(n));
                        (Some(n.ok_or("it is a long vector")?), self.number(element))
                    }
                    _ => return Err("no type is written"),
                };
                let span = self.in_root(self.program.ast.exprs[init].span)?;
                Ok(Change {
                    from: from.ok_or("it has no wider numbers")?,
                    place: Place::Initialiser(span, n),
                })
            }
            (None, None) => Err("no type is written"),
        }
    }

    /// How a type that is written can be changed.
    fn change_of_type(&self, ty: Ty, written: ExprId) -> Result<Change, &'static str> {
        let from = self.number(ty).ok_or("it has no wider numbers")?;
        let name = name_of(from);
        let mut work = vec![written];
        while let Some(e) = work.pop() {
            let data = &self.program.ast.exprs[e];
            if let ExprKind::Name(symbol) = data.kind {
                let text = self.program.ast.name(symbol);
                let rest = text.strip_prefix(name);
                let is_shape = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit() || b == b'x');
                if rest.is_some_and(is_shape) {
                    let span = self.in_root(data.span)?;
                    let source = &self.sources.files[span.file.0 as usize].text;
                    if source.get(span.start as usize..span.end as usize) != Some(text) {
                        return Err("a macro is its type");
                    }
                    let end = span.start + name.len() as u32;
                    return Ok(Change { from, place: Place::Name(Span { end, ..span }) });
                }
            }
            data.kind.operands(&mut work);
        }
        Err("its type has a name of its own")
    }

    fn in_root(&self, span: Span) -> Result<Span, &'static str> {
        if span.file == self.root { Ok(span) } else { Err("it is in another file") }
    }

    /// The type of the numbers of a type that consists of floats or doubles.
    fn number(&self, ty: Ty) -> Option<Number> {
        match self.program.types[ty] {
            TyKind::Scalar(Scalar::Float) => Some(Number::F32),
            TyKind::Scalar(Scalar::Double) => Some(Number::F64),
            TyKind::Vector(of, ..) | TyKind::Matrix(of, ..) | TyKind::Array(of, _) => self.number(of),
            _ => None,
        }
    }
}
