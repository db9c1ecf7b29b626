//! The header of a library, for C from C99 on and for C++.

use std::fmt::Write as _;

use super::{Binding, Options, Part, Signature};

/// Declares all functions and kernels.
pub(super) fn header(
    signatures: &[Signature],
    kernels: &[&str],
    bindings: &[Binding],
    options: &Options,
) -> String {
    let prefix = &options.prefix;
    let guard = format!("PULLBACK_LIBRARY_{}_H", prefix.to_uppercase());
    let mut out = format!(
        "/* Made by Pullback. Every function gives 0, or the number of an error. */\n\
         #ifndef {guard}\n#define {guard}\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
         /* What an error means, or null. */\nconst char *{prefix}_message(int status);\n"
    );
    for signature in signatures {
        let parameters = signature.parameters.iter().map(parameter);
        let all: Vec<String> = parameters.chain(signature.results.iter().map(result)).collect();
        let all = if all.is_empty() { "void".to_string() } else { all.join(", ") };
        let _ = writeln!(out, "\nint {}({all});", signature.name);
    }
    if !kernels.is_empty() {
        out += "\n#ifndef PULLBACK_BUFFER\n#define PULLBACK_BUFFER\n\
                typedef struct { void *data; uint64_t count; } pullback_buffer;\n#endif\n";
        let names: Vec<&str> = bindings.iter().map(|b| b.name.as_str()).collect();
        let _ = writeln!(out, "\n/* The buffers of kernels, in this order: {}. */", names.join(", "));
        out += match options.exclusive {
            true => {
                "/* No two calls at a time with the same buffers: what kernels add up is not added atomically. */\n"
            }
            false => {
                "/* Calls at a time on several threads may add to the same buffers: that is atomic. */\n"
            }
        };
        for kernel in kernels {
            let _ = writeln!(
                out,
                "int {kernel}(const pullback_buffer buffers[{}], uint32_t groups_x, uint32_t groups_y, uint32_t groups_z);",
                bindings.len().max(1)
            );
        }
    }
    out += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
    out
}

fn parameter(part: &Part) -> String {
    let Part { name, c_type, .. } = part;
    match part.count {
        None => format!("{c_type} {name}"),
        // C has no arrays without elements.
        Some(0) => format!("const {c_type} *{name}"),
        Some(n) => format!("const {c_type} {name}[{n}]"),
    }
}

fn result(part: &Part) -> String {
    let Part { name, c_type, .. } = part;
    match part.count {
        None | Some(0) => format!("{c_type} *{name}"),
        Some(n) => format!("{c_type} {name}[{n}]"),
    }
}
