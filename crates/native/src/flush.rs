//! The treatment of numbers too small to be normal, while a program runs.
//!
//! On many processors an operation on such a number takes a hundred times as long as on another: a pass over what
//! exponentials have left, in lanes, can take ten times as long for a few of them. Processors can be told to take them
//! for zeros and to make zeros of them.
//!
//! A host may have told them so for itself: XLA does for the threads that call us, and PyTorch on demand. A program means
//! the same wherever it is called from, so both ways are set.

/// Until it is dropped, this core does with subnormal numbers what was asked for; afterwards, what it did before.
#[derive(Debug)]
pub struct Subnormals {
    before: Control,
    is_changed: bool,
}

impl Subnormals {
    /// Takes them for zeros if they are to be flushed, and else for what they are.
    pub fn set(flush: bool) -> Subnormals {
        let before = control();
        let wanted = if flush { before | FLUSH } else { before & !FLUSH };
        // To write the register takes longer than to read it.
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
/// Results, and operands.
#[cfg(target_arch = "x86_64")]
const FLUSH: u32 = 1 << 15 | 1 << 6;

#[cfg(target_arch = "x86_64")]
fn control() -> u32 {
    let mut word = 0u32;
    // SAFETY: writes the word.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "x86_64")]
fn set_control(word: u32) {
    // SAFETY: the word is the register's own but for two bits, which choose what becomes of subnormal numbers. Between the
    // two calls compiled code runs, and functions that it calls, whose results may be flushed, too; then the register is as
    // it was.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
}

#[cfg(target_arch = "aarch64")]
type Control = u64;
#[cfg(target_arch = "aarch64")]
const FLUSH: u64 = 1 << 24;

#[cfg(target_arch = "aarch64")]
fn control() -> u64 {
    let word: u64;
    // SAFETY: reads the register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "aarch64")]
fn set_control(word: u64) {
    // SAFETY: as on the other processor.
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
    use super::*;

    #[test]
    fn small_numbers_are_zeros_until_the_end() {
        if FLUSH == 0 {
            return;
        }
        let half = |x: f64| std::hint::black_box(x) * std::hint::black_box(0.5);
        let least = f64::MIN_POSITIVE;
        let flushing = Subnormals::set(true);
        let during = [half(least), half(half(4.0 * least)), std::hint::black_box(5e-324) + 0.0];
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
