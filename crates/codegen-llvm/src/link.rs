//! Links object files to code in memory.
//!
//! LLVM compiles a module to relocatable ELF files on every system. Their sections are laid out one after
//! another in one mapping, followed by a table of addresses for symbols outside the mapping and, for calls, a
//! jump through each entry. So any address can be reached, wherever the mapping is. Then the relocations are
//! applied and the mapping is made executable. A malformed file gives an error: nothing is read outside of
//! it.
//!
//! LLVM's own linker would do the same. But a kernel that comes from the cache does not need LLVM otherwise,
//! and opening its library takes longer than everything else.

#[cfg(unix)]
use libloading::os::unix::Library;
#[cfg(windows)]
use libloading::os::windows::Library;
use memmap2::{Mmap, MmapMut};
use rustc_hash::FxHashMap;

/// Linked code in memory, unmapped when it is dropped.
pub(crate) struct Linked {
    memory: Mmap,
    /// The addresses of the global symbols.
    symbols: FxHashMap<String, usize>,
}

/// Section flags and types, and special section numbers of symbols.
const ALLOC: u64 = 2;
const NO_BITS: u32 = 8;
const RELA: u32 = 4;
const REL: u32 = 9;
const SYMBOLS: u32 = 2;
const UNDEFINED: u16 = 0;
const ABSOLUTE: u16 = 0xfff1;

const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// The bytes of an object file.
struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn bytes(&self, at: u64, n: u64) -> Result<&'a [u8], String> {
        let end = at.checked_add(n).filter(|&end| end <= self.0.len() as u64);
        end.map(|end| &self.0[at as usize..end as usize]).ok_or_else(|| "the object file is cut off".into())
    }

    fn u16(&self, at: u64) -> Result<u16, String> {
        let b = self.bytes(at, 2)?;
        Ok(u16::from_le_bytes([b[0], b[1]]))
    }

    fn u32(&self, at: u64) -> Result<u32, String> {
        let b = self.bytes(at, 4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&self, at: u64) -> Result<u64, String> {
        Ok(u64::from(self.u32(at)?) | u64::from(self.u32(at.saturating_add(4))?) << 32)
    }

    /// The terminated string at an offset in a string table.
    fn text(&self, table: &Section, at: u32) -> Result<String, String> {
        let all = self.bytes(table.at, table.size)?;
        let rest = all.get(at as usize..).unwrap_or_default();
        let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    /// The offset and size in the file.
    at: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    /// The offset in the mapping.
    to: Option<u64>,
}

struct Symbol {
    name: String,
    /// True if the symbol is visible to other files.
    global: bool,
    section: u16,
    value: u64,
}

/// A parsed file whose sections are placed in the mapping.
struct Parsed<'a> {
    file: File<'a>,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
}

impl<'a> Parsed<'a> {
    /// Parses a file, and places its sections in the mapping from offset `size` on.
    fn new(object: &'a [u8], machine: u16, size: &mut u64) -> Result<Parsed<'a>, String> {
        let file = File(object);
        if file.bytes(0, 6)? != b"\x7fELF\x02\x01" {
            return Err("the object file is no ELF file of 64 bits".into());
        }
        if file.u16(18)? != machine {
            return Err("the object file is for another machine".into());
        }
        let mut sections = sections(&file)?;
        let names = sections.get(file.u16(62)? as usize).copied().unwrap_or_default();
        for section in &mut sections {
            if section.flags & ALLOC == 0 || section.size == 0 {
                continue;
            }
            let name = file.text(&names, section.name)?;
            if name.starts_with(".eh_frame") {
                continue;
            }
            if section.kind == NO_BITS || name == ".data" {
                return Err(format!("the object file has a section {name}, which would be written"));
            }
            file.bytes(section.at, section.size)?;
            *size = size.next_multiple_of(section.align.clamp(1, 4096));
            section.to = Some(*size);
            *size += section.size;
        }
        let symbols = symbols(&file, &sections)?;
        Ok(Parsed { file, sections, symbols })
    }

    /// The address of a symbol of the file, if its section is loaded.
    fn place(&self, symbol: &Symbol, base: u64) -> Option<u64> {
        if symbol.section == ABSOLUTE {
            return Some(symbol.value);
        }
        let to = self.sections.get(symbol.section as usize)?.to?;
        Some(base.wrapping_add(to).wrapping_add(symbol.value))
    }

    fn relocate(&self, machine: u16, link: &mut Link<'_>) -> Result<(), String> {
        for relocations in self.sections.iter().filter(|s| s.kind == RELA || s.kind == REL) {
            let Some(target) = self.sections.get(relocations.info as usize) else { continue };
            let Some(to) = target.to else { continue };
            if relocations.kind == REL {
                return Err("the object file has relocations without addends".into());
            }
            for k in 0..relocations.size / 24 {
                let at = relocations.at.saturating_add(24 * k);
                let file = &self.file;
                let (place, info, addend) = (file.u64(at)?, file.u64(at + 8)?, file.u64(at + 16)?);
                if place >= target.size {
                    return Err("the object file has a relocation outside of its section".into());
                }
                link.apply(machine, to + place, info as u32, (info >> 32) as usize, addend as i64)?;
            }
        }
        Ok(())
    }
}

/// The entries that relocations need for a symbol outside the mapping.
#[derive(Clone, Copy, Debug, Default)]
struct Far {
    /// The offset of the slot that holds the symbol's address.
    slot: Option<u64>,
    /// The offset of the jump to the symbol.
    stub: Option<u64>,
}

impl Linked {
    /// Links object files; `known` holds the addresses of symbols that no file defines, and the system
    /// provides the others.
    pub(crate) fn new(objects: &[Vec<u8>], known: &FxHashMap<String, u64>) -> Result<Linked, String> {
        let machine = if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 };
        let mut size = 0u64;
        let mut n_symbols = 0;
        let mut files = Vec::new();
        for object in objects {
            let parsed = Parsed::new(object, machine, &mut size)?;
            n_symbols += parsed.symbols.len() as u64;
            files.push(parsed);
        }
        let slots = size.next_multiple_of(16);
        let stubs = slots + (8 * n_symbols).next_multiple_of(16);
        let total = stubs + 16 * n_symbols;
        let mut memory = MmapMut::map_anon(total.max(1) as usize).map_err(|e| e.to_string())?;
        let base = memory.as_ptr() as u64;
        let mut places: FxHashMap<String, usize> = FxHashMap::default();
        for parsed in &files {
            for section in &parsed.sections {
                if let Some(to) = section.to {
                    let bytes = parsed.file.bytes(section.at, section.size)?;
                    memory[to as usize..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            for symbol in parsed.symbols.iter().filter(|s| s.global && s.section != UNDEFINED) {
                if let Some(at) = parsed.place(symbol, base) {
                    places.insert(symbol.name.clone(), at as usize);
                }
            }
        }
        let mut link =
            Link { memory: &mut memory, base, addresses: Vec::new(), far: Vec::new(), slots, stubs };
        for parsed in &files {
            link.far = vec![Far::default(); parsed.symbols.len()];
            link.addresses.clear();
            for symbol in &parsed.symbols {
                link.addresses.push(match symbol.section {
                    UNDEFINED if symbol.name.is_empty() => None,
                    UNDEFINED => {
                        let own = places.get(&symbol.name).map(|&at| at as u64);
                        match own.or_else(|| known.get(&symbol.name).copied()) {
                            Some(at) => Some(at),
                            None => Some(of_system(&symbol.name)?),
                        }
                    }
                    _ => parsed.place(symbol, base),
                });
            }
            parsed.relocate(machine, &mut link)?;
        }
        let memory = memory.make_exec().map_err(|e| e.to_string())?;
        flush(&memory);
        Ok(Linked { memory, symbols: places })
    }

    /// The address of a function.
    pub(crate) fn address(&self, name: &str) -> Result<u64, String> {
        let at = self.symbols.get(name).copied().ok_or_else(|| format!("the object file has no {name}"))?;
        debug_assert!(self.memory.as_ptr_range().contains(&(at as *const u8)));
        Ok(at as u64)
    }
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

fn sections(file: &File<'_>) -> Result<Vec<Section>, String> {
    let (table, size, n) = (file.u64(40)?, u64::from(file.u16(58)?), u64::from(file.u16(60)?));
    if size != 64 {
        return Err("the object file has sections of another kind".into());
    }
    let first = |at: u64| -> Result<Section, String> {
        Ok(Section {
            name: file.u32(at)?,
            kind: file.u32(at + 4)?,
            flags: file.u64(at + 8)?,
            at: file.u64(at + 24)?,
            size: file.u64(at + 32)?,
            link: file.u32(at + 40)?,
            info: file.u32(at + 44)?,
            align: file.u64(at + 48)?,
            to: None,
        })
    };
    // If there are more sections than 16 bits can count, the size of the first section is their number.
    let n = if n == 0 { first(table)?.size.min(1 << 24) } else { n };
    (0..n).map(|k| first(table.saturating_add(64 * k))).collect()
}

fn symbols(file: &File<'_>, sections: &[Section]) -> Result<Vec<Symbol>, String> {
    let Some(table) = sections.iter().find(|s| s.kind == SYMBOLS) else { return Ok(Vec::new()) };
    let names = sections.get(table.link as usize).copied().unwrap_or_default();
    let one = |k: u64| {
        let at = table.at.saturating_add(24 * k);
        let name = file.text(&names, file.u32(at)?)?;
        let global = file.bytes(at + 4, 1)?[0] >> 4 != 0;
        Ok(Symbol { name, global, section: file.u16(at + 6)?, value: file.u64(at + 8)? })
    };
    file.bytes(table.at, table.size)?;
    (0..table.size / 24).map(one).collect()
}

/// The state of linking one file.
struct Link<'a> {
    memory: &'a mut MmapMut,
    base: u64,
    /// The address of each symbol.
    addresses: Vec<Option<u64>>,
    far: Vec<Far>,
    /// The offsets of the next free slot and the next free jump.
    slots: u64,
    stubs: u64,
}

impl Link<'_> {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let room = self.memory.get_mut(at as usize..).and_then(|m| m.get_mut(..bytes.len()));
        room.ok_or("the object file has a relocation outside of it")?.copy_from_slice(bytes);
        Ok(())
    }

    fn word(&self, at: u64) -> Result<u32, String> {
        let bytes = self.memory.get(at as usize..).and_then(|m| m.first_chunk::<4>());
        bytes
            .map(|b| u32::from_le_bytes(*b))
            .ok_or_else(|| "the object file has a relocation outside of it".into())
    }

    fn address(&self, symbol: usize) -> Result<u64, String> {
        let at = self.addresses.get(symbol).copied().flatten();
        at.ok_or_else(|| "the object file refers to what is not loaded".to_string())
    }

    /// The address of the slot that holds a symbol's address.
    fn slot(&mut self, symbol: usize) -> Result<u64, String> {
        let at = self.address(symbol)?;
        if let Some(slot) = self.far[symbol].slot {
            return Ok(self.base + slot);
        }
        let slot = self.slots;
        self.slots += 8;
        self.far[symbol].slot = Some(slot);
        self.write(slot, &at.to_le_bytes())?;
        Ok(self.base + slot)
    }

    /// The address of a jump to a symbol.
    fn stub(&mut self, machine: u16, symbol: usize) -> Result<u64, String> {
        if let Some(stub) = self.far[symbol].stub {
            return Ok(self.base + stub);
        }
        let slot = self.slot(symbol)?;
        let stub = self.stubs;
        self.stubs += 16;
        self.far[symbol].stub = Some(stub);
        let here = self.base + stub;
        if machine == X86_64 {
            // jmp *slot(%rip)
            let mut code = [0xff, 0x25, 0, 0, 0, 0];
            code[2..].copy_from_slice(&(slot.wrapping_sub(here + 6) as i32).to_le_bytes());
            self.write(stub, &code)?;
        } else {
            // adrp x16, slot; ldr x16, [x16, low bits]; br x16
            let pages = (slot >> 12).wrapping_sub(here >> 12) as u32;
            let adrp = 0x9000_0010 | (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5;
            let ldr = 0xf940_0210 | ((slot & 0xfff) as u32 >> 3) << 10;
            for (k, word) in [adrp, ldr, 0xd61f_0200].into_iter().enumerate() {
                self.write(stub + 4 * k as u64, &u32::to_le_bytes(word))?;
            }
        }
        Ok(here)
    }

    /// Returns true if the address is in the mapping.
    fn is_near(&self, at: u64) -> bool {
        at.checked_sub(self.base).is_some_and(|k| k < self.memory.len() as u64)
    }

    /// Applies a relocation at `place`, an offset in the mapping.
    fn apply(
        &mut self,
        machine: u16,
        place: u64,
        kind: u32,
        symbol: usize,
        addend: i64,
    ) -> Result<(), String> {
        let here = self.base + place;
        let plus = |at: u64| at.wrapping_add_signed(addend);
        if machine == X86_64 {
            let to = match kind {
                // R_X86_64_NONE
                0 => return Ok(()),
                // R_X86_64_64
                1 => {
                    let at = plus(self.address(symbol)?);
                    return self.write(place, &at.to_le_bytes());
                }
                // R_X86_64_PC64
                24 => {
                    let at = plus(self.address(symbol)?).wrapping_sub(here);
                    return self.write(place, &at.to_le_bytes());
                }
                // R_X86_64_PC32
                2 => self.address(symbol)?,
                // R_X86_64_PLT32
                4 => match self.address(symbol)? {
                    at if self.is_near(at) => at,
                    _ => self.stub(machine, symbol)?,
                },
                // R_X86_64_GOTPCREL, …GOTPCRELX, …REX_GOTPCRELX
                9 | 41 | 42 => self.slot(symbol)?,
                _ => return Err(format!("the object file has a relocation of type {kind}")),
            };
            let distance = plus(to).wrapping_sub(here) as i64;
            let short = i32::try_from(distance).map_err(|_| "the object file reaches too far")?;
            return self.write(place, &short.to_le_bytes());
        }
        self.apply_aarch64(place, kind, symbol, addend)
    }

    fn apply_aarch64(&mut self, place: u64, kind: u32, symbol: usize, addend: i64) -> Result<(), String> {
        let here = self.base + place;
        let plus = |at: u64| at.wrapping_add_signed(addend);
        let far = || "the object file reaches too far".to_string();
        match kind {
            // R_AARCH64_NONE
            0 => Ok(()),
            // R_AARCH64_ABS64
            257 => {
                let at = plus(self.address(symbol)?);
                self.write(place, &at.to_le_bytes())
            }
            // R_AARCH64_PREL64
            260 => {
                let at = plus(self.address(symbol)?).wrapping_sub(here);
                self.write(place, &at.to_le_bytes())
            }
            // R_AARCH64_PREL32
            261 => {
                let distance = plus(self.address(symbol)?).wrapping_sub(here) as i64;
                self.write(place, &i32::try_from(distance).map_err(|_| far())?.to_le_bytes())
            }
            // R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADR_GOT_PAGE
            275 | 311 => {
                let at = if kind == 275 { plus(self.address(symbol)?) } else { self.slot(symbol)? };
                let pages = (at >> 12).wrapping_sub(here >> 12) as i64;
                if !(-(1 << 20)..1 << 20).contains(&pages) {
                    return Err(far());
                }
                let pages = pages as u32;
                let old = self.word(place)? & 0x9f00_001f;
                let word = old | (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5;
                self.write(place, &word.to_le_bytes())
            }
            // R_AARCH64_ADD_ABS_LO12_NC, …LDST8, …LDST16, …LDST32, …LDST64, …LDST128, R_AARCH64_LD64_GOT_LO12_NC
            277 | 278 | 284 | 285 | 286 | 299 | 312 => {
                let at = if kind == 312 { self.slot(symbol)? } else { plus(self.address(symbol)?) };
                let shift = match kind {
                    284 => 1,
                    285 => 2,
                    286 | 312 => 3,
                    299 => 4,
                    _ => 0,
                };
                let old = self.word(place)? & !(0xfff << 10);
                let word = old | ((at as u32 & 0xfff) >> shift) << 10;
                self.write(place, &word.to_le_bytes())
            }
            // R_AARCH64_JUMP26, R_AARCH64_CALL26
            282 | 283 => {
                let at = match self.address(symbol)? {
                    at if self.is_near(at) => plus(at),
                    _ => self.stub(AARCH64, symbol)?,
                };
                let distance = at.wrapping_sub(here) as i64;
                if !(-(1 << 27)..1 << 27).contains(&distance) {
                    return Err(far());
                }
                let old = self.word(place)? & !0x3ff_ffff;
                let word = old | (distance >> 2) as u32 & 0x3ff_ffff;
                self.write(place, &word.to_le_bytes())
            }
            _ => Err(format!("the object file has a relocation of type {kind}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::objects;

    const TEXT: &str = "\
declare double @rt_half(double)
@rt_zero = external global double

define double @twice(double %x) {
  %h = call double @rt_half(double %x)
  %p = fmul double %h, 4.0
  %z = load double, ptr @rt_zero
  %s = fadd double %p, %z
  ret double %s
}
";

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
        let (objects, _) = objects(TEXT, &crate::machine(), &native::Options::default()).expect("compiles");
        let zero = 0.5;
        let linked = Linked::new(&objects, &known(&zero)).expect("links");
        let at = linked.address("twice").expect("is there") as usize;
        // SAFETY: the function was compiled with this signature.
        let twice: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(at) };
        assert_eq!(twice(3.0), 6.5);
        assert!(linked.address("thrice").is_err());
    }

    #[test]
    fn what_is_no_object_file_is_an_error() {
        let (objects, _) = objects(TEXT, &crate::machine(), &native::Options::default()).expect("compiles");
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
