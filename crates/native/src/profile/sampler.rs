//! Samples the program counter of the threads that run compiled code.
//!
//! A timer of the system interrupts a thread every so often, and a signal handler records where the thread is:
//! the program counter, and, for code that was called (a function of the runtime or of the library), the places in
//! compiled code that it will return to. Each sample weighs the processor time that the thread took since its last
//! one, so the weights add up to the time of the thread, even if the system was busy with other work or a signal
//! came late.
//!
//! The handler only reads registers, the clock, and the part of the stack that is in use, and writes to memory that
//! was allocated before: all of this is safe in a signal handler. Return addresses are found by looking through the
//! stack for words that point behind a call in compiled code, since neither the code nor the runtime keeps frame
//! pointers. A word that an earlier call left in the frame of a later one may be taken for a return address; it
//! then names a place that the program has just been at.

use std::time::Duration;

use super::Lines;

/// The number of callers that are recorded.
pub const CALLERS: usize = 4;

/// Where a thread was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The program counter.
    pub at: u64,
    /// The addresses of the calls in compiled code that the thread had not returned from, innermost first; 0 where
    /// there are no more.
    pub callers: [u64; CALLERS],
    /// The processor time in nanoseconds that the thread took since its last sample.
    pub weight: u64,
}

/// Samples until [`Sampler::stop`] is called. There is one sampler at a time in a process.
pub struct Sampler(system::Running);

impl Sampler {
    /// Begins to sample this thread, and the others that run compiled code; at most `most` samples are kept.
    pub fn start(code: &Lines, period: Duration, most: usize) -> Result<Sampler, String> {
        system::Running::start(code.ranges(), period, most).map(Sampler)
    }

    /// Ends sampling.
    pub fn stop(self) -> Vec<Sample> {
        self.0.stop()
    }
}

pub use system::{aside, processor_time};
pub(crate) use system::{on_stack, sample_this_thread};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system {
    use std::cell::{Cell, UnsafeCell};
    use std::mem::MaybeUninit;
    use std::ops::Range;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
    use std::sync::{Mutex, MutexGuard};
    use std::time::Duration;

    use super::{CALLERS, Sample};

    /// The number of words of the stack that are looked through.
    const DEPTH: usize = 4096;

    /// The memory that handlers write to.
    struct Record {
        code: Vec<Range<u64>>,
        samples: Box<[UnsafeCell<Sample>]>,
        next: AtomicUsize,
    }

    /// The record of the sampler that runs.
    static RECORD: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());
    /// The handlers that are running.
    static BUSY: AtomicUsize = AtomicUsize::new(0);
    /// The time between two samples of a thread, in nanoseconds.
    static PERIOD: AtomicU64 = AtomicU64::new(0);
    /// Held by the sampler that runs.
    static ONE: Mutex<()> = Mutex::new(());
    /// The timers of the threads that the sampler samples.
    static TIMERS: Mutex<Vec<Timer>> = Mutex::new(Vec::new());
    /// The number of samplers so far, by which threads know that theirs has ended.
    static GENERATION: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// The stack of compiled code that this thread continues on: its lowest address and its end.
        static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
        /// This thread does work that no sample is taken of.
        static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
        /// The processor time of the last sample, in nanoseconds.
        static LAST: Cell<u64> = const { Cell::new(0) };
        /// The sampler that this thread has a timer of.
        static SAMPLED: Cell<u64> = const { Cell::new(0) };
    }

    /// The processor time of this process, in nanoseconds.
    pub fn processor_time() -> u64 {
        time(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// The processor time of this thread, in nanoseconds.
    fn now() -> u64 {
        time(libc::CLOCK_THREAD_CPUTIME_ID)
    }

    fn time(clock: libc::clockid_t) -> u64 {
        let mut time = MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: the clock writes the time to the memory; calling it is safe in a signal handler.
        let time = unsafe {
            libc::clock_gettime(clock, time.as_mut_ptr());
            time.assume_init()
        };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Does work on this thread that is no part of what is sampled: it gets no samples, and its time is not counted.
    /// Returns this time, the processor time in nanoseconds.
    pub fn aside(work: impl FnOnce()) -> u64 {
        IS_ASIDE.set(true);
        let begin = now();
        work();
        let time = now().saturating_sub(begin);
        // The next sample weighs what came before this work and what comes after it.
        LAST.set(LAST.get() + time);
        IS_ASIDE.set(false);
        time
    }

    /// The program counter and the stack pointer of an interrupted thread.
    unsafe fn registers(context: *const libc::ucontext_t) -> (u64, u64) {
        // SAFETY: the system passes the context to the handler.
        let machine = unsafe { &(*context).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        let of = (machine.gregs[libc::REG_RIP as usize] as u64, machine.gregs[libc::REG_RSP as usize] as u64);
        #[cfg(target_arch = "aarch64")]
        let of = (machine.pc, machine.sp);
        of
    }

    /// The return address that a function without a frame has in a register.
    unsafe fn link(context: *const libc::ucontext_t) -> Option<u64> {
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the system passes the context to the handler.
        return Some(unsafe { (*context).uc_mcontext.regs[30] });
        #[cfg(not(target_arch = "aarch64"))]
        {
            let _ = context;
            None
        }
    }

    /// Returns true if the instruction before an address is a call.
    ///
    /// # Safety
    /// The 7 bytes before the address are readable.
    unsafe fn follows_call(address: u64) -> bool {
        // SAFETY: the caller says so.
        let byte = |back: u64| unsafe { ptr::read((address - back) as *const u8) };
        if cfg!(target_arch = "aarch64") {
            let word = u32::from_le_bytes([byte(4), byte(3), byte(2), byte(1)]);
            return word >> 26 == 0b10_0101 || word & 0xffff_fc1f == 0xd63f_0000;
        }
        // `call` of a distance; or of a register, or of memory by a register with no, a short or a long offset.
        byte(5) == 0xe8
            || [(2, 0), (3, 1), (6, 4), (7, 4)]
                .iter()
                .any(|&(back, _)| byte(back) == 0xff && byte(back - 1) & 0x38 == 0x10)
    }

    unsafe extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // In this order, the sampler does not miss a handler that has found its record.
        BUSY.fetch_add(1, Ordering::SeqCst);
        let record = RECORD.load(Ordering::SeqCst);
        if !record.is_null() {
            // SAFETY: the record is freed only once no handler is busy and none can find it; the context is that of
            // the signal.
            unsafe { (*record).take(context.cast()) };
        }
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }

    impl Record {
        /// Records a sample.
        ///
        /// # Safety
        /// The context is that of the thread that the signal has interrupted.
        unsafe fn take(&self, context: *const libc::ucontext_t) {
            if IS_ASIDE.get() {
                return;
            }
            let time = now();
            let weight = time.saturating_sub(LAST.replace(time));
            // SAFETY: the caller says so.
            let ((at, sp), link) = unsafe { (registers(context), link(context)) };
            let mut callers = [0; CALLERS];
            let mut n = 0;
            let mut consider = |word: u64| {
                let within = |code: &Range<u64>| word > code.start + 8 && word <= code.end;
                // SAFETY: the bytes before the address are in the code.
                if self.code.iter().any(within) && unsafe { follows_call(word) } {
                    callers[n] = word - 1;
                    n += 1;
                }
                n < CALLERS
            };
            let (lowest, end) = STACK.get();
            let (lowest, end) = (lowest as u64, end as u64);
            if (lowest..end).contains(&sp) && link.is_none_or(&mut consider) {
                let words = ((end - sp) / 8).min(DEPTH as u64);
                // SAFETY: the words from the stack pointer to the end of the stack are mapped.
                (0..words)
                    .map(|k| unsafe { ptr::read_volatile((sp as *const u64).add(k as usize)) })
                    .all(consider);
            }
            let k = self.next.fetch_add(1, Ordering::Relaxed);
            if let Some(sample) = self.samples.get(k) {
                // SAFETY: the number is this handler's alone.
                unsafe { *sample.get() = Sample { at, callers, weight } };
            }
            // The time of the handler is not the thread's.
            LAST.set(now());
        }
    }

    /// A timer that interrupts a thread.
    struct Timer(libc::timer_t);

    // SAFETY: a timer belongs to the process, and any thread may delete it.
    unsafe impl Send for Timer {}

    fn timers() -> MutexGuard<'static, Vec<Timer>> {
        TIMERS.lock().unwrap_or_else(|e| e.into_inner())
    }

    impl Timer {
        fn new(period: Duration) -> Result<Timer, String> {
            let failed = || format!("no timer for samples: {}", std::io::Error::last_os_error());
            LAST.set(now());
            // SAFETY: the structures are zeroed, then filled, and live during the calls.
            unsafe {
                let mut event: libc::sigevent = std::mem::zeroed();
                event.sigev_notify = libc::SIGEV_THREAD_ID;
                event.sigev_signo = libc::SIGPROF;
                event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
                let mut timer: libc::timer_t = std::mem::zeroed();
                if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
                    return Err(failed());
                }
                let timer = Timer(timer);
                let time = libc::timespec {
                    tv_sec: period.as_secs() as libc::time_t,
                    tv_nsec: libc::c_long::from(period.subsec_nanos() as i32),
                };
                let spec = libc::itimerspec { it_interval: time, it_value: time };
                if libc::timer_settime(timer.0, 0, &spec, ptr::null_mut()) != 0 {
                    return Err(failed());
                }
                Ok(timer)
            }
        }
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            // SAFETY: the timer was created, and is deleted once.
            unsafe { libc::timer_delete(self.0) };
        }
    }

    /// See [`super::Sampler`].
    pub(super) struct Running {
        record: Box<Record>,
        before: libc::sigaction,
        _one: MutexGuard<'static, ()>,
    }

    impl Running {
        pub(super) fn start(code: Vec<Range<u64>>, period: Duration, most: usize) -> Result<Running, String> {
            let one = ONE.lock().unwrap_or_else(|e| e.into_inner());
            let samples = (0..most).map(|_| UnsafeCell::new(Sample::default())).collect();
            let record = Box::new(Record { code, samples, next: AtomicUsize::new(0) });
            PERIOD.store(period.as_nanos() as u64, Ordering::Relaxed);
            // SAFETY: the structures are zeroed, then filled, and live during the call; the handler has the
            // signature of one with information.
            let before = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                let mut before: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(libc::SIGPROF, &action, &mut before) != 0 {
                    return Err(format!("no handler for samples: {}", std::io::Error::last_os_error()));
                }
                before
            };
            let generation = GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
            SAMPLED.set(generation);
            let running = Running { record, before, _one: one };
            RECORD.store(ptr::from_ref(&*running.record).cast_mut(), Ordering::SeqCst);
            timers().push(Timer::new(period)?);
            Ok(running)
        }

        pub(super) fn stop(mut self) -> Vec<Sample> {
            self.end();
            let n = self.record.next.load(Ordering::Acquire);
            self.record.samples.iter_mut().take(n).map(|sample| *sample.get_mut()).collect()
        }

        /// Waits until no handler uses the record.
        fn end(&mut self) {
            RECORD.store(ptr::null_mut(), Ordering::SeqCst);
            timers().clear();
            while BUSY.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.end();
            SAMPLED.set(0);
            // A signal that is still on its way must not end the process, as it does by default.
            if self.before.sa_sigaction != libc::SIG_DFL {
                // SAFETY: the action is the one that was set before.
                unsafe { libc::sigaction(libc::SIGPROF, &self.before, ptr::null_mut()) };
            }
        }
    }

    /// Samples this thread, too, until the sampler that runs ends; does nothing if none runs.
    pub(crate) fn sample_this_thread() {
        let generation = GENERATION.load(Ordering::Relaxed);
        if RECORD.load(Ordering::Relaxed).is_null() || SAMPLED.replace(generation) == generation {
            return;
        }
        // Without a timer, the time of this thread is missing from the profile, which says so by its sum.
        if let Ok(timer) = Timer::new(Duration::from_nanos(PERIOD.load(Ordering::Relaxed))) {
            timers().push(timer);
        }
    }

    /// Notes the stack that this thread continues on, until the guard is dropped.
    pub(crate) fn on_stack(stack: (usize, usize)) -> Option<OnStack> {
        (!RECORD.load(Ordering::Relaxed).is_null()).then(|| OnStack(STACK.replace(stack)))
    }

    /// See [`on_stack`].
    pub(crate) struct OnStack((usize, usize));

    impl Drop for OnStack {
        fn drop(&mut self) {
            STACK.set(self.0);
        }
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod system {
    use std::ops::Range;
    use std::time::Duration;

    use super::Sample;

    /// See [`super::Sampler`].
    pub(super) enum Running {}

    impl Running {
        pub(super) fn start(_: Vec<Range<u64>>, _: Duration, _: usize) -> Result<Running, String> {
            let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
            Err(format!(
                "a profile needs Linux on x86-64 or AArch64: its samples are taken by timers that interrupt one thread \
                 (`timer_create` with `SIGEV_THREAD_ID`), and there is no sampler for {system} on {processor}"
            ))
        }

        pub(super) fn stop(self) -> Vec<Sample> {
            match self {}
        }
    }

    /// The processor time of this process: unknown.
    pub fn processor_time() -> u64 {
        0
    }

    /// Does work that no sampler samples.
    pub fn aside(work: impl FnOnce()) -> u64 {
        work();
        0
    }

    pub(crate) fn sample_this_thread() {}

    pub(crate) fn on_stack(_: (usize, usize)) -> Option<()> {
        None
    }
}
