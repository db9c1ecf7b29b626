//! Conversion between the interpreter's values and the memory of compiled code.

use ir::interp::{Handle, Value};
use ir::{Type, TypeData, Types};

use crate::runtime::{Desc, Header, read, write};
use crate::types::{size, words};

/// Memory that holds arguments and results during one call.
#[derive(Default)]
pub(crate) struct Scratch {
    blocks: Vec<Vec<u128>>,
}

impl Scratch {
    /// Allocates zeroed memory, aligned to 16.
    pub(crate) fn alloc(&mut self, bytes: u64) -> *mut u8 {
        let mut block = vec![0u128; bytes as usize / 16 + 1];
        let at = block.as_mut_ptr().cast();
        self.blocks.push(block);
        at
    }
}

/// The context that values are converted in: their types, and the memory that they can refer to.
pub(crate) struct Place<'a> {
    pub(crate) types: &'a Types,
    pub(crate) globals: &'a [Desc],
    pub(crate) empty: *const Header,
}

impl Place<'_> {
    /// Appends the words of an argument.
    pub(crate) fn words(&self, ty: Type, value: &Value, scratch: &mut Scratch, out: &mut Vec<u64>) {
        match (value, self.types[ty]) {
            (Value::Scalar(bits), _) => out.push(*bits),
            (Value::Vector(lanes), _) => out.extend(lanes.iter().copied()),
            (Value::Array(_), _) => {
                let at = scratch.alloc(size(self.types, ty));
                self.put(ty, value, at, scratch);
                out.push(at as u64);
            }
            (Value::Stack(elements), TypeData::Stack(elem)) => out.push(self.stack(elements, elem, scratch)),
            (Value::Stack(_), _) => out.push(self.empty as u64),
            (Value::Buffer(handle), _) => {
                let desc = handle.buffer.and_then(|n| self.globals.get(n as usize));
                let (ptr, count) = desc.map_or((0, 0), |d| (d.ptr as u64, d.count));
                out.extend([ptr, count, handle.offset as u64, 0]);
            }
        }
    }

    fn stack(&self, elements: &[Value], elem: Type, scratch: &mut Scratch) -> u64 {
        if elements.is_empty() {
            return self.empty as u64;
        }
        let step = size(self.types, elem);
        let ptr = scratch.alloc(step * elements.len() as u64);
        for (k, element) in elements.iter().enumerate() {
            // SAFETY: `ptr` points to room for all elements.
            let at = unsafe { ptr.add(k * step as usize) };
            self.put(elem, element, at, scratch);
        }
        let len = elements.len() as u64;
        let header = scratch.alloc(size_of::<Header>() as u64).cast::<Header>();
        // SAFETY: just allocated, aligned to 16.
        unsafe { header.write(Header { ptr, len, cap: len }) };
        header as u64
    }

    /// Writes a value to memory of its size.
    fn put(&self, ty: Type, value: &Value, at: *mut u8, scratch: &mut Scratch) {
        if let (Value::Array(elements), TypeData::Array(elem, _)) = (value, self.types[ty]) {
            let step = size(self.types, elem) as usize;
            for (k, element) in elements.iter().enumerate() {
                // SAFETY: the elements of the array lie one after the other.
                self.put(elem, element, unsafe { at.add(k * step) }, scratch);
            }
            return;
        }
        let mut words = Vec::new();
        self.words(ty, value, scratch, &mut words);
        let s = self.types.scalar_of(ty).filter(|_| self.types.is_numeric(ty)).unwrap_or(ir::Scalar::U64);
        for (k, &word) in words.iter().enumerate() {
            // SAFETY: a value of the type consists of that many scalars of kind `s`.
            unsafe { write(s, at, k, word) };
        }
    }

    /// Converts the words of a value of type `ty`.
    ///
    /// # Safety
    /// The words are a result of type `ty`, and the arena that they point into is alive.
    pub(crate) unsafe fn value(&self, ty: Type, words: &[u64]) -> Value {
        match self.types[ty] {
            TypeData::Scalar(s) => Value::Scalar(ir::scalar::canonical(s, words[0])),
            TypeData::Vector(s, _) => {
                Value::Vector(words.iter().map(|&w| ir::scalar::canonical(s, w)).collect())
            }
            TypeData::Array(elem, n) => {
                let (at, step) = (words[0] as *const u8, size(self.types, elem) as usize);
                // SAFETY: `at` points to an array of `n` elements.
                let take = |k: usize| unsafe { self.take(elem, at.add(k * step)) };
                Value::array((0..n as usize).map(take).collect())
            }
            TypeData::Stack(elem) => {
                let step = size(self.types, elem) as usize;
                // SAFETY: the word points to a header, and the header points to its elements.
                unsafe {
                    let header = *(words[0] as *const Header);
                    let take = |k: u64| self.take(elem, header.ptr.add(k as usize * step));
                    Value::stack((0..header.len).map(take).collect())
                }
            }
            TypeData::Buffer(_) => {
                let buffer =
                    self.globals.iter().position(|d| d.ptr as u64 == words[0] && words[1] | words[3] != 0);
                Value::Buffer(Handle {
                    buffer: buffer.map(|n| n as u32),
                    offset: words[2] as i64,
                    ..Handle::default()
                })
            }
            TypeData::Cell(_) | TypeData::Residuals(_) => Value::Scalar(0),
        }
    }

    /// Reads a value of type `ty` from memory.
    ///
    /// # Safety
    /// `at` points to a value of type `ty`.
    unsafe fn take(&self, ty: Type, at: *const u8) -> Value {
        if matches!(self.types[ty], TypeData::Array(..)) {
            // SAFETY: an array's word is its address.
            return unsafe { self.value(ty, &[at as u64]) };
        }
        let n = words(self.types, ty);
        let s = self.types.scalar_of(ty).filter(|_| self.types.is_numeric(ty)).unwrap_or(ir::Scalar::U64);
        // SAFETY: a value of the type consists of that many scalars of kind `s`.
        let words: Vec<u64> = (0..n).map(|k| unsafe { read(s, at, k) }).collect();
        // SAFETY: `words` holds the words of a value of type `ty`, as the caller guarantees.
        unsafe { self.value(ty, &words) }
    }
}
