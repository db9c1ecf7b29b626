//! Bindings of a library for Rust: declarations, and functions around them that are safe to call.
//!
//! Arrays are references to arrays of the length that the library reads or writes, and buffers are slices whose length is
//! checked, so no argument makes the library leave memory that it was given.

use std::fmt::Write as _;

use ir::Scalar;

use super::names::c_name;
use super::{Binding, Options, Part, Signature};

/// The words that are no names in Rust, up to the edition 2024, also those that are reserved, and the values that every
/// file knows, which no parameter can hide.
const KEYWORDS: &str = " abstract as async await become box break const continue crate do dyn else enum extern false final fn \
                        for gen if impl in let loop macro match mod move mut override priv pub ref return self Self static \
                        struct super trait true try type typeof unsafe unsized use virtual where while yield _ Ok Err Some None ";

/// The greatest number of bytes that a function returns in an array; longer ones are on the heap.
const MOST: u64 = 1 << 16;

/// Writes a module with the library's prefix as its name.
pub(super) fn bindings(
    signatures: &[Signature],
    kernels: &[&str],
    buffers: &[Binding],
    options: &Options,
) -> String {
    let prefix = &options.prefix;
    let mut out = format!(
        "// Made by Pullback: bindings of a library of C functions. To be included in a file of Rust.\n\n\
         /// Functions that return an error if they stop.\n\
         #[allow(dead_code, non_snake_case, non_camel_case_types, unused_mut, clippy::all)]\n\
         pub mod {} {{\n{HEAD}",
        escaped(prefix)
    );
    let mut names = Vec::new();
    let mut raw = String::new();
    for signature in signatures {
        let own = unique(&escaped(&signature.name), &mut names);
        let signature = &renamed(signature);
        let _ = writeln!(raw, "            #[link_name = \"{}\"]", signature.name);
        let parameters = signature.parameters.iter().map(|p| match p.count {
            None => format!("{}: {}", p.name, number(p.scalar, true)),
            Some(_) => format!("{}: *const {}", p.name, number(p.scalar, false)),
        });
        let results =
            signature.results.iter().map(|p| format!("{}: *mut {}", p.name, number(p.scalar, false)));
        let all: Vec<String> = parameters.chain(results).collect();
        let _ = writeln!(raw, "            pub fn {own}({}) -> std::ffi::c_int;", all.join(", "));
        function(&mut out, signature, &own);
    }
    if !kernels.is_empty() {
        memory(&mut out, buffers);
    }
    for kernel in kernels {
        let own = unique(&escaped(kernel), &mut names);
        let _ = write!(
            raw,
            "            #[link_name = \"{kernel}\"]\n            \
             pub fn {own}(buffers: *const Buffer, x: u32, y: u32, z: u32) -> std::ffi::c_int;\n"
        );
        let _ = write!(
            out,
            "\n    /// Runs so many groups of the kernel `{kernel}` on this thread.\n    \
             pub fn {own}(buffers: &mut Buffers<'_>, groups: [u32; 3]) -> Result<(), Error> {{\n        \
             let buffers = buffers.checked()?;\n        let [x, y, z] = groups;\n        \
             // SAFETY: there is a buffer for each that the kernel takes, with as many elements as it has, and nothing\n        \
             // else reads or writes them while it runs.\n        \
             checks::check(unsafe {{ raw::{own}(buffers.as_ptr(), x, y, z) }})\n    }}\n"
        );
    }
    let _ = write!(
        out,
        "\n    mod raw {{\n        #[repr(C)]\n        pub struct Buffer {{\n            \
         pub data: *mut std::ffi::c_void,\n            pub count: u64,\n        }}\n\n        \
         unsafe extern \"C\" {{\n{raw}        }}\n    }}\n\n    \
         mod checks {{\n        use std::ffi::{{CStr, c_char, c_int, c_void}};\n\n        use super::{{Error, raw}};\n\n        \
         unsafe extern \"C\" {{\n            #[link_name = \"{prefix}_message\"]\n            \
         fn message(status: c_int) -> *const c_char;\n        }}\n{CHECKS}    }}\n}}\n"
    );
    out
}

/// The beginning of the module.
const HEAD: &str = "    /// Why a function has stopped.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Error {
        /// The number of the error; 0 if an argument does not fit, and nothing was called.
        pub status: i32,
        /// The reason.
        pub message: String,
    }

    impl std::fmt::Display for Error {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&self.message)
        }
    }

    impl std::error::Error for Error {}
";

/// The functions that turn a status into a result, and a slice into a buffer.
const CHECKS: &str = "
        pub fn check(status: c_int) -> Result<(), Error> {
            if status == 0 {
                return Ok(());
            }
            // SAFETY: the library gives null or a text that stays.
            let message = unsafe {
                let text = message(status);
                if text.is_null() { c\"unknown\" } else { CStr::from_ptr(text) }
            };
            Err(Error { status, message: message.to_string_lossy().into_owned() })
        }

        /// A buffer with as many elements as a slice holds, if it holds whole ones and begins where one may.
        pub fn buffer(
            name: &str,
            data: *mut c_void,
            len: usize,
            (each, align): (usize, usize),
            single: Option<usize>,
        ) -> Result<raw::Buffer, Error> {
            let wrong = |message| Err(Error { status: 0, message });
            if single.is_some_and(|n| n != len) {
                return wrong(format!(\"`{name}` is one value of {each}, not {len}\"));
            }
            if each == 0 || len % each != 0 {
                return wrong(format!(\"`{name}` has elements of {each}, which {len} do not fill\"));
            }
            if len > 0 && data as usize % align != 0 {
                return wrong(format!(\"the bytes of `{name}` are aligned to {align}\"));
            }
            Ok(raw::Buffer { data, count: (len / each) as u64 })
        }
";

/// The name of a type. A truth value that is passed by itself is a `bool`; in memory it is a byte.
fn number(s: Scalar, is_alone: bool) -> &'static str {
    match s {
        Scalar::Bool if is_alone => "bool",
        Scalar::Bool | Scalar::U8 => "u8",
        Scalar::I8 => "i8",
        Scalar::I16 => "i16",
        // A half is passed as its bits.
        Scalar::U16 | Scalar::F16 => "u16",
        Scalar::I32 => "i32",
        Scalar::U32 => "u32",
        Scalar::I64 => "i64",
        Scalar::U64 => "u64",
        Scalar::F32 => "f32",
        Scalar::F64 => "f64",
    }
}

/// A name that Rust accepts.
fn escaped(name: &str) -> String {
    if KEYWORDS.contains(&format!(" {name} ")) { format!("{name}_") } else { name.to_string() }
}

/// A signature whose parameters and results have names that Rust accepts.
fn renamed(signature: &Signature) -> Signature {
    let mut names = Vec::new();
    let mut part = |part: &Part| Part { name: unique(&escaped(&part.name), &mut names), ..*part };
    Signature {
        name: signature.name.clone(),
        about: signature.about.clone(),
        parameters: signature.parameters.iter().map(&mut part).collect(),
        results: signature.results.iter().map(&mut part).collect(),
    }
}

/// A name that is not in the list, to which it is added.
fn unique(name: &str, names: &mut Vec<String>) -> String {
    let mut found = name.to_string();
    while names.contains(&found) {
        found.push('_');
    }
    names.push(found.clone());
    found
}

/// Returns true if a result is so long that it is on the heap.
fn is_long(part: &Part) -> bool {
    part.count.is_some_and(|n| n.saturating_mul(u64::from(part.scalar.bytes())) > MOST)
}

/// The type of a result.
fn result_type(part: &Part) -> String {
    match part.count {
        None => number(part.scalar, true).to_string(),
        Some(_) if is_long(part) => format!("Vec<{}>", number(part.scalar, false)),
        Some(n) => format!("[{}; {n}]", number(part.scalar, false)),
    }
}

/// The names of results in a struct.
fn fields(results: &[Part]) -> Vec<String> {
    let mut names = Vec::new();
    let plain = |part: &Part| part.name.strip_prefix("out_").unwrap_or(&part.name).to_string();
    results.iter().map(|part| unique(&escaped(&plain(part)), &mut names)).collect()
}

/// Writes a function around one of the library.
fn function(out: &mut String, signature: &Signature, own: &str) {
    let Signature { about, parameters, results, .. } = signature;
    let listed: Vec<String> = parameters
        .iter()
        .map(|p| match p.count {
            None => format!("{}: {}", p.name, number(p.scalar, true)),
            Some(n) => format!("{}: &[{}; {n}]", p.name, number(p.scalar, false)),
        })
        .collect();
    let structure = format!("{own}_results");
    let returned = match &results[..] {
        [] => "()".to_string(),
        [one] => result_type(one),
        _ => {
            let _ = write!(
                out,
                "\n    /// What [`{own}()`] gives.\n    #[derive(Clone, Debug, PartialEq)]\n    pub struct {structure} {{\n"
            );
            for (part, field) in results.iter().zip(fields(results)) {
                let _ = write!(
                    out,
                    "        /// `{}` of the library.\n        pub {field}: {},\n",
                    part.name,
                    result_type(part)
                );
            }
            *out += "    }\n";
            structure.clone()
        }
    };
    let list = listed.join(", ");
    let _ =
        write!(out, "\n    /// Calls {about}.\n    pub fn {own}({list}) -> Result<{returned}, Error> {{\n");
    for part in results {
        let (name, ty) = (&part.name, number(part.scalar, false));
        let _ = match part.count {
            None => writeln!(out, "        let mut {name}: {ty} = Default::default();"),
            Some(n) if is_long(part) => {
                writeln!(out, "        let mut {name}: Vec<{ty}> = vec![Default::default(); {n}];")
            }
            Some(n) => writeln!(out, "        let mut {name}: [{ty}; {n}] = [Default::default(); {n}];"),
        };
    }
    let passed = parameters.iter().map(|p| match p.count {
        None => p.name.clone(),
        Some(_) => format!("{}.as_ptr()", p.name),
    });
    let written = results.iter().map(|p| match p.count {
        None => format!("&mut {}", p.name),
        Some(_) => format!("{}.as_mut_ptr()", p.name),
    });
    let all: Vec<String> = passed.chain(written).collect();
    let _ = write!(
        out,
        "        // SAFETY: each pointer refers to as many numbers as the function reads or writes.\n        \
         checks::check(unsafe {{ raw::{own}({}) }})?;\n",
        all.join(", ")
    );
    let value = |part: &Part| match (part.scalar, part.count) {
        (Scalar::Bool, None) => format!("{} != 0", part.name),
        _ => part.name.clone(),
    };
    let _ = match &results[..] {
        [] => writeln!(out, "        Ok(())"),
        [one] => writeln!(out, "        Ok({})", value(one)),
        _ => {
            let named = results.iter().zip(fields(results));
            let fields: Vec<String> = named.map(|(p, field)| format!("{field}: {}", value(p))).collect();
            writeln!(out, "        Ok({structure} {{ {} }})", fields.join(", "))
        }
    };
    *out += "    }\n";
}

/// Writes the struct of the buffers that kernels take.
fn memory(out: &mut String, buffers: &[Binding]) {
    let mut names = Vec::new();
    let fields: Vec<String> =
        buffers.iter().map(|b| unique(&escaped(c_name(&b.name).trim_matches('_')), &mut names)).collect();
    *out +=
        "\n    /// The memory of all kernels. Structs are given as their bytes, and a `bool` as a byte.\n";
    let _ = writeln!(out, "    pub struct Buffers<'a> {{");
    for (buffer, field) in buffers.iter().zip(&fields) {
        let about = match (&buffer.scalars, buffer.is_single) {
            (Some((_, 1)), true) => "One number".to_string(),
            (Some((_, n)), true) => format!("{n} numbers"),
            (Some((_, 1)), false) => "Numbers".to_string(),
            (Some((_, n)), false) => format!("Elements of {n} numbers each"),
            (None, true) => format!("{} bytes, aligned to {}", buffer.size.0, buffer.size.1),
            (None, false) => {
                format!("Elements of {} bytes each, aligned to {}", buffer.size.0, buffer.size.1)
            }
        };
        let ty = buffer.scalars.map_or("u8", |(s, _)| number(s, false));
        let mutable = if buffer.is_writable { "mut " } else { "" };
        let _ = write!(
            out,
            "        /// {about}: `{}` of the program.\n        pub {field}: &'a {mutable}[{ty}],\n",
            buffer.name
        );
    }
    if buffers.is_empty() {
        *out += "        /// Kernels take none.\n        pub none: std::marker::PhantomData<&'a ()>,\n";
    }
    let n = buffers.len().max(1);
    let _ = write!(
        out,
        "    }}\n\n    impl Buffers<'_> {{\n        fn checked(&mut self) -> Result<[raw::Buffer; {n}], Error> {{\n            Ok([\n"
    );
    for (buffer, field) in buffers.iter().zip(&fields) {
        let each = buffer.scalars.map_or(buffer.size.0, |scalars| scalars.1);
        let align = if buffer.scalars.is_some() { 1 } else { buffer.size.1 };
        let single = if buffer.is_single { format!("Some({each})") } else { "None".to_string() };
        let data = match buffer.is_writable {
            true => format!("self.{field}.as_mut_ptr().cast()"),
            false => format!("self.{field}.as_ptr().cast_mut().cast()"),
        };
        let _ = writeln!(
            out,
            "                checks::buffer(\"{}\", {data}, self.{field}.len(), ({each}, {align}), {single})?,",
            buffer.name
        );
    }
    if buffers.is_empty() {
        *out += "                raw::Buffer { data: std::ptr::null_mut(), count: 0 },\n";
    }
    *out += "            ])\n        }\n    }\n";
}
