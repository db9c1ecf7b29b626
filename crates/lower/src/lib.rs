//! Lowers a checked program to IR: everything reachable from the roots, made concrete.
//!
//! Each function that is reached with concrete generic arguments becomes one IR function, so no generic,
//! interface or overloaded name enters the IR. Structs become their leaves (`layout`, `leaves`), locals become SSA
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
mod chosen;
mod convert;
mod declared;
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
mod handles;
mod intrinsics;
mod layout;
mod leaves;
mod linked;
mod locals;
mod loops;
mod lowerer;
mod memory;
mod numbers;
mod operators;
mod packs;
mod padded;
mod places;
mod pointers;
mod printf;
mod request;
mod room;
mod second;
mod sizes;
mod stages;
mod statements;
mod stored;
mod twins;
mod uniforms;
mod uses;
mod views;
mod witness;
mod zero;

use check::types::limits::{MAX_NESTING, MAX_PARTS};
use check::{Extent, Program};
use indexmap::IndexSet;
use ir::{MemTypes, Module, Types};
use rustc_hash::FxHashMap;
use syntax::Diagnostic;

use crate::declared::Key;
use crate::existential::Conformances;
use crate::handles::Handles;
use crate::lowerer::{FxIndexMap, KnownTypes, Lowerer, Pointers};
pub use crate::request::{FunctionInfo, ParamInfo, Request, Step};

/// The maximum number of functions of a program.
const MAX_FUNCTIONS: usize = 20_000;

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
    let mut handles = Handles::default();
    loop {
        let (mut lowered, found, named) = lower_round(program, request, conformances, handles);
        (conformances, handles) = (found, named);
        let has_more = handles.settle();
        let changed = conformances.settle(program) || has_more;
        let broken = program.has_errors();
        if broken {
            program.check_reached();
        }
        match conformances.is_endless() {
            Some(interface) if changed => {
                lowered.diagnostics.push(existential::endless_types(program, interface))
            }
            _ if changed && !broken => continue,
            _ => lowered.diagnostics.extend(conformances.doubtful(program)),
        }
        return lowered;
    }
}

/// Lowers with the types that are known so far to occur in values of interface type.
fn lower_round(
    program: &mut Program,
    request: &Request,
    conformances: Conformances,
    handles: Handles,
) -> (Lowered, Conformances, Handles) {
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
        handles,
        globals: FxIndexMap::default(),
        reached: FxHashMap::default(),
        uniform_parts: FxHashMap::default(),
        default_group_size: request.group_size.unwrap_or([1; 3]),
        only_checks: request.only_checks,
        matrix_units: request.matrix_units,
        check_finite: request.check_finite,
        written: FxHashMap::default(),
        called: FxHashMap::default(),
        first_calls: FxHashMap::default(),
        names: FxHashMap::default(),
        diagnostics: Vec::new(),
        too_large: false,
        wanted: FxIndexMap::default(),
        texts: IndexSet::default(),
        text_hash: None,
    };
    for &entry in &request.entries {
        lowerer.entry(&mut types, entry);
    }
    let mut functions = Vec::new();
    for func in &request.functions {
        functions.extend(lowerer.host_function(&mut types, func, request));
    }
    lowerer.run(&mut types);
    if !lowerer.has_errors() {
        lowerer.separate_views();
        lowerer.complete_formats();
        lowerer.complete_hashes(&mut types);
        lowerer.check_addresses();
    }
    let Lowerer { mut module, mem, mut diagnostics, conformances, handles, .. } = lowerer;
    module.types = types;
    module.mem = mem;
    sizes::check(&module, &mut diagnostics);
    numbers::check(&mut module);
    room::check(&mut module);
    (Lowered { module, diagnostics, functions }, conformances, handles)
}

impl Lowerer<'_> {
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
                    let of = match self.declared.get_index(next) {
                        Some((Key::Callable(callable), _)) => callable.function().map(|f| f.decl),
                        _ => None,
                    };
                    let is_many = self.declared.len() > MAX_FUNCTIONS;
                    let called = of.filter(|_| is_many).and_then(|decl| self.called.get(&decl)).copied();
                    self.error("E0901", called.unwrap_or(span), why);
                    if called.is_some() {
                        self.note(span, "the function that is called");
                    }
                    return;
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
                "generic arguments are nested too deeply: generic functions may call each other without end",
            );
        }
        (self.declared.len() > MAX_FUNCTIONS).then_some(
            "more than 20,000 functions are needed; do generic functions call each other without end?",
        )
    }
}
