//! Compiles emitted functions to machine code, on all cores.
//!
//! Functions are compiled in batches, each function by whichever core is free, and defined in the order in
//! which they were emitted, so the code does not depend on the number of cores.
//!
//! The optimiser of `opt` has run already; Cranelift's is disabled where its placement of instructions is
//! harmful.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{Block, Function as ClifFunction};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, CompiledCode, Context};
use cranelift_entity::SecondaryMap;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module as _, ModuleError, ModuleReloc};
use ir::Func;
use native::Options;
use native::profile::{Line, Lines, Profile, Spills};

use crate::{locate, moves};

/// A map in the order of insertion.
type FxIndexMap<K, V> = indexmap::IndexMap<K, V, rustc_hash::FxBuildHasher>;

/// The number of instructions in a batch: enough to keep cores busy, few enough that memory use stays small.
const BATCH: usize = 50_000;
/// The number of instructions for which an additional thread is worth its cost.
const WORTH_A_THREAD: usize = 2_000;
/// The number of joins up to which Cranelift's optimiser is always used.
const FEW_JOINS: usize = 4;
/// Beyond `FEW_JOINS`, the number of instructions that Cranelift's optimiser may be expected to add at most.
const GROWTH: usize = 16_000;
/// Functions of more instructions get their registers allocated in a single pass, spills included: anything
/// else takes minutes.
const HUGE: usize = 50_000;
/// The same limit for functions of long blocks, which applies inside the loop over threads, too. Most of the
/// values of so many instructions are in the frame anyway, so the code runs as fast, and the time that the other allocator
/// takes grows with their square: it is half of all at this length.
const HUGE_AND_STRAIGHT: usize = 3_000;
/// The average number of instructions in a block from which a function counts as one of long blocks.
const LONG_BLOCK: usize = 1_000;
/// The stack size of a worker in bytes; only the part in use becomes memory.
const STACK: usize = 256 << 20;

/// How Cranelift compiles a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With Cranelift's optimiser.
    Optimised,
    /// Without the optimiser.
    Direct,
    /// Without the optimiser, and with registers allocated in a single pass.
    OnePass,
}

/// The threads that a function runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// One at a time.
    One,
    /// As many as there are lanes.
    Lanes,
}

/// A function to be compiled.
pub(crate) struct Job {
    pub(crate) id: FuncId,
    /// The number of slots of the frame that are memory of the function; those after them hold values that are spilled.
    slots: usize,
    /// The IR function that it was emitted from.
    pub(crate) func: Func,
    pub(crate) runs: Runs,
    clif: Context,
    way: Way,
    code: Option<Result<CompiledCode, CodegenError>>,
}

/// The queue of functions that are emitted but not yet compiled.
pub(crate) struct Queue {
    isa: OwnedTargetIsa,
    /// The same machine with the settings for the other two ways; made on first use.
    direct: Option<OwnedTargetIsa>,
    one_pass: Option<OwnedTargetIsa>,
    jobs: Vec<Job>,
    insts: usize,
    free: Vec<Context>,
    /// The code is for a profile.
    located: bool,
}

impl Queue {
    /// An empty queue for this machine.
    pub(crate) fn new(options: &Options) -> Result<Queue, String> {
        let isa = if options.fast_compile {
            this_machine("none", SINGLE_PASS)
        } else {
            this_machine("speed", BACKTRACKING)
        }?;
        let located = options.profile != Profile::Off;
        Ok(Queue { isa, direct: None, one_pass: None, jobs: Vec::new(), insts: 0, free: Vec::new(), located })
    }

    /// The target machine.
    pub(crate) fn isa(&self) -> OwnedTargetIsa {
        self.isa.clone()
    }

    /// Takes the emitted function and leaves an empty context; returns true if it is time to compile.
    pub(crate) fn push(
        &mut self,
        (id, slots): (FuncId, usize),
        (func, runs): (Func, Runs),
        clif: &mut Context,
    ) -> bool {
        let empty = self.free.pop().unwrap_or_else(Context::new);
        let clif = std::mem::replace(clif, empty);
        self.insts += clif.func.dfg.num_insts();
        let way = way_for(&clif.func);
        self.jobs.push(Job { id, slots, func, runs, clif, way, code: None });
        self.insts >= BATCH
    }

    /// Keeps the memory of a finished job for reuse.
    pub(crate) fn reuse(&mut self, mut job: Job) {
        job.clif.clear();
        self.free.push(job.clif);
    }

    /// Compiles all jobs in the queue.
    pub(crate) fn compile(&mut self) -> Vec<Job> {
        let jobs = std::mem::take(&mut self.jobs);
        let insts = std::mem::take(&mut self.insts);
        if self.direct.is_none() && jobs.iter().any(|job| job.way == Way::Direct) {
            self.direct = this_machine("none", BACKTRACKING).ok();
        }
        if self.one_pass.is_none() && jobs.iter().any(|job| job.way == Way::OnePass) {
            self.one_pass = this_machine("none", SINGLE_PASS).ok();
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = cores.min(jobs.len()).min(insts / WORTH_A_THREAD);
        let jobs: Vec<Mutex<Job>> = jobs.into_iter().map(Mutex::new).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut job = job.lock().unwrap_or_else(|e| e.into_inner());
                self.compile_one(&mut job);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..workers {
                // If no more threads can be spawned, this one does all the work.
                let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            }
            work();
        });
        jobs.into_iter().map(|job| job.into_inner().unwrap_or_else(|e| e.into_inner())).collect()
    }

    fn compile_one(&self, job: &mut Job) {
        let isa = match job.way {
            Way::Optimised => &self.isa,
            Way::Direct => self.direct.as_ref().unwrap_or(&self.isa),
            Way::OnePass => self.one_pass.as_ref().unwrap_or(&self.isa),
        };
        job.code = Some(match self.located {
            true => locate::compile(&mut job.clif, &**isa),
            false => match job.clif.compile(&**isa, &mut ControlPlane::default()) {
                Ok(_) => Ok(job.clif.take_compiled_code().expect("compiled without an error")),
                Err(error) => Err(error.inner),
            },
        });
    }
}

impl Job {
    /// Defines the function in `jit`; returns the size of its frame in bytes.
    pub(crate) fn define(&mut self, jit: &mut JITModule) -> Result<u32, Box<ModuleError>> {
        if let Some(Err(error)) = self.code.take_if(|code| code.is_err()) {
            return Err(Box::new(ModuleError::Compilation(error)));
        }
        let code = self.code().expect("compiled without an error");
        let func = &self.clif.func;
        let relocs: Vec<ModuleReloc> =
            code.buffer.relocs().iter().map(|r| ModuleReloc::from_mach_reloc(r, func, self.id)).collect();
        jit.define_function_bytes(self.id, code.buffer.alignment.into(), code.code_buffer(), &relocs)?;
        Ok(code.buffer.frame_layout().map_or(0, |layout| layout.frame_to_fp_offset))
    }
}

impl Job {
    /// The machine code.
    fn code(&self) -> Option<&CompiledCode> {
        self.code.as_ref()?.as_ref().ok()
    }

    /// The pieces of the function, by their offsets. An instruction without a location, such as a move that the
    /// register allocator has inserted, belongs to the one before it.
    pub(crate) fn pieces(&self) -> Vec<Line> {
        let Some(code) = self.code() else { return Vec::new() };
        let all = code.buffer.get_srclocs_sorted();
        let known = all.iter().filter(|piece| !piece.loc.is_default());
        let starts = known.map(|piece| (u64::from(piece.start), Some(piece.loc.bits())));
        let mut starts: Vec<(u64, Option<u32>)> = std::iter::once((0, None)).chain(starts).collect();
        starts.push((code.code_buffer().len() as u64, None));
        let piece =
            |pair: &[(u64, Option<u32>)]| Line { start: pair[0].0, end: pair[1].0, location: pair[0].1 };
        starts.windows(2).map(piece).collect()
    }

    /// The spills of the function, by location: accesses to the part of the frame that is above the function's own
    /// memory.
    pub(crate) fn spills(&self) -> Vec<Spills> {
        let Some(code) = self.code() else { return Vec::new() };
        let Some(layout) = code.buffer.frame_layout() else { return Vec::new() };
        let own = self.clif.func.sized_stack_slots.iter().take(self.slots);
        let from = own.map(|(slot, data)| layout.stackslots[slot].offset + data.size).max().unwrap_or(0);
        let lines = Lines::new(self.pieces(), None);
        let mut all: FxIndexMap<u32, Spills> = FxIndexMap::default();
        for at in moves::find(code.code_buffer(), &(from..layout.frame_to_fp_offset)) {
            let Some(location) = lines.find(at.into()).and_then(|piece| piece.location) else { continue };
            all.entry(location).or_insert(Spills { location, ..Spills::default() }).moves += 1;
        }
        all.into_values().collect()
    }
}

/// The algorithms of register allocation: the fast one, and that of fast code.
const SINGLE_PASS: &str = "single_pass";
const BACKTRACKING: &str = "backtracking";

/// This machine, with the given settings.
fn this_machine(opt_level: &str, regalloc_algorithm: &str) -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) { "true" } else { "false" };
    for (name, value) in [
        ("opt_level", opt_level),
        ("regalloc_algorithm", regalloc_algorithm),
        ("enable_verifier", verify),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("unwind_info", "false"),
        ("enable_llvm_abi_extensions", "true"),
    ] {
        flags.set(name, value).map_err(|e| e.to_string())?;
    }
    cranelift_native::builder()?.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())
}

/// Chooses how a function is compiled.
///
/// Cranelift's optimiser takes pure instructions out of their blocks and places each where it is first
/// needed. An instruction that is needed in both arms of an `if` and after it is then computed three times,
/// with everything that it depends on, so the code grows with the product of joins and instructions.
fn way_for(func: &ClifFunction) -> Way {
    let insts = func.dfg.num_insts();
    let joins = joins(func);
    let is_straight = insts > LONG_BLOCK * func.layout.blocks().count();
    if insts > if is_straight { HUGE_AND_STRAIGHT } else { HUGE } {
        Way::OnePass
    } else if joins > FEW_JOINS && joins * insts > GROWTH {
        Way::Direct
    } else {
        Way::Optimised
    }
}

/// The number of blocks with several predecessors before them in the layout: the ends of `if` and `switch`.
fn joins(func: &ClifFunction) -> usize {
    let mut forward: SecondaryMap<Block, u32> = SecondaryMap::new();
    let mut seen: SecondaryMap<Block, bool> = SecondaryMap::new();
    let mut joins = 0;
    for block in func.layout.blocks() {
        seen[block] = true;
        let Some(last) = func.layout.last_inst(block) else { continue };
        let tables = &func.dfg.jump_tables;
        for call in func.dfg.insts[last].branch_destination(tables, &func.dfg.exception_tables) {
            let target = call.block(&func.dfg.value_lists);
            if !seen[target] {
                forward[target] += 1;
                joins += usize::from(forward[target] == 2);
            }
        }
    }
    joins
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::{InstBuilder, types};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    /// A function of `blocks` consecutive blocks of `insts` instructions each.
    fn function(blocks: usize, insts: usize) -> ClifFunction {
        let mut func = ClifFunction::new();
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        for k in 0..blocks {
            let block = b.create_block();
            if k > 0 {
                b.ins().jump(block, &[]);
            }
            b.switch_to_block(block);
            for n in 0..insts {
                b.ins().iconst(types::I64, n as i64);
            }
        }
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(this_machine("none", BACKTRACKING).expect("it is known").frontend_config());
        func
    }

    #[test]
    fn functions_of_long_blocks_are_allocated_in_one_pass() {
        assert!(way_for(&function(1, 1_000)) == Way::Optimised);
        assert!(way_for(&function(4, 5_000)) == Way::OnePass);
        assert!(way_for(&function(200, 100)) == Way::Optimised);
        assert!(way_for(&function(600, 100)) == Way::OnePass);
    }
}
