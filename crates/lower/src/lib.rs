//! Checked program to IR: what is reachable from the roots, made concrete.
//!
//! Each function that is reached with concrete generic arguments becomes one IR function, so that no
//! generic, interface or overloaded name enters the IR. Structs become their leaves (`leaves`),
//! locals become SSA values (`body`), early exits become results and flags (`exits`), and
//! derivative operators become ops over flat signatures (`derivatives`). A worklist keeps the
//! compiler's recursion as deep as one function's nesting, not as the call graph.
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
use check::budget::{Extent, MAX_NESTING, MAX_PARTS};
use check::tables::FuncRef;
use check::types::Ty;
use indexmap::{IndexMap, IndexSet};
use ir::{Func, Global, MemTypes, Module, Types, Value};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::existential::{Conformances, Existential};
use crate::functions::{Declared, Key};
use crate::leaves::{DiffMap, Layout};
use crate::locals::Written;

pub(crate) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// What is wanted of a program.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Entry points, each with its thread group.
    pub entries: Vec<DeclId>,
    /// Functions to be called by the host.
    pub functions: Vec<FuncRef>,
    /// The thread group of entry points without `[numthreads(…)]`; one thread unless it is given.
    pub group_size: Option<[u32; 3]>,
    /// Types and the interfaces that they conform to, with their numbers in dynamic dispatch.
    pub conformances: Vec<(Ty, Ty, Option<u32>)>,
    /// Whether the flat derivatives of `functions` are wanted: [`FunctionInfo::jvp`] and `vjp`.
    pub derivatives: bool,
    /// True for [`Step::SparseJvp`] and [`Step::SparseVjp`] in their place, as for unit vectors.
    pub sparse: bool,
    /// Whether only those derivatives are wanted that the functions are marked for.
    pub as_marked: bool,
    /// What else is wanted of each of `functions`: [`FunctionInfo::derived`].
    pub derived: Vec<Vec<Step>>,
}

/// A parameter or result of a function that the host calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The source's name; empty for the result.
    pub name: String,
    /// The type as the language writes it.
    pub ty: String,
    /// Passed in.
    pub is_input: bool,
    /// Handed back.
    pub is_output: bool,
    /// Each leaf: its path from the parameter (`.origin`; empty for the parameter itself), its type, and whether it
    /// has a tangent.
    pub leaves: Vec<(String, ir::Type, bool)>,
    /// Holds a value of interface type: not every number in its leaves stands for a type.
    pub is_dynamic: bool,
}

/// A function that the host calls.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// The source's name with its arguments.
    pub name: String,
    /// The function: parameters' leaves in order, then results' leaves (the returned value, then what is written).
    pub func: Func,
    /// Parameters in order, the receiver first.
    pub params: Vec<ParamInfo>,
    /// The returned value.
    pub result: ParamInfo,
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    pub jvp: Option<Func>,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pub vjp: Option<Func>,
    /// One for each of [`Request::derived`].
    pub derived: Vec<Func>,
}

/// How a function of leaves is derived from another one, whose parameters and results these are. Which of its own have
/// derivatives its slots say, so that steps follow each other to any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    Jvp,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    Vjp,
    /// `(params…, cotangents of diff results…) -> (results…, cotangents of diff params…)`, for one run of the function.
    ValueAndVjp,
    /// `Jvp`, where a tangent that is zero says that its number does not move. It is absent: nothing is scaled by it, so
    /// that a unit vector gives what the derivative by that number is, also where others have none.
    SparseJvp,
    /// `Vjp`, where a cotangent that is zero is absent.
    SparseVjp,
    /// The same function, of whose parameters those alone have derivatives that have `true` here.
    Only(Vec<bool>),
    /// `(params…, tangents of chosen diff params…) -> (tangents of diff results…)`. Other parameters do not move, but have
    /// derivatives in later steps. Tangents that are zero are absent.
    JvpBy(Vec<bool>),
    /// `(params…, cotangents of diff results…) -> (cotangents of chosen diff params…)`. Other parameters have derivatives in
    /// later steps. Cotangents that are zero are absent.
    VjpBy(Vec<bool>),
}

impl Step {
    /// True if a zero that is given for a differential says that there is none.
    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self, Step::SparseJvp | Step::SparseVjp | Step::JvpBy(_) | Step::VjpBy(_))
    }

    /// A short name.
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
    /// The module; complete only if there is no error among the diagnostics.
    pub module: Module,
    /// What could not be lowered.
    pub diagnostics: Vec<Diagnostic>,
    /// One for each of [`Request::functions`].
    pub functions: Vec<FunctionInfo>,
}

/// Lowers what the request reaches. The checker's own diagnostics for bodies that are reached are
/// added to `program.diagnostics`; functions with errors are left without a useful body.
pub fn lower(program: &mut Program, request: &Request) -> Lowered {
    program.check_derivative_targets();
    let mut conformances = Conformances::new(program, &request.conformances);
    loop {
        let (mut lowered, found) = lower_round(program, request, conformances);
        conformances = found;
        let changed = conformances.settle(program);
        let broken = program.diagnostics.iter().any(|d| d.severity == syntax::Severity::Error);
        match conformances.is_endless() {
            Some(interface) if changed => {
                lowered.diagnostics.push(existential::endless_types(program, interface))
            }
            _ if changed && !broken => continue,
            _ => {}
        }
        // values that contain themselves have no layout that fits
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

/// Lowers with the types that are known to be in values of interface type.
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
        layouts: FxHashMap::default(),
        diff_maps: FxHashMap::default(),
        conformances,
        existentials: FxHashMap::default(),
        layouts_open: Vec::new(),
        pointing: Vec::new(),
        payloads: FxHashMap::default(),
        globals: FxIndexMap::default(),
        uniform_parts: FxHashMap::default(),
        default_group_size: request.group_size.unwrap_or([1; 3]),
        written: FxHashMap::default(),
        names: FxHashMap::default(),
        diagnostics: Vec::new(),
        addressing: Vec::new(),
        too_large: false,
        wanted: FxIndexMap::default(),
        bare_pointers: FxHashMap::default(),
        pointer_makers: FxHashSet::default(),
        uses: FxHashMap::default(),
        texts: IndexSet::default(),
    };
    for &entry in &request.entries {
        lowerer.entry(&mut types, entry);
    }
    let mut functions = Vec::new();
    for func in &request.functions {
        functions.extend(lowerer.host_function(&mut types, func, request));
    }
    lowerer.run(&mut types);
    lowerer.separate_views();
    lowerer.complete_formats();
    lowerer.check_addresses();
    let Lowerer { mut module, mem, mut diagnostics, conformances, .. } = lowerer;
    module.types = types;
    module.mem = mem;
    sizes::check(&module, &mut diagnostics);
    room::check(&mut module);
    (Lowered { module, diagnostics, functions }, conformances)
}

/// The state of lowering. The types are passed beside it, since the builder of the current function borrows them.
pub(crate) struct Lowerer<'p> {
    pub(crate) program: &'p mut Program,
    pub(crate) mem: MemTypes,
    pub(crate) module: Module,
    /// Every function that has been asked for, in order; also the worklist.
    pub(crate) declared: FxIndexMap<Key, Rc<Declared>>,
    /// The first of `declared` without a body.
    pub(crate) next: usize,
    /// The functions whose pullbacks are values, and who asks for their derivatives: by number, as in
    /// [`ir::Module::residuals`].
    pub(crate) residuals: FxIndexMap<(ir::Residuals, check::ModuleId), ()>,
    layouts: FxHashMap<Ty, Rc<Layout>>,
    diff_maps: FxHashMap<Ty, Option<Rc<DiffMap>>>,
    pub(crate) conformances: Conformances,
    pub(crate) existentials: FxHashMap<Ty, Rc<Existential>>,
    /// Types whose layouts are being made.
    pub(crate) layouts_open: Vec<Ty>,
    /// Types whose layouts are being made, and which the type that is being laid out is pointed to from.
    pub(crate) pointing: Vec<Ty>,
    /// Bytes of the values of existential types in memory.
    pub(crate) payloads: FxHashMap<Ty, u32>,
    pub(crate) globals: FxIndexMap<FuncRef, Option<Global>>,
    /// The globals of uniforms that hold buffers, by the uniform and the field's path.
    pub(crate) uniform_parts: FxHashMap<(DeclId, String), Global>,
    /// Of entry points that say nothing.
    pub(crate) default_group_size: [u32; 3],
    /// Which arguments of a call are written, by the call.
    pub(crate) written: FxHashMap<ExprId, Rc<Written>>,
    /// How often a function's name has been used.
    names: FxHashMap<String, u32>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Functions with a variable whose address is taken, and the variable's place.
    pub(crate) addressing: Vec<(Func, Span)>,
    /// A type has too many leaves to be taken apart.
    pub(crate) too_large: bool,
    /// What is differentiated.
    pub(crate) wanted: FxIndexMap<crate::views::Node, crate::views::Wanted>,
    /// The shadows of pointer-like values that functions make of parts: their first leaves.
    pub(crate) bare_pointers: FxHashMap<Func, Vec<Value>>,
    /// Functions that give pointer-like values and take none.
    pub(crate) pointer_makers: FxHashSet<Func>,
    /// What of a type says how it is split.
    pub(crate) uses: FxHashMap<Ty, Rc<[crate::uses::UsePart]>>,
    /// The texts that strings are numbers of (`printf`).
    pub(crate) texts: IndexSet<String, FxBuildHasher>,
}

impl Lowerer<'_> {
    /// Reports something that the language has and this compiler does not.
    pub(crate) fn unsupported(&mut self, span: Span, what: impl std::fmt::Display) {
        self.diagnostics.push(Diagnostic::error("E0900", span, format!("{what} not supported yet")));
    }

    /// Says what helps against what was reported last.
    pub(crate) fn help(&mut self, help: &str) {
        if let Some(reported) = self.diagnostics.last_mut() {
            reported.help = Some(help.to_string());
        }
    }

    /// Reports a field whose initial value is made of the struct that it belongs to.
    pub(crate) fn endless_default(&mut self, span: Span) {
        let message = "the initial value of this field makes the struct that it belongs to, without end";
        self.diagnostics.push(Diagnostic::error("E0903", span, message));
    }

    /// Reports that an invariant of the compiler does not hold, instead of giving wrong code.
    pub(crate) fn internal(&mut self, span: Span, what: impl std::fmt::Display) {
        // What cannot be taken apart fits nowhere, and what the checker refused fits badly; both are reported.
        if self.too_large || self.has_errors() {
            return;
        }
        let message = format!("internal compiler error: {what}");
        self.diagnostics.push(
            Diagnostic::error("E0999", span, message).help("this is a bug of the compiler; please report it"),
        );
    }

    /// Whether the checker has found an error so far.
    pub(crate) fn has_errors(&self) -> bool {
        self.program.diagnostics.iter().any(|d| d.severity == syntax::Severity::Error)
    }

    /// A name that no function has yet.
    pub(crate) fn unique_name(&mut self, name: String) -> String {
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}#{count}") }
    }

    /// Builds bodies until none is missing, then asks for witnesses until none is missing.
    fn run(&mut self, types: &mut Types) {
        loop {
            while self.next < self.declared.len() {
                let next = self.next;
                self.next += 1;
                self.build(types, next);
                if self.program.has_endless_type() {
                    return;
                }
                if let Some(why) = self.endless(next) {
                    let span = self.declared[next].span;
                    self.diagnostics.push(Diagnostic::error("E0901", span, why));
                    return;
                }
            }
            if !self.request_witnesses(types) {
                return;
            }
        }
    }
}

impl Lowerer<'_> {
    /// Why the program is taken to be endless after this function of the worklist.
    fn endless(&mut self, at: usize) -> Option<&'static str> {
        if self.too_large {
            return Some("a type that is used here has more than 8,192 parts");
        }
        let extent = match self.declared.get_index(at) {
            Some((Key::Callable(callable), _)) => {
                let func = Self::origin(callable).cloned();
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

/// The IR's span of a source's.
pub(crate) fn source_span(span: ir::Span) -> Span {
    Span { file: syntax::FileId(span.file), start: span.start, end: span.end }
}

pub(crate) fn ir_span(span: Span) -> ir::Span {
    ir::Span { file: span.file.0, start: span.start, end: span.end }
}
