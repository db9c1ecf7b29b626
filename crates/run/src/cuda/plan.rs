//! The numbers exchanged with the driver in a dispatch: sizes of memory, the parameters of a kernel and the
//! launches are computed here, and errors and printed text are decoded. Nothing here calls the driver.

use ir::interp::RunError;
use ir::{Global, Scalar, Span, scalar};

use super::Limits;
use crate::{arena, thread_order};

/// The text of kernels, and the data that a host needs to run them.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// PTX.
    pub text: String,
    /// The kernels, in the order of the module's entry points.
    pub kernels: Vec<Kernel>,
    /// The globals that kernels take as parameters, in order.
    pub globals: Vec<Global>,
    /// Messages and places of run-time errors, by number, from 1 on.
    pub errors: Vec<(String, Span)>,
    /// Kernels take an arena.
    pub has_arena: bool,
    /// The `printf` calls.
    pub prints: Vec<Print>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name in the text.
    pub name: String,
    /// Threads per group along each axis.
    pub group_size: [u32; 3],
    /// The first group does nothing in a dispatch of several groups, and is dispatched a second time, alone.
    pub first_group_last: bool,
    /// Threads have parts of the arena.
    pub uses_arena: bool,
}

/// A `printf` call.
#[derive(Clone, Debug)]
pub struct Print {
    /// Its number in the log.
    pub number: u32,
    /// The format with its placeholders for operands.
    pub format: String,
    /// The types of the operands.
    pub kinds: Vec<Scalar>,
}

/// The number of words for the log's records.
pub(super) const LOG_WORDS: u64 = 1 << 20;
/// The size of the log in bytes: the number of words, followed by the words.
pub(super) const LOG_BYTES: u64 = 8 + 4 * LOG_WORDS;
/// The bytes of an arena at most: the indices of its words have 32 bits.
pub(super) const MOST_ARENA: u64 = 4 << 32;
/// The size of the error words in bytes; the arena's state is behind them.
pub(super) const ERROR_BYTES: usize = 16;
/// The size of both in bytes.
pub(super) const REPORT_BYTES: u64 = ERROR_BYTES as u64 + arena::STATE;

/// A range of memory on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The address.
    pub(super) at: u64,
    /// The number of elements, bytes or words.
    pub(super) count: u64,
}

/// The parameters of a kernel in order; each has 64 bits.
pub(super) fn parameters(
    buffers: &[Extent],
    error: u64,
    arena: Option<Extent>,
    log: Option<Extent>,
) -> Vec<u64> {
    let mut all: Vec<u64> = buffers.iter().flat_map(|b| [b.at, b.count]).collect();
    all.push(error);
    all.extend(arena.into_iter().flat_map(|words| [words.at, words.count, error + ERROR_BYTES as u64]));
    all.extend(log.into_iter().flat_map(|log| [log.at, log.count]));
    all
}

/// The launches of a dispatch, one after the other, as numbers of groups.
pub(super) fn launches(kernel: &Kernel, groups: [u32; 3]) -> Vec<[u32; 3]> {
    if groups.contains(&0) {
        return Vec::new();
    }
    let alone = kernel.first_group_last && groups != [1; 3];
    [Some(groups), alone.then_some([1; 3])].into_iter().flatten().collect()
}

/// The number of threads of a dispatch.
pub(super) fn threads(kernel: &Kernel, groups: [u32; 3]) -> u64 {
    groups.iter().chain(&kernel.group_size).fold(1, |n, &k| n.saturating_mul(u64::from(k)))
}

/// Returns an error if the device cannot launch the dispatch.
pub(super) fn check(kernel: &Kernel, groups: [u32; 3], limits: &Limits, device: &str) -> Result<(), String> {
    let threads: u64 = kernel.group_size.iter().map(|&n| u64::from(n)).product();
    if threads > u64::from(limits.threads) {
        let most = limits.threads;
        return Err(format!("a thread group of {threads} threads; `{device}` has at most {most}"));
    }
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        let (size, most) = (kernel.group_size[axis], limits.group_size[axis]);
        if size > most {
            return Err(format!(
                "a thread group of {size} threads along {name}; `{device}` has at most {most}"
            ));
        }
        let (n, most) = (groups[axis], limits.groups[axis]);
        if n > most {
            return Err(format!("{n} thread groups along {name}; `{device}` has at most {most}"));
        }
    }
    Ok(())
}

/// The error that the error words report.
pub(super) fn error(code: &Code, words: [u32; 4]) -> Option<RunError> {
    let [number, x, y, z] = words;
    let index = number.checked_sub(1)?;
    let (message, span) = match code.errors.get(index as usize) {
        Some(error) => error.clone(),
        None => (format!("the device reports the error {number}"), Span::NONE),
    };
    Some(RunError { message, span, thread: [x, y, z] })
}

/// Appends the log's text, in the order of threads.
pub(super) fn printed(
    code: &Code,
    log: &[u32],
    groups: [u32; 3],
    size: [u32; 3],
    out: &mut String,
) -> Result<(), String> {
    let [low, high, records @ ..] = log else { return Ok(()) };
    let used = u64::from(*low) | u64::from(*high) << 32;
    if used > records.len() as u64 {
        return Err(format!("the kernel printed more than {} words", records.len()));
    }
    let mut lines: Vec<([u64; 2], String)> = Vec::new();
    let mut rest = &records[..used as usize];
    while let [number, x, y, z, operands @ ..] = rest {
        let print = code.prints.iter().find(|p| p.number == *number);
        let print = print.ok_or_else(|| format!("the log has a record of unknown kind {number}"))?;
        let words = 2 * print.kinds.len();
        let own = operands.get(..words).ok_or("the last record of the log is cut off")?;
        let bits = own.chunks_exact(2).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32);
        let args: Vec<(Scalar, u64)> =
            print.kinds.iter().zip(bits).map(|(&s, bits)| (s, scalar::canonical(s, bits))).collect();
        lines.push((thread_order([*x, *y, *z], groups, size), ir::printf::print(&print.format, &args)));
        rest = &operands[words..];
    }
    lines.sort_by_key(|l| l.0);
    out.extend(lines.into_iter().map(|l| l.1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(group_size: [u32; 3], first_group_last: bool) -> Kernel {
        Kernel { name: "main".into(), group_size, first_group_last, uses_arena: true }
    }

    const LIMITS: Limits =
        Limits { groups: [2_147_483_647, 65_535, 65_535], group_size: [1024, 1024, 64], threads: 1024 };

    #[test]
    fn threads_are_those_of_all_groups() {
        assert_eq!(threads(&kernel([8, 4, 1], false), [3, 1, 2]), 192);
    }

    #[test]
    fn parameters_are_pairs_then_the_rest() {
        let extent = |at, count| Extent { at, count };
        let buffers = [extent(16, 3), extent(0, 0)];
        let arena = Some(extent(256, 1024));
        assert_eq!(parameters(&buffers, 64, arena, None), [16, 3, 0, 0, 64, 256, 1024, 80]);
        assert_eq!(parameters(&[], 64, None, Some(extent(512, 9))), [64, 512, 9]);
    }

    #[test]
    fn the_first_group_is_launched_again_alone() {
        assert_eq!(launches(&kernel([8, 1, 1], false), [4, 2, 1]), [[4, 2, 1]]);
        assert_eq!(launches(&kernel([8, 1, 1], true), [4, 2, 1]), [[4, 2, 1], [1, 1, 1]]);
        assert_eq!(launches(&kernel([8, 1, 1], true), [1, 1, 1]), [[1, 1, 1]]);
        assert!(launches(&kernel([8, 1, 1], true), [4, 0, 1]).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |size, groups| check(&kernel(size, false), groups, &LIMITS, "D");
        assert_eq!(check([32, 32, 1], [1 << 20, 65_535, 1]), Ok(()));
        let why = check([32, 32, 2], [1; 3]);
        assert_eq!(why, Err("a thread group of 2048 threads; `D` has at most 1024".into()));
        let why = check([1, 1, 128], [1; 3]);
        assert_eq!(why, Err("a thread group of 128 threads along z; `D` has at most 64".into()));
        let why = check([1; 3], [1, 65_536, 1]);
        assert_eq!(why, Err("65536 thread groups along y; `D` has at most 65535".into()));
    }

    #[test]
    fn errors_are_found_by_number() {
        let code = Code {
            errors: vec![("first".into(), Span::NONE), ("second".into(), Span::NONE)],
            ..Code::default()
        };
        assert!(error(&code, [0; 4]).is_none());
        let found = error(&code, [2, 7, 8, 9]).expect("an error");
        assert_eq!((found.message.as_str(), found.thread), ("second", [7, 8, 9]));
    }

    #[test]
    fn the_log_is_read_in_the_order_of_threads() {
        let code = Code {
            prints: vec![
                Print { number: 1, format: "a%d\n".into(), kinds: vec![Scalar::I32] },
                Print { number: 4, format: "b %f %llu\n".into(), kinds: vec![Scalar::F32, Scalar::U64] },
            ],
            ..Code::default()
        };
        // The upper half of a short operand is arbitrary.
        let mut log = vec![14, 0];
        log.extend([4, 2, 0, 0, 1.5f32.to_bits(), 77, 1, 1]);
        log.extend([1, 0, 0, 0, u32::MAX, 5]);
        log.extend([0; 8]);
        let mut out = String::new();
        assert_eq!(printed(&code, &log, [2, 1, 1], [2, 1, 1], &mut out), Ok(()));
        assert_eq!(out, "a-1\nb 1.500000 4294967297\n");
        log[0] = 999;
        assert!(printed(&code, &log, [2, 1, 1], [2, 1, 1], &mut out).is_err());
    }
}
