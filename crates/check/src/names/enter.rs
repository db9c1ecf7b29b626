//! Enters declarations into the scopes of their names.

use std::rc::Rc;

use smallvec::SmallVec;
use syntax::ast::{AccessorKind, Ast, DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, ExprId, Symbol, keywords as kw};

use crate::facts::{Magic, Names};
use crate::names::bit_fields::WORD;
use crate::program::Program;

impl Program {
    /// Enters a declaration into the names of its scope, and the declarations inside it into the indices.
    pub(crate) fn enter(&mut self, id: DeclId, module: usize, names: &mut Names) {
        if module != 0 && matches!(self.ast.decls[id].kind, DeclKind::Func { .. } | DeclKind::Init { .. }) {
            self.opened.functions.push(id);
        }
        self.pack_bit_fields(id);
        let decl = &self.ast.decls[id];
        let name = decl.name;
        let any = Modifiers(Modifiers::PUBLIC.0 | Modifiers::INTERNAL.0 | Modifiers::PRIVATE.0);
        if decl.modifiers.has(any) && !self.ast.name(name).starts_with(WORD) {
            self.modules.all[module].has_visibility = true;
        }
        // A file that is `#include`d belongs to the module that includes it.
        self.modules.of_file.entry(decl.span.file).or_insert(module);
        if let Some(generics) = &decl.generics {
            for &param in &generics.params {
                self.scopes.param_owner.insert(param, id);
            }
        }
        for (role, target) in self.derivative_targets(id) {
            let Some(name) = last_name(&self.ast, target) else { continue };
            self.registry.derivative_of.entry(name).or_default().push((id, role, target));
            if module != 0 {
                self.registry.unchecked_targets.push(id);
                self.registry.is_used = true;
            }
            let is_generic = matches!(self.ast.exprs[target].kind, ExprKind::Generic { .. });
            if self.ast.extensions.contains_key(&id) && (is_generic || decl.generics.is_some()) {
                self.registry.late_names.insert(name);
            }
        }
        let is_prototype = matches!(decl.kind, DeclKind::Func { body: None, .. });
        self.registry.is_used |= is_prototype && module != 0 && !decl.attributes.is_empty();
        let kind = decl.kind.clone();
        if let DeclKind::Accessor { kind: AccessorKind::Set, param: None, .. } = kind {
            self.add_new_value(id);
        }
        if let Some(solver) = self.make_implied(id) {
            names.entry(self.ast.decls[solver].name).or_default().push(solver);
        }
        let is_entered = match kind {
            DeclKind::Extension { .. } => {
                self.extensions.pending.push(id);
                false
            }
            DeclKind::Interface { .. } => {
                if module != 0 {
                    self.opened.names.insert(name);
                } else if let Some(magic) = Magic::by_name(self.ast.name(name)) {
                    self.magics.of.insert(id, magic);
                    self.magics.decls.push((magic, id));
                }
                true
            }
            DeclKind::Namespace { .. } => {
                let key = (self.namespace_path(id), module);
                self.scopes.namespace_parts.entry(key).or_default().push(id);
                true
            }
            DeclKind::AssociatedType { .. } => {
                self.has_constraints |= self.is_constrained(id);
                true
            }
            DeclKind::Using(_) => {
                self.modules.all[module].using.push(id);
                false
            }
            DeclKind::Unsupported(word) => {
                let message = format!("'{}' is not supported yet", self.ast.name(word));
                self.error("E0900", self.ast.decls[id].span, message);
                false
            }
            DeclKind::Func { .. } => !self.ast.extensions.contains_key(&id),
            DeclKind::Struct { .. }
            | DeclKind::Enum { .. }
            | DeclKind::Init { .. }
            | DeclKind::Property { .. }
            | DeclKind::Subscript { .. }
            | DeclKind::Var { .. }
            | DeclKind::Param { .. }
            | DeclKind::Accessor { .. }
            | DeclKind::EnumCase(_)
            | DeclKind::TypeAlias(_)
            | DeclKind::TypeParam { .. }
            | DeclKind::ValueParam { .. } => true,
            DeclKind::CBuffer { .. }
            | DeclKind::Tuple { .. }
            | DeclKind::Empty
            | DeclKind::Import { .. }
            | DeclKind::Include { .. }
            | DeclKind::Module(_)
            | DeclKind::Implementing(_) => false,
        };
        let key = self.member_name(id);
        if is_entered && key != kw::EMPTY {
            names.entry(key).or_default().push(id);
        }
        if let DeclKind::CBuffer { members } = &kind {
            members.iter().for_each(|&member| self.enter(member, module, names));
        } else if let DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } = &kind {
            let mut ignored = Names::default();
            accessors.iter().for_each(|&accessor| self.enter(accessor, module, &mut ignored));
        } else if self.is_type(id) || matches!(kind, DeclKind::Namespace { .. }) {
            // The cases of an enumeration without a name could not be named otherwise.
            let is_nameless =
                matches!(kind, DeclKind::Enum { .. }) && self.ast.name(key).starts_with("__anonymous_");
            let is_unscoped =
                is_nameless || ["UnscopedEnum", "__block"].iter().any(|a| self.attribute(id, a).is_some());
            let mut inner = Names::default();
            for member in self.members(id).to_vec() {
                self.enter(member, module, &mut inner);
                if is_unscoped {
                    names.entry(self.ast.decls[member].name).or_default().push(member);
                }
            }
            self.scopes.members.insert(id, Rc::new(inner));
        }
    }

    /// The name of the instance of a GLSL block without one, for a member of the block.
    pub(crate) fn block_of(&self, field: DeclId) -> Option<Symbol> {
        let owner = self.ast.decls[field].parent?;
        self.attribute(owner, "__block")?;
        let name = self.ast.name(self.ast.decls[owner].name).strip_prefix("__")?;
        self.ast.symbols.find(name)
    }

    /// Enters a type (or function) that is declared inside a function's body.
    pub(crate) fn enter_local(&mut self, decl: DeclId) {
        let module = self.module_of(decl);
        let mut ignored = Names::default();
        let before = self.extensions.pending.len();
        self.enter(decl, module, &mut ignored);
        if self.extensions.pending.len() != before {
            self.queries.extensions_changed();
        }
        self.make_functions_generic();
    }

    /// The names inside a struct, interface, enumeration, extension or one part of a namespace.
    pub(crate) fn names_in(&self, decl: DeclId) -> Option<&Rc<Names>> {
        self.scopes.members.get(&decl)
    }

    /// The declarations of one name inside a struct, interface, enumeration, extension or part of a namespace.
    pub(crate) fn named(&self, container: DeclId, name: Symbol) -> SmallVec<[DeclId; 2]> {
        self.scopes.members.get(&container).and_then(|names| names.get(&name)).cloned().unwrap_or_default()
    }

    /// Returns true if a container declares a member of this name.
    pub(crate) fn declares_name(&self, container: DeclId, name: Symbol) -> bool {
        self.scopes.members.get(&container).is_some_and(|names| names.contains_key(&name))
    }

    /// The declarations of one name in all parts of a namespace, as a module sees them; where there are none, those in the
    /// namespaces that its parts open by `using`.
    pub(crate) fn named_in_namespace(&self, namespace: DeclId, name: Symbol, module: usize) -> Vec<DeclId> {
        let (mut open, mut next) = (vec![namespace], 0);
        while let Some(&namespace) = open.get(next) {
            next += 1;
            let parts = self.parts(namespace);
            let found: Vec<DeclId> = parts.iter().flat_map(|&part| self.named(part, name)).collect();
            if !found.is_empty() {
                return self.as_seen_by(module, found);
            }
            for opened in parts.into_iter().flat_map(|part| self.opened_by(part)) {
                if !open.contains(&opened) {
                    open.push(opened);
                }
            }
        }
        Vec::new()
    }

    /// Of the declarations of one name in a namespace those that a module may name, if there are any: what other modules
    /// keep to themselves has nothing to do with its own names, and a variable or a type of its own hides theirs.
    fn as_seen_by(&self, module: usize, found: Vec<DeclId>) -> Vec<DeclId> {
        let is_own = |decl: &DeclId| self.module_of(*decl) == module;
        let is_function = |decl: &DeclId| matches!(self.ast.decls[*decl].kind, DeclKind::Func { .. });
        let hides = found.iter().any(|decl| is_own(decl) && !is_function(decl));
        let seen = |decl: &DeclId| is_own(decl) || !hides && self.is_visible_outside(*decl);
        let visible: Vec<DeclId> = found.iter().copied().filter(seen).collect();
        if visible.is_empty() { found } else { visible }
    }

    /// The namespaces that a part of a namespace opens, as far as they are named by one word.
    fn opened_by(&self, part: DeclId) -> Vec<DeclId> {
        let using = self.members(part).iter().filter_map(|&member| match self.ast.decls[member].kind {
            DeclKind::Using(path) => match self.ast.exprs[path].kind {
                ExprKind::Name(name) => Some(name),
                _ => None,
            },
            _ => None,
        });
        let named = using.filter_map(|name| self.declared_anywhere(name).first().copied());
        named.filter(|&decl| matches!(self.ast.decls[decl].kind, DeclKind::Namespace { .. })).collect()
    }

    /// The names of a namespace and of the enclosing ones, outermost first.
    fn namespace_path(&self, namespace: DeclId) -> Vec<Symbol> {
        let mut path: Vec<Symbol> = self.ast.enclosing(namespace).map(|d| self.ast.decls[d].name).collect();
        path.reverse();
        path
    }

    /// All parts of a namespace.
    pub(crate) fn parts(&self, namespace: DeclId) -> Vec<DeclId> {
        let mut key = (self.namespace_path(namespace), 0);
        let mut parts = Vec::new();
        // A namespace of the same path in an imported module has a different key, so look in all modules.
        for module in 0..self.modules.all.len() {
            key.1 = module;
            if let Some(found) = self.scopes.namespace_parts.get(&key) {
                parts.extend_from_slice(found);
            }
        }
        if parts.is_empty() {
            parts.push(namespace);
        }
        parts
    }
}

/// The last name of an expression: `f` in `a.b.f<T>`.
pub(crate) fn last_name(ast: &Ast, expr: ExprId) -> Option<Symbol> {
    match &ast.exprs[expr].kind {
        ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::GlobalName(name) => Some(*name),
        ExprKind::Member { name, .. } | ExprKind::Static { name, .. } => Some(*name),
        ExprKind::Generic { base, .. } | ExprKind::Paren(base) => last_name(ast, *base),
        _ => None,
    }
}
