//! Finds the moves of values to the frame and back in machine code, for a profile.
//!
//! Cranelift does not tell where its register allocator stores a value in the frame and loads it again, but the frame's
//! layout says where such values are: above the memory of the function. An access to this part of the frame has the stack
//! pointer and a constant offset as its address, so it can be told from its bytes alone, without a disassembler:
//! on x86-64 by a ModRM byte that asks for a SIB byte, that byte, which names the stack pointer and no index, and an
//! offset in the right range; on AArch64 by a load or store with an immediate offset from the stack pointer. Bytes that
//! look the same by chance are about one in a million.

use std::ops::Range;

/// The offsets in the code of accesses to this part of the frame, given by its offsets from the stack pointer.
pub(crate) fn find(code: &[u8], part: &Range<u32>) -> Vec<u32> {
    if cfg!(target_arch = "aarch64") { aarch64(code, part) } else { x86(code, part) }
}

fn x86(code: &[u8], part: &Range<u32>) -> Vec<u32> {
    /// The second byte: the base is the stack pointer, and there is no index.
    const SIB: u8 = 0x24;
    let mut found = Vec::new();
    for k in 1..code.len().saturating_sub(1) {
        let (modrm, sib) = (code[k], code[k + 1]);
        if sib != SIB || modrm & 7 != 4 {
            continue;
        }
        let offset = match modrm >> 6 {
            // Without an offset, there is less to tell the access by, so only moves count.
            0 => matches!(code[k - 1], 0x8b | 0x89 | 0x10 | 0x11 | 0x28 | 0x29 | 0x6f | 0x7f).then_some(0),
            1 => code.get(k + 2).map(|&byte| i32::from(byte as i8)),
            2 => code.get(k + 2..k + 6).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            _ => None,
        };
        if offset.and_then(|at| u32::try_from(at).ok()).is_some_and(|at| part.contains(&at)) {
            found.push(k as u32);
        }
    }
    found
}

fn aarch64(code: &[u8], part: &Range<u32>) -> Vec<u32> {
    let mut found = Vec::new();
    for (k, word) in code.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let is_access = word >> 27 & 7 == 7 && word >> 24 & 3 == 1 && word >> 5 & 31 == 31;
        // Vectors of 128 bits have a further bit of their size.
        let is_vector = word >> 26 & 1 == 1;
        let scale = if is_vector && word >> 23 & 1 == 1 { 4 } else { word >> 30 };
        if is_access && part.contains(&((word >> 10 & 0xfff) << scale)) {
            found.push(4 * k as u32);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_to_the_frame_are_found() {
        let code = [
            0x0f, 0x11, 0x44, 0x24, 0x20, // movups [rsp + 0x20], xmm0
            0x0f, 0x58, 0x8c, 0x24, 0x40, 0x01, 0x00, 0x00, // addps xmm1, [rsp + 0x140]
            0x0f, 0x10, 0x44, 0x24, 0x08, // movups xmm0, [rsp + 8], which is memory of the function
            0x0f, 0x10, 0x44, 0x07, 0x20, // movups xmm0, [rdi + rax + 0x20]
            0x48, 0x8b, 0x04, 0x24, // mov rax, [rsp]
        ];
        assert_eq!(x86(&code, &(0x10..0x200)), [2, 7]);
        assert_eq!(x86(&code, &(0..0x10)), [15, 25]);
        assert_eq!(x86(&[0x24], &(0..16)), []);
    }

    #[test]
    fn accesses_to_the_frame_are_found_on_aarch64() {
        let code: Vec<u8> = [
            0x3d80_0be0u32, // str q0, [sp, #32]
            0xf940_07e1,    // ldr x1, [sp, #8]
            0xbd40_23e0,    // ldr s0, [sp, #32]
            0xf940_0401,    // ldr x1, [x0, #8]
        ]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
        assert_eq!(aarch64(&code, &(16..64)), [0, 8]);
        assert_eq!(aarch64(&code, &(0..16)), [4]);
    }
}
