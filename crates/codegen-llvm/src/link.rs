//! Links object files to code in memory.
//!
//! LLVM compiles a module to relocatable ELF files on every system. Their sections are laid out one after
//! another in one mapping, followed by a table with an entry for each symbol: its address, and a jump to it.
//! So any address can be reached, wherever the mapping is. Then the relocations are applied and the mapping
//! is made executable. A malformed file gives an error: nothing is read outside of it.
//!
//! LLVM's own linker would do the same. But a kernel that comes from the cache does not need LLVM otherwise,
//! and opening its library takes longer than everything else.

#[cfg(unix)]
use libloading::os::unix::Library;
#[cfg(windows)]
use libloading::os::windows::Library;
use memmap2::{Mmap, MmapMut};
use native::profile::Line;
use object::elf::*;
use object::read::elf::ElfFile64;
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags,
    SectionIndex, SectionKind, SymbolIndex,
};
use rustc_hash::FxHashMap;

type FxIndexMap<K, V> = indexmap::IndexMap<K, V, rustc_hash::FxBuildHasher>;

/// Linked code in memory, unmapped when it is dropped.
pub(crate) struct Linked {
    memory: Mmap,
    /// The addresses of the global symbols.
    symbols: FxHashMap<String, u64>,
    /// The code by location, if the files have line tables.
    pub(crate) lines: Vec<Line>,
}

/// The size of an entry of the table: an address, and a jump to it.
const ENTRY: u64 = 16;
/// The offset of the jump in its entry, and the jump: to the address 8 bytes before it.
const JUMP: u64 = 8;
const JUMP_CODE: [u8; 8] = match cfg!(target_arch = "aarch64") {
    // jmp *-14(%rip)
    false => [0xff, 0x25, 0xf2, 0xff, 0xff, 0xff, 0xcc, 0xcc],
    // ldr x16, .-8; br x16
    true => [0xd0, 0xff, 0xff, 0x58, 0x00, 0x02, 0x1f, 0xd6],
};

/// A parsed file whose sections are placed in the mapping.
struct File<'a> {
    elf: ElfFile64<'a>,
    /// The offsets in the mapping of the sections that are loaded.
    places: FxIndexMap<SectionIndex, u64>,
    /// The offset in the table of the entry of the first symbol.
    entries: u64,
}

impl<'a> File<'a> {
    /// Parses a file, and places its sections in the mapping from offset `size` on.
    fn new(bytes: &'a [u8], size: &mut u64, entries: &mut u64) -> Result<File<'a>, String> {
        let elf = ElfFile64::parse(bytes).map_err(malformed)?;
        let own = if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };
        if elf.architecture() != own {
            return Err("the object file is for another machine".into());
        }
        let mut file = File { elf, places: FxIndexMap::default(), entries: *entries };
        for section in file.elf.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
            let name = section.name().map_err(malformed)?;
            if sh_flags & u64::from(SHF_ALLOC) == 0 || section.size() == 0 || name.starts_with(".eh_frame") {
                continue;
            }
            if section.kind() == SectionKind::UninitializedData || name == ".data" {
                return Err(format!("the object file has a section {name}, which would be written"));
            }
            let bytes = section.data().map_err(malformed)?;
            *size = size.next_multiple_of(section.align().clamp(1, 4096));
            file.places.insert(section.index(), *size);
            *size += bytes.len() as u64;
        }
        *entries += ENTRY * file.elf.symbols().map(|s| s.index().0 as u64 + 1).max().unwrap_or(0);
        Ok(file)
    }

    /// The address of a symbol that the file defines, if its section is loaded.
    fn place<'b>(&self, symbol: &impl ObjectSymbol<'b>, base: u64) -> Option<u64> {
        let to = self.places.get(&symbol.section_index()?)?;
        Some(base.wrapping_add(*to).wrapping_add(symbol.address()))
    }
}

fn malformed(error: object::Error) -> String {
    format!("the object file is malformed: {error}")
}

impl Linked {
    /// Links object files; `known` holds the addresses of symbols that no file defines, and the system
    /// provides the others.
    pub(crate) fn new(objects: &[Vec<u8>], known: &FxHashMap<String, u64>) -> Result<Linked, String> {
        let (mut size, mut entries) = (0, 0);
        let files: Result<Vec<File<'_>>, String> =
            objects.iter().map(|object| File::new(object, &mut size, &mut entries)).collect();
        let files = files?;
        let table = size.next_multiple_of(ENTRY);
        let total = (table + entries).max(1) as usize;
        let mut memory = MmapMut::map_anon(total).map_err(|e| e.to_string())?;
        let base = memory.as_ptr() as u64;
        let mut symbols: FxHashMap<String, u64> = FxHashMap::default();
        for file in &files {
            for (&index, &to) in &file.places {
                let section = file.elf.section_by_index(index).map_err(malformed)?;
                let bytes = section.data().map_err(malformed)?;
                memory[to as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            for symbol in file.elf.symbols().filter(|s| s.is_global()) {
                if let Some(at) = file.place(&symbol, base) {
                    symbols.insert(symbol.name().map_err(malformed)?.to_string(), at);
                }
            }
        }
        for file in &files {
            let mut link = Link { memory: &mut memory, base, table: table + file.entries };
            for symbol in file.elf.symbols() {
                let at = match symbol.name().map_err(malformed)? {
                    name if symbol.is_undefined() && !name.is_empty() => {
                        let own = symbols.get(name).or_else(|| known.get(name));
                        Some(own.copied().map_or_else(|| of_system(name), Ok)?)
                    }
                    _ => file.place(&symbol, base),
                };
                link.enter(symbol.index(), at.unwrap_or(0))?;
            }
            for (&index, &to) in &file.places {
                let section = file.elf.section_by_index(index).map_err(malformed)?;
                for (place, relocation) in section.relocations() {
                    let (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(symbol)) =
                        (relocation.flags(), relocation.target())
                    else {
                        continue;
                    };
                    if relocation.has_implicit_addend() || place >= section.size() {
                        return Err("the object file has a relocation of an unknown kind".into());
                    }
                    link.apply(to + place, r_type, symbol, relocation.addend())?;
                }
            }
        }
        let mut all = Vec::new();
        for file in &files {
            all.extend(lines(file, base)?);
        }
        let memory = memory.make_exec().map_err(|e| e.to_string())?;
        flush(&memory);
        Ok(Linked { memory, symbols, lines: all })
    }

    /// The address of a function.
    pub(crate) fn address(&self, name: &str) -> Result<u64, String> {
        let at = self.symbols.get(name).copied().ok_or_else(|| format!("the object file has no {name}"))?;
        debug_assert!(self.memory.as_ptr_range().contains(&(at as *const u8)));
        Ok(at)
    }
}

/// The pieces of the code of a file, by its line table, in which the numbers of locations, plus one, take the place of
/// lines. Code without a location belongs to that before it.
fn lines(file: &File<'_>, base: u64) -> Result<Vec<Line>, String> {
    let Some(section) = file.elf.section_by_name(".debug_line") else { return Ok(Vec::new()) };
    let mut bytes = section.data().map_err(malformed)?.to_vec();
    for (place, relocation) in section.relocations() {
        let (64, RelocationTarget::Symbol(symbol)) = (relocation.size(), relocation.target()) else {
            continue;
        };
        let symbol = file.elf.symbol_by_index(symbol).map_err(malformed)?;
        let at = file.place(&symbol, base).unwrap_or(0).wrapping_add_signed(relocation.addend());
        let word = bytes.get_mut(place as usize..).and_then(|rest| rest.get_mut(..8));
        word.ok_or("the object file has a relocation outside of its line table")?
            .copy_from_slice(&at.to_le_bytes());
    }
    let broken = |error: gimli::Error| format!("the object file has a malformed line table: {error}");
    let table = gimli::DebugLine::new(&bytes, gimli::LittleEndian);
    let program = table.program(gimli::DebugLineOffset(0), 8, None, None).map_err(broken)?;
    let mut rows = program.rows();
    let (mut all, mut last): (Vec<Line>, Option<(u64, Option<u32>)>) = (Vec::new(), None);
    while let Some((_, row)) = rows.next_row().map_err(broken)? {
        let here = row.address();
        if let Some((start, location)) = last {
            all.push(Line { start, end: here, location });
        }
        let own = row.line().and_then(|line| u32::try_from(line.get() - 1).ok());
        let before = last.and_then(|last| last.1);
        last = (!row.end_sequence()).then_some((here, own.or(before)));
    }
    Ok(all)
}

/// Flushes the instruction cache for code that was written as data.
fn flush(memory: &Mmap) {
    #[cfg(target_arch = "aarch64")]
    {
        unsafe extern "C" {
            fn __clear_cache(start: *const u8, end: *const u8);
        }
        let range = memory.as_ptr_range();
        // SAFETY: the range is that of the mapping.
        unsafe { __clear_cache(range.start, range.end) };
    }
    let _ = memory;
}

/// The address of a function of the system that LLVM calls by itself, such as `memcpy`.
fn of_system(name: &str) -> Result<u64, String> {
    let terminated = format!("{name}\0");
    #[cfg(unix)]
    let library = Ok(Library::this());
    // The C library, which is loaded in every process that Rust code runs in.
    #[cfg(windows)]
    let library = Library::open_already_loaded("ucrtbase.dll");
    // SAFETY: only the address is taken; LLVM calls the functions of these names with their types.
    let found = library
        .and_then(|library| unsafe { library.get::<*const u8>(terminated.as_bytes()).map(|symbol| *symbol) });
    found.map(|at| at as u64).map_err(|_| format!("the system has no function {name}"))
}

/// The state of linking one file.
struct Link<'a> {
    memory: &'a mut MmapMut,
    base: u64,
    /// The offset of the file's part of the table.
    table: u64,
}

impl Link<'_> {
    fn bytes(&mut self, at: u64, n: usize) -> Result<&mut [u8], String> {
        let bytes = self.memory.get_mut(at as usize..).and_then(|m| m.get_mut(..n));
        bytes.ok_or_else(|| "the object file has a relocation outside of it".into())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        self.bytes(at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes `distance` in 32 bits.
    fn write_short(&mut self, at: u64, distance: i64) -> Result<(), String> {
        self.write(at, &i32::try_from(distance).map_err(|_| too_far())?.to_le_bytes())
    }

    /// Replaces the bits of an instruction that are not in `keep`.
    fn patch(&mut self, at: u64, keep: u32, bits: u32) -> Result<(), String> {
        let word = self.bytes(at, 4)?;
        let old = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&(old & keep | bits & !keep).to_le_bytes());
        Ok(())
    }

    /// The offset of a symbol's entry in the table.
    fn entry(&self, symbol: SymbolIndex) -> u64 {
        (symbol.0 as u64).saturating_mul(ENTRY).saturating_add(self.table)
    }

    /// Writes a symbol's entry in the table; the address 0 stands for one that is not loaded.
    fn enter(&mut self, symbol: SymbolIndex, at: u64) -> Result<(), String> {
        let entry = self.entry(symbol);
        self.write(entry, &at.to_le_bytes())?;
        self.write(entry + JUMP, &JUMP_CODE)
    }

    fn address(&mut self, symbol: SymbolIndex) -> Result<u64, String> {
        let bytes = self.bytes(self.entry(symbol), 8)?;
        let at = bytes.iter().rev().fold(0, |at, &byte| at << 8 | u64::from(byte));
        (at != 0).then_some(at).ok_or_else(|| "the object file refers to what is not loaded".into())
    }

    /// The address to which a call of a symbol jumps: the symbol's, if it is in the mapping.
    fn callee(&mut self, symbol: SymbolIndex) -> Result<u64, String> {
        let at = self.address(symbol)?;
        let is_near = at.checked_sub(self.base).is_some_and(|k| k < self.memory.len() as u64);
        Ok(if is_near { at } else { self.base + self.entry(symbol) + JUMP })
    }

    /// Applies a relocation at `place`, an offset in the mapping.
    fn apply(&mut self, place: u64, kind: u32, symbol: SymbolIndex, addend: i64) -> Result<(), String> {
        let address = self.address(symbol)?;
        let slot = self.base + self.entry(symbol);
        let here = self.base + place;
        let plus = |at: u64| at.wrapping_add_signed(addend);
        let distance = |at: u64| plus(at).wrapping_sub(here) as i64;
        if cfg!(not(target_arch = "aarch64")) {
            return match kind {
                R_X86_64_NONE => Ok(()),
                R_X86_64_64 => self.write(place, &plus(address).to_le_bytes()),
                R_X86_64_PC64 => self.write(place, &distance(address).to_le_bytes()),
                R_X86_64_PC32 => self.write_short(place, distance(address)),
                R_X86_64_PLT32 => {
                    let callee = self.callee(symbol)?;
                    self.write_short(place, distance(callee))
                }
                R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX => {
                    self.write_short(place, distance(slot))
                }
                _ => Err(format!("the object file has a relocation of type {kind}")),
            };
        }
        match kind {
            R_AARCH64_NONE => Ok(()),
            R_AARCH64_ABS64 => self.write(place, &plus(address).to_le_bytes()),
            R_AARCH64_PREL64 => self.write(place, &distance(address).to_le_bytes()),
            R_AARCH64_PREL32 => self.write_short(place, distance(address)),
            R_AARCH64_ADR_PREL_PG_HI21 | R_AARCH64_ADR_GOT_PAGE => {
                let at = if kind == R_AARCH64_ADR_GOT_PAGE { slot } else { plus(address) };
                let pages = (at >> 12).wrapping_sub(here >> 12) as i64;
                if !(-(1 << 20)..1 << 20).contains(&pages) {
                    return Err(too_far());
                }
                let pages = pages as u32;
                self.patch(place, 0x9f00_001f, (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5)
            }
            R_AARCH64_ADD_ABS_LO12_NC
            | R_AARCH64_LDST8_ABS_LO12_NC
            | R_AARCH64_LDST16_ABS_LO12_NC
            | R_AARCH64_LDST32_ABS_LO12_NC
            | R_AARCH64_LDST64_ABS_LO12_NC
            | R_AARCH64_LDST128_ABS_LO12_NC
            | R_AARCH64_LD64_GOT_LO12_NC => {
                let at = if kind == R_AARCH64_LD64_GOT_LO12_NC { slot } else { plus(address) };
                let shift = match kind {
                    R_AARCH64_LDST16_ABS_LO12_NC => 1,
                    R_AARCH64_LDST32_ABS_LO12_NC => 2,
                    R_AARCH64_LDST64_ABS_LO12_NC | R_AARCH64_LD64_GOT_LO12_NC => 3,
                    R_AARCH64_LDST128_ABS_LO12_NC => 4,
                    _ => 0,
                };
                self.patch(place, !(0xfff << 10), ((at as u32 & 0xfff) >> shift) << 10)
            }
            R_AARCH64_JUMP26 | R_AARCH64_CALL26 => {
                let callee = self.callee(symbol)?;
                if !(-(1 << 27)..1 << 27).contains(&distance(callee)) {
                    return Err(too_far());
                }
                self.patch(place, !0x3ff_ffff, (distance(callee) >> 2) as u32)
            }
            _ => Err(format!("the object file has a relocation of type {kind}")),
        }
    }
}

fn too_far() -> String {
    "the object file reaches too far".to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::objects;
    use crate::unit::{Function, Unit};

    fn compiled() -> Vec<Vec<u8>> {
        let mut unit = Unit::default();
        unit.global("rt_zero", "external global double".to_string());
        unit.declared.insert("rt_half".to_string(), ("double".to_string(), "double)".to_string()));
        let body = "  %h = call double @rt_half(double %x)\n  %p = fmul double %h, 4.0\n  \
                    %z = load double, ptr @rt_zero\n  %s = fadd double %p, %z\n  ret double %s\n";
        let twice = Function::external("twice", "double %x", "");
        unit.functions.push(Function { result: "double".to_string(), body: body.to_string(), ..twice });
        objects(&unit, &crate::machine(), &native::Options::default()).expect("compiles").0
    }

    extern "C" fn half(x: f64) -> f64 {
        x / 2.0
    }

    fn known(zero: &f64) -> FxHashMap<String, u64> {
        let half = half as extern "C" fn(f64) -> f64 as usize as u64;
        let zero = std::ptr::from_ref(zero) as u64;
        [("rt_half".to_string(), half), ("rt_zero".to_string(), zero)].into_iter().collect()
    }

    #[test]
    fn code_reaches_what_is_far() {
        let objects = compiled();
        let zero = 0.5;
        let linked = Linked::new(&objects, &known(&zero)).expect("links");
        let at = linked.address("twice").expect("is there") as usize;
        // SAFETY: the function was compiled with this signature.
        let twice: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(at) };
        assert_eq!(twice(3.0), 6.5);
        assert!(linked.address("thrice").is_err());
    }

    /// A function of two locations, compiled with or without these; the second is a call of another function.
    fn with_locations(located: bool) -> Vec<Vec<u8>> {
        let mut unit = Unit { head: "!4 = !{}\n".to_string(), ..Unit::default() };
        let body = "entry:\n  %p = fmul double %x, 4.0, !dbg !P6\n  %q = call fastcc double @inner(double %p), !dbg !P8\n  \
                    ret double %q, !dbg !P8\n";
        let inner = "entry:\n  %p = fdiv double %x, 3.0\n  ret double %p\n";
        for (name, result, body) in [("outer", "double", body), ("inner", "fastcc double", inner)] {
            let body = if located {
                body.to_string()
            } else {
                body.replace(", !dbg !P6", "").replace(", !dbg !P8", "")
            };
            let function = Function::external(name, "double %x", "");
            unit.functions.push(Function { result: result.to_string(), body, ..function });
        }
        if located {
            crate::debug::number(&mut unit, 10);
        }
        objects(&unit, &crate::machine(), &native::Options::default()).expect("compiles").0
    }

    #[test]
    fn code_has_the_locations_of_its_instructions() {
        let linked = Linked::new(&with_locations(true), &FxHashMap::default()).expect("links");
        let lines = native::profile::Lines::new(linked.lines.clone(), None);
        let outer = linked.address("outer").expect("is there");
        let within = lines.pieces().iter().filter(|piece| piece.start >= outer);
        let mut found: Vec<u32> = within.filter_map(|piece| piece.location).collect();
        found.dedup();
        // The division is inlined, and belongs to the call.
        assert_eq!(found, [6, 8]);
        assert!(lines.find(outer).is_some() && lines.find(outer - 1).is_none(), "{lines:?}");
    }

    #[test]
    fn locations_change_no_code() {
        let code = |objects: &[Vec<u8>]| {
            let elf: ElfFile64<'_> = ElfFile64::parse(&objects[0][..]).expect("a file");
            elf.section_by_name(".text").expect("code").data().expect("bytes").to_vec()
        };
        assert_eq!(code(&with_locations(true)), code(&with_locations(false)));
    }

    #[test]
    fn what_is_no_object_file_is_an_error() {
        let objects = compiled();
        let zero = 0.0;
        let known = known(&zero);
        for n in 0..objects[0].len() {
            // A file cut off anywhere gives an error, unless everything that matters precedes the cut.
            let _ = Linked::new(&[objects[0][..n].to_vec()], &known);
            let mut changed = objects[0].clone();
            changed[n] ^= 0xff;
            let _ = Linked::new(&[changed], &known);
        }
        assert!(Linked::new(&[b"text".to_vec()], &known).is_err());
    }
}
