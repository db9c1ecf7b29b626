//! The functions that compiled code calls, and their addresses and signatures.
//!
//! Every helper relies on the contract of compiled code: the context is the one that the code was entered
//! with, and pointers are what the emitter derived from the types. A helper that may stop the thread owns
//! nothing that would have to be dropped at that point.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use ir::{AtomicOp, Math, Op, Scalar, interp, scalar};

use super::stacks::read;
use super::{Address, Context, Exchange, Header, Signal, Site};
use crate::MOST_LANES;
use crate::types::Shape;

/// A parameter or result of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Word {
    I32,
    I64,
    F32,
    F64,
    Ptr,
}

use Word::{F32, F64, I32, I64, Ptr};

macro_rules! helpers {
    ($($variant:ident = $function:ident($($param:expr),*) $(-> $result:expr)?;)*) => {
        /// A helper that does not depend on a type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the functions below say what they do")]
        pub enum Helper {
            $($variant,)*
        }

        impl Helper {
            /// Every helper, in the order of the discriminants.
            pub const ALL: &[Helper] = &[$(Helper::$variant,)*];

            /// The symbol of the helper.
            pub fn name(self) -> &'static str {
                match self { $(Helper::$variant => concat!("rt_", stringify!($function)),)* }
            }

            /// The address of the helper.
            fn address(self) -> Address {
                match self { $(Helper::$variant => $function as *const () as Address,)* }
            }

            /// Returns true if the helper may allocate memory in the arena.
            pub fn allocates(self) -> bool {
                matches!(
                    self,
                    Helper::Alloc
                        | Helper::StackNew
                        | Helper::StackHeader
                        | Helper::StackRoom
                        | Helper::StackBundle
                        | Helper::CellGrow
                        | Helper::StackClone
                        | Helper::StackAdd
                )
            }

            /// The parameters and the result of the helper.
            pub fn signature(self) -> (&'static [Word], Option<Word>) {
                match self { $(Helper::$variant => (&[$($param),*], helpers!(@ $($result)?)),)* }
            }
        }
    };
    (@) => { None };
    (@ $result:expr) => { Some($result) };
}

helpers! {
    Alloc = alloc(Ptr, I64) -> Ptr;
    Release = release(Ptr, Ptr);
    StackNew = stack_new(Ptr, I64, I64) -> Ptr;
    StackHeader = stack_header(Ptr, Ptr, I64, I64) -> Ptr;
    StackRoom = stack_room(Ptr, Ptr, I64, I64, I64) -> Ptr;
    StackBundle = stack_bundle(Ptr, Ptr, I64, I64, I64) -> Ptr;
    CellGrow = cell_grow(Ptr, Ptr, I64, Ptr, Ptr);
    StackClone = stack_clone(Ptr, Ptr, Ptr, Ptr) -> Ptr;
    StackAdd = stack_add(Ptr, Ptr, Ptr, Ptr, Ptr);
    Fail = fail(Ptr, I32);
    Printf = printf(Ptr, I32, Ptr);
    NotFinite = not_finite(Ptr, I32, Ptr);
    Barrier = barrier(Ptr);
    Clock = clock(Ptr) -> I64;
    Wave = wave(Ptr, Ptr, I64, Ptr) -> I32;
    Multiply = multiply(Ptr, I64, Ptr);
    PathLen = path_len(Ptr) -> I64;
    PathSet = path_set(Ptr, I64, I64);
    PathNext = path_next(Ptr, I64);
    Atomic = atomic(Ptr, I32, I64, I64) -> I64;
    AddSingle = add_single(Ptr, F32) -> F32;
    AddDouble = add_double(Ptr, F64) -> F64;
    Gather = gather(Ptr, Ptr, I32, I64);
    Scatter = scatter(Ptr, Ptr, I32, I64);
    GatherElements = gather_elements(Ptr, Ptr, I32, I64, Ptr, I64, I64, I32);
    ScatterElements = scatter_elements(Ptr, Ptr, I32, I64, Ptr, I64, I64, I32);
    Copy = copy(Ptr, Ptr, I64);
    Clear = clear(Ptr, I64);
    HalfToSingle = half_to_single(I32) -> F32;
    SingleToHalf = single_to_half(F32) -> I32;
    DoubleToHalf = double_to_half(F64) -> I32;
    RemSingle = rem_single(F32, F32) -> F32;
    RemDouble = rem_double(F64, F64) -> F64;
}

/// The symbol of a math function for `f32` or `f64`.
pub fn math_name(m: Math, of: Scalar) -> String {
    format!("rt_{}_{}", m.name(), of.bits())
}

/// Every symbol that compiled code may name, with its address.
pub fn symbols() -> Vec<(String, *const u8)> {
    let mut all: Vec<(String, *const u8)> =
        Helper::ALL.iter().map(|h| (h.name().to_string(), h.address().cast())).collect();
    for m in Math::ALL {
        if let Some((single, double)) = math(m) {
            all.push((math_name(m, Scalar::F32), single.cast()));
            all.push((math_name(m, Scalar::F64), double.cast()));
        }
    }
    all
}

/// Returns true if the machine has the fused multiply-add that functions consist of; without it, they call one
/// that the C library has.
fn is_fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

macro_rules! math {
    ($($variant:ident($($arg:ident),*);)*) => {
        /// The versions for `f32` and `f64` of the function of a math op; `None` if it is no float function
        /// of its arity.
        fn math(m: Math) -> Option<(Address, Address)> {
            match m {
                $(Math::$variant => {
                    math!(single, fused_single, math_f32, f32, $variant($($arg),*));
                    math!(double, fused_double, math_f64, f64, $variant($($arg),*));
                    Some(match is_fused() {
                        true => (fused_single as *const () as Address, fused_double as *const () as Address),
                        false => (single as *const () as Address, double as *const () as Address),
                    })
                })*
                Math::IsNan
                | Math::IsInf
                | Math::CountBits
                | Math::ReverseBits
                | Math::FirstBitLow
                | Math::FirstBitHigh => None,
            }
        }
    };
    ($plain:ident, $fused:ident, $function:ident, $float:ident, $variant:ident($($arg:ident),*)) => {
        extern "C" fn $plain($($arg: $float),*) -> $float {
            let [a, b, c] = pad([$($arg),*]);
            scalar::$function(Math::$variant, a, b, c)
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "fma"))]
        extern "C" fn $fused($($arg: $float),*) -> $float {
            let [a, b, c] = pad([$($arg),*]);
            scalar::$function(Math::$variant, a, b, c)
        }
    };
}

#[inline(always)]
fn pad<F: Default + Copy, const N: usize>(args: [F; N]) -> [F; 3] {
    std::array::from_fn(|k| args.get(k).copied().unwrap_or_default())
}

math! {
    Sin(a); Cos(a); Tan(a); Asin(a); Acos(a); Atan(a); Atan2(a, b);
    Sinh(a); Cosh(a); Tanh(a); Asinh(a); Acosh(a); Atanh(a);
    Exp(a); Exp2(a); Log(a); Log2(a); Log10(a); Pow(a, b); Sqrt(a);
    Floor(a); Ceil(a); Round(a); Trunc(a); Min(a, b); Max(a, b); Abs(a); Fma(a, b, c);
}

// ---- memory

unsafe extern "C" fn alloc(ctx: *mut Context, bytes: u64) -> *mut u8 {
    // SAFETY: see the head of this file.
    unsafe { (*ctx).alloc(bytes) }
}

unsafe extern "C" fn release(ctx: *mut Context, mark: usize) {
    // SAFETY: see the head of this file.
    unsafe { (*ctx).arena.release(mark) }
}

/// Allocates a stack of `n` uninitialised elements of `size` bytes.
unsafe extern "C" fn stack_new(ctx: *mut Context, n: u64, size: u64) -> *mut Header {
    // SAFETY: see the head of this file.
    unsafe {
        let ptr = (*ctx).alloc_elements(n, size);
        (*ctx).new_header(Header { ptr, len: n, cap: n })
    }
}

unsafe extern "C" fn stack_header(ctx: *mut Context, ptr: *mut u8, len: u64, cap: u64) -> *mut Header {
    // SAFETY: see the head of this file.
    unsafe { (*ctx).new_header(Header { ptr, len, cap }) }
}

/// Allocates room for `cap` elements of `size` bytes and copies the first `len` from `ptr`.
unsafe extern "C" fn stack_room(ctx: *mut Context, ptr: *mut u8, len: u64, cap: u64, size: u64) -> *mut u8 {
    // SAFETY: see the head of this file.
    unsafe {
        let to = (*ctx).alloc_elements(cap, size);
        if len > 0 {
            std::ptr::copy_nonoverlapping(ptr, to, (len * size) as usize);
        }
        to
    }
}

/// Allocates the headers of `n` stacks of `len` elements side by side, whose elements are at these addresses.
unsafe extern "C" fn stack_bundle(
    ctx: *mut Context,
    ptrs: *const *mut u8,
    n: u64,
    len: u64,
    cap: u64,
) -> *mut Header {
    // SAFETY: see the head of this file.
    unsafe {
        let all = (*ctx).alloc_elements(n, size_of::<Header>() as u64).cast::<Header>();
        for k in 0..n as usize {
            all.add(k).write(Header { ptr: *ptrs.add(k), len, cap });
        }
        all
    }
}

/// Grows the stack in a cell so that it has an element number `idx`.
unsafe extern "C" fn cell_grow(
    ctx: *mut Context,
    loc: *mut *mut Header,
    idx: u64,
    shape: *const Shape,
    empty: *mut Header,
) {
    const LIMIT: u64 = 1 << 28;
    // SAFETY: see the head of this file.
    unsafe {
        if (idx as i64) < 0 {
            return;
        }
        if idx >= LIMIT {
            (*ctx).record(format!("a stack grows past {LIMIT} elements"), ir::Span::NONE);
            (*ctx).stop();
        }
        (*ctx).grow(loc, idx + 1, &*shape, empty);
    }
}

unsafe extern "C" fn stack_clone(
    ctx: *mut Context,
    from: *const Header,
    shape: *const Shape,
    empty: *mut Header,
) -> *mut Header {
    // SAFETY: see the head of this file.
    unsafe { (*ctx).clone_stack(from, &*shape, empty) }
}

unsafe extern "C" fn stack_add(
    ctx: *mut Context,
    loc: *mut *mut Header,
    from: *const Header,
    shape: *const Shape,
    empty: *mut Header,
) {
    // SAFETY: see the head of this file.
    unsafe { (*ctx).add_stack(loc, from, &*shape, empty) }
}

/// Reads a number of `bytes` bytes at the address of each lane in the mask, and fills the entries of all
/// other lanes, up to the largest number of lanes, with zeros.
unsafe extern "C" fn gather(places: *const *const u8, to: *mut u8, mask: u32, bytes: u64) {
    for lane in 0..MOST_LANES as usize {
        let bytes = bytes as usize;
        // SAFETY: code passes an address for each lane that it has, and room for the numbers of the largest
        // number of lanes. The mask contains no lane that the code does not have.
        unsafe {
            if mask >> lane & 1 == 1 {
                std::ptr::copy_nonoverlapping(*places.add(lane), to.add(lane * bytes), bytes);
            } else {
                to.add(lane * bytes).write_bytes(0, bytes);
            }
        }
    }
}

/// Writes a number of `bytes` bytes to the address of each lane in the mask, one lane after the other.
unsafe extern "C" fn scatter(places: *const *mut u8, from: *const u8, mask: u32, bytes: u64) {
    for lane in (0..MOST_LANES as usize).filter(|lane| mask >> lane & 1 == 1) {
        let bytes = bytes as usize;
        // SAFETY: as in `gather`.
        unsafe { std::ptr::copy_nonoverlapping(from.add(lane * bytes), *places.add(lane), bytes) };
    }
}

/// The addresses of the elements whose numbers the lanes hold, and the lanes of the mask whose elements
/// exist.
///
/// # Safety
/// `numbers` holds a number for each lane of the mask.
unsafe fn elements(
    numbers: *const u32,
    mask: u32,
    (first, count, size, signed): (*mut u8, u64, u64, u32),
) -> ([*mut u8; MOST_LANES as usize], u32) {
    let mut places = [first; MOST_LANES as usize];
    let mut found = 0;
    for lane in (0..MOST_LANES as usize).filter(|lane| mask >> lane & 1 == 1) {
        // SAFETY: the caller guarantees that there is a number for this lane.
        let number = unsafe { *numbers.add(lane) };
        let number = if signed != 0 { i64::from(number as i32) as u64 } else { u64::from(number) };
        if number < count {
            places[lane] = first.wrapping_add((number * size) as usize);
            found |= 1 << lane;
        }
    }
    (places, found)
}

/// As `gather`, for elements whose numbers the lanes hold; elements that do not exist read as zeros.
unsafe extern "C" fn gather_elements(
    numbers: *const u32,
    to: *mut u8,
    mask: u32,
    bytes: u64,
    first: *mut u8,
    count: u64,
    size: u64,
    signed: u32,
) {
    // SAFETY: code passes a number for each lane that it has, and elements below the count exist.
    unsafe {
        let (places, mask) = elements(numbers, mask, (first, count, size, signed));
        gather(places.as_ptr().cast(), to, mask, bytes);
    }
}

/// As `scatter`, for elements whose numbers the lanes hold; elements that do not exist are skipped.
unsafe extern "C" fn scatter_elements(
    numbers: *const u32,
    from: *const u8,
    mask: u32,
    bytes: u64,
    first: *mut u8,
    count: u64,
    size: u64,
    signed: u32,
) {
    // SAFETY: as in `gather_elements`.
    unsafe {
        let (places, mask) = elements(numbers, mask, (first, count, size, signed));
        scatter(places.as_ptr(), from, mask, bytes);
    }
}

unsafe extern "C" fn copy(to: *mut u8, from: *const u8, n: u64) {
    // SAFETY: see the head of this file; source and destination may overlap.
    unsafe { std::ptr::copy(from, to, n as usize) }
}

unsafe extern "C" fn clear(to: *mut u8, n: u64) {
    // SAFETY: see the head of this file.
    unsafe { to.write_bytes(0, n as usize) }
}

// ---- the world

unsafe extern "C" fn fail(ctx: *mut Context, site: u32) {
    // SAFETY: see the head of this file. The message is moved into the context before the thread stops.
    unsafe {
        let (message, span) = (&*std::sync::Arc::as_ptr(&(*ctx).tables)).sites[site as usize].failure();
        (*ctx).record(message, span);
        (*ctx).stop();
    }
}

unsafe extern "C" fn not_finite(ctx: *mut Context, site: u32, lanes: *const u64) {
    // SAFETY: see the head of this file; there are as many words as the site has lanes. The message is moved
    // into the context before the thread stops, and the helper owns nothing else then.
    unsafe {
        if let Site::NotFinite(what, kinds, span) =
            &(&*std::sync::Arc::as_ptr(&(*ctx).tables)).sites[site as usize]
        {
            let (mut at, mut values) = (0, Vec::new());
            for &(s, n) in kinds {
                let lane = |k: usize| scalar::canonical(s, lanes.add(at + k).read());
                values.push((s, (0..n).map(lane).collect()));
                at += n;
            }
            let message = interp::not_finite_message(what, &values).unwrap_or_default();
            (*ctx).record(message, *span);
            drop(values);
        }
        (*ctx).stop();
    }
}

unsafe extern "C" fn printf(ctx: *mut Context, site: u32, args: *const u64) {
    // SAFETY: see the head of this file; there are as many words as the site has kinds.
    unsafe {
        let tables = &*std::sync::Arc::as_ptr(&(*ctx).tables);
        if let Site::Printf(format, kinds) = &tables.sites[site as usize] {
            let args: Vec<(Scalar, u64)> = kinds
                .iter()
                .enumerate()
                .map(|(k, &s)| (s, scalar::canonical(s, args.add(k).read())))
                .collect();
            let text = ir::printf::print(format, &args);
            (*ctx).output.text.push_str(&text);
        }
        let context = &mut *ctx;
        if context.output.text.len() >= context.output.print_at && !hand_on(context) {
            (*ctx).stop();
        }
    }
}

/// Offers the pending output to the printer; returns false if the thread has to end.
fn hand_on(ctx: &mut Context) -> bool {
    let Some(printer) = ctx.output.printer.clone() else { return true };
    let taken = printer.take(&mut ctx.output.text, ctx.output.in_order);
    ctx.output.print_at = ctx.output.text.len() + super::PRINT_EVERY;
    match taken {
        Ok(()) => true,
        Err(message) => {
            ctx.record(message, ir::Span::NONE);
            false
        }
    }
}

/// The time in nanoseconds.
unsafe extern "C" fn clock(_: *mut Context) -> u64 {
    ir::clock()
}

unsafe extern "C" fn barrier(ctx: *mut Context) {
    // SAFETY: `yielder` is set while compiled code runs, and this is its coroutine.
    unsafe {
        if !(*ctx).yielder.is_null() {
            (*(*ctx).yielder).suspend(Signal::Barrier);
        }
    }
}

/// Waits until all lanes that take part have provided their values, and returns the mask of those lanes.
unsafe extern "C" fn wave(ctx: *mut Context, from: *const u8, bytes: u64, to: *mut u8) -> u32 {
    // SAFETY: as for `barrier`; `exec` fills `to` before it resumes the thread.
    unsafe {
        (*ctx).exchange = Exchange { from, bytes: bytes as usize, to, mask: 0 };
        (*(*ctx).yielder).suspend(Signal::Wave);
        (*ctx).exchange.mask
    }
}

/// Only code for devices multiplies by matrix units, and has a function of this name.
unsafe extern "C" fn multiply(_: *mut Context, _: u64, _: *mut u64) {}

/// The number of words of the thread's path.
unsafe extern "C" fn path_len(ctx: *mut Context) -> u64 {
    // SAFETY: see the head of this file.
    unsafe { (*ctx).path.len() as u64 }
}

/// Truncates the path to `depth` words and appends `word`.
unsafe extern "C" fn path_set(ctx: *mut Context, depth: u64, word: u64) {
    // SAFETY: see the head of this file.
    let path = unsafe { &mut (*ctx).path };
    path.truncate(depth as usize);
    path.push(word);
}

/// Truncates the path after word number `depth` and increments that word.
unsafe extern "C" fn path_next(ctx: *mut Context, depth: u64) {
    // SAFETY: see the head of this file.
    let path = unsafe { &mut (*ctx).path };
    path.truncate(depth as usize + 1);
    if let Some(word) = path.last_mut() {
        *word = word.wrapping_add(1);
    }
}

/// The number that encodes an atomic op and its kind of scalar in calls of the helper.
pub fn atomic_code(op: AtomicOp, s: Scalar) -> u32 {
    (op as u32) << 8 | s as u32
}

/// Performs any atomic op by compare-exchange. `addr` is aligned as the number; `compare` is only used by
/// `CompareExchange`.
unsafe extern "C" fn atomic(addr: *mut u8, code: u32, x: u64, compare: u64) -> u64 {
    let (op, s) = (AtomicOp::ALL[(code >> 8) as usize], Scalar::ALL[(code & 255) as usize]);
    let (x, compare) = (scalar::canonical(s, x), scalar::canonical(s, compare));
    let new = |old: u64| {
        let op = match op {
            AtomicOp::Add => Op::Add,
            AtomicOp::Min => Op::Math(Math::Min),
            AtomicOp::Max => Op::Math(Math::Max),
            AtomicOp::And => Op::And,
            AtomicOp::Or => Op::Or,
            AtomicOp::Xor => Op::Xor,
            AtomicOp::Exchange => return x,
            AtomicOp::CompareExchange => return if old == compare { x } else { old },
        };
        scalar::elementwise(&op, s, s, &[old, x]).unwrap_or(old)
    };
    if !addr.addr().is_multiple_of(s.bytes() as usize) {
        // SAFETY: in range; buffers of the host are aligned, so this is memory that no other thread sees.
        unsafe {
            let old = read(s, addr, 0);
            super::stacks::write(s, addr, 0, new(old));
            return old;
        }
    }
    macro_rules! exchange {
        ($atomic:ty, $int:ty) => {{
            // SAFETY: in range, aligned, and other threads access it atomically or not at all in a
            // program without races.
            let cell = unsafe { <$atomic>::from_ptr(addr.cast()) };
            let update = |old: $int| Some(new(old as u64) as $int);
            match cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
                Ok(old) | Err(old) => old as u64,
            }
        }};
    }
    match s.bytes() {
        1 => exchange!(AtomicU8, u8),
        2 => exchange!(AtomicU16, u16),
        4 => exchange!(AtomicU32, u32),
        _ => exchange!(AtomicU64, u64),
    }
}

macro_rules! add {
    ($($name:ident $float:ident $atomic:ident;)*) => {$(
        /// Adds to a number, and returns the old one.
        unsafe extern "C" fn $name(addr: *mut u8, x: $float) -> $float {
            let at = addr.cast::<$float>();
            if !at.is_aligned() {
                // SAFETY: as in `atomic`.
                unsafe {
                    let old = at.read_unaligned();
                    at.write_unaligned(old + x);
                    return old;
                }
            }
            // SAFETY: as in `atomic`.
            let cell = unsafe { $atomic::from_ptr(addr.cast()) };
            let mut old = cell.load(Ordering::Acquire);
            loop {
                let new = ($float::from_bits(old) + x).to_bits();
                match cell.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(old) => return $float::from_bits(old),
                    Err(now) => old = now,
                }
            }
        }
    )*};
}

add! {
    add_single f32 AtomicU32;
    add_double f64 AtomicU64;
}

// ---- numbers

extern "C" fn half_to_single(bits: u32) -> f32 {
    scalar::f16_to_f32(bits as u64)
}

extern "C" fn single_to_half(x: f32) -> u32 {
    scalar::f32_to_f16(x) as u32
}

extern "C" fn double_to_half(x: f64) -> u32 {
    scalar::from_f64(Scalar::F16, x) as u32
}

extern "C" fn rem_single(a: f32, b: f32) -> f32 {
    a % b
}

extern "C" fn rem_double(a: f64, b: f64) -> f64 {
    a % b
}
