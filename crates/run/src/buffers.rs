//! The buffers that the host binds.
//!
//! Buffers are numbered: first one for each global of the module, then those that a pointer in memory refers
//! to. A buffer owns its memory, aligned to 16, or refers to the host's memory, or to memory that the host
//! has on a device ([`Foreign`]). The bytes of a buffer on a device are not accessible here.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use cranelift_entity::EntityRef;
use ir::{Global, Module};
use native::Desc;

/// Memory owned by the host that a buffer refers to, so that nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    start: NonNull<u8>,
    len: usize,
    on_device: bool,
}

impl Foreign {
    /// Empty memory.
    pub const NONE: Foreign = Foreign { start: NonNull::dangling(), len: 0, on_device: false };

    /// `len` bytes from `start` on.
    ///
    /// # Safety
    /// As long as a buffer refers to them, the bytes must be readable, and writable if the program writes the
    /// buffer; `start` must be aligned for the largest number in an element; and nothing else may write the
    /// bytes while a dispatch runs.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Foreign {
        Foreign { start, len, on_device: false }
    }

    /// `len` bytes from `start` on, which is an address on the CUDA device that programs run on.
    ///
    /// # Safety
    /// The conditions of [`Self::new`], for accesses by kernels on that device.
    pub unsafe fn on_device(start: NonNull<u8>, len: usize) -> Foreign {
        Foreign { start, len, on_device: true }
    }

    /// Returns true if the memory is on a device.
    pub fn is_on_device(&self) -> bool {
        self.on_device
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The range of addresses.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.len
    }
}

// SAFETY: whoever creates a `Foreign` guarantees that the bytes are accessible, from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// The location of a buffer's bytes.
#[derive(Clone, Debug)]
enum Memory {
    Own(Vec<u128>),
    Foreign(NonNull<u8>),
    /// The address on a device, and the number of bytes.
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

// SAFETY: as for `Foreign`, from whose address this is made.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// One buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    memory: Memory,
    /// The number of bound bytes that are accessible here.
    pub(crate) len: usize,
    /// The size of an element in bytes.
    pub(crate) element: u64,
    /// See [`Buffers::stamp`].
    stamp: u64,
}

/// A number that was never returned before.
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
        // SAFETY: the memory is `len` bytes long, and every bit pattern is a valid byte.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.stamp = fresh_stamp();
        // SAFETY: as above, and the memory is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start_mut(), self.len) }
    }

    fn desc(&mut self) -> Desc {
        self.stamp = fresh_stamp();
        let count = self.len as u64 / self.element.max(1);
        Desc { ptr: self.memory.start_mut(), count }
    }
}

/// All memory bound to a module's globals; kept from dispatch to dispatch.
#[derive(Clone, Debug)]
pub struct Buffers {
    pub(crate) all: Vec<Buffer>,
    /// The buffer that a global's pointer refers to, by global.
    pointees: Vec<Option<usize>>,
}

impl Buffers {
    /// Creates buffers for a module, with nothing bound.
    pub fn new(module: &Module) -> Buffers {
        let n = module.globals.len();
        Buffers { all: vec![Buffer::default(); n], pointees: vec![None; n] }
    }

    /// Binds a copy of `bytes` to a global, or, if the global is a pointer, to the memory that it points to.
    /// A buffer that owns its memory keeps its location as long as its length stays the same.
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

    /// Binds the host's memory to a global, like [`Self::bind`] but without a copy.
    pub fn bind_foreign(&mut self, module: &Module, global: Global, memory: Foreign) {
        let number = self.number(global);
        match self.all[number].element {
            0 => self.put(module, global, |element| Buffer::foreign(memory, element)),
            element => self.all[number] = Buffer::foreign(memory, element),
        }
    }

    /// Sets the buffer of a global, or of the memory that it points to; `buffer` takes the size of an
    /// element.
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
                let bits = ir::interp::handle_bits(number as u64, 0);
                self.all[global.index()] = Buffer::new(&bits.to_le_bytes(), 8);
            }
        }
    }

    /// The current bytes bound to a global; for a pointer, of the memory that it points to.
    pub fn bytes(&self, global: Global) -> &[u8] {
        self.all[self.number(global)].bytes()
    }

    /// The bytes of each buffer, in the order of their numbers.
    pub fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(Buffer::bytes)
    }

    /// Like [`Buffers::bytes`], for modification.
    pub fn bytes_mut(&mut self, global: Global) -> &mut [u8] {
        let number = self.number(global);
        self.all[number].bytes_mut()
    }

    /// Exchanges the contents of two globals whose elements are of the same size.
    pub fn exchange(&mut self, a: Global, b: Global) {
        let (a, b) = (self.number(a), self.number(b));
        debug_assert_eq!(self.all[a].element, self.all[b].element);
        self.all.swap(a, b);
    }

    /// A number that changes whenever the bytes may have changed, and that is unique among all buffers, so
    /// that a device can tell whether its copy is current.
    pub fn stamp(&self, global: Global) -> u64 {
        self.all[self.number(global)].stamp
    }

    /// The address and size of a global's bytes on a device, if they are there.
    pub fn on_device(&self, global: Global) -> Option<(u64, usize)> {
        match self.all[self.number(global)].memory {
            Memory::Device(start, len) => Some((start.as_ptr() as u64, len)),
            Memory::Own(_) | Memory::Foreign(_) => None,
        }
    }

    /// Returns true if any buffer is on a device.
    pub fn any_on_device(&self) -> bool {
        self.all.iter().any(|buffer| matches!(buffer.memory, Memory::Device(..)))
    }

    /// The size of an element of a global in bytes.
    #[cfg(feature = "cuda")]
    pub(crate) fn element(&self, global: Global) -> u64 {
        self.all[self.number(global)].element
    }

    /// The bits of a pointer to the bytes bound to a global.
    pub fn pointer(&self, global: Global) -> u64 {
        ir::interp::handle_bits(self.number(global) as u64, 0)
    }

    pub(crate) fn number(&self, global: Global) -> usize {
        self.pointees[global.index()].unwrap_or(global.index())
    }

    /// The descriptors of the buffers for compiled code; of those that only pointers lead to, the elements are bytes.
    pub(crate) fn descs(&mut self) -> Vec<Desc> {
        let own = self.pointees.len();
        let desc = |(k, buffer): (usize, &mut Buffer)| match buffer.desc() {
            desc if k < own => desc,
            desc => Desc { count: desc.count * buffer.element.max(1), ..desc },
        };
        self.all.iter_mut().enumerate().map(desc).collect()
    }
}
