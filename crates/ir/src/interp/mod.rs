//! The reference interpreter: it defines the meaning of a module, and is written to be obviously right rather
//! than fast.
//!
//! Backends must agree with it bit for bit (any two NaN are equal). It runs on any [`Host`], which provides
//! memory, a place in the dispatch and a console. Control is a list of [`Activation`]s on the heap, so
//! neither nesting nor recursion uses the machine's stack, and a thread that waits at a barrier can be
//! suspended there and resumed: [`Machine::resume`].
//!
//! Witnesses are ignored: the meaning of a function is its body. `call_fwd` and the other derivative calls
//! are not executable; `autodiff` replaces them first.
//!
//! [`dual`] runs the same machine on (value, tangent) pairs, which gives tests a third way to compute
//! derivatives, and [`depends`] on values with the inputs that they depend on, which gives the sparsity of Jacobians.

mod exec;
mod finite;
mod held;
mod memory;
mod value;

pub mod depends;
pub mod dual;
pub mod interval;
pub mod precise;

use std::time::{Duration, Instant};

use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;

use crate::analysis::Cycles;
use crate::entities::{Func, Inst, Region, Value as Name};
use crate::function::{Function, Slot, Span};
use crate::module::Module;
use crate::ops::{Builtin, Op, WAVE_LANES};

pub use finite::{Shown, VALUE, not_finite_message};
pub use memory::{
    Access, AccessKind, HANDLE_SHIFT, Host, Memory, element_bytes, handle_bits, leaf_bytes, read_leaf,
    resolve,
};
pub use value::{Handle, Lane, Value};

/// Describes why a run stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct RunError {
    /// The error message.
    pub message: String,
    /// The user's line.
    pub span: Span,
    /// The thread, by its position in the dispatch.
    pub thread: [u32; 3],
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunError {}

/// The nesting limit for calls of functions that may call themselves, in the interpreter and in compiled
/// code.
pub const MAX_DEPTH: usize = 10_000;

/// The error message for calls that are nested more deeply than the limit.
pub fn depth_message(depth: usize) -> String {
    format!("calls of functions that call themselves are nested more than {depth} deep")
}

/// Formats a number of bytes for messages.
pub fn size_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |&(shift, _): &(u32, &str)| bytes >> shift > 0 && bytes.trailing_zeros() >= shift;
    match units.into_iter().find(whole) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        None => format!("{bytes} bytes"),
    }
}

/// The error message for a program that needs more memory than its limit.
pub fn memory_message(limit: u64) -> String {
    let limit = size_text(limit);
    format!("the program needs more than {limit} for large arrays and for what reverse mode keeps")
}

/// Limits that end a run early.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of instructions executed; for random programs that may not end.
    pub steps: Option<u64>,
    /// The nesting depth of calls of functions that may call themselves.
    pub depth: usize,
    /// The approximate number of bytes of large arrays and of residuals of reverse mode.
    pub memory: u64,
    /// The time by which the run must end.
    pub deadline: Option<Deadline>,
}

/// The point in time by which a run must end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    seconds: f64,
}

impl Deadline {
    /// The deadline this many seconds from now; `None` if that is later than the clock can represent.
    pub fn after(seconds: f64) -> Option<Deadline> {
        let time = Duration::try_from_secs_f64(seconds).ok()?;
        Some(Deadline { at: Instant::now().checked_add(time)?, seconds })
    }

    /// Returns true if the deadline has passed.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// The error message of a run that the deadline ended.
    pub fn message(&self) -> String {
        time_message(self.seconds)
    }
}

/// The error message for a program that runs longer than it may.
pub fn time_message(seconds: f64) -> String {
    let plural = if seconds == 1.0 { "" } else { "s" };
    format!("the program runs longer than {seconds} second{plural}")
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: None, depth: MAX_DEPTH, memory: 2 << 30, deadline: None }
    }
}

/// The deadline is checked once in this many steps.
const STEPS_OF_A_LOOK: u64 = 1 << 12;

/// The error message of a run that reached [`Limits::steps`].
pub const STEP_LIMIT_MESSAGE: &str = "the step limit was reached";

/// The error message for a loop that keeps values for its reversal and made more trips than its bound.
pub fn max_iters_message(bound: u32) -> String {
    format!(
        "the loop made more than the {bound} trips of its [MaxIters({bound})], and is differentiated in reverse"
    )
}

/// The reason why [`Machine::resume`] returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<L = u64> {
    /// The machine waits at a barrier; call resume to continue.
    Barrier,
    /// The machine waits at a `wave_gather`; call [`Machine::receive`], then resume.
    Wave,
    /// The function has ended, with these results.
    Done(Vec<Value<L>>),
}

/// The binding of a name while a function runs.
#[derive(Clone, Debug, Default)]
enum Bound<L> {
    #[default]
    Nothing,
    Value(Value<L>),
    /// A cell and its content.
    Cell(Value<L>),
    /// A part of the cell with that name; `None` in the path is an index that is out of any range.
    SubCell(Name, Vec<Option<usize>>),
}

/// A call in progress.
struct Frame<L> {
    func: Func,
    names: Vec<Bound<L>>,
    /// The bytes of the values bound to the frame's names, counted as if nothing were shared.
    held: u64,
}

/// A region in progress.
struct Activation<L> {
    region: Region,
    /// The number of the region's instructions that have begun.
    pc: usize,
    kind: Kind<L>,
}

/// The construct that an activation of a region belongs to.
enum Kind<L> {
    /// The body of a function; its frame ends with the region.
    Body,
    /// An arm of this `if` or `switch`.
    Arm(Inst),
    /// The body of this `for`.
    For { inst: Inst, trip: u64, n: u64, stacks: Vec<Vec<Value<L>>> },
    /// The body of this `loop`.
    Loop { inst: Inst, trip: u64, stacks: Vec<Vec<Value<L>>> },
}

/// One thread that executes one function.
pub struct Machine<'m, L: Lane = u64> {
    module: &'m Module,
    limits: Limits,
    steps: u64,
    frames: Vec<Frame<L>>,
    regions: Vec<Activation<L>>,
    /// The span of the current instruction, for errors.
    span: Span,
    /// The count of calls of functions that may call themselves, once the depth of all calls reaches the
    /// limit.
    deep: Option<Deep>,
    /// The bytes that all frames hold, counted as if nothing were shared.
    held: u64,
    /// The value of `held` at which the memory is measured exactly.
    measure_at: u64,
    /// Buffers in which derivatives were lost, with the place of the first loss.
    lost_in: FxHashMap<u32, Span>,
}

/// The nesting depth of calls of functions that may call themselves.
struct Deep {
    cycles: Cycles,
    count: usize,
}

/// Calls a function of a module; at barriers it calls [`Host::barrier`].
pub fn call(
    module: &Module,
    func: Func,
    args: &[Value],
    host: &mut dyn Host,
) -> Result<Vec<Value>, RunError> {
    call_limited(module, func, args, host, Limits::default())
}

/// Like [`call`], but within limits.
pub fn call_limited<L: Lane>(
    module: &Module,
    func: Func,
    args: &[Value<L>],
    host: &mut dyn Host,
    limits: Limits,
) -> Result<Vec<Value<L>>, RunError> {
    let mut machine = Machine::new(module, func, args, limits)?;
    loop {
        match machine.resume(host)? {
            Step::Barrier => host.barrier(),
            Step::Wave => {
                let lane = host.builtin(Builtin::GroupIndex)[0] % WAVE_LANES;
                let own = machine.offered();
                machine.receive(&[(lane, own)]);
            }
            Step::Done(results) => return Ok(results),
        }
    }
}

/// Finds the lanes of a wave, as a mask, that are together at a `wave_gather` that none of the other lanes
/// can still reach.
///
/// The place of a lane is the path where it waits ([`Machine::path`]) and whether it waits at a `wave_gather`
/// (or else at a barrier); `None` for a lane that has ended. Since control is structured, a thread passes
/// places in the order of their paths. No lane can therefore come to the least path any more, and the lanes
/// that wait there are all that ever will: they may continue together, however control diverged before. The
/// mask is 0 if the least path is at a barrier, or if all lanes have ended.
pub fn first_together<'p>(places: impl Iterator<Item = Option<(&'p [u64], bool)>>) -> u32 {
    let (mut least, mut mask): (Option<(&[u64], bool)>, u32) = (None, 0);
    for (lane, place) in places.enumerate() {
        let Some(place) = place else { continue };
        match least.map(|l| place.0.cmp(l.0)) {
            Some(std::cmp::Ordering::Greater) => {}
            Some(std::cmp::Ordering::Equal) => mask |= 1 << lane,
            Some(std::cmp::Ordering::Less) | None => (least, mask) = (Some(place), 1 << lane),
        }
    }
    match least {
        Some((_, true)) => mask,
        _ => 0,
    }
}

/// The initial bytes of a private global in each thread: zero, or the results of its initialiser.
pub fn initial_bytes(
    module: &Module,
    global: crate::entities::Global,
    host: &mut dyn Host,
) -> Result<Vec<u8>, RunError> {
    let data = &module.globals[global];
    let leaves = match data.init {
        Some(init) => {
            let mut machine = Machine::new(module, init, &[], Limits::default())?;
            loop {
                match machine.resume(host)? {
                    Step::Done(results) => break results,
                    Step::Barrier => {}
                    Step::Wave => {
                        let message = "a wave operation in the initial value of a variable".to_string();
                        return Err(RunError { message, span: data.span, thread: [0; 3] });
                    }
                }
            }
        }
        None => return Ok(vec![0; module.mem.size(data.ty) as usize]),
    };
    Ok(element_bytes(module, data.ty, &leaves))
}

impl<'m, L: Lane> Machine<'m, L> {
    /// A thread that is about to run `func`. Returns an error if the arguments do not fit the parameters.
    pub fn new(
        module: &'m Module,
        func: Func,
        args: &[Value<L>],
        limits: Limits,
    ) -> Result<Machine<'m, L>, RunError> {
        let mut machine = Machine {
            module,
            limits,
            steps: 0,
            frames: Vec::new(),
            regions: Vec::new(),
            span: Span::NONE,
            deep: None,
            held: 0,
            measure_at: limits.memory,
            lost_in: FxHashMap::default(),
        };
        let function = &module.funcs[func];
        let fits = args.len() == function.params.len()
            && args.iter().zip(&function.params).all(|(a, p)| a.fits(&module.types, p.ty));
        if !fits {
            let message = format!("the arguments do not fit the parameters of '{}'", function.name);
            return Err(RunError { message, span: function.span, thread: [0; 3] });
        }
        machine.enter(func, args.to_vec()).map_err(|message| RunError {
            message,
            span: function.span,
            thread: [0; 3],
        })?;
        Ok(machine)
    }

    /// The number of instructions executed and regions left so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs to the next barrier or `wave_gather`, or to the end.
    pub fn resume(&mut self, host: &mut dyn Host) -> Result<Step<L>, RunError> {
        self.run(host).map_err(|message| RunError {
            message,
            span: self.span,
            thread: host.builtin(Builtin::DispatchThreadId),
        })
    }

    fn run(&mut self, host: &mut dyn Host) -> Result<Step<L>, String> {
        while let Some(active) = self.regions.last_mut() {
            // The end of a region counts as a step: the body of an endless loop may be empty.
            self.steps += 1;
            if self.limits.steps.is_some_and(|limit| self.steps > limit) {
                return Err(STEP_LIMIT_MESSAGE.to_string());
            }
            if self.steps.is_multiple_of(STEPS_OF_A_LOOK)
                && let Some(deadline) = self.limits.deadline.filter(Deadline::is_over)
            {
                self.span = self.user_span();
                return Err(deadline.message());
            }
            let function = &self.module.funcs[self.frames.last().expect("a region has a frame").func];
            let insts = &function.regions[active.region].insts;
            let Some(&inst) = insts.get(active.pc) else {
                if let Some(results) = self.leave(function)? {
                    return Ok(Step::Done(results));
                }
                continue;
            };
            active.pc += 1;
            self.span = function.insts[inst].span;
            match function.insts[inst].op {
                Op::Barrier => return Ok(Step::Barrier),
                Op::WaveGather => return Ok(Step::Wave),
                _ => {}
            }
            self.execute(function, inst, host)?;
        }
        Ok(Step::Done(Vec::new()))
    }

    // ---- waves

    /// The instruction where the machine waits, with its function.
    fn waiting(&self) -> (&'m Function, Inst) {
        let function = &self.module.funcs[self.frames.last().expect("a frame waits").func];
        let active = self.regions.last().expect("a region waits");
        (function, function.regions[active.region].insts[active.pc - 1])
    }

    /// The place where the machine waits, as a path that orders places as one thread passes them: for each
    /// enclosing region, the number of the arm or trip and the instruction's position in the region. Two
    /// threads are together where their paths are equal.
    pub fn path(&self) -> Vec<u64> {
        let mut path = Vec::with_capacity(2 * self.regions.len());
        let mut frames = self.frames.iter();
        let mut function = None;
        for active in &self.regions {
            match &active.kind {
                Kind::Body => function = frames.next().map(|f| &self.module.funcs[f.func]),
                Kind::Arm(inst) => {
                    let regions =
                        function.map(|f: &Function| &f.insts[*inst].regions[..]).unwrap_or_default();
                    path.push(regions.iter().position(|&r| r == active.region).unwrap_or(0) as u64);
                }
                Kind::For { trip, .. } | Kind::Loop { trip, .. } => path.push(*trip),
            }
            path.push(active.pc as u64 - 1);
        }
        path
    }

    /// The value that the machine contributes to the `wave_gather` where it waits; no derivative flows
    /// through.
    pub fn offered(&self) -> Value<L> {
        let (function, inst) = self.waiting();
        let value = self.value(function.insts[inst].args[0]).expect("a verified operand has a value");
        self.cut(value)
    }

    /// Passes the machine the values that the lanes that are together contributed to the `wave_gather` where
    /// it waits.
    pub fn receive(&mut self, lanes: &[(u32, Value<L>)]) {
        let (function, inst) = self.waiting();
        let data = &function.insts[inst];
        let zero = Value::zero(&self.module.types, function.ty(data.args[0]));
        let mut all = vec![zero; WAVE_LANES as usize];
        let mut mask = 0u64;
        for (lane, value) in lanes {
            all[*lane as usize] = value.clone();
            mask |= 1 << lane;
        }
        let results = vec![Value::array(all), Value::Scalar(L::from_bits(mask))];
        self.bind_results(function, inst, results);
    }

    // ---- regions

    fn enter(&mut self, func: Func, args: Vec<Value<L>>) -> Result<(), String> {
        let function = &self.module.funcs[func];
        if !function.has_body() {
            return Err(format!("the function '{}' has no body", function.name));
        }
        if self.frames.len() >= self.limits.depth && self.is_too_deep(func) {
            self.span = function.span;
            return Err(depth_message(self.limits.depth));
        }
        let mut names = Vec::new();
        names.resize_with(function.values.len(), || Bound::Nothing);
        self.check_memory()?;
        self.frames.push(Frame { func, names, held: 0 });
        self.begin(function, function.body(), args, Kind::Body);
        Ok(())
    }

    /// Counts a call, and returns true if it exceeds the limit.
    fn is_too_deep(&mut self, func: Func) -> bool {
        let deep = self.deep.get_or_insert_with(|| {
            let mut cycles = Cycles::default();
            let count = self.frames.iter().filter(|f| cycles.is_recursive(self.module, f.func)).count();
            Deep { cycles, count }
        });
        let counts = deep.cycles.is_recursive(self.module, func);
        deep.count += usize::from(counts);
        counts && deep.count > self.limits.depth
    }

    fn begin(&mut self, function: &Function, region: Region, args: Vec<Value<L>>, kind: Kind<L>) {
        for (&param, arg) in function.regions[region].params.iter().zip(args) {
            self.bind(param, Bound::Value(arg));
        }
        self.regions.push(Activation { region, pc: 0, kind });
    }

    /// Ends the innermost region; returns the function's results if it was the last region.
    fn leave(&mut self, function: &Function) -> Result<Option<Vec<Value<L>>>, String> {
        let active = self.regions.pop().expect("a region is active");
        let mut results = Vec::new();
        for &v in &function.regions[active.region].results {
            results.push(self.value(v)?.clone());
        }
        match active.kind {
            Kind::Body => {
                let ended = self.frames.pop().expect("a body has a frame");
                // Both are estimates, which saturate.
                self.held = self.held.saturating_sub(ended.held);
                if self.frames.len() < self.limits.depth {
                    self.deep = None;
                } else if let Some(deep) = &mut self.deep {
                    deep.count -= usize::from(deep.cycles.is_recursive(self.module, ended.func));
                }
                for (result, slot) in results.iter_mut().zip(&self.module.funcs[ended.func].results) {
                    if !self.frames.is_empty() {
                        self.pass(result, slot);
                    }
                }
                let Some(caller) = self.frames.last() else { return Ok(Some(results)) };
                let function = &self.module.funcs[caller.func];
                let active = self.regions.last().expect("a caller has a region");
                let inst = function.regions[active.region].insts[active.pc - 1];
                self.bind_results(function, inst, results);
            }
            Kind::Arm(inst) => self.bind_results(function, inst, results),
            Kind::For { inst, trip, n, mut stacks } => {
                self.push_stacked(function, inst, &mut stacks, &mut results)?;
                self.next_trip(function, inst, trip + 1, n, results, stacks);
            }
            Kind::Loop { inst, trip, mut stacks } => {
                let again = results.remove(0).lane().decided()? != 0;
                self.push_stacked(function, inst, &mut stacks, &mut results)?;
                if !again {
                    results.extend(stacks.into_iter().map(Value::stack));
                    self.bind_results(function, inst, results);
                    return Ok(None);
                }
                self.check_bound(function, inst, trip)?;
                let region = function.insts[inst].regions[0];
                self.begin(function, region, results, Kind::Loop { inst, trip: trip + 1, stacks });
            }
        }
        Ok(None)
    }

    /// Starts trip number `trip` of a `for`, or ends the loop.
    fn next_trip(
        &mut self,
        function: &Function,
        inst: Inst,
        trip: u64,
        n: u64,
        mut carried: Vec<Value<L>>,
        stacks: Vec<Vec<Value<L>>>,
    ) {
        if trip >= n {
            carried.extend(stacks.into_iter().map(Value::stack));
            self.bind_results(function, inst, carried);
            return;
        }
        let region = function.insts[inst].regions[0];
        let is_down = matches!(function.insts[inst].op, Op::For(info) if info.down);
        let counter = if is_down { n - 1 - trip } else { trip };
        carried.insert(0, Value::Scalar(L::from_bits(counter)));
        self.begin(function, region, carried, Kind::For { inst, trip, n, stacks });
    }

    /// Returns an error if a loop that yields stacks exceeds its bound: a `for` that is about to start
    /// another trip after `trip` trips, or a `loop` whose trip number `trip` yielded `again`. (The last trip
    /// of a `loop` does not count: for a `while` in the source it is only the test that failed.)
    fn check_bound(&mut self, function: &Function, inst: Inst, trip: u64) -> Result<(), String> {
        let data = &function.insts[inst];
        let (info, n_carried) = match &data.op {
            Op::For(info) => (info, data.args.len() - 1),
            Op::Loop(info) => (info, data.args.len()),
            _ => return Ok(()),
        };
        match info.max_iters {
            Some(bound) if data.results.len() > n_carried && trip >= bound as u64 => {
                self.span = data.span;
                Err(max_iters_message(bound))
            }
            _ => Ok(()),
        }
    }

    /// A copy of a value through which no derivative flows.
    fn cut(&self, value: &Value<L>) -> Value<L> {
        value.map(&mut |lane| lane.detached(lane.cut_at(&|| self.user_span())))
    }

    /// Cuts the derivative of a value that enters or leaves a call through a slot that is not `diff`.
    fn pass(&self, value: &mut Value<L>, slot: &Slot) {
        if !slot.diff && !slot.linear {
            *value = self.cut(value);
        }
    }

    /// The user's line that the machine executes; for code of the library, the line that calls it.
    fn user_span(&self) -> Span {
        let mut frames = self.frames.iter().rev();
        let mut function = frames.next().map(|f| &self.module.funcs[f.func]);
        let mut at = self.regions.iter().rev().peekable();
        while let (Some(f), Some(active)) = (function, at.next()) {
            let insts = &f.regions[active.region].insts;
            if let Some(&inst) = active.pc.checked_sub(1).and_then(|pc| insts.get(pc))
                && !self.module.is_library(f.insts[inst].span)
                && f.insts[inst].span != Span::NONE
            {
                return f.insts[inst].span;
            }
            if matches!(active.kind, Kind::Body) {
                function = frames.next().map(|f| &self.module.funcs[f.func]);
            }
        }
        self.span
    }

    /// Moves the stacked values from the end of a trip's results to the stacks.
    fn push_stacked(
        &mut self,
        function: &Function,
        inst: Inst,
        stacks: &mut [Vec<Value<L>>],
        results: &mut Vec<Value<L>>,
    ) -> Result<(), String> {
        let stacked = results.split_off(results.len() - stacks.len());
        let looks = stacks.first().is_some_and(|s| s.len() >= 1 << 10 && s.len().is_power_of_two());
        let mut held = 0;
        for (stack, value) in stacks.iter_mut().zip(stacked) {
            if looks {
                let each = size_of::<Value<L>>() + value.lanes().len() * size_of::<L>();
                held += (stack.len() as u64).saturating_mul(each as u64);
            }
            stack.push(value);
        }
        // A vector doubles its capacity when it grows, so compare with half the limit.
        if held > self.limits.memory / 2 {
            self.span = function.insts[inst].span;
            return Err(memory_message(self.limits.memory));
        }
        Ok(())
    }

    // ---- names

    fn bind(&mut self, name: Name, bound: Bound<L>) {
        let frame = self.frames.last_mut().expect("a frame is active");
        let new = held::bound_bytes(&bound);
        let old = held::bound_bytes(&std::mem::replace(&mut frame.names[name.index()], bound));
        frame.held = frame.held.saturating_add(new).saturating_sub(old);
        self.held = self.held.saturating_add(new).saturating_sub(old);
    }

    fn bind_results(&mut self, function: &Function, inst: Inst, results: Vec<Value<L>>) {
        for (&name, value) in function.insts[inst].results.iter().zip(results) {
            self.bind(name, Bound::Value(value));
        }
    }

    fn bound(&self, name: Name) -> &Bound<L> {
        &self.frames.last().expect("a frame is active").names[name.index()]
    }

    fn value(&self, name: Name) -> Result<&Value<L>, String> {
        match self.bound(name) {
            Bound::Value(value) => Ok(value),
            Bound::Nothing | Bound::Cell(_) | Bound::SubCell(..) => Err(format!("{name} has no value")),
        }
    }
}
