//! The state of lowering a program, which all files of this crate share.

use std::rc::Rc;

use check::tables::FuncRef;
use check::types::Ty;
use check::{Program, View};
use indexmap::{IndexMap, IndexSet};
use ir::{Func, Global, MemType, MemTypes, Module, Types, Value, Witness};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use syntax::ast::{AccessorKind, DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::declared::{Declared, Key, Written};
use crate::existential::{Conformances, Existential};
use crate::handles::Handles;
use crate::layout::{DiffMap, Layout, UsePart};

pub(crate) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// The state of lowering. The types are passed separately, since the builder of the current function borrows
/// them.
pub(crate) struct Lowerer<'p> {
    pub(crate) program: &'p mut Program,
    pub(crate) mem: MemTypes,
    pub(crate) module: Module,
    /// All functions requested so far, in order; also the worklist.
    pub(crate) declared: FxIndexMap<Key, Rc<Declared>>,
    /// The index of the first function in `declared` without a body.
    pub(crate) next: usize,
    /// The functions whose pullbacks are values, and the modules that request their derivatives. The indices
    /// are those of [`ir::Module::residuals`].
    pub(crate) residuals: FxIndexMap<(ir::Residuals, check::ModuleId), ()>,
    pub(crate) types: KnownTypes,
    pub(crate) pointers: Pointers,
    pub(crate) conformances: Conformances,
    pub(crate) handles: Handles,
    pub(crate) globals: FxIndexMap<FuncRef, Option<Global>>,
    /// The globals that tell whether a thread has come by the declaration of a `static` variable.
    pub(crate) reached: FxHashMap<FuncRef, Global>,
    /// The globals of uniforms that hold buffers, by the uniform and the path of the field.
    pub(crate) uniform_parts: FxHashMap<(DeclId, String), Global>,
    /// The thread group of entry points without `[numthreads]`.
    pub(crate) default_group_size: [u32; 3],
    /// See [`crate::Request::matrix_units`].
    pub(crate) matrix_units: bool,
    /// See [`crate::Request::check_finite`].
    pub(crate) check_finite: bool,
    /// See [`crate::Request::only_checks`].
    pub(crate) only_checks: bool,
    /// The arguments that each call writes.
    pub(crate) written: FxHashMap<ExprId, Rc<Written>>,
    /// The place of a call of each function without a body, and of the last call of each generic one.
    pub(crate) called: FxHashMap<DeclId, Span>,
    /// The first call of each generic function with its arguments, and the function that calls.
    pub(crate) first_calls: FxHashMap<Func, (Option<Func>, Span)>,
    /// The number of uses of each function name.
    pub(crate) names: FxHashMap<String, u32>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A type has too many leaves to be split.
    pub(crate) too_large: bool,
    /// The functions to be differentiated.
    pub(crate) wanted: FxIndexMap<Node, Wanted>,
    /// The texts of strings; a string is an index into this table (`printf`).
    pub(crate) texts: IndexSet<String, FxBuildHasher>,
    /// The function that gives the hash of a string, if the program needs it.
    pub(crate) text_hash: Option<Func>,
}

/// Facts about types.
#[derive(Default)]
pub(crate) struct KnownTypes {
    pub(crate) layouts: FxHashMap<Ty, Rc<Layout>>,
    pub(crate) diff_maps: FxHashMap<Ty, Option<Rc<DiffMap>>>,
    pub(crate) existentials: FxHashMap<Ty, Rc<Existential>>,
    /// The types whose layouts are being computed.
    pub(crate) open: Vec<Ty>,
    /// The types whose layouts are being computed, and from which a pointer leads to the type that is being
    /// laid out.
    pub(crate) pointing: Vec<Ty>,
    /// The types from whose fields a pointer leads back to them, and others.
    pub(crate) linked: FxHashMap<Ty, bool>,
    /// The memory that pointers to linked types lead to by name, and the types.
    pub(crate) named: FxHashMap<MemType, Ty>,
    /// Only the size of memory is asked for: pointers to linked types lead to bytes.
    pub(crate) measuring: bool,
    /// The size in bytes of the values of existential types in memory.
    pub(crate) payloads: FxHashMap<Ty, u32>,
    /// The data layout of the memory type that is being made.
    pub(crate) data_layout: check::types::data_layout::DataLayout,
    /// The parts of each type that have a custom `use`.
    pub(crate) uses: FxHashMap<Ty, Rc<[UsePart]>>,
}

/// The functions that work with pointers, which differentiation treats apart.
#[derive(Default)]
pub(crate) struct Pointers {
    /// The functions with a variable whose address is taken, and the location of the variable.
    pub(crate) addressing: Vec<(Func, Span)>,
    /// For each function, the first leaves of the shadows of pointer-like values that it builds from parts.
    pub(crate) bare: FxHashMap<Func, Vec<Value>>,
    /// Functions that return pointer-like values without taking any.
    pub(crate) makers: FxHashSet<Func>,
}

/// A function of the module whose body is being made.
pub(crate) struct Making<'l, 'p> {
    pub(crate) lw: &'l mut Lowerer<'p>,
    pub(crate) types: &'l mut Types,
    pub(crate) declared: &'l Declared,
}

/// A function that is differentiated, and the view it is differentiated in.
pub(crate) type Node = (Func, View);

/// Facts about a [`Node`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// The order to which it is differentiated.
    pub(crate) level: u8,
    /// It is differentiated in forward mode, and in reverse mode.
    pub(crate) modes: [bool; 2],
    /// Its witness has been requested.
    pub(crate) known: bool,
    pub(crate) witness: Witness,
    /// A call of the function that needs its derivative.
    pub(crate) call: Option<(Func, ir::Span)>,
}

impl Lowerer<'_> {
    /// Reports an error.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<syntax::Message>) {
        self.diagnostics.push(Diagnostic::error(code, span, message));
    }

    /// Reports a feature of the language that this compiler does not support.
    pub(crate) fn unsupported(&mut self, span: Span, what: impl std::fmt::Display) {
        self.error("E0900", span, format!("{what} not supported yet"));
    }

    /// Reports what only another pipeline of a graphics processor has, unless the request is a check.
    pub(crate) fn needs_pipeline(&mut self, span: Span, name: &str, pipeline: &str) {
        if !self.only_checks {
            self.error("E0900", span, format!("`{name}` is not supported yet: it needs {pipeline}"));
        }
    }

    /// Reports what is there for others than this program's code, unless the request is a check.
    pub(crate) fn unsupported_here(&mut self, span: Span, what: impl std::fmt::Display) {
        if !self.only_checks {
            self.unsupported(span, what);
        }
    }

    /// Reports a call of a function that is marked with `__needs`. Returns false if the function is not.
    pub(crate) fn is_beyond(&mut self, decl: DeclId, span: Span) -> bool {
        let Some(attribute) = self.program.attribute(decl, "__needs") else { return false };
        let arg = attribute.args.first().map(|&arg| &self.program.ast.exprs[arg].kind);
        let Some(ExprKind::String(pipeline)) = arg.cloned() else { return false };
        let decls = &self.program.ast.decls;
        let named = match decls[decl].kind {
            // A property has a name that the program uses; of a subscript, the type has one.
            DeclKind::Accessor { .. } => decls[decl].parent.and_then(|owner| match decls[owner].kind {
                DeclKind::Subscript { .. } => decls[owner].parent,
                _ => Some(owner),
            }),
            _ => Some(decl),
        };
        let name = named.map_or(String::new(), |d| self.program.ast.decl_name(d).to_string());
        self.needs_pipeline(span, &name, &pipeline);
        true
    }

    /// Returns true if a check leaves a declaration to the modules that the program is linked with: an `extern` one
    /// that has no value or body here.
    pub(crate) fn is_left_to_link(&self, decl: DeclId) -> bool {
        let node = &self.program.ast.decls[decl];
        let is_open = match &node.kind {
            DeclKind::Var { init, .. } => init.is_none(),
            DeclKind::Func { body, .. } => body.is_none(),
            DeclKind::Struct { .. } => true,
            _ => false,
        };
        self.only_checks && is_open && node.modifiers.has(Modifiers::EXTERN)
    }

    /// Returns true for a function of the program without a body while a program is only checked: a module that is
    /// linked may have it.
    pub(crate) fn is_prototype(&self, decl: DeclId) -> bool {
        let node = &self.program.ast.decls[decl];
        let is_open = matches!(&node.kind, DeclKind::Func { body: None, .. });
        let is_free = node
            .parent
            .is_none_or(|parent| matches!(self.program.ast.decls[parent].kind, DeclKind::Namespace { .. }));
        let has_attributes = !node.attributes.is_empty();
        self.only_checks && is_open && is_free && !has_attributes && !self.program.is_core(decl)
    }

    /// Returns true if a function can be lowered for itself: it has a body, and is no accessor that gives a place.
    pub(crate) fn is_code(&self, decl: DeclId) -> bool {
        let kind = &self.program.ast.decls[decl].kind;
        let gives_place = matches!(kind, DeclKind::Accessor { kind: AccessorKind::Ref, .. });
        !gives_place && (self.program.body_of(decl).is_some() || self.intrinsic_name(decl).is_some())
    }

    /// Says that code for a call needs a module that has the function.
    pub(crate) fn warn_of_prototype(&mut self, decl: DeclId, span: Span) {
        let name = self.program.ast.decl_name(decl);
        let message = format!("`{name}` has no body here: code for this call needs a module that is linked");
        let declared = self.program.ast.decls[decl].name_span;
        let warning = Diagnostic::warning("E0902", span, message).note(declared, "declared here");
        if !self.diagnostics.iter().any(|d| d.code == "E0902") {
            self.diagnostics.push(warning.help("give it a body, or declare it as `extern`"));
        }
    }

    /// Adds a place to the last diagnostic.
    pub(crate) fn note(&mut self, span: Span, message: &str) {
        if let Some(last) = self.diagnostics.pop() {
            self.diagnostics.push(last.note(span, message));
        }
    }

    /// Adds a help text to the last diagnostic.
    pub(crate) fn help(&mut self, help: impl Into<String>) {
        if let Some(reported) = self.diagnostics.last_mut() {
            reported.help = Some(help.into());
        }
    }

    /// Reports a violated invariant of the compiler, instead of generating wrong code.
    pub(crate) fn internal(&mut self, span: Span, what: impl std::fmt::Display) {
        // Types with too many leaves and what has been refused do not fit anywhere; both have been reported.
        let is_error = |d: &Diagnostic| d.severity == syntax::Severity::Error;
        if self.too_large || self.diagnostics.iter().any(is_error) || self.has_errors() {
            return;
        }
        self.error("E0999", span, format!("internal compiler error: {what}"));
        self.help("this is a bug of the compiler; please report it");
    }

    /// Returns true if the checker has found an error so far.
    pub(crate) fn has_errors(&mut self) -> bool {
        self.program.has_errors()
    }

    /// A name that no function has yet.
    pub(crate) fn unique_name(&mut self, name: String) -> String {
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}#{count}") }
    }
}

/// The location of what is not in the source.
pub(crate) const NOWHERE: Span = Span { file: syntax::FileId(u32::MAX), start: 0, end: 0 };

/// The source span of an IR span.
pub(crate) fn source_span(span: ir::Span) -> Span {
    Span { file: syntax::FileId(span.file), start: span.start, end: span.end }
}

pub(crate) fn ir_span(span: Span) -> ir::Span {
    ir::Span { file: span.file.0, start: span.start, end: span.end }
}
