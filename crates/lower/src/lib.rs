//! Lowers a checked program to IR: everything reachable from the roots, made concrete.
//!
//! Each function that is reached with concrete generic arguments becomes one IR function, so no generic,
//! interface or overloaded name enters the IR. Structs become their leaves (`leaves`), locals become SSA
//! values (`body`), early exits become results and flags (`exits`), and derivative operators become ops over
//! flat signatures (`derivatives`). With a worklist, the compiler's recursion is only as deep as the nesting
//! within one function, not as the call graph.
#![forbid(unsafe_code)]

mod accessors;
mod aggregates;
mod any_value;
mod apply;
mod body;
mod calls;
mod convert;
mod derivatives;
mod dispatch;
mod entries;
mod exceptions;
mod existential;
mod exits;
mod expressions;
mod flat;
mod functions;
mod globals;
mod intrinsics;
mod leaves;
mod locals;
mod loops;
mod memory;
mod operators;
mod packs;
mod places;
mod pointers;
mod printf;
mod room;
mod sizes;
mod statements;
mod twins;
mod uniforms;
mod uses;
mod views;
mod witness;
mod zero;

use std::rc::Rc;

use check::Program;
use check::tables::FuncRef;
use check::types::Ty;
use check::types::limits::{Extent, MAX_NESTING, MAX_PARTS};
use indexmap::{IndexMap, IndexSet};
use ir::{Func, Global, MemTypes, Module, Types, Value};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::existential::{Conformances, Existential};
use crate::functions::{Declared, Key};
use crate::leaves::{DiffMap, Layout};
use crate::locals::Written;

pub(crate) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// The parts of a program to lower.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Entry points, each with its thread group.
    pub entries: Vec<DeclId>,
    /// Functions that the host calls.
    pub functions: Vec<FuncRef>,
    /// The thread group of entry points without `[numthreads(…)]`; one thread if not given.
    pub group_size: Option<[u32; 3]>,
    /// Types with an interface that each conforms to, and optionally their numbers in dynamic dispatch.
    pub conformances: Vec<(Ty, Ty, Option<u32>)>,
    /// Lower the flat derivatives of `functions`, too: [`FunctionInfo::jvp`] and `vjp`.
    pub derivatives: bool,
    /// Use [`Step::SparseJvp`] and [`Step::SparseVjp`] for these derivatives, for example for unit vectors.
    pub sparse: bool,
    /// Lower only those derivatives that the functions are marked for.
    pub as_marked: bool,
    /// Derivation steps to apply to each of `functions`: [`FunctionInfo::derived`].
    pub derived: Vec<Vec<Step>>,
}

/// A parameter or result of a function that the host calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The name in the source; empty for the result.
    pub name: String,
    /// The type in source syntax.
    pub ty: String,
    /// The value is passed in.
    pub is_input: bool,
    /// The value is returned.
    pub is_output: bool,
    /// The leaves of the value: the path from the parameter (`.origin`; empty for the parameter itself), the
    /// type, and true if the leaf has a tangent.
    pub leaves: Vec<(String, ir::Type, bool)>,
    /// The value contains a value of interface type, so some numbers in its leaves stand for types.
    pub is_dynamic: bool,
}

/// A function that the host calls.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// The name in the source with its generic arguments.
    pub name: String,
    /// The IR function: its parameters are the leaves of `params` in order, its results the leaves of the
    /// results (the returned value, then the written parameters).
    pub func: Func,
    /// The parameters in order, the receiver first.
    pub params: Vec<ParamInfo>,
    /// The returned value.
    pub result: ParamInfo,
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    pub jvp: Option<Func>,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pub vjp: Option<Func>,
    /// The function for each of [`Request::derived`].
    pub derived: Vec<Func>,
}

/// A derivation of a function on leaves from another one, whose parameters and results appear in the
/// signatures below. The slots of the new function say which of its parameters and results are
/// differentiable, so steps can be chained to any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    Jvp,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    Vjp,
    /// `(params…, cotangents of diff results…) -> (results…, cotangents of diff params…)`, with a single run
    /// of the function.
    ValueAndVjp,
    /// Like `Jvp`, except that a zero tangent means that its number is constant. The tangent is absent, and
    /// nothing is scaled by it, so a unit vector gives exactly the derivative by one number, even where other
    /// numbers have no derivative.
    SparseJvp,
    /// Like `Vjp`, except that a zero cotangent is absent.
    SparseVjp,
    /// The same function, in which only the parameters marked `true` here are differentiable.
    Only(Vec<bool>),
    /// `(params…, tangents of chosen diff params…) -> (tangents of diff results…)`. Other parameters are
    /// constant, but remain differentiable in later steps. Zero tangents are absent.
    JvpBy(Vec<bool>),
    /// `(params…, cotangents of diff results…) -> (cotangents of chosen diff params…)`. Other parameters
    /// remain differentiable in later steps. Zero cotangents are absent.
    VjpBy(Vec<bool>),
}

impl Step {
    /// Returns true if a zero passed for a differential means that the differential is absent.
    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self, Step::SparseJvp | Step::SparseVjp | Step::JvpBy(_) | Step::VjpBy(_))
    }

    /// A short name, for names of functions.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Jvp => "fwd",
            Step::Vjp => "bwd",
            Step::ValueAndVjp => "value-bwd",
            Step::SparseJvp => "fwd-sparse",
            Step::SparseVjp => "bwd-sparse",
            Step::Only(_) => "only",
            Step::JvpBy(_) => "fwd-by",
            Step::VjpBy(_) => "bwd-by",
        }
    }
}

/// The result of [`lower`].
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    /// The module; complete only if no diagnostic is an error.
    pub module: Module,
    /// Errors and warnings found by lowering.
    pub diagnostics: Vec<Diagnostic>,
    /// The function for each of [`Request::functions`].
    pub functions: Vec<FunctionInfo>,
}

/// Lowers everything that the request reaches. The checker's own diagnostics for the bodies reached are added
/// to `program.diagnostics`. Each function is checked before it is lowered, and nothing is lowered once an
/// error is known, so that lowering never meets what checking rejects.
pub fn lower(program: &mut Program, request: &Request) -> Lowered {
    program.check_derivative_targets();
    let mut conformances = Conformances::new(program, &request.conformances);
    loop {
        let (mut lowered, found) = lower_round(program, request, conformances);
        conformances = found;
        let changed = conformances.settle(program);
        let broken = program.has_errors();
        if broken {
            program.check_reached();
        }
        match conformances.is_endless() {
            Some(interface) if changed => {
                lowered.diagnostics.push(existential::endless_types(program, interface))
            }
            _ if changed && !broken => continue,
            _ => {}
        }
        // Values that contain themselves have no consistent layout, so internal errors that follow are
        // dropped.
        let circular = lowered.diagnostics.iter().any(|d| d.code == "E41003");
        let mut seen: Vec<(Span, String)> = Vec::new();
        lowered.diagnostics.retain(|d| {
            if circular && d.code == "E0999" {
                return false;
            }
            let key = (d.primary.span, d.message.clone());
            let fresh = !seen.contains(&key);
            if fresh {
                seen.push(key);
            }
            fresh
        });
        return lowered;
    }
}

/// Lowers with the types that are known so far to occur in values of interface type.
fn lower_round(
    program: &mut Program,
    request: &Request,
    conformances: Conformances,
) -> (Lowered, Conformances) {
    let mut module = Module { library_files: program.library_files(), ..Module::default() };
    let mut types = std::mem::take(&mut module.types);
    let mut lowerer = Lowerer {
        program,
        mem: MemTypes::default(),
        module,
        declared: FxIndexMap::default(),
        next: 0,
        residuals: FxIndexMap::default(),
        types: KnownTypes::default(),
        pointers: Pointers::default(),
        conformances,
        globals: FxIndexMap::default(),
        uniform_parts: FxHashMap::default(),
        default_group_size: request.group_size.unwrap_or([1; 3]),
        written: FxHashMap::default(),
        names: FxHashMap::default(),
        diagnostics: Vec::new(),
        too_large: false,
        wanted: FxIndexMap::default(),
        texts: IndexSet::default(),
    };
    for &entry in &request.entries {
        lowerer.entry(entry);
    }
    let mut functions = Vec::new();
    for func in &request.functions {
        functions.extend(lowerer.host_function(&mut types, func, request));
    }
    lowerer.run(&mut types);
    if !lowerer.has_errors() {
        lowerer.separate_views();
        lowerer.complete_formats();
        lowerer.check_addresses();
    }
    let Lowerer { mut module, mem, mut diagnostics, conformances, .. } = lowerer;
    module.types = types;
    module.mem = mem;
    sizes::check(&module, &mut diagnostics);
    room::check(&mut module);
    (Lowered { module, diagnostics, functions }, conformances)
}

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
    pub(crate) globals: FxIndexMap<FuncRef, Option<Global>>,
    /// The globals of uniforms that hold buffers, by the uniform and the path of the field.
    pub(crate) uniform_parts: FxHashMap<(DeclId, String), Global>,
    /// The thread group of entry points without `[numthreads]`.
    pub(crate) default_group_size: [u32; 3],
    /// The arguments that each call writes.
    pub(crate) written: FxHashMap<ExprId, Rc<Written>>,
    /// The number of uses of each function name.
    names: FxHashMap<String, u32>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A type has too many leaves to be split.
    pub(crate) too_large: bool,
    /// The functions to be differentiated.
    pub(crate) wanted: FxIndexMap<crate::views::Node, crate::views::Wanted>,
    /// The texts of strings; a string is an index into this table (`printf`).
    pub(crate) texts: IndexSet<String, FxBuildHasher>,
}

/// Facts about types.
#[derive(Default)]
pub(crate) struct KnownTypes {
    layouts: FxHashMap<Ty, Rc<Layout>>,
    diff_maps: FxHashMap<Ty, Option<Rc<DiffMap>>>,
    pub(crate) existentials: FxHashMap<Ty, Rc<Existential>>,
    /// The types whose layouts are being computed.
    pub(crate) open: Vec<Ty>,
    /// The types whose layouts are being computed, and from which a pointer leads to the type that is being
    /// laid out.
    pub(crate) pointing: Vec<Ty>,
    /// The size in bytes of the values of existential types in memory.
    pub(crate) payloads: FxHashMap<Ty, u32>,
    /// The parts of each type that have a custom `use`.
    pub(crate) uses: FxHashMap<Ty, Rc<[crate::uses::UsePart]>>,
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

impl Lowerer<'_> {
    /// Reports an error.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<syntax::Message>) {
        self.diagnostics.push(Diagnostic::error(code, span, message));
    }

    /// Reports a feature of the language that this compiler does not support.
    pub(crate) fn unsupported(&mut self, span: Span, what: impl std::fmt::Display) {
        self.error("E0900", span, format!("{what} not supported yet"));
    }

    /// Adds a help text to the last diagnostic.
    pub(crate) fn help(&mut self, help: impl Into<String>) {
        if let Some(reported) = self.diagnostics.last_mut() {
            reported.help = Some(help.into());
        }
    }

    /// Reports a violated invariant of the compiler, instead of generating wrong code.
    pub(crate) fn internal(&mut self, span: Span, what: impl std::fmt::Display) {
        // Types with too many leaves and code that the checker rejected do not fit anywhere; both have been
        // reported.
        if self.too_large || self.has_errors() {
            return;
        }
        self.error("E0999", span, format!("internal compiler error: {what}"));
        self.help("this is a bug of the compiler; please report it");
    }

    /// Returns true if the checker has found an error so far.
    pub(crate) fn has_errors(&self) -> bool {
        self.program.has_errors()
    }

    /// A name that no function has yet.
    pub(crate) fn unique_name(&mut self, name: String) -> String {
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}#{count}") }
    }

    /// Builds bodies until none is missing, then requests witnesses, until neither adds anything.
    fn run(&mut self, types: &mut Types) {
        loop {
            while self.next < self.declared.len() {
                let next = self.next;
                self.next += 1;
                self.check_source(next);
                if self.has_errors() {
                    continue;
                }
                self.build(types, next);
                if self.program.has_endless_type() {
                    return;
                }
                if let Some(why) = self.endless(next) {
                    let span = self.declared[next].span;
                    return self.error("E0901", span, why);
                }
            }
            if self.has_errors() || !self.request_witnesses(types) {
                return;
            }
        }
    }

    /// The reason why the program is taken to be endless after building this function of the worklist.
    fn endless(&mut self, at: usize) -> Option<&'static str> {
        if self.too_large {
            return Some("a type that is used here has more than 8,192 parts");
        }
        let extent = match self.declared.get_index(at) {
            Some((Key::Callable(callable), _)) => {
                let func = callable.function().cloned();
                func.map(|func| self.program.extent_of_arguments(&func)).unwrap_or_default()
            }
            _ => Extent::default(),
        };
        if extent.nesting > MAX_NESTING || extent.parts > MAX_PARTS {
            return Some(
                "generic arguments are nested too deeply; do generic functions call each other without end?",
            );
        }
        (self.declared.len() > 20_000).then_some(
            "more than 20,000 functions are needed; do generic functions call each other without end?",
        )
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
