//! The program: trees, tables, types and diagnostics, and what has been found out so far.
//!
//! A module is a set of files that share one scope of names. Adding a module only enters the names of its
//! declarations; everything else is computed when it is asked for and remembered here. All that is remembered
//! depends on declarations only, never on the order of questions.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{Ast, DeclId, Diagnostic, ExprId, FileId, Span, Symbol};

use crate::api::ModuleLoader;
use crate::conform::{ExtensionInfo, Facet};
use crate::constraints::Constraints;
use crate::native::Magic;
use crate::signature::{Derivatives, Signature};
use crate::tables::{FuncRef, Tables};
use crate::types::{Ty, TyInterner};
use crate::views::{ModuleId, View};

/// Names of a scope; several for overloads.
pub(crate) type Names = FxHashMap<Symbol, SmallVec<[DeclId; 2]>>;

/// Files that share a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// What it declares at the top.
    pub(crate) names: Names,
    /// Modules that its `import`s name, in order.
    pub(crate) imports: Vec<usize>,
    /// Those of `imports` that importers of this see too.
    pub(crate) exported: Vec<usize>,
    /// Namespaces that `using` opens for the whole module, as written.
    pub(crate) using: Vec<DeclId>,
    /// It says what others may name; else they may name all.
    pub(crate) has_visibility: bool,
}

/// A program that is being checked. Owns everything; there is no global state.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The trees of all files.
    pub ast: Ast,
    /// What expressions and declarations mean.
    pub tables: Tables,
    /// The types.
    pub types: TyInterner,
    /// What is to be told to the user, in order of finding.
    pub diagnostics: Vec<Diagnostic>,
    /// Matrices of which the program does not say how they lie in memory lie there column by column.
    pub host_has_columns: bool,
    pub(crate) modules: Vec<Module>,
    pub(crate) module_of_file: FxHashMap<FileId, usize>,
    /// Which module each file of `ast.files` was made.
    pub(crate) module_of_index: FxHashMap<usize, usize>,
    /// Modules whose imports are being loaded.
    pub(crate) open_modules: Vec<usize>,
    /// Members of structs, interfaces, enumerations, extensions and namespaces.
    pub(crate) members: FxHashMap<DeclId, Rc<Names>>,
    /// All parts of a namespace, by each of its parts.
    pub(crate) namespace_parts: FxHashMap<(Vec<Symbol>, usize), Vec<DeclId>>,
    /// The declaration whose generic parameter this is.
    pub(crate) param_owner: FxHashMap<DeclId, DeclId>,
    /// Interfaces that the checker knows by name.
    pub(crate) magic: FxHashMap<DeclId, Magic>,
    pub(crate) magic_decls: Vec<(Magic, DeclId)>,
    pub(crate) extensions: Vec<ExtensionInfo>,
    pub(crate) pending_extensions: Vec<DeclId>,
    /// Names of the user's interfaces, and functions whose parameters have not been looked at for them.
    pub(crate) interface_names: FxHashSet<Symbol>,
    pub(crate) entered_functions: Vec<DeclId>,
    /// Generic parameters that stand for parameters of interface type.
    pub(crate) interface_params: FxHashSet<DeclId>,
    /// Targets of generic `__func_extension`s.
    pub(crate) late_names: FxHashSet<Symbol>,
    /// `…Of` attributes by the last name of their argument: the derivative, and which attribute of it.
    pub(crate) derivative_of: FxHashMap<Symbol, Vec<(DeclId, usize)>>,
    /// The program's own among them, in order, until their targets have been looked at.
    pub(crate) unchecked_targets: Vec<DeclId>,
    /// The calls of instances of generic functions, and of `bit_cast`, that a body makes, and the callers in order.
    pub(crate) instances: FxHashMap<DeclId, Vec<(FuncRef, Span)>>,
    pub(crate) instance_callers: Vec<DeclId>,
    /// Whether the program declares derivatives that may be those of another module's functions.
    pub(crate) registers: bool,
    /// That, and several modules can ask for them.
    pub(crate) has_retroactive: bool,
    /// Whether a function has derivatives in other modules than its own.
    pub(crate) retroactive: FxHashMap<DeclId, bool>,
    pub(crate) witnesses: FxHashMap<FuncRef, Rc<[crate::derivatives::Entry]>>,
    pub(crate) derivatives: FxHashMap<(FuncRef, View), Rc<Derivatives>>,
    pub(crate) derivatives_busy: FxHashSet<FuncRef>,
    /// Structs made for `__apply`, by the function and who asks, and by the call operator.
    pub(crate) pullbacks: FxHashMap<(DeclId, ModuleId, bool), crate::pullback::Pullback>,
    /// What functions without source give.
    pub(crate) made_results: FxHashMap<DeclId, Ty>,
    /// By the declarations of the structs and of their call operators.
    pub(crate) pullback_decls: FxHashMap<DeclId, crate::pullback::Pullback>,
    /// How large types are, of those that were asked for.
    pub(crate) extents: FxHashMap<Ty, crate::budget::Extent>,
    /// How many parts values have, as far as that is known: see [`crate::budget`].
    pub(crate) leaf_counts: FxHashMap<Ty, u32>,
    pub(crate) facets: FxHashMap<Ty, Rc<[Facet]>>,
    /// How many lists of facets are being made: what is found out meanwhile may be incomplete.
    pub(crate) facets_depth: u32,
    pub(crate) bases: FxHashMap<DeclId, Rc<[Ty]>>,
    /// Declarations with a base or bound that is unknown.
    pub(crate) unknown_bases: FxHashSet<DeclId>,
    pub(crate) constraints: FxHashMap<DeclId, Rc<Constraints>>,
    pub(crate) differentials: FxHashMap<Ty, Option<Ty>>,
    pub(crate) signatures: FxHashMap<DeclId, Rc<Signature>>,
    pub(crate) types_busy: FxHashSet<DeclId>,
    pub(crate) checked: FxHashSet<DeclId>,
    /// Types whose differential has been checked.
    pub(crate) differentials_checked: FxHashSet<DeclId>,
    pub(crate) flow_checked: FxHashSet<DeclId>,
    pub(crate) bits_given: FxHashMap<DeclId, bool>,
    pub(crate) bits_depth: u32,
    /// Expressions whose derivative is lost, which is an error or a warning.
    pub lost: FxHashSet<ExprId>,
    pub(crate) conform_busy: Vec<(Ty, Ty)>,
    /// The extensions of which it is being asked whether they apply, each on behalf of the one before.
    pub(crate) searching: Vec<DeclId>,
    /// How often that was asked since the first of them.
    pub(crate) search_steps: u32,
    /// Says that such a search led too far.
    pub(crate) endless_search: Option<Diagnostic>,
    pub(crate) enum_values: FxHashMap<DeclId, i64>,
    pub(crate) const_busy: Vec<DeclId>,
    /// How deep constant members depend on each other.
    pub(crate) val_depth: u32,
    /// What the bodies of lambdas return, by the lambda's struct.
    pub(crate) returned: FxHashMap<DeclId, Vec<ExprId>>,
    /// Whether an interface says something of associated types beside their bounds.
    pub(crate) has_constraints: bool,
    /// Types whose constraints are being asked for.
    pub(crate) constraints_busy: Vec<Ty>,
    /// Declarations whose constraints are being resolved.
    pub(crate) constraints_open: Vec<DeclId>,
    /// Locals that a type declared inside a function sees.
    pub(crate) local_scopes: FxHashMap<DeclId, Rc<Vec<(Symbol, DeclId)>>>,
    /// Words of the language that are looked for often.
    pub(crate) words: Words,
}

/// Interned words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) differential: Symbol,
    pub(crate) init: Symbol,
    pub(crate) call: Symbol,
    pub(crate) empty: Symbol,
    pub(crate) forward_derivative_of: Symbol,
    pub(crate) backward_derivative_of: Symbol,
    pub(crate) primal_substitute_of: Symbol,
    /// What the declaration of an `__apply` extension is marked with.
    pub(crate) apply_of: Symbol,
}

impl Default for Words {
    fn default() -> Words {
        let zero = <Symbol as cranelift_entity::EntityRef>::new(0);
        Words {
            differential: zero,
            init: zero,
            call: zero,
            empty: zero,
            forward_derivative_of: zero,
            backward_derivative_of: zero,
            primal_substitute_of: zero,
            apply_of: zero,
        }
    }
}

impl Words {
    fn new(ast: &mut Ast) -> Words {
        let mut word = |s: &str| ast.symbols.intern(s);
        Words {
            differential: word("Differential"),
            init: word("$init"),
            call: word("operator()"),
            empty: word(""),
            forward_derivative_of: word("ForwardDerivativeOf"),
            backward_derivative_of: word("BackwardDerivativeOf"),
            primal_substitute_of: word("PrimalSubstituteOf"),
            apply_of: word("$ApplyOf"),
        }
    }
}

impl Program {
    /// A program of the library only. `core` are the indices of its files in `ast.files`.
    pub fn new(mut ast: Ast, core: &[usize]) -> Program {
        let words = Words::new(&mut ast);
        let mut program = Program { ast, words, ..Program::default() };
        program.modules.push(Module::default());
        let mut imports = Vec::new();
        for &file in core {
            program.enter_file(file, 0, &mut imports);
        }
        program
    }

    /// Makes a parsed file (by its index in `ast.files`) part of the library.
    pub fn add_library(&mut self, file: usize) {
        self.enter_file(file, 0, &mut Vec::new());
        self.clear_caches();
    }

    /// Makes a parsed file (by its index in `ast.files`) a module of the program, with all that it imports and
    /// includes. Nothing is checked yet but the names of its declarations.
    pub fn add_module(&mut self, file: usize, loader: &mut dyn ModuleLoader) {
        self.load_module(file, loader, 0);
    }

    fn load_module(&mut self, file: usize, loader: &mut dyn ModuleLoader, depth: u32) -> usize {
        if let Some(&module) = self.module_of_index.get(&file) {
            return module;
        }
        let module = self.modules.len();
        self.modules.push(Module::default());
        let mut imports = Vec::new();
        self.open_modules.push(module);
        self.enter_file(file, module, &mut imports);
        let mut next = 0;
        while next < imports.len() {
            let decl = imports[next];
            next += 1;
            let from = self.ast.decls[decl].span.file;
            let span = self.ast.decls[decl].span;
            let (path, quoted, include) = match &self.ast.decls[decl].kind {
                DeclKind::Import { path, quoted } => (path.clone(), *quoted, false),
                DeclKind::Include { path, quoted } => (path.clone(), *quoted, true),
                _ => continue,
            };
            if depth > 200 {
                self.error("E15500", span, "imports are nested too deeply");
                continue;
            }
            let Some(index) = loader.load(self, &path, quoted, from) else {
                let word = if include { "include" } else { "import" };
                let message = format!("cannot open the file of {word} '{path}'");
                let help = "it has to be beside this file, or in a folder that '-I' names";
                self.report(Diagnostic::error("E15300", span, message).help(help));
                continue;
            };
            if include {
                let part = self.ast.files[index].file;
                self.ast.warnings.add_part(part, span);
                self.enter_file(index, module, &mut imports);
            } else {
                let exported = self.ast.decls[decl].modifiers.has(syntax::ast::Modifiers::EXPORTED);
                if let Some(open) = self.module_of_index.get(&index)
                    && self.open_modules.contains(open)
                {
                    let message = format!("the module '{path}' imports itself, here or by way of others");
                    self.error("E38200", span, message);
                    continue;
                }
                let other = self.load_module(index, loader, depth + 1);
                if other != module && !self.modules[module].imports.contains(&other) {
                    self.modules[module].imports.push(other);
                    if exported {
                        self.modules[module].exported.push(other);
                    }
                }
            }
        }
        self.open_modules.pop();
        // The library, and two of the program's.
        self.has_retroactive = self.registers && self.modules.len() > 2;
        self.clear_caches();
        for func in std::mem::take(&mut self.entered_functions) {
            self.make_generic(func);
        }
        module
    }

    /// What was found out about types may change when extensions come in.
    fn clear_caches(&mut self) {
        self.facets.clear();
        self.differentials.clear();
        self.derivatives.clear();
        self.witnesses.clear();
        self.retroactive.clear();
    }

    /// Adds a parsed file, which imports nothing, to the module of another one.
    pub fn extend_module(&mut self, index: usize, module_of: usize) {
        let module = self.module_of_index.get(&module_of).copied().unwrap_or(0);
        self.enter_file(index, module, &mut Vec::new());
        for func in std::mem::take(&mut self.entered_functions) {
            self.make_generic(func);
        }
    }

    fn enter_file(&mut self, index: usize, module: usize, imports: &mut Vec<DeclId>) {
        if self.module_of_index.insert(index, module).is_some() {
            return;
        }
        let file = self.ast.files[index].file;
        let decls = self.ast.files[index].decls.clone();
        self.module_of_file.insert(file, module);
        let mut names = std::mem::take(&mut self.modules[module].names);
        for decl in decls {
            if let DeclKind::Import { .. } | DeclKind::Include { .. } = self.ast.decls[decl].kind {
                imports.push(decl);
            }
            let says = matches!(self.ast.decls[decl].kind, DeclKind::Include { .. } | DeclKind::Module(_));
            self.modules[module].has_visibility |= says;
            self.enter(decl, module, &mut names);
        }
        self.modules[module].names = names;
    }

    /// `__func_extension fwd_diff(f)(…) { … }` is a function with `[ForwardDerivativeOf(f)]`; the others likewise.
    fn desugar_extension(&mut self, id: DeclId) {
        let DeclKind::FuncExtension { op, target, params, result, body } = self.ast.decls[id].kind.clone()
        else {
            return;
        };
        let span = self.ast.decls[id].span;
        let name = match self.ast.name(op) {
            "fwd_diff" | "__fwd_diff" => self.words.forward_derivative_of,
            "bwd_diff" | "__bwd_diff" => self.words.backward_derivative_of,
            _ => self.words.apply_of,
        };
        let generic = matches!(self.ast.exprs[target].kind, ExprKind::Generic { .. });
        if (generic || self.ast.decls[id].generics.is_some())
            && let Some(name) = last_name(&self.ast, target)
        {
            self.late_names.insert(name);
        }
        self.ast.decls[id].kind = DeclKind::Func { params, result, body };
        self.ast.decls[id].name = self.ast.symbols.intern("$extension");
        self.ast.decls[id].attributes.push(syntax::ast::Attribute { name, args: vec![target], span });
    }

    /// `[NumThreads(…)]` and `[Shader(…)]` are known in any case of letters.
    fn spell_attributes(&mut self, id: DeclId) {
        for idx in 0..self.ast.decls[id].attributes.len() {
            let name = self.ast.name(self.ast.decls[id].attributes[idx].name);
            let known = ["numthreads", "shader"].into_iter().find(|k| name.eq_ignore_ascii_case(k));
            if let Some(known) = known.filter(|&k| k != name) {
                self.ast.decls[id].attributes[idx].name = self.ast.symbols.intern(known);
            }
        }
    }

    /// Enters a declaration into the names of its scope, and what is inside into the indices.
    fn enter(&mut self, id: DeclId, module: usize, names: &mut Names) {
        self.desugar_extension(id);
        if module != 0 && matches!(self.ast.decls[id].kind, DeclKind::Func { .. } | DeclKind::Init { .. }) {
            self.entered_functions.push(id);
        }
        self.spell_attributes(id);
        let decl = &self.ast.decls[id];
        let name = decl.name;
        let any = Modifiers(Modifiers::PUBLIC.0 | Modifiers::INTERNAL.0 | Modifiers::PRIVATE.0);
        if decl.modifiers.has(any) && !self.ast.name(name).starts_with('$') {
            self.modules[module].has_visibility = true;
        }
        // What is `#include`d is of the module that includes it.
        self.module_of_file.entry(decl.span.file).or_insert(module);
        if let Some(generics) = &decl.generics {
            for &param in &generics.params {
                self.param_owner.insert(param, id);
            }
        }
        for (idx, attribute) in decl.attributes.iter().enumerate() {
            let words = &self.words;
            let is_of = attribute.name == words.forward_derivative_of
                || attribute.name == words.backward_derivative_of
                || attribute.name == words.primal_substitute_of
                || attribute.name == words.apply_of;
            if is_of
                && let Some(&arg) = attribute.args.first()
                && let Some(target) = last_name(&self.ast, arg)
            {
                self.derivative_of.entry(target).or_default().push((id, idx));
                if module != 0 {
                    self.unchecked_targets.push(id);
                    self.registers = true;
                }
            }
        }
        let is_prototype = matches!(decl.kind, DeclKind::Func { body: None, .. });
        self.registers |= is_prototype && module != 0 && !decl.attributes.is_empty();
        match &decl.kind {
            DeclKind::Namespace { members } => {
                let members = members.clone();
                let key = (self.namespace_path(id), module);
                self.namespace_parts.entry(key).or_default().push(id);
                names.entry(name).or_default().push(id);
                let mut inner = Names::default();
                for member in members {
                    self.enter(member, module, &mut inner);
                }
                self.members.insert(id, Rc::new(inner));
            }
            DeclKind::Struct { members, .. }
            | DeclKind::Interface { members, .. }
            | DeclKind::Extension { members, .. }
            | DeclKind::Enum { cases: members, .. } => {
                let members = members.clone();
                let is_extension = matches!(decl.kind, DeclKind::Extension { .. });
                let is_interface = matches!(decl.kind, DeclKind::Interface { .. });
                let is_enum = matches!(decl.kind, DeclKind::Enum { .. });
                let unscoped =
                    is_enum && decl.attributes.iter().any(|a| self.ast.name(a.name) == "UnscopedEnum");
                if is_extension {
                    self.pending_extensions.push(id);
                } else if name != self.words.empty {
                    names.entry(name).or_default().push(id);
                }
                if is_interface && module != 0 {
                    self.interface_names.insert(name);
                }
                if is_interface
                    && module == 0
                    && let Some(magic) = Magic::by_name(self.ast.name(name))
                {
                    self.magic.insert(id, magic);
                    self.magic_decls.push((magic, id));
                }
                let mut inner = Names::default();
                for member in members {
                    self.enter(member, module, &mut inner);
                    if unscoped {
                        let case = self.ast.decls[member].name;
                        names.entry(case).or_default().push(member);
                    }
                }
                self.members.insert(id, Rc::new(inner));
            }
            DeclKind::CBuffer { members } => {
                let members = members.clone();
                for member in members {
                    self.enter(member, module, names);
                }
            }
            DeclKind::Using(_) => self.modules[module].using.push(id),
            DeclKind::Init { .. } => names.entry(self.words.init).or_default().push(id),
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                let accessors = accessors.clone();
                let is_property = matches!(decl.kind, DeclKind::Property { .. });
                let mut ignored = Names::default();
                for accessor in accessors {
                    self.enter(accessor, module, &mut ignored);
                }
                let key = if is_property { name } else { self.ast.symbols.intern("__subscript") };
                names.entry(key).or_default().push(id);
            }
            DeclKind::Unsupported(word) => {
                let (word, span) = (*word, decl.span);
                let message = format!("'{}' is not supported yet", self.ast.name(word));
                self.error("E0900", span, message);
            }
            DeclKind::Empty
            | DeclKind::FuncExtension { .. }
            | DeclKind::Import { .. }
            | DeclKind::Include { .. }
            | DeclKind::Module(_)
            | DeclKind::Implementing(_) => {}
            DeclKind::AssociatedType { .. } if decl.generics.is_some() => {
                if name != self.words.empty {
                    names.entry(name).or_default().push(id);
                }
                self.has_constraints = true;
            }
            DeclKind::Var { .. }
            | DeclKind::Param { .. }
            | DeclKind::Func { .. }
            | DeclKind::Accessor { .. }
            | DeclKind::EnumCase(_)
            | DeclKind::AssociatedType { .. }
            | DeclKind::TypeAlias(_)
            | DeclKind::TypeParam { .. }
            | DeclKind::ValueParam { .. } => {
                if name != self.words.empty {
                    names.entry(name).or_default().push(id);
                }
            }
        }
    }

    /// Enters a type (or function) that is declared inside a function's body.
    pub(crate) fn enter_local(&mut self, decl: DeclId) {
        let module = self.module_of(decl);
        let mut ignored = Names::default();
        let before = self.pending_extensions.len();
        self.enter(decl, module, &mut ignored);
        if self.pending_extensions.len() != before {
            self.clear_caches();
        }
        for func in std::mem::take(&mut self.entered_functions) {
            self.make_generic(func);
        }
    }

    /// The module of a declaration.
    pub(crate) fn module_of(&self, decl: DeclId) -> usize {
        self.module_of_file.get(&self.ast.decls[decl].span.file).copied().unwrap_or(0)
    }

    /// The files of the library, ascending.
    pub fn library_files(&self) -> Vec<u32> {
        let is_core = |f: &FileId| self.module_of_file.get(f) == Some(&0);
        let mut files: Vec<u32> =
            self.ast.files.iter().map(|f| f.file).filter(is_core).map(|f| f.0).collect();
        files.sort_unstable();
        files
    }

    /// Whether a declaration is the library's.
    pub fn is_core(&self, decl: DeclId) -> bool {
        self.module_of(decl) == 0
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(crate) fn span(&self, expr: ExprId) -> Span {
        self.ast.exprs[expr].span
    }

    /// The names inside a struct, interface, enumeration, extension or one part of a namespace.
    pub(crate) fn names_in(&self, decl: DeclId) -> Option<&Rc<Names>> {
        self.members.get(&decl)
    }

    /// The names of a namespace and of those around it, outermost first.
    fn namespace_path(&self, namespace: DeclId) -> Vec<Symbol> {
        let mut path = Vec::new();
        let mut at = Some(namespace);
        while let Some(decl) = at {
            path.push(self.ast.decls[decl].name);
            at = self.ast.decls[decl].parent;
        }
        path.reverse();
        path
    }

    /// All parts of a namespace.
    pub(crate) fn parts(&self, namespace: DeclId) -> Vec<DeclId> {
        let mut key = (self.namespace_path(namespace), 0);
        let mut parts = Vec::new();
        // A namespace of the same path in an imported module is another key: look in all modules.
        for module in 0..self.modules.len() {
            key.1 = module;
            if let Some(found) = self.namespace_parts.get(&key) {
                parts.extend_from_slice(found);
            }
        }
        if parts.is_empty() {
            parts.push(namespace);
        }
        parts
    }

    /// The struct, interface, enumeration or extension that a declaration is a member of.
    pub fn container_of(&self, decl: DeclId) -> Option<DeclId> {
        let mut at = self.ast.decls[decl].parent;
        while let Some(parent) = at {
            match self.ast.decls[parent].kind {
                DeclKind::Struct { .. }
                | DeclKind::Interface { .. }
                | DeclKind::Extension { .. }
                | DeclKind::Enum { .. } => return Some(parent),
                DeclKind::Property { .. } | DeclKind::Subscript { .. } | DeclKind::CBuffer { .. } => {}
                _ => return None,
            }
            at = self.ast.decls[parent].parent;
        }
        None
    }

    /// Whether a member has no receiver.
    pub fn is_static(&self, decl: DeclId) -> bool {
        let d = &self.ast.decls[decl];
        if d.modifiers.has(syntax::ast::Modifiers::STATIC) {
            return true;
        }
        if let DeclKind::Accessor { .. } = d.kind {
            return d.parent.is_some_and(|p| self.is_static(p));
        }
        self.container_of(decl).is_none()
    }
}

/// The name that an expression ends with: `f` of `a.b.f<T>`.
pub(crate) fn last_name(ast: &Ast, expr: ExprId) -> Option<Symbol> {
    match &ast.exprs[expr].kind {
        ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::GlobalName(name) => Some(*name),
        ExprKind::Member { name, .. } | ExprKind::Static { name, .. } => Some(*name),
        ExprKind::Generic { base, .. } | ExprKind::Paren(base) => last_name(ast, *base),
        _ => None,
    }
}
