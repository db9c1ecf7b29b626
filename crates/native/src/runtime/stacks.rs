//! Stacks in memory: the parts of growing, copying and adding them that compiled code leaves to the runtime.

use ir::{Op, Scalar, interp, scalar};

use super::Context;
use crate::types::Shape;

/// The header of a stack. `ptr` is readable for one element even if the stack is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The address of the first element.
    pub ptr: *mut u8,
    /// The number of elements in use.
    pub len: u64,
    /// The number of elements that there is room for.
    pub cap: u64,
}

impl Context {
    /// Allocates memory from the arena; stops the thread if there is not enough.
    ///
    /// # Safety
    /// As [`Context::stop`].
    pub unsafe fn alloc(&mut self, bytes: u64) -> *mut u8 {
        match self.arena.alloc(bytes) {
            Some(at) => at,
            None => {
                let span = match self.tables.sites().get(self.site as usize) {
                    Some(super::Site::Memory(span)) => *span,
                    _ => ir::Span::NONE,
                };
                self.record(interp::memory_message(self.arena.limit()), span);
                // SAFETY: the caller guarantees the contract of `stop`.
                unsafe { self.stop() };
                std::process::abort()
            }
        }
    }

    /// Allocates memory for `n` elements, but at least for one.
    ///
    /// # Safety
    /// As [`Context::stop`].
    pub unsafe fn alloc_elements(&mut self, n: u64, size: u64) -> *mut u8 {
        // SAFETY: the caller guarantees the contract of `alloc`. A product that overflows saturates to a size
        // that no arena can allocate.
        unsafe { self.alloc(n.max(1).saturating_mul(size)) }
    }

    /// Allocates a header in the arena.
    ///
    /// # Safety
    /// As [`Context::stop`].
    pub unsafe fn new_header(&mut self, header: Header) -> *mut Header {
        // SAFETY: the arena returns aligned memory of the requested size.
        unsafe {
            let at = self.alloc(size_of::<Header>() as u64).cast::<Header>();
            at.write(header);
            at
        }
    }

    /// Fills elements `from..to` of a stack with absent differentials, zeros if they are not floats, or empty
    /// stacks.
    ///
    /// # Safety
    /// `ptr` points to room for `to` elements of this shape.
    unsafe fn fill(&self, ptr: *mut u8, from: u64, to: u64, shape: &Shape, empty: *mut Header) {
        // SAFETY: the elements are within the room that the caller guarantees.
        unsafe {
            match shape {
                Shape::Stack(_) => {
                    for idx in from..to {
                        ptr.cast::<*mut Header>().add(idx as usize).write(empty);
                    }
                }
                Shape::Flat(s, n) if s.is_float() => {
                    for k in from * n..to * n {
                        write(*s, ptr, k as usize, scalar::absent(*s));
                    }
                }
                Shape::Flat(..) | Shape::Opaque(_) => {
                    let size = shape.size();
                    ptr.add((from * size) as usize).write_bytes(0, ((to - from) * size) as usize);
                }
            }
        }
    }

    /// Grows the stack that the cell at `loc` holds to at least `len` elements.
    ///
    /// # Safety
    /// `loc` holds a stack of elements of this shape that the cell owns, or `empty`, the shared empty stack;
    /// and as [`Context::stop`].
    pub unsafe fn grow(&mut self, loc: *mut *mut Header, len: u64, shape: &Shape, empty: *mut Header) {
        // SAFETY: headers and elements are in the arena, and have the sizes that they were allocated with.
        unsafe {
            if *loc == empty {
                let header = *empty;
                *loc = self.new_header(header);
            }
            let header = *loc;
            let old = *header;
            if len <= old.len {
                return;
            }
            if len > old.cap {
                let cap = len.max(old.cap.saturating_mul(2)).max(4);
                let ptr = self.alloc_elements(cap, shape.size());
                std::ptr::copy_nonoverlapping(old.ptr, ptr, (old.len * shape.size()) as usize);
                (*header).ptr = ptr;
                (*header).cap = cap;
            }
            self.fill((*header).ptr, old.len, len, shape, empty);
            (*header).len = len;
        }
    }

    /// Makes a deep copy of a stack.
    ///
    /// # Safety
    /// `from` is a stack of elements of this shape; and as [`Context::stop`].
    pub unsafe fn clone_stack(
        &mut self,
        from: *const Header,
        shape: &Shape,
        empty: *mut Header,
    ) -> *mut Header {
        // SAFETY: as in `grow`.
        unsafe {
            let Header { ptr, len, .. } = *from;
            if len == 0 {
                return empty;
            }
            let to = self.alloc_elements(len, shape.size());
            match shape {
                Shape::Stack(inner) => {
                    for idx in 0..len as usize {
                        let part = *ptr.cast::<*const Header>().add(idx);
                        let part = self.clone_stack(part, inner, empty);
                        to.cast::<*mut Header>().add(idx).write(part);
                    }
                }
                Shape::Flat(..) | Shape::Opaque(_) => {
                    std::ptr::copy_nonoverlapping(ptr, to, (len * shape.size()) as usize);
                }
            }
            self.new_header(Header { ptr: to, len, cap: len })
        }
    }

    /// Adds a stack elementwise to the stack in the cell at `loc`, which grows as needed.
    ///
    /// # Safety
    /// As [`Context::grow`]; `from` is a stack of elements of this shape.
    pub unsafe fn add_stack(
        &mut self,
        loc: *mut *mut Header,
        from: *const Header,
        shape: &Shape,
        empty: *mut Header,
    ) {
        // SAFETY: as in `grow`, after which both stacks have at least `from`'s length.
        unsafe {
            let Header { ptr, len, .. } = *from;
            if len == 0 {
                return;
            }
            self.grow(loc, len, shape, empty);
            let to = (**loc).ptr;
            match shape {
                Shape::Stack(inner) => {
                    for idx in 0..len as usize {
                        let part = *ptr.cast::<*const Header>().add(idx);
                        self.add_stack(to.cast::<*mut Header>().add(idx), part, inner, empty);
                    }
                }
                Shape::Flat(s, n) => add_numbers(*s, len * n, to, ptr),
                Shape::Opaque(_) => {}
            }
        }
    }
}

/// `to[k] += from[k]`.
///
/// # Safety
/// Both point to `n` numbers of kind `s`.
unsafe fn add_numbers(s: Scalar, n: u64, to: *mut u8, from: *const u8) {
    for k in 0..n as usize {
        // SAFETY: `k` is below `n`.
        unsafe {
            let (a, b) = (read(s, to, k), read(s, from, k));
            write(s, to, k, scalar::binary(&Op::Add, s, a, b).unwrap_or(a));
        }
    }
}

/// Reads number `k` at `ptr`, as canonical bits.
///
/// # Safety
/// The number is readable.
pub(crate) unsafe fn read(s: Scalar, ptr: *const u8, k: usize) -> u64 {
    // SAFETY: the caller guarantees that the number is accessible.
    unsafe {
        match s.bytes() {
            1 => ptr.add(k).read() as u64,
            2 => ptr.cast::<u16>().add(k).read_unaligned() as u64,
            4 => ptr.cast::<u32>().add(k).read_unaligned() as u64,
            _ => ptr.cast::<u64>().add(k).read_unaligned(),
        }
    }
}

/// Writes number `k` at `ptr`.
///
/// # Safety
/// The number is writable.
pub(crate) unsafe fn write(s: Scalar, ptr: *mut u8, k: usize, bits: u64) {
    // SAFETY: the caller guarantees that the number is accessible.
    unsafe {
        match s.bytes() {
            1 => ptr.add(k).write(bits as u8),
            2 => ptr.cast::<u16>().add(k).write_unaligned(bits as u16),
            4 => ptr.cast::<u32>().add(k).write_unaligned(bits as u32),
            _ => ptr.cast::<u64>().add(k).write_unaligned(bits),
        }
    }
}
