//! Controls how the processor treats subnormal numbers while a program runs.
//!
//! On many processors an operation on a subnormal number takes a hundred times as long as on a normal one: a
//! pass in lanes over the results of exponentials can take ten times as long because of a few of them.
//! Processors can be configured to treat subnormal operands as zeros and to flush subnormal results to zero.
//!
//! A host may have set that mode for itself: XLA does so for the threads that call compiled code, and PyTorch
//! does so on request. Since a program must mean the same wherever it is called from, the mode is set
//! explicitly in both cases.

/// A guard that sets the treatment of subnormal numbers on this core, and restores the previous one when it
/// is dropped.
#[derive(Debug)]
pub struct Subnormals {
    before: Control,
    is_changed: bool,
}

impl Subnormals {
    /// Flushes subnormal numbers to zero if `flush` is true, and otherwise keeps them.
    pub fn set(flush: bool) -> Subnormals {
        let before = control();
        let wanted = if flush { before | FLUSH } else { before & !FLUSH };
        // Writing the register takes longer than reading it.
        let is_changed = wanted != before;
        if is_changed {
            set_control(wanted);
        }
        Subnormals { before, is_changed }
    }
}

impl Drop for Subnormals {
    fn drop(&mut self) {
        if self.is_changed {
            set_control(self.before);
        }
    }
}

#[cfg(target_arch = "x86_64")]
type Control = u32;
/// Bits that flush subnormal results, and treat subnormal operands as zeros.
#[cfg(target_arch = "x86_64")]
const FLUSH: u32 = 1 << 15 | 1 << 6;

#[cfg(target_arch = "x86_64")]
fn control() -> u32 {
    let mut word = 0u32;
    // SAFETY: the instruction only writes `word`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "x86_64")]
fn set_control(word: u32) {
    // SAFETY: the word is the register's own value but for two bits, which control the treatment of subnormal
    // numbers. Between the two calls only compiled code and the functions that it calls run. Their results
    // may be flushed, too, and the register is restored afterwards.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
}

#[cfg(target_arch = "aarch64")]
type Control = u64;
#[cfg(target_arch = "aarch64")]
const FLUSH: u64 = 1 << 24;

#[cfg(target_arch = "aarch64")]
fn control() -> u64 {
    let word: u64;
    // SAFETY: the instruction only reads the register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "aarch64")]
fn set_control(word: u64) {
    // SAFETY: as for x86-64.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Control = u32;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FLUSH: u32 = 0;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn control() -> u32 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn set_control(_: u32) {}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn small_numbers_are_zeros_until_the_end() {
        if FLUSH == 0 {
            return;
        }
        // Opaque on both sides, so that no arithmetic moves past a change of the control word.
        let half = |x: f64| black_box(black_box(x) * black_box(0.5));
        let least = f64::MIN_POSITIVE;
        let flushing = Subnormals::set(true);
        let during = [half(least), half(half(4.0 * least)), black_box(black_box(5e-324) + 0.0)];
        let kept = Subnormals::set(false);
        let within = half(least);
        drop(kept);
        let after = half(least);
        drop(flushing);
        assert_eq!(during, [0.0, least, 0.0]);
        assert_eq!((within, after), (2f64.powi(-1023), 0.0));
        assert_eq!(half(least), 2f64.powi(-1023));
    }
}
