//! Products of matrices that the lanes of a warp hold: `mma.sync` of 16 rows and 8 columns.
//!
//! A register holds 32 bits of a matrix. Lane `l` has, in register `r` of the left factor, row `l / 4 + 8 (r % 2)`
//! and the bytes from `4 (l % 4) + 16 (r / 2)` of that row; in register `r` of the right factor, column `l / 4` and
//! the bytes from `4 (l % 4) + 16 r` of that column; in register `r` of the sum, row `l / 4 + 8 (r / 2)` and column
//! `2 (l % 4) + r % 2`. Sums of floats are made in the order of the columns of the left factor, each rounded; a
//! device may round otherwise.

use super::machine::{State, Thread};
use super::number;
use super::parse::{Inst, Operand};

/// A number of a factor.
fn element(kind: &str, word: u32, k: usize) -> Result<f64, String> {
    let byte = (word >> (8 * (k % 4))) as u8;
    let short = (word >> (16 * (k % 2))) as u16;
    Ok(match kind {
        "f16" => number::half_of(u64::from(short)),
        "bf16" => f64::from(f32::from_bits(u32::from(short) << 16)),
        "s8" => f64::from(byte as i8),
        "u8" => f64::from(byte),
        _ => return Err(format!("a matrix of `{kind}`")),
    })
}

/// Executes an instruction that all lanes have reached: `d = a b + c`.
pub(super) fn multiply(wave: &mut [Thread], inst: &Inst) -> Result<(), String> {
    let words: Vec<&str> = inst.text.split_whitespace().next().unwrap_or_default().split('.').collect();
    let [_, "sync", "aligned", shape, "row", "col", of_sum, of_left, of_right, of_added] = words[..] else {
        return Err("a product of another kind".into());
    };
    let is_float = of_sum == "f32";
    let per_word = match (shape, of_left) {
        ("m16n8k16", "f16" | "bf16") if is_float => 2,
        ("m16n8k32", "s8" | "u8") if of_sum == "s32" => 4,
        _ => return Err("a product of another shape".into()),
    };
    if of_left != of_right || of_sum != of_added || wave.len() != 32 {
        return Err("a product of different types, or of fewer lanes than a warp has".into());
    }
    let registers = |operand: usize, n: usize| -> Result<Vec<usize>, String> {
        let Some(Operand::Vector(parts)) = inst.operands.get(operand) else {
            return Err("no registers".into());
        };
        let all: Vec<usize> =
            parts.iter().filter_map(|p| if let Operand::Register(k) = p { Some(*k) } else { None }).collect();
        if all.len() == n { Ok(all) } else { Err("other registers than the shape has".into()) }
    };
    let (to, left, right) = (registers(0, 4)?, registers(1, 4)?, registers(2, 2)?);
    let Some(Operand::Vector(added)) = inst.operands.get(3) else { return Err("nothing to add to".into()) };
    let value = |wave: &[Thread], lane: usize, register: usize| -> Result<u32, String> {
        let frame = wave[lane].frames.last().ok_or("a thread without code")?;
        Ok(frame.registers[register] as u32)
    };
    let mut sums = [[0u32; 4]; 32];
    for (lane, sums) in sums.iter_mut().enumerate() {
        for (r, sum) in sums.iter_mut().enumerate() {
            let (row, column) = (lane / 4 + 8 * (r / 2), 2 * (lane % 4) + r % 2);
            let first = match added.get(r) {
                Some(Operand::Register(k)) => value(wave, lane, *k)?,
                Some(Operand::Number(n)) => *n as u32,
                _ => return Err("nothing to add to".into()),
            };
            let (mut float, mut whole) = (f32::from_bits(first), first);
            for k in 0..8 * per_word {
                let (of_four, part) = (k / per_word % 4, k / (4 * per_word));
                let a = value(wave, row % 8 * 4 + of_four, left[row / 8 + 2 * part])?;
                let b = value(wave, column * 4 + of_four, right[part])?;
                let (a, b) = (element(of_left, a, k % per_word)?, element(of_left, b, k % per_word)?);
                float += (a * b) as f32;
                whole = whole.wrapping_add((a * b) as i32 as u32);
            }
            *sum = if is_float { float.to_bits() } else { whole };
        }
    }
    for (thread, sums) in wave.iter_mut().zip(sums) {
        let frame = thread.frames.last_mut().ok_or("a thread without code")?;
        for (&register, sum) in to.iter().zip(sums) {
            frame.registers[register] = u64::from(sum);
        }
        frame.at += 1;
        thread.state = State::Ready;
    }
    Ok(())
}
