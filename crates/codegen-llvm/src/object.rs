//! LLVM's text to object files, by LLVM's optimiser and code generator.
//!
//! A large text becomes several object files, made side by side and with fewer passes, since LLVM's time grows faster
//! than a module: see `split`. What the files are does not depend on how many cores there are.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ir::Span;
use native::{Options, Unsupported};

use crate::apart::apart;
use crate::api::{Api, Ref, api, c_text};
use crate::{Machine, NAME, pieces, split};

/// How long the parts of compiling took, over all threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Opening LLVM's library; nothing if it was open.
    pub open: Duration,
    /// Reading the text.
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

/// Whether code is for this process or for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// One ELF file on every system: our own linker reads it.
    Memory,
    /// What the system's linker reads.
    File,
    /// Text for NVIDIA's devices.
    Device,
}

/// LLVM's numbers: position-independent code, the code model that suits, an object file, no output on errors.
const PIC: i32 = 2;
const MODEL_DEFAULT: i32 = 0;
const OBJECT: i32 = 1;
const ASSEMBLY: i32 = 0;
const RELOCATION_DEFAULT: i32 = 0;
const QUIET: i32 = 2;

/// What LLVM owns, given back at the end.
struct Owned<'a> {
    api: &'a Api,
    it: Ref,
    dispose: unsafe extern "C" fn(Ref),
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let _ = self.api;
        // SAFETY: made by the function that belongs to this one, and disposed of once; in the reverse order of how
        // they were made, as locals are.
        unsafe { (self.dispose)(self.it) };
    }
}

/// How much LLVM does for a text.
#[derive(Clone, Copy)]
struct Effort {
    passes: &'static std::ffi::CStr,
    /// LLVM's level of code generation.
    level: i32,
    /// See [`hurry`].
    hurries: bool,
}

/// The effort for a text of so many bytes.
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
        // Each pass once, and none that makes code larger, nor one that asks of each access which of many before it
        // overlap: pieces store hundreds of values in their frame.
        c"always-inline,function<eager-inv>(sroa,early-cse<memssa>,simplifycfg,\
          instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),gvn<no-memdep>,simplifycfg,\
          instcombine<no-verify-fixpoint>),globaldce"
    } else if purpose == For::Memory {
        // LLVM's own second level repeats passes, and has some that find nothing in what our optimiser has worked on: it
        // takes nearly twice as long, and code is not faster for it. `reassociate` is not here: it makes the lanes of a
        // short vector differ, which the SLP vectoriser then shuffles.
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

/// More text than this gets fewer passes.
const MUCH: usize = 1 << 20;

type Made = Result<Vec<u8>, String>;

/// The object files of a text, to be linked together.
pub(crate) fn objects(
    text: &str,
    machine: &Machine,
    options: &Options,
) -> Result<(Vec<Vec<u8>>, Times), String> {
    let effort = effort(text.len(), options, For::Memory);
    let parts = split::parts(text);
    if let [only] = &parts[..] {
        let (object, times) = object(only, machine, effort, For::Memory)?;
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
            let made = object(part, machine, effort, For::Memory);
            let made = made.map(|(object, times)| {
                all.lock().unwrap_or_else(|e| e.into_inner()).add(times);
                object
            });
            found.lock().unwrap_or_else(|e| e.into_inner())[k] = Some(made);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores.min(parts.len()) {
            // Without a further thread this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
    });
    work();
    let found = found.into_inner().unwrap_or_else(|e| e.into_inner());
    let times = all.into_inner().unwrap_or_else(|e| e.into_inner());
    let objects: Result<Vec<Vec<u8>>, String> = found.into_iter().flatten().collect();
    Ok((objects?, times))
}

/// LLVM's refusal of what we wrote for it.
pub(crate) fn failed(why: String) -> Unsupported {
    Unsupported { backend: NAME, op: format!("the module: {why}"), span: Span::NONE, internal: true }
}

/// One object file of the whole text, for the system's linker.
pub(crate) fn file(text: &str, machine: &Machine, options: &Options) -> Result<Vec<u8>, String> {
    let effort = effort(text.len(), options, For::File);
    object(text, machine, effort, For::File).map(|(object, _)| object)
}

/// PTX of the whole text, for a device that is named as LLVM names it.
pub(crate) fn assembly(text: &str, device: &Machine, options: &Options) -> Result<Vec<u8>, String> {
    object(text, device, effort(text.len(), options, For::Device), For::Device).map(|(text, _)| text)
}

/// LLVM's index of a function's own attributes.
const FUNCTION: u32 = u32::MAX;

/// Has the code generator take the straight pieces of a module as they are: one instruction after the other, without
/// its own optimiser and scheduler, which look at each pair of accesses and take most of the time. Registers are dealt
/// out with the same care.
///
/// # Safety
///
/// The module belongs to the context.
unsafe fn hurry(api: &Api, context: Ref, module: Ref) {
    // SAFETY: the functions of a module live as long as it does; texts are given with their lengths.
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

/// Keeps the first error that LLVM tells of in a context. Without a handler it would end the process at once; so it goes
/// on, to no purpose.
///
/// # Safety
///
/// `first` is a `RefCell<Option<String>>`.
unsafe extern "C" fn keep_error(message: Ref, first: *mut c_void) {
    const ERROR: c_int = 0;
    // SAFETY: it is called with a message and what the context was given, on the thread of the context's work, which
    // had to open the library.
    let (first, api) = unsafe { (&*first.cast::<RefCell<Option<String>>>(), api()) };
    // SAFETY: a message has both; the text is ours to dispose of.
    if let Ok(api) = api
        && unsafe { (api.message_severity)(message) } == ERROR
    {
        let text = api.text(unsafe { (api.message_text)(message) });
        first.borrow_mut().get_or_insert(text);
    }
}

/// An object file of the text.
fn object(text: &str, machine: &Machine, effort: Effort, purpose: For) -> Result<(Vec<u8>, Times), String> {
    let (text, machine) = (text.to_string(), machine.clone());
    apart(move || object_here(&text, &machine, effort, purpose))
}

/// The same, on this thread.
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
    // SAFETY: each function is called with what the ones before it made, all of which lives until the end of this
    // one; texts are terminated; the parser takes the buffer over. What it makes belongs to the context.
    unsafe {
        let triple = match purpose {
            For::File => api.text((api.default_triple)()),
            For::Device => "nvptx64-nvidia-cuda".to_string(),
            For::Memory => format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
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
        // LLVM 19 turns a masked comparison of halves around when it folds an operand from the stack, and keeps the
        // comparison's sense: `a <= b` becomes `b <= a`. We compute with halves in single precision and lose nothing.
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
        let kind = if purpose == For::Device { ASSEMBLY } else { OBJECT };
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

    /// An instruction that only devices have: the code generator would end the process.
    const IMPOSSIBLE: &str = "\
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define i32 @impossible() {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %x
}
";
    /// An error of the context's, after which LLVM goes on.
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
