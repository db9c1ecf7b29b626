//! Compiles LLVM's textual IR to object files, with LLVM's optimiser and code generator.
//!
//! A large text becomes several object files, compiled in parallel and with fewer passes, since LLVM's time
//! grows faster than the size of a module: see `split`. The contents of the files do not depend on the number
//! of cores.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ir::Span;
use native::{Options, Unsupported};

use crate::apart::apart;
use crate::api::{Api, Ref, api, c_text};
use crate::unit::Unit;
use crate::{Machine, NAME, pieces, split};

/// The durations of the phases of compilation, summed over all threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Opening LLVM's library; zero if it was open.
    pub open: Duration,
    /// Parsing the text.
    pub parse: Duration,
    /// The optimiser.
    pub optimise: Duration,
    /// The code generator.
    pub generate: Duration,
}

impl Times {
    fn add(&mut self, other: Times) {
        self.open += other.open;
        self.parse += other.parse;
        self.optimise += other.optimise;
        self.generate += other.generate;
    }
}

/// The purpose of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// One ELF file on every system, for the linker of this crate.
    Memory,
    /// An object file for the system's linker.
    File,
    /// PTX for NVIDIA's devices.
    Device,
    /// The assembly of the code for `Memory`, with comments.
    Listing,
}

/// LLVM's enumerators: position-independent code, the default code model, the kinds of output, the default
/// relocation model, and no output on errors.
const PIC: i32 = 2;
const MODEL_DEFAULT: i32 = 0;
const OBJECT: i32 = 1;
const ASSEMBLY: i32 = 0;
const RELOCATION_DEFAULT: i32 = 0;
const QUIET: i32 = 2;

/// An object of LLVM's, disposed of when it is dropped.
struct Owned<'a> {
    api: &'a Api,
    it: Ref,
    dispose: unsafe extern "C" fn(Ref),
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let _ = self.api;
        // SAFETY: the object was made by the function that this one belongs to, and is disposed of only once;
        // locals are dropped in the reverse order in which they were made.
        unsafe { (self.dispose)(self.it) };
    }
}

/// The effort that LLVM makes for a text.
#[derive(Clone, Copy)]
struct Effort {
    passes: &'static std::ffi::CStr,
    /// LLVM's level of code generation.
    level: i32,
    /// Straight pieces are compiled fast: see [`hurry`].
    hurries: bool,
}

/// The effort for a text of `bytes` bytes.
fn effort(bytes: usize, options: &Options, purpose: For) -> Effort {
    let is_much = bytes > MUCH || options.fast_compile && purpose != For::Device;
    Effort {
        passes: passes(is_much, purpose),
        level: if options.fast_compile && purpose == For::Memory { 0 } else { 2 },
        // A file is compiled once and runs often.
        hurries: is_much && purpose == For::Memory,
    }
}

fn passes(is_much: bool, purpose: For) -> &'static std::ffi::CStr {
    if is_much {
        // Each pass runs once. There is no pass that makes code larger, nor one that compares each access
        // with many accesses before it: pieces store hundreds of values in their frame.
        c"always-inline,function<eager-inv>(sroa,early-cse<memssa>,simplifycfg,\
          instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),gvn<no-memdep>,simplifycfg,\
          instcombine<no-verify-fixpoint>),globaldce"
    } else if purpose == For::Memory {
        // LLVM's own `O2` repeats passes, and has some that find nothing in code that the `opt` crate has
        // optimised: it takes nearly twice as long, and the code is not faster for it. `reassociate` is left
        // out: it makes the lanes of a short vector differ, which the SLP vectoriser then shuffles.
        c"cgscc(inline<only-mandatory>,inline,function<eager-inv>(sroa,early-cse<memssa>,jump-threading,simplifycfg,\
          instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),simplifycfg,\
          loop(indvars,loop-idiom,loop-deletion,loop-unroll-full),sroa,gvn,instcombine<no-verify-fixpoint>,dse,\
          loop-mssa(licm),simplifycfg)),globaldce,\
          function<eager-inv>(loop-rotate,loop-vectorize,slp-vectorizer,vector-combine,\
          instcombine<no-verify-fixpoint>,loop-unroll,simplifycfg)"
    } else {
        c"default<O2>"
    }
}

/// The number of bytes beyond which a text gets fewer passes.
const MUCH: usize = 1 << 20;

type Made = Result<Vec<u8>, String>;

/// Compiles a module to object files that are to be linked together.
pub(crate) fn objects(
    unit: &Unit,
    machine: &Machine,
    options: &Options,
) -> Result<(Vec<Vec<u8>>, Times), String> {
    compile(unit, machine, options, For::Memory)
}

/// The listings of the code that [`objects`] compiles a module to.
pub(crate) fn listings(unit: &Unit, machine: &Machine, options: &Options) -> Result<Vec<String>, String> {
    let (texts, _) = compile(unit, machine, options, For::Listing)?;
    texts.into_iter().map(|text| String::from_utf8(text).map_err(|e| e.to_string())).collect()
}

fn compile(
    unit: &Unit,
    machine: &Machine,
    options: &Options,
    purpose: For,
) -> Result<(Vec<Vec<u8>>, Times), String> {
    let effort = effort(unit.len(), options, For::Memory);
    let parts = split::parts(unit);
    if let [only] = &parts[..] {
        let (object, times) = object(only, machine, effort, purpose)?;
        return Ok((vec![object], times));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Made>>> = Mutex::new(vec![None; parts.len()]);
    let all = Mutex::new(Times::default());
    let work = || {
        loop {
            let k = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(k) else { break };
            let made = object(part, machine, effort, purpose);
            let made = made.map(|(object, times)| {
                all.lock().unwrap_or_else(|e| e.into_inner()).add(times);
                object
            });
            found.lock().unwrap_or_else(|e| e.into_inner())[k] = Some(made);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores.min(parts.len()) {
            // If no more threads can be spawned, this one does all the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
    });
    work();
    let found = found.into_inner().unwrap_or_else(|e| e.into_inner());
    let times = all.into_inner().unwrap_or_else(|e| e.into_inner());
    let objects: Result<Vec<Vec<u8>>, String> = found.into_iter().flatten().collect();
    Ok((objects?, times))
}

/// The error for a text that LLVM rejects, which is a bug unless there is no LLVM.
pub(crate) fn failed(why: String) -> Unsupported {
    let internal = api().is_ok();
    Unsupported { backend: NAME, op: format!("the module: {why}"), span: Span::NONE, internal }
}

/// Compiles the whole text to one object file for the system's linker.
pub(crate) fn file(text: &str, machine: &Machine, options: &Options) -> Result<Vec<u8>, String> {
    let effort = effort(text.len(), options, For::File);
    object(text, machine, effort, For::File).map(|(object, _)| object)
}

/// Compiles the whole text to PTX, for a device given by LLVM's name for it.
pub(crate) fn assembly(text: &str, device: &Machine, options: &Options) -> Result<Vec<u8>, String> {
    object(text, device, effort(text.len(), options, For::Device), For::Device).map(|(text, _)| text)
}

/// LLVM's index of a function's own attributes.
const FUNCTION: u32 = u32::MAX;

/// Makes the code generator translate the straight-line pieces of a module as they are, one instruction after
/// the other, without its own optimiser and scheduler, which compare each pair of accesses and take most of
/// the time. Registers are allocated with the same care.
///
/// # Safety
///
/// The module belongs to the context.
unsafe fn hurry(api: &Api, context: Ref, module: Ref) {
    // SAFETY: the functions of a module live as long as the module, and strings are passed with their
    // lengths.
    unsafe {
        let kind = (api.attribute_kind)(c"optnone".as_ptr(), 7);
        let optnone = (api.attribute_create)(context, kind, 0);
        let mut function = (api.first_function)(module);
        while !function.is_null() {
            let name = pieces::STRAIGHT;
            let straight = (api.attribute_of)(function, FUNCTION, name.as_ptr().cast(), name.len() as u32);
            if !straight.is_null() {
                (api.attribute_add)(function, FUNCTION, optnone);
            }
            function = (api.next_function)(function);
        }
    }
}

/// Records the first error that LLVM reports in a context. Without this handler LLVM would end the process at
/// once; with it, LLVM continues, but its result is discarded.
///
/// # Safety
///
/// `first` points to a `RefCell<Option<String>>`.
unsafe extern "C" fn keep_error(message: Ref, first: *mut c_void) {
    const ERROR: c_int = 0;
    // SAFETY: LLVM calls the handler with a message and the pointer that was given to the context, on the
    // thread that uses the context and has opened the library.
    let (first, api) = unsafe { (&*first.cast::<RefCell<Option<String>>>(), api()) };
    // SAFETY: a message has a severity and a text, and the caller has to dispose of the text.
    if let Ok(api) = api
        && unsafe { (api.message_severity)(message) } == ERROR
    {
        let text = api.text(unsafe { (api.message_text)(message) });
        first.borrow_mut().get_or_insert(text);
    }
}

/// Compiles the text to one object file, on a thread of its own.
fn object(text: &str, machine: &Machine, effort: Effort, purpose: For) -> Result<(Vec<u8>, Times), String> {
    let (text, machine) = (text.to_string(), machine.clone());
    apart(move || object_here(&text, &machine, effort, purpose))
}

/// Compiles the text to one object file, on this thread.
fn object_here(
    text: &str,
    machine: &Machine,
    effort: Effort,
    purpose: For,
) -> Result<(Vec<u8>, Times), String> {
    let mut times = Times::default();
    let mut clock = Instant::now();
    let mut lap = |time: &mut Duration| {
        *time = clock.elapsed();
        clock = Instant::now();
    };
    let api = api()?;
    let arch = match purpose {
        For::Device => "NVPTX",
        _ if cfg!(target_arch = "aarch64") => "AArch64",
        _ => "X86",
    };
    let known = api.initialize(arch)?;
    lap(&mut times.open);
    let name = c"pullback";
    let mut message = std::ptr::null_mut();
    // SAFETY: each function is called with objects that earlier calls made, which all live until the end of
    // this function. Strings are terminated, the parser takes ownership of the buffer, and the module that it
    // makes belongs to the context.
    unsafe {
        let triple = match purpose {
            For::File => api.text((api.default_triple)()),
            For::Device => "nvptx64-nvidia-cuda".to_string(),
            For::Memory | For::Listing => format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
        };
        let triple = c_text(&triple)?;
        let mut target = std::ptr::null_mut();
        if (api.target_of)(triple.as_ptr(), &mut target, &mut message) != 0 {
            return Err(api.text(message));
        }
        drop(known);
        let error = RefCell::new(None);
        let context = Owned { api, it: (api.context_create)(), dispose: api.context_dispose };
        (api.on_message)(context.it, keep_error, (&raw const error).cast_mut().cast());
        let buffer = (api.buffer_copy)(text.as_ptr().cast(), text.len(), name.as_ptr());
        let mut module = std::ptr::null_mut();
        if (api.parse_ir)(context.it, buffer, &mut module, &mut message) != 0 {
            return Err(api.text(message));
        }
        let module = Owned { api, it: module, dispose: api.module_dispose };
        let (cpu, mut features) = if machine.is_host() {
            (api.text((api.host_name)()), api.text((api.host_features)()))
        } else {
            (machine.cpu.clone(), machine.features.clone())
        };
        // LLVM 19 swaps the operands of a masked comparison of halves when it folds an operand from the
        // stack, but keeps the predicate: `a <= b` becomes `b <= a`. Halves are computed in single precision
        // anyway, so nothing is lost.
        if cfg!(target_arch = "x86_64") && purpose != For::Device {
            features += ",-avx512fp16";
        }
        if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) && purpose != For::Device {
            features += ",+reserve-x18";
        }
        let (cpu, features) = (c_text(&cpu)?, c_text(&features)?);
        let it = (api.machine_create)(
            target,
            triple.as_ptr(),
            cpu.as_ptr(),
            features.as_ptr(),
            effort.level,
            if purpose == For::Device { RELOCATION_DEFAULT } else { PIC },
            MODEL_DEFAULT,
        );
        if it.is_null() {
            return Err("LLVM has no such machine".into());
        }
        let machine = Owned { api, it, dispose: api.machine_dispose };
        (api.set_target)(module.it, triple.as_ptr());
        let layout = Owned { api, it: (api.machine_layout)(machine.it), dispose: api.layout_dispose };
        (api.set_layout)(module.it, layout.it);
        if cfg!(debug_assertions) && (api.verify)(module.it, QUIET, &mut message) != 0 {
            return Err(api.text(message));
        }
        lap(&mut times.parse);
        let pass_options = Owned { api, it: (api.pass_options)(), dispose: api.pass_options_dispose };
        api.check((api.run_passes)(module.it, effort.passes.as_ptr(), machine.it, pass_options.it))?;
        if effort.hurries {
            hurry(api, context.it, module.it);
        }
        lap(&mut times.optimise);
        let mut out = std::ptr::null_mut();
        let kind = match purpose {
            For::Device | For::Listing => ASSEMBLY,
            For::Memory | For::File => OBJECT,
        };
        (api.comments)(machine.it, c_int::from(purpose == For::Listing));
        if (api.emit)(machine.it, module.it, kind, &mut message, &mut out) != 0 {
            return Err(api.text(message));
        }
        let out = Owned { api, it: out, dispose: api.buffer_dispose };
        if let Some(why) = error.take() {
            return Err(why);
        }
        let bytes =
            std::slice::from_raw_parts((api.buffer_start)(out.it), (api.buffer_size)(out.it)).to_vec();
        lap(&mut times.generate);
        Ok((bytes, times))
    }
}

#[cfg(test)]
mod tests {
    use native::Options;

    use super::{For, assembly, effort, file, object};
    use crate::Machine;

    /// An instruction that only devices have, at which the code generator would end the process.
    const IMPOSSIBLE: &str = "\
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define i32 @impossible() {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %x
}
";
    /// An error reported in the context, after which LLVM continues.
    const NOWHERE: &str = "\
define i32 @nowhere() {
  %x = call i32 asm \"\", \"={nowhere}\"()
  ret i32 %x
}
";
    const SOUND: &str = "define i32 @sound(i32 %x) {\n  ret i32 %x\n}\n";

    fn machine() -> Machine {
        Machine { cpu: Machine::HOST.to_string(), ..Machine::generic() }
    }

    #[test]
    fn what_llvm_cannot_do_is_an_error_and_it_goes_on() {
        let (machine, options) = (machine(), Options::default());
        for text in [IMPOSSIBLE, NOWHERE, IMPOSSIBLE] {
            for purpose in [For::Memory, For::File] {
                let why = object(text, &machine, effort(text.len(), &options, purpose), purpose);
                let why = why.expect_err("no code");
                let wanted = if text == IMPOSSIBLE { "Cannot select" } else { "constraint" };
                assert!(why.contains(wanted), "{why}");
                assert!(file(SOUND, &machine, &options).is_ok_and(|object| !object.is_empty()));
            }
        }
        let device = Machine { cpu: "sm_70".to_string(), features: String::new(), ..machine };
        let text = assembly(IMPOSSIBLE, &device, &options).expect("a device's own instruction");
        assert!(!text.is_empty());
        assert!(
            assembly(&IMPOSSIBLE.replace("nvvm.read.ptx.sreg.tid.x", "x86.rdpid"), &device, &options)
                .is_err()
        );
    }

    #[test]
    fn errors_at_a_time_end_nothing_else() {
        std::thread::scope(|scope| {
            for k in 0..12 {
                scope.spawn(move || {
                    let options = Options::default();
                    match k % 3 {
                        0 => assert!(file(IMPOSSIBLE, &machine(), &options).is_err()),
                        1 => assert!(file(NOWHERE, &machine(), &options).is_err()),
                        _ => assert!(file(SOUND, &machine(), &options).is_ok()),
                    }
                });
            }
        });
    }
}
