//! Defines the program: trees, tables, types and diagnostics, and what is known about them.

use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::{DeclKind, ExprKind};
use syntax::{Ast, DeclId, Diagnostic, ExprId, FileId, Span, Symbol};

use crate::derivatives::implicit::Implied;
use crate::facts::{ExtensionInfo, Magic, Module, Modules, Pullback, Scopes};
use crate::queries::Queries;
use crate::signature::Role;
use crate::tables::{FuncRef, Tables};
use crate::types::{GenericArg, Ty, TyInterner};
use crate::view::ModuleId;

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
    /// Files that were found beside a file that imports them.
    pub siblings: FxHashSet<FileId>,
    /// Bit-fields are packed as by Microsoft's C compiler, from the highest bit of a word of their own type.
    pub has_high_bit_fields: bool,
    /// The lengths that the host gives to arrays of resources without one, by the name of the variable or field.
    pub lengths: FxHashMap<String, u32>,
    pub(crate) modules: Modules,
    pub(crate) scopes: Scopes,
    pub(crate) magics: Magics,
    pub(crate) extensions: Extensions,
    pub(crate) opened: Opened,
    pub(crate) registry: Registry,
    pub(crate) made: Made,
    pub(crate) instances: Instances,
    pub(crate) queries: Queries,
    pub(crate) search: Search,
    /// The depth of the dependency between the constant members being evaluated.
    pub(crate) n_constant_members: u32,
    /// An interface constrains associated types by more than their bounds.
    pub(crate) has_constraints: bool,
    /// Expressions whose derivative is lost, which has been reported as an error or a warning.
    pub lost: FxHashSet<ExprId>,
    /// Types that may lack what their interfaces require, until that has been reported.
    pub(crate) lacking: Vec<Ty>,
    /// Packs that have elements where a type is being checked: within the last operand of `__packBranch`.
    pub(crate) assumed_nonempty: Vec<GenericArg>,
}

/// Interfaces that the checker knows by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Magics {
    pub(crate) of: FxHashMap<DeclId, Magic>,
    pub(crate) decls: Vec<(Magic, DeclId)>,
}

/// The extensions of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    pub(crate) known: Vec<ExtensionInfo>,
    /// Extensions whose targets have not been resolved yet.
    pub(crate) pending: Vec<DeclId>,
}

/// Parameters of interface type, for which functions are made generic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    /// Names of the user's interfaces.
    pub(crate) names: FxHashSet<Symbol>,
    /// The functions whose parameters have not been checked for them yet.
    pub(crate) functions: Vec<DeclId>,
    /// The generic parameters that were made, and those of each function.
    pub(crate) params: FxHashSet<DeclId>,
    pub(crate) of: FxHashMap<DeclId, Vec<DeclId>>,
    /// The made parameter that stands for the length of an array parameter.
    pub(crate) lengths: FxHashMap<DeclId, DeclId>,
}

/// The derivatives that the program declares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    /// Targets of generic `__func_extension`s.
    pub(crate) late_names: FxHashSet<Symbol>,
    /// The functions that say what they are a derivative of, by the last name of that function (see
    /// [`Program::derivative_targets`]).
    pub(crate) derivative_of: FxHashMap<Symbol, Vec<(DeclId, Role, ExprId)>>,
    /// The program's own declarations in `derivative_of`, in order, until their targets have been checked.
    pub(crate) unchecked_targets: Vec<DeclId>,
    /// The program declares derivatives that may be those of another module's functions.
    pub(crate) is_used: bool,
    /// `is_used` is set and several modules can request the derivatives.
    pub(crate) has_retroactive: bool,
}

/// Declarations that the checker makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    /// Structs made for `__apply` and `__linearize`, by the function, the requesting module, and whether it
    /// is `__linearize`.
    pub(crate) pullbacks: FxHashMap<(DeclId, ModuleId, bool), Pullback>,
    /// The same structs, by their declarations and by those of their call operators.
    pub(crate) pullback_decls: FxHashMap<DeclId, Pullback>,
    /// The members of structs that have others than those in the source.
    pub(crate) members: FxHashMap<DeclId, Vec<DeclId>>,
    /// The parameters of setters that name none.
    pub(crate) new_values: FxHashMap<DeclId, DeclId>,
    /// Functions that are differentiable without being marked in the source.
    pub(crate) differentiable: FxHashSet<DeclId>,
    /// The return types of call operators that have no source.
    pub(crate) results: FxHashMap<DeclId, Ty>,
    /// Functions with an implicit derivative.
    pub(crate) implied: FxHashMap<DeclId, Implied>,
    /// The expressions that the bodies of lambdas return, by the lambda's struct.
    pub(crate) returned: FxHashMap<DeclId, Vec<ExprId>>,
}

/// The calls of instances of generic functions, and of `bit_cast`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instances {
    /// The calls by the calling body.
    pub(crate) calls: FxHashMap<DeclId, Vec<(FuncRef, Span)>>,
    /// The callers in order.
    pub(crate) callers: Vec<DeclId>,
}

/// The search for extensions that apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// The extensions whose applicability is being decided, each on behalf of the one before.
    pub(crate) open: Vec<DeclId>,
    /// The number of such decisions since the first of them began.
    pub(crate) steps: u32,
    /// The diagnostic for a search of this kind that went too far.
    pub(crate) endless: Option<Diagnostic>,
}

impl Program {
    /// Creates a program that consists of the library only. `core` are the indices of its files in
    /// `ast.files`.
    pub fn new(ast: Ast, core: &[usize]) -> Program {
        let mut program = Program { ast, ..Program::default() };
        program.modules.all.push(Module::default());
        let mut imports = Vec::new();
        for &file in core {
            program.enter_file(file, 0, &mut imports);
        }
        program
    }

    /// Returns true if a declaration belongs to the library.
    pub fn is_core(&self, decl: DeclId) -> bool {
        self.module_of(decl) == 0
    }

    /// Returns true for a constant that gets its value when a pipeline is made.
    pub fn is_specialized(&self, decl: DeclId) -> bool {
        const MARKS: [&str; 4] = [
            "vk::constant_id",
            "vk::specialization_constant",
            "SpecializationConstant",
            "__layout_constant_id",
        ];
        MARKS.iter().any(|mark| self.attribute(decl, mark).is_some())
    }

    /// Returns true for `printf` and the like, which take values behind their parameters.
    pub(crate) fn prints(&self, decl: DeclId) -> bool {
        let op = self.attribute(decl, "__intrinsic_op").and_then(|a| a.args.first());
        let name = op.map(|&arg| &self.ast.exprs[arg].kind);
        matches!(name, Some(ExprKind::Name(name)) if matches!(self.ast.name(*name), "printf" | "abort"))
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<syntax::Message>) {
        self.report(Diagnostic::error(code, span, message));
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Adds a note that names the place of a declaration, unless the library has it.
    pub(crate) fn declared(&self, decl: DeclId, diagnostic: Diagnostic) -> Diagnostic {
        match self.is_core(decl) {
            true => diagnostic,
            false => diagnostic.note(self.name_span(decl), "declared here"),
        }
    }

    /// Returns true if an error has been found, other than those that the user wants as warnings.
    pub fn has_errors(&mut self) -> bool {
        self.report_lacking();
        self.diagnostics.iter().any(|d| self.ast.warnings.is_error(d))
    }

    /// Reports a diagnostic unless one of the same code is there already.
    pub(crate) fn report_once(&mut self, diagnostic: Diagnostic) {
        if !self.is_reported(diagnostic.code, diagnostic.primary.span) {
            self.report(diagnostic);
        }
    }

    /// Returns true if there is a diagnostic of this code at this place.
    pub(crate) fn is_reported(&self, code: &str, span: Span) -> bool {
        self.diagnostics.iter().any(|d| d.code == code && d.primary.span == span)
    }

    /// Returns true if there is a diagnostic at this place.
    pub(crate) fn is_told(&self, span: Span) -> bool {
        self.diagnostics.iter().any(|d| d.primary.span == span)
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

    /// The struct, interface, enumeration or extension that a declaration is a member of.
    pub fn container_of(&self, decl: DeclId) -> Option<DeclId> {
        let is_passed = |parent: &DeclId| {
            let kind = &self.ast.decls[*parent].kind;
            matches!(kind, DeclKind::Property { .. } | DeclKind::Subscript { .. } | DeclKind::CBuffer { .. })
        };
        let parent = self.ast.enclosing(decl).skip(1).find(|parent| !is_passed(parent))?;
        self.is_type(parent).then_some(parent)
    }

    /// Returns true for a struct, interface, enumeration or extension.
    pub(crate) fn is_type(&self, decl: DeclId) -> bool {
        matches!(
            self.ast.decls[decl].kind,
            DeclKind::Struct { .. }
                | DeclKind::Interface { .. }
                | DeclKind::Extension { .. }
                | DeclKind::Enum { .. }
        )
    }

    /// Returns true for a function, constructor or accessor.
    pub(crate) fn is_function(&self, decl: DeclId) -> bool {
        let kind = &self.ast.decls[decl].kind;
        matches!(kind, DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. })
    }

    /// The name of a function, for a message.
    pub(crate) fn function_name(&self, decl: DeclId) -> String {
        let d = &self.ast.decls[decl];
        match d.kind {
            DeclKind::Init { .. } => "__init".to_string(),
            DeclKind::Subscript { .. } => "__subscript".to_string(),
            DeclKind::Accessor { kind, .. } => {
                let member = d.parent.map_or(String::new(), |member| self.function_name(member));
                format!("{member}.{}", self.ast.name(kind.word()))
            }
            _ if self.ast.extensions.contains_key(&decl) => "__func_extension".to_string(),
            _ => self.ast.name(d.name).to_string(),
        }
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
