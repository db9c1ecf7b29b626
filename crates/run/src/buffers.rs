//! The memory that the host binds.
//!
//! Buffers are numbered: first one for each global of the module, then those that a pointer in
//! memory refers to. A buffer has memory of its own, aligned to 16, or refers to the host's, or to memory that the host has
//! on a device ([`Foreign`]). What is on a device has no bytes here.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use cranelift_entity::EntityRef;
use ir::{Global, Module};
use native::Desc;

/// Memory of the host's that a buffer refers to, so that nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    start: NonNull<u8>,
    len: usize,
    on_device: bool,
}

impl Foreign {
    /// No bytes.
    pub const NONE: Foreign = Foreign { start: NonNull::dangling(), len: 0, on_device: false };

    /// `len` bytes from `start` on.
    ///
    /// # Safety
    /// For as long as a buffer refers to them, the bytes can be read, and written where the program writes the buffer;
    /// `start` is aligned as the largest number of an element is; and nobody else writes them while a dispatch runs.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Foreign {
        Foreign { start, len, on_device: false }
    }

    /// `len` bytes from `start` on, which is an address on the CUDA device that programs run on.
    ///
    /// # Safety
    /// As for [`Self::new`], of kernels on that device.
    pub unsafe fn on_device(start: NonNull<u8>, len: usize) -> Foreign {
        Foreign { start, len, on_device: true }
    }

    /// True if it is on a device.
    pub fn is_on_device(&self) -> bool {
        self.on_device
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.len
    }
}

// SAFETY: whoever makes one promises that the bytes are there, whichever thread reads them.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// Where a buffer's bytes are.
#[derive(Clone, Debug)]
enum Memory {
    Own(Vec<u128>),
    Foreign(NonNull<u8>),
    /// The address on a device, and how many bytes there are.
    Device(NonNull<u8>, usize),
}

impl Memory {
    fn start(&self) -> *const u8 {
        match self {
            Memory::Own(memory) => memory.as_ptr().cast(),
            Memory::Foreign(start) => start.as_ptr(),
            Memory::Device(..) => NonNull::dangling().as_ptr(),
        }
    }

    fn start_mut(&mut self) -> *mut u8 {
        match self {
            Memory::Own(memory) => memory.as_mut_ptr().cast(),
            Memory::Foreign(start) => start.as_ptr(),
            Memory::Device(..) => NonNull::dangling().as_ptr(),
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Own(Vec::new())
    }
}

// SAFETY: as for `Foreign`, of which it is a part.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// One buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    memory: Memory,
    /// Bytes bound that are here.
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
        let memory = Memory::Own(vec![0; bytes.len().div_ceil(16)]);
        let mut buffer = Buffer { memory, len: bytes.len(), element, stamp: 0 };
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    fn foreign(of: Foreign, element: u64) -> Buffer {
        let (memory, len) = match of.on_device {
            true => (Memory::Device(of.start, of.len), 0),
            false => (Memory::Foreign(of.start), of.len),
        };
        Buffer { memory, len, element, stamp: fresh_stamp() }
    }

    fn is_own(&self) -> bool {
        matches!(self.memory, Memory::Own(_))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is as long as `len`, and any bytes are bytes.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.stamp = fresh_stamp();
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start_mut(), self.len) }
    }

    fn desc(&mut self) -> Desc {
        self.stamp = fresh_stamp();
        let count = self.len as u64 / self.element.max(1);
        Desc { ptr: self.memory.start_mut(), count }
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

    /// Binds a copy of bytes to a global; one that is a pointer, to what it points to. A buffer of its own keeps its place
    /// while its length does.
    pub fn bind(&mut self, module: &Module, global: Global, bytes: &[u8]) {
        let is_pointer = module.globals[global].pointee(&module.mem).is_some();
        let number = if is_pointer { self.pointees[global.index()] } else { Some(global.index()) };
        match number.map(|number| &mut self.all[number]) {
            Some(held) if held.element > 0 && held.is_own() && held.len == bytes.len() => {
                held.bytes_mut().copy_from_slice(bytes)
            }
            _ => self.put(module, global, |element| Buffer::new(bytes, element)),
        }
    }

    /// Binds the host's memory to a global, as [`Self::bind`] does with a copy.
    pub fn bind_foreign(&mut self, module: &Module, global: Global, memory: Foreign) {
        let number = self.number(global);
        match self.all[number].element {
            0 => self.put(module, global, |element| Buffer::foreign(memory, element)),
            element => self.all[number] = Buffer::foreign(memory, element),
        }
    }

    /// Gives a global, or what it points to, a buffer with elements of a size.
    fn put(&mut self, module: &Module, global: Global, buffer: impl FnOnce(u64) -> Buffer) {
        let data = &module.globals[global];
        let Some(element) = data.pointee(&module.mem) else {
            self.all[global.index()] = buffer(module.mem.size(data.ty));
            return;
        };
        let buffer = buffer(module.mem.size(element));
        match self.pointees[global.index()] {
            Some(number) => self.all[number] = buffer,
            None => {
                let number = self.all.len();
                self.all.push(buffer);
                self.pointees[global.index()] = Some(number);
                // A pointer in memory is the number of a buffer, from 1.
                self.all[global.index()] = Buffer::new(&(number as u64 + 1).to_le_bytes(), 8);
            }
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

    /// Where a global's bytes are on a device, and how many, if they are there.
    pub fn on_device(&self, global: Global) -> Option<(u64, usize)> {
        match self.all[self.number(global)].memory {
            Memory::Device(start, len) => Some((start.as_ptr() as u64, len)),
            Memory::Own(_) | Memory::Foreign(_) => None,
        }
    }

    /// True if some bytes are on a device.
    pub fn any_on_device(&self) -> bool {
        self.all.iter().any(|buffer| matches!(buffer.memory, Memory::Device(..)))
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
