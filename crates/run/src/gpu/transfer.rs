//! Converts the bytes of a binding from the host's layout to the device's and back.

use codegen_naga::layout::{self, Place};
use codegen_naga::{Binding, BindingKind};
use ir::{Module, Scalar};

use super::LOG_WORDS;
use crate::Buffers;

/// The locations of the numbers in an element; `None` if both layouts are the same.
fn differing(module: &Module, binding: &Binding) -> Option<Vec<Place>> {
    let mem = binding.mem?;
    let all = layout::places(&module.mem, mem, binding.rule);
    let same = module.mem.size(mem) == binding.stride
        && all.iter().all(|p| {
            p.host == p.device && layout::scalar_bytes(p.scalar, binding.rule) == p.scalar.bytes() as u64
        });
    (!same).then_some(all)
}

/// The size of a binding on the device, given its size on the host, in bytes.
pub(super) fn device_bytes(module: &Module, binding: &Binding, host: usize) -> u64 {
    let size = binding.mem.map_or(1, |mem| module.mem.size(mem)).max(1);
    match binding.size {
        Some(size) => size,
        None => (host as u64).div_ceil(size).saturating_mul(binding.stride),
    }
    .checked_next_multiple_of(4)
    .unwrap_or(u64::MAX)
}

/// The bytes of a binding for the device.
pub(super) fn to_device(module: &Module, binding: &Binding, buffers: &Buffers) -> Result<Vec<u8>, String> {
    let (Some(global), Some(mem)) = (binding.global, binding.mem) else {
        let bytes =
            if binding.kind == BindingKind::PrintLog { 4 * LOG_WORDS } else { binding.size.unwrap_or(32) };
        return Ok(vec![0; bytes as usize]);
    };
    let host = buffers.bytes(global);
    let size = module.mem.size(mem).max(1) as usize;
    let stride = binding.size.unwrap_or(binding.stride) as usize;
    let n = if binding.size.is_some() { 1 } else { host.len() / size };
    if n == 0 {
        return Err(format!("`{}` is empty, and devices have no empty buffers", binding.name));
    }
    let mut out = match differing(module, binding) {
        None => host.to_vec(),
        Some(places) => {
            let mut out = vec![0; n * stride];
            for k in 0..n {
                for place in &places {
                    let s = place.scalar;
                    let from = k * size + place.host as usize;
                    let Some(bytes) = host.get(from..from + s.bytes() as usize) else { continue };
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    let mut bits = u64::from_le_bytes(word);
                    if s == Scalar::Bool {
                        bits = u64::from(bits != 0);
                    } else if s.is_signed_int() {
                        let unused = 64 - s.bits();
                        bits = (((bits << unused) as i64) >> unused) as u64;
                    }
                    let len = layout::scalar_bytes(s, binding.rule) as usize;
                    let to = k * stride + place.device as usize;
                    out[to..to + len].copy_from_slice(&bits.to_le_bytes()[..len]);
                }
            }
            out
        }
    };
    let least = if binding.kind == BindingKind::Uniform { 16 } else { 4 };
    out.resize(out.len().max(n * stride).max(least).next_multiple_of(least), 0);
    Ok(out)
}

/// Converts bytes written by a device back to the host's layout.
pub(super) fn from_device(module: &Module, binding: &Binding, bytes: &[u8], buffers: &mut Buffers) {
    let (Some(global), Some(mem)) = (binding.global, binding.mem) else { return };
    let size = module.mem.size(mem).max(1) as usize;
    let stride = binding.size.unwrap_or(binding.stride) as usize;
    let places = differing(module, binding);
    let host = buffers.bytes_mut(global);
    let Some(places) = places else {
        let len = host.len().min(bytes.len());
        host[..len].copy_from_slice(&bytes[..len]);
        return;
    };
    for k in 0..(host.len() / size).min(bytes.len() / stride.max(1)) {
        for place in &places {
            let from = k * stride + place.device as usize;
            let len = place.scalar.bytes() as usize;
            let to = k * size + place.host as usize;
            host[to..to + len].copy_from_slice(&bytes[from..from + len]);
        }
    }
}
