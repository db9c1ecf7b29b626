//! Builds a module: the state that functions share during emission, and the order in which the parts are
//! emitted.

use std::num::NonZeroU32;

use cranelift_entity::EntitySet;
use ir::{Func, Global, MemData, Module, Op, Space, WAVE_LANES};
use naga::proc::Layouter;
use naga::valid::{Capabilities, FunctionInfo, GlobalUse, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, GlobalVariable, Handle, ResourceBinding, Span, StorageAccess, TypeInner};
use rustc_hash::FxHashMap;

use crate::barriers;
use crate::helpers::Helper;
use crate::layout::{self, Rule};
use crate::memory::{Access, Form, Slot};
use crate::names::Names;
use crate::order;
use crate::plan::{Base, Plan};
use crate::reflect::{self, Binding, BindingKind, EntryPoint, Print, Reflection, Site, Use};
use crate::types::{Shaped, member};
use crate::uniformity;
use crate::{Error, Options, Target, Unsupported};

/// A module that naga's validator has accepted.
#[derive(Debug)]
pub struct Built {
    /// The module.
    pub module: naga::Module,
    /// The validator's analysis of the module.
    pub info: ModuleInfo,
    /// The interface that a host needs: entry points, bindings, error sites and prints.
    pub reflection: Reflection,
    /// The module itself zero-initialises group-shared memory.
    pub zeroes_shared: bool,
    /// Lanes of waves exchange values through subgroups.
    pub uses_subgroups: bool,
    /// The module is for a driver that takes long for copies of loops ([`Options::inlines_slowly`]).
    pub inlines_slowly: bool,
    /// A comment for each function, keyed by the function's name in the emitted text.
    pub comments: Vec<(String, String)>,
}

/// An emitted instance.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) handle: Handle<naga::Function>,
    /// The built-in inputs that the function takes in addition to its parameters.
    pub(crate) builtins: Vec<ir::Builtin>,
    /// The struct that packs its parameters, if there are too many of them.
    pub(crate) packed: Option<Handle<naga::Type>>,
}

/// State shared by all functions of a module.
pub(crate) struct Cx<'m> {
    pub(crate) ir: &'m Module,
    pub(crate) options: &'m Options<'m>,
    pub(crate) out: naga::Module,
    pub(crate) plan: Plan,
    pub(crate) slots: FxHashMap<Base, Slot>,
    pub(crate) emitted: Vec<Option<Emitted>>,
    pub(crate) accesses: FxHashMap<Access, Handle<naga::Function>>,
    pub(crate) helpers: FxHashMap<Helper, Handle<naga::Function>>,
    pub(crate) types: TypesMade,
    pub(crate) names: Names,
    pub(crate) reports: Reports,
    pub(crate) waves: Waves,
    pub(crate) thread: Option<Handle<GlobalVariable>>,
    /// The thread's number in the dispatch, set by entry points.
    pub(crate) slot_number: Option<Handle<GlobalVariable>>,
    pub(crate) bindings: Vec<Binding>,
    /// For each entry point, true if its first group does nothing in a dispatch of several groups.
    pub(crate) first_group_last: Vec<bool>,
    /// The number of uniforms that can still be added.
    pub(crate) uniforms_left: u32,
    /// The largest thread group, from which bounds of thread indices follow.
    pub(crate) group: [u32; 3],
}

/// The types of the naga module that were made so far.
#[derive(Default)]
pub(crate) struct TypesMade {
    pub(crate) layouter: Layouter,
    /// The number of types whose layouts have been computed.
    pub(crate) laid_out: usize,
    pub(crate) names: Names,
    pub(crate) of_values: FxHashMap<Shaped, Handle<naga::Type>>,
    pub(crate) of_memory: FxHashMap<(ir::MemType, Form), Handle<naga::Type>>,
    /// The member index of each field of a struct; padding members may come in between.
    pub(crate) members: FxHashMap<Handle<naga::Type>, Vec<u32>>,
    /// Wrapper structs around array elements that must be padded to a larger stride.
    pub(crate) wrappers: Vec<Handle<naga::Type>>,
    /// Native float addition applies to the memory whose type is currently being built.
    pub(crate) adds_natively: bool,
}

/// The messages of a run to the host, and the comments of the text.
#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) sites: Vec<Site>,
    /// The number of each site.
    pub(crate) site_numbers: FxHashMap<(String, ir::Span), u32>,
    pub(crate) error_word: Option<Handle<GlobalVariable>>,
    /// The site of the thread's first failure, or 0.
    pub(crate) failed_site: Option<Handle<GlobalVariable>>,
    /// A loop was emitted that is not known to have come to its end.
    pub(crate) has_open_loops: bool,
    pub(crate) prints: Vec<Print>,
    pub(crate) print_log: Option<Handle<GlobalVariable>>,
    pub(crate) comments: Vec<(String, String)>,
}

/// How lanes of waves exchange values.
#[derive(Default)]
pub(crate) struct Waves {
    /// Group-shared arrays through which the threads of a group exchange values, by type.
    pub(crate) values: FxHashMap<Handle<naga::Type>, Handle<GlobalVariable>>,
    /// Values of lanes may stay in group-shared memory.
    in_place: bool,
    /// Group-shared arrays of a value for each lane of each wave, which stay there while they are read: by type, by the
    /// instance of a function if they outlast its calls, and by number.
    pub(crate) lanes: FxHashMap<(Handle<naga::Type>, Option<usize>, usize), Handle<GlobalVariable>>,
    /// Functions, each with true if it has operations of waves, or calls one that does.
    pub(crate) functions: FxHashMap<Func, bool>,
    /// For functions with lockstep steps, those steps that are in divergent control flow; `None` if all steps
    /// must be taken to be.
    pub(crate) steps_apart: FxHashMap<Func, Option<EntitySet<ir::Inst>>>,
    /// The number of lanes of a subgroup, if lanes of waves exchange values through subgroups.
    pub(crate) subgroups: Option<u32>,
    /// Code emitted so far uses subgroups.
    pub(crate) uses_subgroups: bool,
}

/// The most bytes of an element of memory, which naga's layouts can express.
const MOST_BYTES: u64 = 1 << 30;

/// The most bytes of group-shared memory that values of lanes may stay in, with all else: what every device of WebGPU has.
const MOST_SHARED: u32 = 16 << 10;

/// Larger uniforms become storage buffers.
const LARGEST_UNIFORM: u64 = 1 << 16;

/// The kernels with a stack whose length is not known, so that its place is an arena.
pub fn open_kernels(ir: &Module, target: crate::Target) -> Vec<Func> {
    let is_open = |e: &&ir::Entry| matches!(Plan::new(ir, target, &[e.func], e.group_size), Err(why) if why.code == crate::OPEN);
    ir.entries.iter().filter(|e| e.pipeline.is_none()).filter(is_open).map(|e| e.func).collect()
}

/// Builds and validates the module.
pub fn build(ir: &Module, options: &Options<'_>) -> Result<Built, Error> {
    let mut cx = emitted(ir, options, true)?;
    if !cx.waves.lanes.is_empty() && cx.shared_bytes() > MOST_SHARED {
        cx = emitted(ir, options, false)?;
    }
    cx.finish()
}

/// Emits all functions. With `in_place`, values of lanes may stay in group-shared memory while they are read.
fn emitted<'m>(ir: &'m Module, options: &'m Options<'m>, in_place: bool) -> Result<Cx<'m>, Error> {
    let mut roots: Vec<Func> = ir.entries.iter().map(|e| e.func).collect();
    roots.extend(options.functions);
    let group =
        ir.entries.iter().fold([1; 3], |most, e| std::array::from_fn(|k| most[k].max(e.group_size[k])));
    let plan = Plan::new(ir, options.target, &roots, group)?;
    let n = plan.instances.len();
    let is_read_later = |e: &ir::Entry| options.first_group_last && order::reads_of_others(ir, e.func, &plan);
    let first_group_last = ir.entries.iter().map(is_read_later).collect();
    let mut cx = Cx {
        ir,
        options,
        out: naga::Module::default(),
        plan,
        slots: FxHashMap::default(),
        emitted: vec![None; n],
        accesses: FxHashMap::default(),
        helpers: FxHashMap::default(),
        types: TypesMade::default(),
        names: Names::default(),
        reports: Reports::default(),
        waves: Waves { in_place, ..Waves::default() },
        thread: None,
        slot_number: None,
        bindings: Vec::new(),
        first_group_last,
        uniforms_left: options.max_uniforms,
        group,
    };
    for entry in &ir.entries {
        cx.names.unique(&entry.name);
    }
    let threads = cx.threads();
    // Devices with narrow subgroups make them of one row of a group each.
    let are_rows = ir.entries.iter().all(|entry| entry.group_size[1..] == [1, 1]);
    let fits = |lanes: u32| lanes == WAVE_LANES || are_rows && threads <= lanes.min(WAVE_LANES);
    cx.waves.subgroups = options.subgroups.filter(|&lanes| fits(lanes));
    cx.check_waves()?;
    cx.globals()?;
    let instances = cx.plan.roots.clone();
    for (number, (&instance, entry)) in instances.iter().zip(&ir.entries).enumerate() {
        let skips_first = cx.first_group_last[number];
        cx.entry(instance, entry, skips_first)?;
    }
    for &instance in &instances[ir.entries.len()..] {
        cx.function(instance)?;
    }
    Ok(cx)
}

impl<'m> Cx<'m> {
    pub(crate) fn refuse(
        &self,
        what: impl Into<String>,
        why: impl Into<String>,
        span: ir::Span,
    ) -> Unsupported {
        Unsupported::new(self.options.target, what, why, span)
    }

    /// Refuses wave operations in control flow that is not uniform across the group.
    fn check_waves(&mut self) -> Result<(), Unsupported> {
        let mut known = FxHashMap::default();
        for instance in &self.plan.instances {
            let Some(func) = instance.func else { continue };
            let has_waves = uniformity::has_waves(self.ir, func, &mut known);
            let f = &self.ir.funcs[func];
            let mut has_gathers = false;
            if f.has_body() {
                f.walk(f.body(), &mut |inst| has_gathers |= f.insts[inst].op == ir::Op::WaveGather);
            }
            if !has_waves && !has_gathers {
                continue;
            }
            let (found, apart) = uniformity::divergent_wave(self.ir, func, self.group, &mut known);
            // The callers of a function that has steps but no wave operations are not examined.
            let is_entry = self.ir.entries.iter().any(|e| e.func == func);
            self.waves.steps_apart.insert(func, (is_entry || has_waves).then_some(apart));
            if !has_waves {
                continue;
            }
            if self.ir.entries.is_empty() {
                let what = "an operation of a wave in a function that no entry point calls";
                return Err(self.refuse(
                    what,
                    "how many threads there are is not known",
                    self.ir.funcs[func].span,
                ));
            }
            if let Some(span) = found {
                let what = "an operation of a wave where threads may go different ways";
                let why = "lanes meet through group-shared memory, and all threads of the group must come by";
                return Err(self.refuse(what, why, span));
            }
        }
        self.waves.functions = known;
        Ok(())
    }

    /// A group-shared array that holds a value for each lane of each wave, if there is room for it.
    pub(crate) fn wave_lanes(
        &mut self,
        ty: Handle<naga::Type>,
        owner: Option<usize>,
        number: usize,
    ) -> Option<Handle<GlobalVariable>> {
        if let Some(&found) = self.waves.lanes.get(&(ty, owner, number)) {
            return Some(found);
        }
        let wave = self.array_of(ty, NonZeroU32::new(WAVE_LANES));
        let all = self.array_of(wave, NonZeroU32::new(self.threads() / WAVE_LANES));
        if !self.waves.in_place || self.shared_bytes().saturating_add(self.natural(all).0) > MOST_SHARED {
            return None;
        }
        let name = self.names.unique("lane_values");
        let var = self.variable(&name, AddressSpace::WorkGroup, all, None);
        self.waves.lanes.insert((ty, owner, number), var);
        Some(var)
    }

    /// The number of bytes of all group-shared variables.
    fn shared_bytes(&mut self) -> u32 {
        let globals = self.out.global_variables.iter();
        let shared: Vec<_> =
            globals.filter(|(_, g)| g.space == AddressSpace::WorkGroup).map(|(_, g)| g.ty).collect();
        shared.into_iter().map(|ty| self.natural(ty).0).fold(0, u32::saturating_add)
    }

    /// The group-shared array that holds one value for each thread.
    pub(crate) fn wave_values(&mut self, ty: Handle<naga::Type>) -> Handle<GlobalVariable> {
        if let Some(&found) = self.waves.values.get(&ty) {
            return found;
        }
        let all = self.array_of(ty, NonZeroU32::new(self.threads()));
        let name = self.names.unique("wave_values");
        let var = self.variable(&name, AddressSpace::WorkGroup, all, None);
        self.waves.values.insert(ty, var);
        var
    }

    /// The number of threads of the largest thread group.
    pub(crate) fn threads(&self) -> u32 {
        let sizes = self.ir.entries.iter().map(|e| e.group_size.iter().product());
        sizes.max().unwrap_or(1).max(1)
    }

    /// Declares the globals in use.
    fn globals(&mut self) -> Result<(), Unsupported> {
        let bases: Vec<Base> = self.plan.uses.keys().copied().collect();
        for base in bases {
            let usage = self.plan.uses[&base].clone();
            let (Base::Global(global) | Base::Pointee(global)) = base else { continue };
            let data = &self.ir.globals[global];
            let name = self.names.unique(&data.name);
            let space = match base {
                Base::Pointee(_) => Space::ReadWrite,
                _ => data.space,
            };
            let (size, _) = layout::size_align(&self.ir.mem, usage.element, Rule::Std140);
            let form = match space {
                Space::GroupShared | Space::Private => Form::Local,
                Space::Uniform
                    if !usage.raw
                        && !usage.written
                        && (self.options.least_uniform..=LARGEST_UNIFORM).contains(&size)
                        && self.uniforms_left > 0 =>
                {
                    self.uniforms_left -= 1;
                    Form::Std140
                }
                Space::Uniform | Space::ReadOnly | Space::ReadWrite | Space::Arena => Form::Std430,
            };
            // A single element, or as many elements as the host binds.
            let is_single = matches!(space, Space::Uniform | Space::GroupShared | Space::Private);
            let is_arena = space == Space::Arena;
            let span = data.span;
            let bytes = self.ir.mem.size(usage.element);
            if bytes > MOST_BYTES {
                let what = format!("an element of {bytes} bytes");
                let why = format!("an element has at most {MOST_BYTES} bytes");
                return Err(self.refuse(what, why, span));
            }
            let element = if usage.raw {
                None
            } else {
                let is_storage = form == Form::Std430;
                self.types.adds_natively = self.options.native_float_sums
                    && self.options.target == Target::Spirv
                    && usage.only_sums
                    && is_storage;
                Some(self.memory_type(usage.element, form, &usage.atomics, span)?)
            };
            let words = self.ir.mem.size(usage.element).div_ceil(4).max(1) as u32;
            let ty = match element {
                Some(element) if is_single => element,
                Some(element) => self.array_of(element, None),
                None => {
                    let is_atomic = usage.atomic_words && space != Space::Private;
                    let word = if is_atomic { self.atomic_word_type() } else { self.word_type() };
                    let n = if is_single { NonZeroU32::new(words) } else { None };
                    self.array_of(word, n)
                }
            };
            let space = match (space, form) {
                (Space::GroupShared, _) => AddressSpace::WorkGroup,
                (Space::Private, _) => AddressSpace::Private,
                (_, Form::Std140) => AddressSpace::Uniform,
                _ => {
                    let load = StorageAccess::LOAD;
                    AddressSpace::Storage {
                        access: if usage.written { load | StorageAccess::STORE } else { load },
                    }
                }
            };
            let rule = match form {
                _ if usage.raw => Rule::Scalar,
                Form::Std140 => Rule::Std140,
                Form::Std430 | Form::Local => Rule::Std430,
            };
            let kind = match space {
                AddressSpace::Uniform => Some(BindingKind::Uniform),
                AddressSpace::Storage { .. } if is_arena => Some(match self.ir.mem[usage.element] {
                    MemData::Struct { .. } => BindingKind::ArenaState,
                    _ => BindingKind::Arena,
                }),
                AddressSpace::Storage { .. } if usage.written => Some(BindingKind::Storage),
                AddressSpace::Storage { .. } => Some(BindingKind::ReadOnlyStorage),
                _ => None,
            };
            let binding = kind.is_some().then(|| self.next_binding());
            let var = self.variable(&name, space, ty, binding);
            if let Some(kind) = kind {
                let is_pointee = matches!(base, Base::Pointee(_));
                let binding = self.bindings.len() as u32;
                let type_name = self.ir.mem.type_name(usage.element);
                let stride = layout::stride(&self.ir.mem, usage.element, rule);
                let size = is_single.then(|| layout::size_align(&self.ir.mem, usage.element, rule).0);
                let fields = reflect::fields(&self.ir.mem, usage.element, rule);
                self.bindings.push(Binding {
                    set: 0,
                    binding,
                    name: data.name.clone(),
                    text_name: name,
                    global: (!is_arena).then_some(global),
                    is_pointee,
                    kind,
                    rule,
                    element: type_name,
                    mem: (!is_arena).then_some(usage.element),
                    stride,
                    size,
                    fields,
                });
            }
            let slot = Slot {
                var,
                is_single,
                raw: usage.raw,
                is_private: space == AddressSpace::Private,
                words: is_single.then_some(words),
                element: usage.element,
                ty: element,
                name: data.name.clone(),
            };
            self.slots.insert(base, slot);
        }
        Ok(())
    }

    /// The next free resource binding.
    fn next_binding(&self) -> ResourceBinding {
        ResourceBinding { group: 0, binding: self.bindings.len() as u32 }
    }

    /// Declares a global variable.
    fn variable(
        &mut self,
        name: &str,
        space: AddressSpace,
        ty: Handle<naga::Type>,
        binding: Option<ResourceBinding>,
    ) -> Handle<GlobalVariable> {
        self.out.global_variables.append(
            GlobalVariable {
                name: Some(name.to_string()),
                space,
                binding,
                ty,
                init: None,
                memory_decorations: naga::MemoryDecorations::empty(),
            },
            Span::default(),
        )
    }

    /// The error word, which records the first failure; declared on first use.
    pub(crate) fn error_state(&mut self) -> Handle<GlobalVariable> {
        if let Some(word) = self.reports.error_word {
            return word;
        }
        let vector = self.ty(TypeInner::Vector { size: naga::VectorSize::Tri, scalar: naga::Scalar::U32 });
        let atomic = self.ty(TypeInner::Atomic(naga::Scalar::U32));
        let members = vec![member("site", atomic, 0), member("thread", vector, 16)];
        let ty = self.structure("ErrorWord", members, 32);
        let fields = vec![
            reflect::Field { name: "site".into(), ty: "uint".into(), offset: 0, size: 4, stride: None },
            reflect::Field { name: "thread".into(), ty: "uint3".into(), offset: 16, size: 12, stride: None },
        ];
        let word =
            self.own_buffer("error_word", ty, BindingKind::ErrorWord, "ErrorWord", (32, Some(32)), fields);
        self.reports.error_word = Some(word);
        word
    }

    /// The global that holds the site of the thread's first failure, declared on first use.
    pub(crate) fn failed_site(&mut self) -> Handle<GlobalVariable> {
        if let Some(site) = self.reports.failed_site {
            return site;
        }
        let uint = self.ty(TypeInner::Scalar(naga::Scalar::U32));
        let site = self.private("failed_site", uint, None);
        self.reports.failed_site = Some(site);
        site
    }

    /// A variable of the thread that functions share, with its first value, if it has one.
    pub(crate) fn private(
        &mut self,
        name: &str,
        ty: Handle<naga::Type>,
        init: Option<Handle<naga::Expression>>,
    ) -> Handle<GlobalVariable> {
        let name = self.names.unique(name);
        let var = self.variable(&name, AddressSpace::Private, ty, None);
        self.out.global_variables.get_mut(var).init = init;
        var
    }

    /// The log of printed records, declared on first use.
    pub(crate) fn print_log(&mut self) -> Handle<GlobalVariable> {
        if let Some(log) = self.reports.print_log {
            return log;
        }
        let word = self.atomic_word_type();
        let ty = self.array_of(word, None);
        let log = self.own_buffer("print_log", ty, BindingKind::PrintLog, "uint", (4, None), Vec::new());
        self.reports.print_log = Some(log);
        log
    }

    /// Declares a storage buffer that the source program does not contain.
    fn own_buffer(
        &mut self,
        name: &str,
        ty: Handle<naga::Type>,
        kind: BindingKind,
        element: &str,
        (stride, size): (u64, Option<u64>),
        fields: Vec<reflect::Field>,
    ) -> Handle<GlobalVariable> {
        let name = self.names.unique(name);
        let space = AddressSpace::Storage { access: StorageAccess::LOAD | StorageAccess::STORE };
        let var = self.variable(&name, space, ty, Some(self.next_binding()));
        self.bindings.push(Binding {
            set: 0,
            binding: self.bindings.len() as u32,
            name: name.clone(),
            text_name: name,
            global: None,
            is_pointee: false,
            kind,
            rule: Rule::Std430,
            element: element.into(),
            mem: None,
            stride,
            size,
            fields,
        });
        var
    }

    /// The global that holds the thread's ID, which entry points set.
    pub(crate) fn current_thread(&mut self) -> Handle<GlobalVariable> {
        if let Some(thread) = self.thread {
            return thread;
        }
        let vector = self.ty(TypeInner::Vector { size: naga::VectorSize::Tri, scalar: naga::Scalar::U32 });
        let name = self.names.unique("current_thread");
        let thread = self.variable(&name, AddressSpace::Private, vector, None);
        self.thread = Some(thread);
        thread
    }

    /// The global that holds the thread's number in the dispatch, which indexes the thread's variables in
    /// storage.
    pub(crate) fn slot_number(&mut self) -> Handle<GlobalVariable> {
        if let Some(slot) = self.slot_number {
            return slot;
        }
        let uint = self.ty(TypeInner::Scalar(naga::Scalar::U32));
        let name = self.names.unique("thread_number");
        let slot = self.variable(&name, AddressSpace::Private, uint, None);
        self.slot_number = Some(slot);
        slot
    }

    /// A storage buffer that holds one copy of a variable for each thread of the dispatch.
    pub(crate) fn scratch(&mut self, name: &str, ty: Handle<naga::Type>) -> Handle<GlobalVariable> {
        let all = self.array_of(ty, None);
        let (size, align) = self.natural(ty);
        let layout = (size.next_multiple_of(align) as u64, None);
        self.own_buffer(name, all, BindingKind::Scratch, "scratch", layout, Vec::new())
    }

    /// Returns true if a variable that could be private is placed in storage.
    pub(crate) fn prefers_scratch(&self, ty: Handle<naga::Type>, bytes: u64) -> bool {
        let is_bound = |b: &&Binding| b.kind != BindingKind::Uniform;
        // The error word and the log may still be added.
        let buffers = self.bindings.iter().filter(is_bound).count() as u32 + 2;
        bytes > self.options.most_private
            && buffers < self.options.max_storage
            && !self.ir.entries.is_empty()
            && self.ir.entries.iter().all(|entry| entry.pipeline.is_none())
            && !self.has_bool(ty)
            && self.options.target != Target::Hlsl
    }

    /// The number of a `printf`, counted from 0.
    pub(crate) fn print_site(
        &mut self,
        format: &str,
        args: Vec<(ir::Scalar, ir::Scalar)>,
        words: u32,
    ) -> u32 {
        let print = Print { format: format.to_string(), args, words };
        if let Some(at) = self.reports.prints.iter().position(|p| *p == print) {
            return at as u32;
        }
        self.reports.prints.push(print);
        self.reports.prints.len() as u32 - 1
    }

    /// The number of a location where a run can fail, counted from 1.
    pub(crate) fn site(&mut self, message: String, span: ir::Span) -> u32 {
        let place = (self.options.place)(span);
        let next = self.reports.sites.len() as u32 + 1;
        let number = *self.reports.site_numbers.entry((message.clone(), span)).or_insert(next);
        if number == next {
            self.reports.sites.push(Site { message, place, span });
        }
        number
    }

    /// Records the source location of a function for a comment in the emitted text.
    pub(crate) fn comment(&mut self, name: &str, source: &str, span: ir::Span) {
        let text = match (self.options.place)(span) {
            Some(place) => format!("`{source}`, {place}"),
            None => format!("`{source}`"),
        };
        self.reports.comments.push((name.to_string(), text));
    }

    /// Records a description for a function of the emitted text that has no source location.
    pub(crate) fn comment_words(&mut self, name: &str, words: &str) {
        self.reports.comments.push((name.to_string(), words.to_string()));
    }

    /// The private globals that an entry point uses and that need initial values, each with the instance of its
    /// initialiser.
    pub(crate) fn initialisers(&self, entry: usize) -> Vec<(Global, usize)> {
        let init = |g: Global| self.plan.find(self.ir.globals[g].init?);
        let (mut used, mut open) = (Vec::new(), vec![entry]);
        while let Some(instance) = open.pop() {
            for f in self.plan.reached(instance).into_iter().filter_map(|k| self.plan.instances[k].func) {
                let insts = self.ir.funcs[f].insts.values();
                let globals =
                    insts.filter_map(|data| if let Op::GlobalRef(g) = data.op { Some(g) } else { None });
                for global in globals {
                    if !used.contains(&global) {
                        used.push(global);
                        open.extend(init(global));
                    }
                }
            }
        }
        let private = self.plan.private.iter().filter(|g| used.contains(g));
        private.filter_map(|&g| Some((g, init(g)?))).collect()
    }

    fn finish(mut self) -> Result<Built, Error> {
        barriers::merge(&mut self.out);
        let mut validator = Validator::new(ValidationFlags::all(), capabilities(self.options.target));
        validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
        validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
        let info = validator.validate(&self.out).map_err(|e| {
            let mut text = format!("{:?}", e.as_inner());
            let mut source: Option<&dyn std::error::Error> = Some(e.as_inner());
            while let Some(error) = source {
                text.push_str(&format!(": {error}"));
                source = error.source();
            }
            Error::Internal(format!("naga refuses the module: {text}"))
        })?;
        let zeroes_shared = self.zeroes_shared();
        let entries = self.ir.entries.iter().enumerate();
        let entries = entries
            .map(|(k, e)| EntryPoint {
                name: e.name.clone(),
                group_size: e.group_size,
                pipeline: reflect::stage_interface(self.ir, e),
                uses: uses(&self.out, info.get_entry_point(k), &self.bindings),
                first_group_last: self.first_group_last[k],
            })
            .collect();
        let reflection = Reflection {
            target: self.options.target,
            entries,
            bindings: self.bindings,
            sites: self.reports.sites,
            prints: self.reports.prints,
        };
        let (uses_subgroups, comments) = (self.waves.uses_subgroups, self.reports.comments);
        let inlines_slowly = self.options.inlines_slowly;
        Ok(Built {
            module: self.out,
            info,
            reflection,
            zeroes_shared,
            uses_subgroups,
            inlines_slowly,
            comments,
        })
    }
}

/// The bindings that an entry point uses, in order.
fn uses(module: &naga::Module, info: &FunctionInfo, bindings: &[Binding]) -> Vec<Use> {
    let mut uses = Vec::new();
    for (var, data) in module.global_variables.iter() {
        let Some(place) = data.binding.filter(|_| !info[var].is_empty()) else { continue };
        let found = bindings.iter().position(|b| (b.set, b.binding) == (place.group, place.binding));
        let written = info[var].intersects(GlobalUse::WRITE | GlobalUse::ATOMIC);
        uses.extend(found.map(|binding| Use { binding, written }));
    }
    uses.sort_by_key(|u| u.binding);
    uses
}

/// The naga capabilities for a target. Whether the target supports a kind of number has been checked before.
fn capabilities(target: Target) -> Capabilities {
    let mut all = Capabilities::default() | Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    all.set(Capabilities::SHADER_INT64, target.has_int64());
    all.set(Capabilities::SHADER_INT64_ATOMIC_ALL_OPS, target.has_atomic_int64());
    all.set(Capabilities::SHADER_FLOAT32_ATOMIC, target == Target::Spirv);
    all.set(Capabilities::FLOAT64, target.has_float64());
    all.set(Capabilities::SHADER_FLOAT16, target.has_float16());
    all |= Capabilities::MULTISAMPLED_SHADING;
    all
}
