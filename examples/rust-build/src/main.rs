//! The sensitivity of a spring's place to its stiffness, by the derivative that `build.rs` has compiled.
//!
//!     PULLBACK=../../target/release/pullback cargo run

use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn spring(stiffness: f64, damping: f64, seconds: f64, result: *mut f64) -> c_int;
    fn spring_bwd(
        stiffness: f64,
        damping: f64,
        seconds: f64,
        d_result: f64,
        d_stiffness: *mut f64,
        d_damping: *mut f64,
    ) -> c_int;
    fn spring_message(status: c_int) -> *const c_char;
}

/// What a status means.
fn checked(status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the library gives null or a text that stays.
    let message = unsafe {
        let text = spring_message(status);
        if text.is_null() { c"unknown" } else { CStr::from_ptr(text) }
    };
    Err(message.to_string_lossy().into_owned())
}

fn place(stiffness: f64) -> Result<f64, String> {
    let mut x = 0.0;
    // SAFETY: the result is written where it may be.
    checked(unsafe { spring(stiffness, 0.2, 2.0, &mut x) })?;
    Ok(x)
}

fn main() -> Result<(), String> {
    let (mut by_stiffness, mut by_damping) = (0.0, 0.0);
    // SAFETY: the results are written where they may be.
    checked(unsafe { spring_bwd(3.0, 0.2, 2.0, 1.0, &mut by_stiffness, &mut by_damping) })?;
    let step = 1e-5;
    let difference = (place(3.0 + step)? - place(3.0 - step)?) / (2.0 * step);
    println!("by stiffness {by_stiffness:.6} (differences {difference:.6}), by damping {by_damping:.6}");
    assert!((by_stiffness - difference).abs() < 1e-6);
    Ok(())
}
