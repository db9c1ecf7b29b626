//! Defines the program: trees, tables, types and diagnostics, and the caches of what has been computed so
//! far.
//!
//! A module is a set of files that share one scope of names. Adding a module only enters the names of its
//! declarations; everything else is computed on demand and cached here. Cached results depend on declarations
//! only, never on the order of queries.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{Ast, DeclId, Diagnostic, ExprId, FileId, Span, Symbol};

use crate::derivatives::precedence::{ModuleId, View};
use crate::generics::conformance::{ExtensionInfo, Facet};
use crate::generics::constraints::Constraints;
use crate::names::loader::ModuleLoader;
use crate::signature::{Derivatives, Signature};
use crate::tables::{FuncRef, Tables};
use crate::types::builtin::Magic;
use crate::types::{Ty, TyInterner};

/// The declarations in a scope by name; overloads share a name.
pub(crate) type Names = FxHashMap<Symbol, SmallVec<[DeclId; 2]>>;

/// Files that share a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// Its top-level declarations.
    pub(crate) names: Names,
    /// Modules that its `import`s name, in order.
    pub(crate) imports: Vec<usize>,
    /// The subset of `imports` that importers of this module see too.
    pub(crate) exported: Vec<usize>,
    /// Namespaces that `using` opens for the whole module, as written.
    pub(crate) using: Vec<DeclId>,
    /// The module uses visibility modifiers; without them, other modules may name all of its declarations.
    pub(crate) has_visibility: bool,
}

/// A program that is being checked. It owns everything; there is no global state.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The trees of all files.
    pub ast: Ast,
    /// The meanings of expressions and the types of declarations.
    pub tables: Tables,
    /// The types.
    pub types: TyInterner,
    /// The diagnostics for the user, in the order in which they were found.
    pub diagnostics: Vec<Diagnostic>,
    /// Matrices whose layout the program does not state are stored column by column.
    pub host_has_columns: bool,
    pub(crate) modules: Vec<Module>,
    pub(crate) module_of_file: FxHashMap<FileId, usize>,
    /// The module made from each file, by the file's index in `ast.files`.
    pub(crate) module_of_index: FxHashMap<usize, usize>,
    /// Modules whose imports are being loaded.
    pub(crate) open_modules: Vec<usize>,
    /// Members of structs, interfaces, enumerations, extensions and namespaces.
    pub(crate) members: FxHashMap<DeclId, Rc<Names>>,
    /// All parts of a namespace, by each of its parts.
    pub(crate) namespace_parts: FxHashMap<(Vec<Symbol>, usize), Vec<DeclId>>,
    /// The declaration that owns each generic parameter.
    pub(crate) param_owner: FxHashMap<DeclId, DeclId>,
    /// Interfaces that the checker knows by name.
    pub(crate) magic: FxHashMap<DeclId, Magic>,
    pub(crate) magic_decls: Vec<(Magic, DeclId)>,
    pub(crate) extensions: Vec<ExtensionInfo>,
    pub(crate) pending_extensions: Vec<DeclId>,
    /// Names of the user's interfaces, and the functions whose parameters have not been checked for them yet.
    pub(crate) interface_names: FxHashSet<Symbol>,
    pub(crate) entered_functions: Vec<DeclId>,
    /// Generic parameters that were made for parameters of interface type.
    pub(crate) interface_params: FxHashSet<DeclId>,
    /// Targets of generic `__func_extension`s.
    pub(crate) late_names: FxHashSet<Symbol>,
    /// `…Of` attributes by the last name of their argument: the derivative, and the index of the attribute on
    /// it.
    pub(crate) derivative_of: FxHashMap<Symbol, Vec<(DeclId, usize)>>,
    /// The program's own declarations in `derivative_of`, in order, until their targets have been checked.
    pub(crate) unchecked_targets: Vec<DeclId>,
    /// The calls of instances of generic functions, and of `bit_cast`, by the calling body, and the callers
    /// in order.
    pub(crate) instances: FxHashMap<DeclId, Vec<(FuncRef, Span)>>,
    pub(crate) instance_callers: Vec<DeclId>,
    /// The program declares derivatives that may be those of another module's functions.
    pub(crate) registers: bool,
    /// `registers` is set and several modules can request the derivatives.
    pub(crate) has_retroactive: bool,
    /// Functions mapped to true if modules other than their own declare derivatives of them.
    pub(crate) retroactive: FxHashMap<DeclId, bool>,
    pub(crate) witnesses: FxHashMap<FuncRef, Rc<[crate::derivatives::witnesses::Entry]>>,
    pub(crate) derivatives: FxHashMap<(FuncRef, View), Rc<Derivatives>>,
    pub(crate) derivatives_busy: FxHashSet<FuncRef>,
    /// Structs made for `__apply` and `__linearize`, by the function, the requesting module, and whether it
    /// is `__linearize`.
    pub(crate) pullbacks: FxHashMap<(DeclId, ModuleId, bool), crate::derivatives::pullback::Pullback>,
    /// The return types of call operators that the checker makes and that have no source.
    pub(crate) made_results: FxHashMap<DeclId, Ty>,
    /// The same structs, by their declarations and by those of their call operators.
    pub(crate) pullback_decls: FxHashMap<DeclId, crate::derivatives::pullback::Pullback>,
    /// The extents of the types for which they were computed.
    pub(crate) extents: FxHashMap<Ty, crate::types::limits::Extent>,
    /// The numbers of parts of values, as far as they are known: see [`crate::types::limits`].
    pub(crate) leaf_counts: FxHashMap<Ty, u32>,
    pub(crate) facets: FxHashMap<Ty, Rc<[Facet]>>,
    /// The number of facet lists under construction: results computed meanwhile may be incomplete.
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
    /// Expressions whose derivative is lost, which has been reported as an error or a warning.
    pub lost: FxHashSet<ExprId>,
    pub(crate) conform_busy: Vec<(Ty, Ty)>,
    /// The extensions whose applicability is being decided, each on behalf of the one before.
    pub(crate) searching: Vec<DeclId>,
    /// The number of such decisions since the first of them began.
    pub(crate) search_steps: u32,
    /// The diagnostic for a search of this kind that went too far.
    pub(crate) endless_search: Option<Diagnostic>,
    pub(crate) enum_values: FxHashMap<DeclId, i64>,
    pub(crate) const_busy: Vec<DeclId>,
    /// The depth of the dependency between the constant members being evaluated.
    pub(crate) val_depth: u32,
    /// The expressions that the bodies of lambdas return, by the lambda's struct.
    pub(crate) returned: FxHashMap<DeclId, Vec<ExprId>>,
    /// An interface constrains associated types by more than their bounds.
    pub(crate) has_constraints: bool,
    /// Types whose constraints are being collected.
    pub(crate) constraints_busy: Vec<Ty>,
    /// Declarations whose constraints are being resolved.
    pub(crate) constraints_open: Vec<DeclId>,
    /// The locals that are visible to a type declared inside a function.
    pub(crate) local_scopes: FxHashMap<DeclId, Rc<Vec<(Symbol, DeclId)>>>,
    /// Interned words of the language that are looked up often.
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
    /// The attribute that marks the declaration of an `__apply` extension.
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
    /// Creates a program that consists of the library only. `core` are the indices of its files in
    /// `ast.files`.
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

    /// Adds a parsed file (by its index in `ast.files`) to the library.
    pub fn add_library(&mut self, file: usize) {
        self.enter_file(file, 0, &mut Vec::new());
        self.clear_caches();
    }

    /// Adds a parsed file (by its index in `ast.files`) as a module of the program, with everything that it
    /// imports and includes. Only the names of its declarations are checked at this point.
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
        // The count includes the library, so this means at least two modules of the program's.
        self.has_retroactive = self.registers && self.modules.len() > 2;
        self.clear_caches();
        for func in std::mem::take(&mut self.entered_functions) {
            self.make_generic(func);
        }
        module
    }

    /// Drops cached facts about types and derivatives, which may change when extensions are added.
    fn clear_caches(&mut self) {
        self.facets.clear();
        self.differentials.clear();
        self.derivatives.clear();
        self.witnesses.clear();
        self.retroactive.clear();
    }

    /// Adds a parsed file that imports nothing to the module of another file.
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

    /// Rewrites `__func_extension fwd_diff(f)(…) { … }` to a function with `[ForwardDerivativeOf(f)]`; other
    /// operators likewise.
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

    /// Normalises the spelling of `[NumThreads(…)]` and `[Shader(…)]`, which are recognised in any letter
    /// case.
    fn spell_attributes(&mut self, id: DeclId) {
        for idx in 0..self.ast.decls[id].attributes.len() {
            let name = self.ast.name(self.ast.decls[id].attributes[idx].name);
            let known = ["numthreads", "shader"].into_iter().find(|k| name.eq_ignore_ascii_case(k));
            if let Some(known) = known.filter(|&k| k != name) {
                self.ast.decls[id].attributes[idx].name = self.ast.symbols.intern(known);
            }
        }
    }

    /// Enters a declaration into the names of its scope, and the declarations inside it into the indices.
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
        // A file that is `#include`d belongs to the module that includes it.
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

    /// The files of the library in ascending order.
    pub fn library_files(&self) -> Vec<u32> {
        let is_core = |f: &FileId| self.module_of_file.get(f) == Some(&0);
        let mut files: Vec<u32> =
            self.ast.files.iter().map(|f| f.file).filter(is_core).map(|f| f.0).collect();
        files.sort_unstable();
        files
    }

    /// Returns true if a declaration belongs to the library.
    pub fn is_core(&self, decl: DeclId) -> bool {
        self.module_of(decl) == 0
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<syntax::Message>) {
        self.report(Diagnostic::error(code, span, message));
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Returns true if an error has been found, other than those that the user wants as warnings.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| self.ast.warnings.is_error(d))
    }

    /// Runs a query whose diagnostics are of no interest.
    pub(crate) fn quietly<T>(&mut self, query: impl FnOnce(&mut Program) -> T) -> T {
        let before = self.diagnostics.len();
        let found = query(self);
        self.diagnostics.truncate(before);
        found
    }

    pub(crate) fn span(&self, expr: ExprId) -> Span {
        self.ast.exprs[expr].span
    }

    /// The names inside a struct, interface, enumeration, extension or one part of a namespace.
    pub(crate) fn names_in(&self, decl: DeclId) -> Option<&Rc<Names>> {
        self.members.get(&decl)
    }

    /// The declarations of one name inside a struct, interface, enumeration, extension or part of a namespace.
    pub(crate) fn named(&self, container: DeclId, name: Symbol) -> SmallVec<[DeclId; 2]> {
        self.members.get(&container).and_then(|names| names.get(&name)).cloned().unwrap_or_default()
    }

    /// Returns true if a container declares a member of this name.
    pub(crate) fn declares_name(&self, container: DeclId, name: Symbol) -> bool {
        self.members.get(&container).is_some_and(|names| names.contains_key(&name))
    }

    /// The declarations of one name in all parts of a namespace.
    pub(crate) fn named_in_namespace(&self, namespace: DeclId, name: Symbol) -> Vec<DeclId> {
        self.parts(namespace).into_iter().flat_map(|part| self.named(part, name)).collect()
    }

    /// The names of a namespace and of the enclosing ones, outermost first.
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
        // A namespace of the same path in an imported module has a different key, so look in all modules.
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

    /// Returns true if a member has no receiver.
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

/// The last name of an expression: `f` in `a.b.f<T>`.
pub(crate) fn last_name(ast: &Ast, expr: ExprId) -> Option<Symbol> {
    match &ast.exprs[expr].kind {
        ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::GlobalName(name) => Some(*name),
        ExprKind::Member { name, .. } | ExprKind::Static { name, .. } => Some(*name),
        ExprKind::Generic { base, .. } | ExprKind::Paren(base) => last_name(ast, *base),
        _ => None,
    }
}
