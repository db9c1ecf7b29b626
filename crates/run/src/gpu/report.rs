//! Decodes the results of a dispatch other than its buffers: the error word, and the log of printed text.

use codegen_naga::Reflection;
use ir::interp::RunError;
use ir::scalar;

use super::LOG_WORDS;
use crate::thread_order;

/// Decodes the error word.
pub(super) fn error(reflection: &Reflection, bytes: &[u8]) -> Option<RunError> {
    let word = |k: usize| u32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap_or_default());
    let site = reflection.sites.get((word(0) as usize).checked_sub(1)?)?;
    Some(RunError { message: site.message.clone(), span: site.span, thread: [word(4), word(5), word(6)] })
}

/// Appends the log's text, in the order of threads.
pub(super) fn printed(
    reflection: &Reflection,
    bytes: &[u8],
    groups: [u32; 3],
    size: [u32; 3],
    out: &mut String,
) -> Result<(), String> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
    let used = words[0] as usize;
    if used + 1 > words.len() {
        return Err(format!("the kernel printed more than {LOG_WORDS} words"));
    }
    let mut lines: Vec<([u64; 2], String)> = Vec::new();
    let mut at = 1;
    while at <= used {
        let Some(print) = reflection.prints.get(words[at] as usize) else { break };
        let thread = [words[at + 1], words[at + 2], words[at + 3]];
        let order = thread_order(thread, groups, size);
        at += 4;
        let mut args = Vec::new();
        for &(from, shown) in &print.args {
            let mut bits = words[at] as u64;
            at += 1;
            if from.bytes() == 8 {
                bits |= (words[at] as u64) << 32;
                at += 1;
            }
            let bits = if from.is_float() { bits } else { scalar::canonical(from, bits) };
            args.push((shown, if from == shown { bits } else { scalar::convert(from, shown, bits) }));
        }
        lines.push((order, ir::printf::print(&print.format, &args)));
    }
    lines.sort_by_key(|l| l.0);
    out.extend(lines.into_iter().map(|l| l.1));
    Ok(())
}
