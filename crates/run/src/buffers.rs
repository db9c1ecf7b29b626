//! The memory that the host binds.
//!
//! Buffers are numbered: first one for each global of the module, then those that a pointer in
//! memory refers to. Memory is aligned to 16 and one element longer than its contents, zeroed, so
//! that code may read where there is nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use cranelift_entity::EntityRef;
use ir::{Global, Module};
use native::Desc;

/// One buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u128>,
    /// Bytes bound.
    pub(crate) len: usize,
    /// Bytes of an element.
    pub(crate) element: u64,
    /// See [`Buffers::stamp`].
    stamp: u64,
}

/// A number that was never given before.
fn fresh_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Buffer {
    fn new(bytes: &[u8], element: u64) -> Buffer {
        let room = bytes.len() + element as usize;
        let mut buffer = Buffer { memory: vec![0; room / 16 + 1], len: bytes.len(), element, stamp: 0 };
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is longer than `len`, and any bytes are bytes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.stamp = fresh_stamp();
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.len) }
    }

    fn desc(&mut self) -> Desc {
        self.stamp = fresh_stamp();
        let count = self.len as u64 / self.element.max(1);
        Desc { ptr: self.memory.as_mut_ptr().cast(), count }
    }
}

/// Everything bound to a module's globals; kept from dispatch to dispatch.
#[derive(Clone, Debug)]
pub struct Buffers {
    pub(crate) all: Vec<Buffer>,
    /// The buffer that a global's pointer refers to, by global.
    pointees: Vec<Option<usize>>,
}

impl Buffers {
    /// Nothing bound.
    pub fn new(module: &Module) -> Buffers {
        let n = module.globals.len();
        Buffers { all: vec![Buffer::default(); n], pointees: vec![None; n] }
    }

    /// Binds bytes to a global. A global that is a pointer is bound to what it points to.
    pub fn bind(&mut self, module: &Module, global: Global, bytes: &[u8]) {
        let data = &module.globals[global];
        if let Some(element) = data.pointee(&module.mem) {
            let number = self.all.len();
            self.all.push(Buffer::new(bytes, module.mem.size(element)));
            self.pointees[global.index()] = Some(number);
            // A pointer in memory is the number of a buffer, from 1.
            self.all[global.index()] = Buffer::new(&(number as u64 + 1).to_le_bytes(), 8);
        } else {
            self.all[global.index()] = Buffer::new(bytes, module.mem.size(data.ty));
        }
    }

    /// The bytes bound to a global, as they are now; of a pointer, what it points to.
    pub fn bytes(&self, global: Global) -> &[u8] {
        self.all[self.number(global)].bytes()
    }

    /// The bytes of each buffer, in the order of their numbers.
    pub fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(Buffer::bytes)
    }

    /// As [`Buffers::bytes`], to change.
    pub fn bytes_mut(&mut self, global: Global) -> &mut [u8] {
        let number = self.number(global);
        self.all[number].bytes_mut()
    }

    /// A number that changes whenever the bytes may have changed, and that no other buffer has; so a device knows whether
    /// its copy is of now.
    pub fn stamp(&self, global: Global) -> u64 {
        self.all[self.number(global)].stamp
    }

    /// Bytes of one of a global's elements.
    #[cfg(feature = "cuda")]
    pub(crate) fn element(&self, global: Global) -> u64 {
        self.all[self.number(global)].element
    }

    /// The bits of a pointer to the bytes bound to a global.
    pub fn pointer(&self, global: Global) -> u64 {
        self.number(global) as u64 + 1
    }

    pub(crate) fn number(&self, global: Global) -> usize {
        self.pointees[global.index()].unwrap_or(global.index())
    }

    /// The buffers as compiled code sees them.
    pub(crate) fn descs(&mut self) -> Vec<Desc> {
        self.all.iter_mut().map(Buffer::desc).collect()
    }
}
