//! Debug locations, for a profile.
//!
//! While functions are written, an instruction ends with a mark and the number of its location in the notes of
//! `native::profile`. Once all functions are there, the marks become LLVM's metadata, in which the number, plus one,
//! takes the place of a line: the line table of the object file then gives the location of each address (`link`).
//! A location of LLVM's belongs to one function, so each function has its own.
//!
//! Functions without marks, those of the library, have no locations. Where LLVM inlines one, its instructions get the
//! location of the call.

use std::cell::Cell;
use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use crate::unit::{Function, Unit};

/// The text between an instruction and the number of its location.
pub(crate) const MARK: &str = ", !dbg !P";

/// Replaces the marks in a module by metadata, whose numbers begin with `first`.
pub(crate) fn number(unit: &mut Unit, first: usize) {
    let (all, file, types) = (first, first + 1, first + 2);
    let next = Cell::new(first + 5);
    let fresh = || next.replace(next.get() + 1);
    let mut text = format!(
        "!llvm.dbg.cu = !{{!{all}}}\n\
         !llvm.module.flags = !{{!{}, !{}}}\n\
         !{all} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, emissionKind: LineTablesOnly)\n\
         !{file} = !DIFile(filename: \"kernel\", directory: \"/\")\n\
         !{types} = !DISubroutineType(types: !4)\n\
         !{} = !{{i32 2, !\"Debug Info Version\", i32 3}}\n\
         !{} = !{{i32 7, !\"Dwarf Version\", i32 4}}\n",
        first + 3,
        first + 4,
        first + 3,
        first + 4,
    );
    for function in unit.functions.iter_mut().filter(|f| f.body.contains(MARK)) {
        let own = fresh();
        let _ = writeln!(
            text,
            "!{own} = distinct !DISubprogram(name: \"{0}\", scope: !{file}, file: !{file}, line: 0, type: !{types}, \
             spFlags: DISPFlagDefinition, unit: !{all})",
            function.name
        );
        function.debug = format!(" !dbg !{own}");
        let mut known = FxHashMap::default();
        let lines = of_function(function, &mut |line| {
            *known.entry(line).or_insert_with(|| {
                let location = fresh();
                let _ = writeln!(text, "!{location} = !DILocation(line: {line}, scope: !{own})");
                location
            })
        });
        function.body = lines;
    }
    unit.head.push_str(&text);
}

/// The body of a function with metadata, whose numbers `number` gives for the numbers of lines.
fn of_function(function: &Function, number: &mut impl FnMut(u32) -> usize) -> String {
    let mut body = String::with_capacity(function.body.len());
    for line in function.body.lines() {
        if let Some((inst, location)) = line.rsplit_once(MARK) {
            let location: u32 = location.parse().expect("a number follows the mark");
            let _ = writeln!(body, "{inst}, !dbg !{}", number(location + 1));
        } else if line.contains(" call ") {
            // A call without a location could not be inlined. Line 0 stands for none.
            let _ = writeln!(body, "{line}, !dbg !{}", number(0));
        } else {
            let _ = writeln!(body, "{line}");
        }
    }
    body
}

/// The locations at which a listing of assembly moves values to the frame and back, and the number of instructions that
/// do.
#[cfg(feature = "jit")]
pub(crate) fn spills(listing: &str) -> FxHashMap<u32, u32> {
    let mut found: FxHashMap<u32, u32> = FxHashMap::default();
    let mut location = None;
    for line in listing.lines() {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix(".loc") {
            let line = rest.split_whitespace().nth(1).and_then(|n| n.parse::<u32>().ok());
            location = line.and_then(|n| n.checked_sub(1)).or(location);
        } else if line.ends_with(':') && !line.starts_with('.') {
            location = None;
        }
        let Some(location) = location else { continue };
        let Some((_, comment)) = line.rsplit_once("-byte ") else { continue };
        if matches!(comment.trim_start_matches("Folded "), "Spill" | "Reload") {
            *found.entry(location).or_default() += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_metadata() {
        let mut unit = Unit::default();
        let body = "entry:\n  %r0 = fadd float 1.0, 2.0, !dbg !P7\n  call void @g()\n  ret void, !dbg !P7\n";
        unit.functions.push(Function { body: body.to_string(), ..Function::external("f", "", "nounwind") });
        let body = "  ret void\n".to_string();
        unit.functions.push(Function { body, ..Function::external("g", "", "nounwind") });
        number(&mut unit, 200);
        let text = unit.print();
        assert!(text.contains("define void @f() nounwind !dbg !205 {"), "{text}");
        assert!(
            text.contains("  %r0 = fadd float 1.0, 2.0, !dbg !206\n  call void @g(), !dbg !207\n"),
            "{text}"
        );
        assert!(text.contains("!206 = !DILocation(line: 8, scope: !205)"), "{text}");
        assert!(text.contains("define void @g() nounwind {\n  ret void\n}"), "{text}");
    }

    #[test]
    #[cfg(feature = "jit")]
    fn spills_belong_to_lines() {
        let listing = "f:\n\t.loc 1 8 0\n\tvmovups %zmm0, 64(%rsp) # 64-byte Spill\n\
                       \tvaddps 64(%rsp), %zmm1, %zmm0 # 64-byte Folded Reload\n\
                       \t.loc 1 0 0 is_stmt 0\n\tvmovups 64(%rsp), %zmm0 # 64-byte Reload\n\
                       g:\n\tmovq %rax, (%rsp) # 8-byte Spill\n\
                       \t.loc 1 3 0\n\tstr q0, [sp] // 16-byte Folded Spill\n";
        let mut found: Vec<_> = spills(listing).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [(2, 1), (7, 3)]);
    }
}
