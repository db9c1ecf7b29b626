//! The stages in order: `load → check → lower → opt → autodiff → opt`, each verified in debug builds.
//!
//! Every stage returns a result and diagnostics; the first stage with an error ends the compilation.

use std::path::Path;

use check::Program;
use check::Subst;
use check::tables::FuncRef;
use check::types::{BufferKind, Ty, TyKind};
use ir::{Func, MemData, MemType, MemTypes, Module};
use lower::{FunctionInfo, Lowered, Request};
use opt::CheckFinite;
use syntax::ast::DeclKind;
use syntax::print::print_expr;
use syntax::spelling::nearest;
use syntax::{DeclId, Diagnostic, FileId, Severity, Span};

use crate::bind::Conformance;
use crate::error::Error;
use crate::findings::{UNBOUNDED, problem, races, unbounded_kept, unbounded_loops};
use crate::precision::observe::{Observations, Observed, observe};
use crate::session::Session;
use crate::validate::{Validation, Validator};

pub use crate::error::{Failure, source_span};

/// Options of compilation.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the optimiser.
    pub optimise: opt::Options,
    /// Convert every `float` and `half` of the functions to `double` before differentiation.
    pub widen: bool,
    /// Put an observation behind each operation that rounds: see [`crate::precision::observe`]. The request has two
    /// functions: the one to observe, and the observation.
    pub observe: bool,
    /// Stop before differentiation and keep derivative operators.
    pub no_autodiff: bool,
    /// Report the values that reverse mode keeps: [`Compiled::kept`].
    pub report_checkpoints: bool,
    /// Measure the bytes that reverse mode keeps: [`Compiled::memory`].
    pub measure_memory: bool,
    /// Mark the code of derivatives for a profile: see [`crate::profile::parts`].
    pub mark_derivatives: bool,
    /// A loop that is taken as one with `[Checkpoint]`.
    pub checkpoint: Option<ir::Span>,
    /// Stop where a differential, or any number, becomes infinite or NaN.
    pub check_finite: CheckFinite,
    /// Products of cooperative matrices may be computed by matrix units, whose sums of floats are not rounded as on a
    /// processor. [`Options::for_device`] keeps this for devices that have units that are supported.
    pub matrix_units: bool,
    /// Only the diagnostics are needed: of the module, only entry points are optimised.
    pub only_diagnostics: bool,
}

/// The devices that code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those that read PTX.
    Nvidia,
    /// All others.
    Other,
}

impl Options {
    /// The same options for code for a device.
    pub fn for_device(&self, kind: Kind) -> Options {
        let optimise = opt::Options { on_device: Some(true), ..self.optimise };
        let matrix_units = self.matrix_units && kind == Kind::Nvidia;
        Options { optimise, matrix_units, ..self.clone() }
    }

    /// The same options for code for a processor.
    pub fn for_processor(&self) -> Options {
        let optimise = opt::Options { on_device: Some(false), ..self.optimise };
        Options { optimise, matrix_units: false, ..self.clone() }
    }
}

/// A program whose root is one of the user's files.
#[derive(Debug)]
pub struct Loaded {
    /// Syntax trees, types and side tables.
    pub program: Program,
    /// The root's index in `ast.files`.
    pub file: usize,
    /// All warnings of the compilations so far.
    pub warned: Vec<Diagnostic>,
    /// Validates the passes of each compilation.
    pub validation: Option<Validation>,
}

/// A differentiable declaration of a file.
#[derive(Clone, Debug)]
pub struct Listed {
    /// `Type.name`.
    pub name: String,
    /// Its declaration.
    pub function: FuncRef,
    /// The declaration is a member of a type.
    pub is_member: bool,
    /// The reason why the host cannot call the function directly, if there is one.
    pub why_not: Option<String>,
}

impl Listed {
    /// Returns true if it is neither generic nor a member of a type.
    pub fn is_free(&self) -> bool {
        self.why_not.is_none() && !self.is_member
    }
}

/// The scope around declarations.
struct Around {
    /// The path of the scope, with a dot at its end.
    path: String,
    inside: Inside,
}

/// The kind of a scope around declarations.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    File,
    Type,
    Interface,
}

/// IR that is ready to run.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The verified module; without derivative operators unless [`Options::no_autodiff`] keeps them.
    pub module: Module,
    /// One entry for each requested function.
    pub functions: Vec<FunctionInfo>,
    /// Warnings of this compilation.
    pub warnings: Vec<Diagnostic>,
    /// The values that reverse mode keeps, if they were requested.
    pub kept: autodiff::Checkpoints,
    /// For each requested function, the number of bytes that reverse mode keeps, if they were requested.
    pub memory: Vec<Option<autodiff::Memory>>,
    /// The observations, if they were requested.
    pub observed: Observations,
}

/// Runs the compiler on a stack that is large enough for any input that it accepts. Memory is only committed
/// as the stack grows. In WebAssembly the stack is the host's.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if cfg!(target_family = "wasm") {
        return work();
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(1 << 30).spawn_scoped(scope, work);
        match thread.expect("the system has a thread").join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The validator as an observer of passes.
fn observer(validator: &mut Option<Validator>) -> Option<&mut dyn opt::Observer> {
    validator.as_mut().map(|validator| validator as &mut dyn opt::Observer)
}

/// Reads and parses a file and what it imports. The path `-` is standard input.
pub fn load(session: &mut Session, path: &Path) -> Result<Loaded, Error> {
    let mut program = session.program();
    let file = session.load(&mut program, path)?;
    session.load_links(&mut program)?;
    Ok(session.loaded(program, file))
}

impl Loaded {
    /// A program whose root is the module with that index.
    pub fn new(program: Program, file: usize) -> Loaded {
        Loaded { program, file, warned: Vec::new(), validation: None }
    }

    /// The entry point of that name; without a name, the only entry point, else `computeMain`, else `main`.
    pub fn entry(&mut self, name: Option<&str>) -> Result<DeclId, Failure> {
        let mut entries = self.program.entry_points(self.file);
        // A function that only a graphics pipeline runs is meant if it is named, or if there is no kernel.
        let is_kernel = |d: &DeclId| self.program.stage(*d).is_none_or(|stage| stage == "compute");
        if name.is_none() && entries.iter().any(is_kernel) {
            entries.retain(is_kernel);
        }
        let is_meant = |d: &DeclId| name.is_none_or(|name| self.name(*d) == name);
        self.names_of_entries_differ(&entries.iter().copied().filter(is_meant).collect::<Vec<_>>())?;
        let named = |name: &str| {
            let of_name = |d: &DeclId| self.name(*d) == name;
            let functions = || self.program.find_function(self.file, name);
            entries.iter().copied().find(of_name).or_else(|| functions().first().copied())
        };
        if let Some(name) = name {
            return named(name).ok_or_else(|| {
                let mut names: Vec<&str> = entries.iter().map(|&d| self.name(d)).collect();
                names.dedup();
                let help = match names[..] {
                    [] => "a kernel needs `[shader(\"compute\")]` or `[numthreads(x, y, z)]`".to_string(),
                    _ => format!("the file has {}", names.join(", ")),
                };
                self.at_file("E0701", format!("there is no entry point `{name}`"), help)
            });
        }
        if let [only] = entries[..] {
            return Ok(only);
        }
        if let Some(found) = named("computeMain").or_else(|| named("main")) {
            return Ok(found);
        }
        if entries.is_empty() {
            // The file contains only functions, perhaps with errors, which are more important.
            self.program.check_file(self.file);
            self.errors()?;
            let help = "write `[numthreads(1, 1, 1)]` before a function, or a function `main`";
            Err(self.at_file("E0702", "the file has no entry point".into(), help.into()))
        } else {
            let names: Vec<&str> = entries.iter().map(|&d| self.name(d)).collect();
            let help = format!("choose one with `--entry`: {}", names.join(", "));
            Err(self.at_file("E0703", "the file has several entry points".into(), help))
        }
    }

    /// Hosts identify an entry point by its name alone, so names must differ.
    pub fn names_of_entries_differ(&self, entries: &[DeclId]) -> Result<(), Failure> {
        let decls = &self.program.ast.decls;
        for (k, &second) in entries.iter().enumerate() {
            let same = |d: &&DeclId| **d != second && decls[**d].name == decls[second].name;
            if let Some(&first) = entries[..k].iter().find(same) {
                let message = format!("two entry points are called `{}`", self.name(second));
                let error = Diagnostic::error("E0703", decls[second].name_span, message)
                    .note(decls[first].name_span, "the other one")
                    .help("give one of them another name");
                return Err(Failure::Program(vec![error]));
            }
        }
        Ok(())
    }

    /// A function `main` that has no parameters and is not a kernel: a host program beside the file's
    /// kernels.
    pub fn host_main(&mut self) -> Option<DeclId> {
        let entries = self.program.entry_points(self.file);
        let found = *self.program.find_function(self.file, "main").first()?;
        let sig = self.program.func_signature(&FuncRef { decl: found, args: Vec::new(), self_ty: None });
        (sig.params.is_empty() && !entries.contains(&found)).then_some(found)
    }

    /// The function of that name, to be called by the host.
    pub fn function(&self, name: &str) -> Result<FuncRef, Failure> {
        let mut found = self.program.find_function(self.file, name);
        if found.is_empty() {
            // Functions in extensions are found by their listed names.
            let listed = self.differentiable_declarations().into_iter().filter(|l| l.name == name);
            found = listed.map(|l| l.function.decl).collect();
        }
        let concrete = found
            .iter()
            .copied()
            .find(|&d| self.program.all_generic_params(d).is_empty() && self.has_body(d));
        match (concrete, &found[..]) {
            (Some(decl), _) => Ok(FuncRef { decl, args: Vec::new(), self_ty: None }),
            (None, []) => {
                let names: Vec<&str> = self.functions().iter().map(|&d| self.name(d)).collect();
                let help = match nearest(name, names.into_iter()) {
                    Some(similar) => format!("did you mean `{similar}`?"),
                    None => "functions of the file itself can be named, members as `Type.name`".into(),
                };
                Err(self.at_file("E0704", format!("there is no function `{name}`"), help))
            }
            (None, [decl, ..]) => {
                let (what, help) = if self.has_body(*decl) {
                    (
                        "is generic",
                        "write a function that calls it with concrete types, and name that function",
                    )
                } else {
                    ("has no body", "write its body")
                };
                let span = self.program.ast.decls[*decl].name_span;
                let error = Diagnostic::error("E0705", span, format!("`{name}` {what}")).help(help);
                Err(Failure::Program(vec![error]))
            }
        }
    }

    /// Every differentiable function of the file that is neither generic nor a member of a type.
    pub fn differentiable_functions(&self) -> Vec<FuncRef> {
        self.differentiable_declarations().into_iter().filter(Listed::is_free).map(|l| l.function).collect()
    }

    /// Every declaration of the file that has a body and is marked as differentiable.
    pub fn differentiable_declarations(&self) -> Vec<Listed> {
        let marked = ["Differentiable", "ForwardDifferentiable", "BackwardDifferentiable"];
        let is_marked =
            |l: &Listed| marked.iter().any(|a| self.program.attribute(l.function.decl, a).is_some());
        self.declarations().into_iter().filter(is_marked).collect()
    }

    /// Every declaration of the file that has a body, and for which the program declares a derivative.
    pub fn declarations_with_rules(&mut self) -> Vec<Listed> {
        let mut all = self.declarations();
        all.retain(|l| self.program.has_rule(l.function.decl));
        all
    }

    /// Every function of the file that has a body.
    fn declarations(&self) -> Vec<Listed> {
        let mut found = Vec::new();
        let outside = Around { path: String::new(), inside: Inside::File };
        self.list(&self.program.ast.files[self.file].decls, &outside, &mut found);
        found
    }

    fn list(&self, decls: &[DeclId], around: &Around, out: &mut Vec<Listed>) {
        for &decl in decls {
            let name = match self.program.ast.decls[decl].kind {
                DeclKind::Extension { target, .. } => &print_expr(&self.program.ast, target),
                _ => self.name(decl),
            };
            let path = format!("{}{name}", around.path);
            let within = |inside| Around { path: format!("{path}."), inside };
            let callable = match &self.program.ast.decls[decl].kind {
                DeclKind::Namespace { members } => {
                    self.list(members, &within(around.inside), out);
                    continue;
                }
                DeclKind::Struct { members, .. } => {
                    self.list(members, &within(Inside::Type), out);
                    continue;
                }
                DeclKind::Interface { members, .. } => {
                    self.list(members, &within(Inside::Interface), out);
                    continue;
                }
                DeclKind::Extension { members, .. } => {
                    self.list(members, &within(Inside::Type), out);
                    continue;
                }
                DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                    self.list(accessors, &within(around.inside), out);
                    continue;
                }
                DeclKind::Func { body, .. } => body.map(|_| None),
                DeclKind::Init { body, .. } => body.map(|_| Some("a constructor")),
                DeclKind::Accessor { body, .. } => body.map(|_| Some("an accessor")),
                _ => None,
            };
            let Some(what) = callable else { continue };
            let what = match what {
                _ if !self.program.all_generic_params(decl).is_empty() => {
                    Some("generic, or has a parameter of interface type")
                }
                _ if around.inside == Inside::Interface => Some("a requirement of an interface"),
                what => what,
            };
            let why_not = what
                .map(|what| format!("it is {what}: check a function that calls it with the types wanted"));
            let function = FuncRef { decl, args: Vec::new(), self_ty: None };
            out.push(Listed { name: path, function, is_member: around.inside != Inside::File, why_not });
        }
    }

    /// Returns true if a global with that name (or with the part before a dot), or a parameter of an entry
    /// point, is declared, whether or not it is used.
    pub fn declares_global(&self, name: &str) -> bool {
        let base = name.split(['.', '[']).next().unwrap_or(name);
        let Some(symbol) = self.program.ast.symbols.find(base) else { return false };
        let decls = &self.program.ast.decls;
        let is_entry = |d: DeclId| {
            ["shader", "numthreads", "CUDAKernel", "CudaKernel"]
                .iter()
                .any(|a| self.program.attribute(d, a).is_some())
        };
        let in_module =
            |p: DeclId| matches!(decls[p].kind, DeclKind::CBuffer { .. } | DeclKind::Namespace { .. });
        decls.values().filter(|d| d.name == symbol).any(|d| match d.kind {
            DeclKind::Var { .. } => d.parent.is_none_or(in_module),
            DeclKind::Param { .. } => d.parent.is_some_and(is_entry),
            DeclKind::CBuffer { .. } => true,
            _ => false,
        })
    }

    /// The element type of a writable buffer of numbers that lowering did not reach.
    pub fn unused_buffer(&mut self, name: &str, mem: &mut MemTypes) -> Option<MemType> {
        let symbol = self.program.ast.symbols.find(name)?;
        let is_buffer = |d: &&DeclId| {
            let decl = &self.program.ast.decls[**d];
            decl.name == symbol && decl.parent.is_none() && matches!(decl.kind, DeclKind::Var { .. })
        };
        let decls: Vec<DeclId> = self.program.ast.decls.keys().collect();
        let decl = decls.iter().find(is_buffer).copied()?;
        let ty = self.program.decl_type(decl);
        let element = match self.program.types[ty].clone() {
            TyKind::Buffer(BufferKind::RWStructuredBuffer, element) | TyKind::Pointer(element, ..) => element,
            _ => return None,
        };
        let (scalar, n) = match &self.program.types[element] {
            TyKind::Scalar(s) => (*s, None),
            TyKind::Vector(t, n, _) => match &self.program.types[*t] {
                TyKind::Scalar(s) => (*s, Some(n.clone())),
                _ => return None,
            },
            _ => return None,
        };
        let s = ir::Scalar::ALL[scalar as usize];
        Some(mem.intern(match n {
            None => MemData::Scalar(s),
            Some(n) => MemData::Vector(s, self.program.val_int(&n, &Subst::default())? as u32),
        }))
    }

    /// The types and interfaces named in `--conform`.
    pub fn conformances(
        &mut self,
        session: &mut Session,
        named: &[Conformance],
    ) -> Result<Vec<(Ty, Ty, Option<u32>)>, Failure> {
        let mut found = Vec::new();
        for Conformance { ty, interface, id } in named {
            let text = format!("typealias __conforming = {ty};\ntypealias __interface = {interface};\n");
            let name = format!("--conform {ty}:{interface}");
            let index = session.parse_text(&mut self.program, &name, text);
            let types = self.program.aliases(index, self.file);
            self.errors()?;
            let [Some(ty), Some(interface)] = types[..] else {
                return Err(Error::input(format!("`{name}`: expected a type and an interface")).into());
            };
            if !matches!(self.program.types[interface], TyKind::Interface(..)) {
                let interface = self.program.type_name(interface);
                return Err(Error::input(format!("`{name}`: `{interface}` is no interface")).into());
            }
            if !self.program.conforms(ty, interface) || self.program.is_existential(ty) {
                let (ty, interface) = (self.program.type_name(ty), self.program.type_name(interface));
                return Err(
                    Error::input(format!("`{name}`: `{ty}` does not conform to `{interface}`")).into()
                );
            }
            let taken =
                |f: &&(Ty, Ty, Option<u32>)| f.1 == interface && (f.0 == ty || f.2.is_some() && f.2 == *id);
            if found.iter().any(|f| taken(&f)) {
                return Err(Error::input(format!("`{name}`: the type or the number is given twice")).into());
            }
            if *id == Some(u32::MAX) {
                return Err(Error::input(format!("`{name}`: the number is too large")).into());
            }
            found.push((ty, interface, *id));
        }
        Ok(found)
    }

    /// Returns all diagnostics as an error if there is an error among them.
    pub fn errors(&mut self) -> Result<(), Failure> {
        let program = &mut self.program;
        program.report_endless_search();
        program.diagnostics = program.ast.warnings.apply(std::mem::take(&mut program.diagnostics));
        if has_errors(&self.program.diagnostics) {
            return Err(Failure::Program(in_order(std::mem::take(&mut self.program.diagnostics))));
        }
        Ok(())
    }

    /// Counts the errors in the parts of the file that were not compiled. Parts that were compiled are not
    /// checked again.
    pub fn errors_elsewhere(&mut self) -> usize {
        let known = std::mem::take(&mut self.program.diagnostics);
        self.program.check_file(self.file);
        let found = std::mem::replace(&mut self.program.diagnostics, known);
        let found = in_order(self.program.ast.warnings.apply(found));
        found.iter().filter(|d| d.severity == Severity::Error).count()
    }

    /// Checks the whole file and compiles everything in it that can be used: entry points, and differentiable
    /// functions with their derivatives.
    pub fn check(&mut self, report_checkpoints: bool) -> Result<Compiled, Failure> {
        self.check_with(&Options { report_checkpoints, ..Options::default() })
    }

    /// The entry points and the differentiable functions that `check` compiles.
    pub fn checked(&mut self) -> (Vec<DeclId>, Vec<FuncRef>) {
        // There is no code until the types are known.
        if self.program.has_open_types() {
            return (Vec::new(), Vec::new());
        }
        // Only kernels become code: whether a backend has what other stages ask for, `emit` tells.
        let mut entries = self.program.entry_points(self.file);
        entries.retain(|&d| self.program.stage(d).is_none_or(|stage| stage == "compute"));
        // A host that specialises a generic entry point decides with which types.
        entries.retain(|&d| self.program.all_generic_params(d).is_empty());
        (entries, self.differentiable_functions())
    }

    fn check_with(&mut self, options: &Options) -> Result<Compiled, Failure> {
        self.program.link_later();
        for file in self.program.files_of_module(self.file) {
            self.program.check_file(file);
        }
        self.errors()?;
        let (entries, functions) = self.checked();
        let request = Request {
            entries,
            functions,
            derivatives: true,
            as_marked: true,
            only_checks: true,
            ..Request::default()
        };
        let optimise = opt::Options { level: 1, ..opt::Options::default() };
        let mut compiled = self.compile(&request, &Options { optimise, ..options.clone() })?;
        // An error in what is used has been reported by now.
        self.program.check_imports(self.file);
        self.errors()?;
        self.keep_warnings(&mut compiled.warnings);
        Ok(compiled)
    }

    /// Moves the warnings found so far, in the order of the text, to the others.
    fn keep_warnings(&mut self, warnings: &mut Vec<Diagnostic>) {
        warnings.append(&mut self.program.diagnostics);
        *warnings = in_order(std::mem::take(warnings));
        for warning in warnings {
            if !self.warned.contains(warning) {
                self.warned.push(warning.clone());
            }
        }
    }

    /// Lowers the request, without any further stage.
    pub fn lowered(&mut self, request: &Request) -> Result<Lowered, Failure> {
        self.errors()?;
        let mut lowered = lower::lower(&mut self.program, request);
        self.program.diagnostics.append(&mut lowered.diagnostics);
        self.errors()?;
        Ok(lowered)
    }

    /// Lowers the request, optimises it and replaces derivative operators.
    pub fn compile(&mut self, request: &Request, options: &Options) -> Result<Compiled, Failure> {
        self.names_of_entries_differ(&request.entries)?;
        let mut optimise = options.optimise;
        let checks = options.check_finite != CheckFinite::Nothing;
        if checks {
            // Once a library function is inlined, its operations are attributed to the user's line.
            optimise.level = optimise.level.max(1);
            optimise.check_finite = options.check_finite;
        }
        let matrix_units = options.matrix_units && optimise.on_device == Some(true);
        let request = &Request { matrix_units, check_finite: checks, ..request.clone() };
        let Lowered { mut module, mut functions, .. } = self.lowered(request)?;
        verify(&module, "lower")?;
        let mut observed = Observations::default();
        if options.observe
            && let [of, rounded, ..] = &functions[..]
        {
            let asked = Observed { function: of.func, rounded: rounded.func };
            observed = observe(&mut module, asked)?;
            verify(&module, "observe")?;
        }
        if options.widen {
            crate::widen::widen(&mut module, &mut functions);
            verify(&module, "widen")?;
        }
        if let Some(span) = options.checkpoint {
            crate::profile::parts::checkpoint(&mut module, span);
        }
        opt::place_derivatives(&mut module);
        autodiff::enter(&mut module);
        let validation = self.validation.clone();
        let mut validator = validation.map(|validation| validation.validator(self, &module, &optimise));
        opt::before_ad_observed(&mut module, &optimise, observer(&mut validator));
        verify(&module, "opt::before_ad")?;
        let (mut kept, mut memory) = (autodiff::Checkpoints::default(), Vec::new());
        if !options.no_autodiff {
            let mut asked = autodiff::Options::default();
            let warns = self.program.ast.warnings.warns(UNBOUNDED);
            let unbounded = if warns { unbounded_loops(&module) } else { Vec::new() };
            asked.report_kept = options.report_checkpoints || warns;
            asked.mark_custom = checks;
            if request.as_marked {
                asked.unasked = functions.iter().filter_map(|f| f.jvp).collect();
            }
            let only_diagnostics = options.only_diagnostics && !verifies();
            if only_diagnostics {
                // Of what is left, only entry points whose threads share memory have anything more to say.
                module.entries.retain(|entry| entry.group_size.iter().any(|&n| n > 1));
            }
            asked.only_problems = only_diagnostics;
            if options.measure_memory {
                asked.measured = functions.iter().map(|f| f.func).collect();
            }
            asked.report_steps = validator.is_some();
            let found = autodiff::differentiate_with_report(&mut module, &asked);
            if let (Some(validator), Some(steps)) = (&mut validator, &found.steps) {
                validator.differentiated(steps);
            }
            (kept, memory) = (found.kept, found.memory);
            self.program.diagnostics.extend(unbounded_kept(&unbounded, &kept.values));
            if !options.report_checkpoints {
                kept = autodiff::Checkpoints::default();
            }
            self.program.diagnostics.extend(found.problems.into_iter().map(problem));
            let warnings = found.warnings.into_iter().map(problem);
            self.program
                .diagnostics
                .extend(warnings.map(|d| Diagnostic { severity: Severity::Warning, ..d }));
            self.errors()?;
            verify(&module, "autodiff")?;
            if options.mark_derivatives {
                crate::profile::parts::mark(&mut module);
            }
            // Functions that were only intermediate steps to a derivative are not worth optimising.
            let mut roots: Vec<Func> = functions
                .iter()
                .flat_map(|f| {
                    [Some(f.func), f.jvp, f.vjp].into_iter().flatten().chain(f.derived.iter().copied())
                })
                .collect();
            if only_diagnostics {
                roots.clear();
            }
            opt::prune(&mut module, &roots);
            opt::after_ad_observed(&mut module, &optimise, &roots, observer(&mut validator));
            opt::prune(&mut module, &roots);
            verify(&module, "opt::after_ad")?;
            let ast = &self.program.ast;
            let found: Vec<_> = module.entries.iter().flat_map(|e| races(ast, &module, e)).collect();
            self.program.diagnostics.extend(found);
        }
        self.errors()?;
        if let Some(mut validator) = validator {
            validator.backends(&module);
            validator.finish()?;
        }
        let mut warnings = Vec::new();
        self.keep_warnings(&mut warnings);
        Ok(Compiled { module, functions, warnings, kept, memory, observed })
    }

    /// A diagnostic about the whole file.
    pub fn at_file(&self, code: &'static str, message: String, help: String) -> Failure {
        let file = self.program.ast.files.get(self.file).map_or(FileId(0), |f| f.file);
        Failure::Program(vec![Diagnostic::error(code, Span::of_file(file), message).help(help)])
    }

    /// A declaration's name.
    pub fn name(&self, decl: DeclId) -> &str {
        self.program.ast.name(self.program.ast.decls[decl].name)
    }

    /// The functions at the top level of the file.
    pub(crate) fn functions(&self) -> Vec<DeclId> {
        let is_function = |d: &DeclId| matches!(self.program.ast.decls[*d].kind, DeclKind::Func { .. });
        self.program.ast.files[self.file].decls.iter().copied().filter(is_function).collect()
    }

    fn has_body(&self, decl: DeclId) -> bool {
        matches!(self.program.ast.decls[decl].kind, DeclKind::Func { body: Some(_), .. })
    }
}

/// Checks a whole file: every declaration, and that every differentiable function can be differentiated.
pub fn check(session: &mut Session, path: &Path) -> Result<Vec<Diagnostic>, Error> {
    Ok(check_with(session, path, &Options::default())?.0)
}

/// Like [`check()`], and returns what reverse mode keeps for each differentiable function.
pub fn check_and_report(
    session: &mut Session,
    path: &Path,
) -> Result<(Vec<Diagnostic>, autodiff::Checkpoints), Error> {
    check_with(session, path, &Options { report_checkpoints: true, ..Options::default() })
}

fn check_with(
    session: &mut Session,
    path: &Path,
    options: &Options,
) -> Result<(Vec<Diagnostic>, autodiff::Checkpoints), Error> {
    let options = Options { only_diagnostics: true, ..options.clone() };
    let (mut diagnostics, kept) = match load(session, path)?.check_with(&options) {
        Ok(compiled) => (compiled.warnings, compiled.kept),
        Err(Failure::Program(diagnostics)) => (diagnostics, autodiff::Checkpoints::default()),
        Err(Failure::Other(error)) => return Err(error),
    };
    diagnostics.retain(|d| session.is_shown(d));
    Ok((diagnostics, kept))
}

/// Returns true if there is an error among the diagnostics.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// The diagnostics without those that follow from others, sorted by file and place, each once. A place has one warning of
/// a code: a generic function and its instances, which are checked apart, may word it differently.
pub fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut seen = rustc_hash::FxHashSet::default();
    diagnostics.retain(|d| {
        let span = d.primary.span;
        let message = if d.severity == Severity::Error { d.message.clone() } else { String::new() };
        seen.insert((span.file, span.start, span.end, d.code, message))
    });
    diagnostics.sort_by_key(|d| (d.primary.span.file, d.primary.span.start));
    crate::follow_up::without_followers(diagnostics)
}

/// Returns true for an error of the lexer or the parser.
pub fn is_syntax_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error && crate::follow_up::is_syntax(diagnostic)
}

/// Returns true for a diagnostic about what is read, rather than about what it means.
pub fn is_about_text(diagnostic: &Diagnostic) -> bool {
    crate::follow_up::is_early(diagnostic)
}

/// Returns true if the verifier checks the result of each stage.
fn verifies() -> bool {
    cfg!(debug_assertions) || std::env::var_os("PULLBACK_VERIFY").is_some()
}

/// Verifies the result of a stage, where time allows.
pub(crate) fn verify(module: &Module, stage: &str) -> Result<(), Failure> {
    if !verifies() {
        return Ok(());
    }
    for (_, function) in module.funcs.iter().filter(|f| f.1.has_body()) {
        let errors = ir::verify::verify_function(module, function);
        if let Some(error) = errors.first() {
            let text = ir::print::print_function(module, function);
            let message = format!("after {stage}, `{}` is not well-formed: {error}\n{text}", function.name);
            return Err(Failure::Other(Error::Internal(message)));
        }
    }
    Ok(())
}
