//! Memory that the host sees: the interface that the interpreter needs from a host, and a host that consists
//! of memory only.

use cranelift_entity::SecondaryMap;

use super::value::{Handle, Lane, Value};
use crate::entities::{Global, MemType};
use crate::function::Span;
use crate::memory::{MemData, MemTypes, Place};
use crate::module::Module;
use crate::ops::{Builtin, Path};
use crate::scalar;
use crate::types::{Scalar, Type, TypeData, Types};

/// A way to access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AccessKind {
    Read,
    Write,
    Atomic,
}

/// An access of memory by the program.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The buffer that is accessed.
    pub buffer: u32,
    /// The first byte of the access in the buffer.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
    /// The kind of access.
    pub kind: AccessKind,
    /// The bytes that are written.
    pub bytes: Option<&'a [u8]>,
    /// The user's line.
    pub span: Span,
}

/// The environment that a thread runs in: memory, its place in the dispatch, and a console.
pub trait Host {
    /// The buffer that holds a global for this thread; `None` if nothing is bound.
    fn global(&mut self, global: Global) -> Option<u32>;
    /// The size of a buffer.
    fn byte_len(&mut self, buffer: u32) -> u64;
    /// Copies bytes out of a buffer; the range is within it.
    fn read(&mut self, buffer: u32, at: u64, out: &mut [u8]);
    /// Copies bytes into a buffer; the range is within it.
    fn write(&mut self, buffer: u32, at: u64, bytes: &[u8]);
    /// Returns true if the host wants to be notified of each access before it happens: [`Host::accesses`].
    fn watches(&self) -> bool {
        false
    }
    /// The thread is about to access memory.
    fn accesses(&mut self, access: Access<'_>) {
        let _ = access;
    }
    /// The buffer with a number (see [`handle_bits`]) that handles in memory may refer to.
    fn numbered(&mut self, number: u64) -> Option<u32> {
        let _ = number;
        None
    }
    /// The number of a buffer, for handles in memory.
    fn number(&mut self, buffer: u32) -> u64 {
        buffer.into()
    }
    /// The value of a built-in input; a scalar is the first component.
    fn builtin(&mut self, builtin: Builtin) -> [u32; 3];
    /// Returns when all threads of the group have reached the barrier.
    fn barrier(&mut self) {}
    /// Prints the output of `printf`. An error ends the run.
    fn print(&mut self, text: &str) -> Result<(), String>;
}

/// A host for one thread, or for threads that run one after the other.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The bytes of each buffer.
    pub buffers: Vec<Vec<u8>>,
    /// The buffer of each global.
    pub bound: SecondaryMap<Global, Option<u32>>,
    /// The thread's place in the dispatch.
    pub thread: [u32; 3],
    /// The number of threads in a group, from which the group's place and the place within it follow. Zero
    /// counts as one.
    pub group_size: [u32; 3],
    /// The text printed so far.
    pub printed: String,
}

impl Memory {
    /// Memory with a zeroed buffer of `len(global)` elements bound to every global.
    pub fn new(module: &Module, len: impl Fn(Global) -> u64) -> Memory {
        let mut memory = Memory::default();
        for (global, data) in &module.globals {
            memory.bind(global, vec![0; (module.mem.size(data.ty) * len(global)) as usize]);
        }
        memory
    }

    /// Binds bytes to a global.
    pub fn bind(&mut self, global: Global, bytes: Vec<u8>) {
        self.bound[global] = Some(self.buffers.len() as u32);
        self.buffers.push(bytes);
    }

    /// The bytes bound to a global; empty if it is unbound.
    pub fn bytes(&self, global: Global) -> &[u8] {
        self.bound[global].and_then(|n| self.buffers.get(n as usize)).map_or(&[], Vec::as_slice)
    }
}

impl Host for Memory {
    fn global(&mut self, global: Global) -> Option<u32> {
        self.bound[global]
    }
    fn byte_len(&mut self, buffer: u32) -> u64 {
        self.buffers.get(buffer as usize).map_or(0, |b| b.len() as u64)
    }
    fn read(&mut self, buffer: u32, at: u64, out: &mut [u8]) {
        let at = at as usize;
        out.copy_from_slice(&self.buffers[buffer as usize][at..at + out.len()]);
    }
    fn write(&mut self, buffer: u32, at: u64, bytes: &[u8]) {
        let at = at as usize;
        self.buffers[buffer as usize][at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn numbered(&mut self, number: u64) -> Option<u32> {
        (number < self.buffers.len() as u64).then_some(number as u32)
    }
    fn builtin(&mut self, builtin: Builtin) -> [u32; 3] {
        let size = self.group_size.map(|n| n.max(1));
        let within: [u32; 3] = std::array::from_fn(|k| self.thread[k] % size[k]);
        match builtin {
            Builtin::DispatchThreadId => self.thread,
            Builtin::GroupId => std::array::from_fn(|k| self.thread[k] / size[k]),
            Builtin::GroupThreadId => within,
            Builtin::GroupSize => size,
            Builtin::GroupIndex => {
                [within[0] + size[0].wrapping_mul(within[1] + size[1].wrapping_mul(within[2])), 0, 0]
            }
        }
    }
    fn print(&mut self, text: &str) -> Result<(), String> {
        self.printed.push_str(text);
        Ok(())
    }
}

/// Resolves a path with its dynamic indices to a byte offset from the start of an element and the type there.
/// `None` if a dynamic index is out of range (or the path is invalid).
pub fn resolve(mem: &MemTypes, ty: MemType, path: &Path, dynamic: &[(Scalar, u64)]) -> Option<(u64, Place)> {
    let selection = mem.select(ty, &path.0)?;
    let mut at = selection.fixed;
    for (k, &(n, size)) in selection.choices.iter().enumerate() {
        let &(s, bits) = dynamic.get(k)?;
        at += size * scalar::index(s, bits, n as usize)? as u64;
    }
    Some((at, selection.target))
}

/// The number of lanes of an IR type in memory, the size of each in bytes, and whether the lanes are handles.
/// (Leaves have no padding within: all their lanes are of one kind.)
fn lanes_of(types: &Types, ty: Type) -> (u64, u64, bool) {
    match types[ty] {
        TypeData::Scalar(s) => (1, s.bytes() as u64, false),
        TypeData::Vector(s, n) => (n as u64, s.bytes() as u64, false),
        TypeData::Array(t, n) => {
            let (count, size, handle) = lanes_of(types, t);
            (count * n as u64, size, handle)
        }
        TypeData::Cell(t) | TypeData::Stack(t) => lanes_of(types, t),
        TypeData::Buffer(_) => (1, 8, true),
        // Residuals are never in memory.
        TypeData::Residuals(_) => (0, 1, false),
    }
}

/// The size of a leaf in memory, in bytes.
pub(super) fn leaf_size(types: &Types, ty: Type) -> u64 {
    let (count, size, _) = lanes_of(types, ty);
    count * size
}

/// The number that stands for a place in the buffer with a number: bytes from the buffer's start, which may be negative.
pub fn handle_bits(number: u64, at: i64) -> u64 {
    (number.wrapping_add(1) << HANDLE_SHIFT).wrapping_add(at as u64)
}

/// The inverse of [`handle_bits`]: the number of the buffer, if there is one, and the bytes from its start.
pub(super) fn handle_parts(bits: u64) -> (Option<u64>, i64) {
    let half = 1 << (HANDLE_SHIFT - 1);
    let number = bits.wrapping_add(half) >> HANDLE_SHIFT;
    (number.checked_sub(1), bits.wrapping_sub(number << HANDLE_SHIFT) as i64)
}

/// The bits of a number that stands for a handle which count bytes.
pub const HANDLE_SHIFT: u32 = 40;

/// The handle with elements of `size` bytes that a number stands for.
pub(super) fn handle_of(bits: u64, size: u64, host: &mut dyn Host) -> Handle {
    let (number, at) = handle_parts(bits);
    let buffer = number.and_then(|n| host.numbered(n)).map(|buffer| (buffer, host.byte_len(buffer)));
    let size = size.max(1) as i64;
    let (buffer, at, len) = match buffer {
        Some((buffer, len)) if len > 0 => (Some(buffer), at, len),
        _ => (None, bits as i64, 0),
    };
    let (offset, start) = (at.div_euclid(size), at.rem_euclid(size) as u64);
    Handle { buffer, offset, start, len: Some(len.saturating_sub(start)) }
}

/// The number that stands for a handle with elements of `size` bytes.
pub(super) fn bits_of(handle: &Handle, size: u64, host: &mut dyn Host) -> u64 {
    let size = size.max(1);
    let whole = handle.buffer.map_or(0, |buffer| host.byte_len(buffer));
    let len = handle.len.unwrap_or(whole / size * size);
    let by = (handle.offset as u64).wrapping_mul(size);
    match handle.buffer {
        Some(buffer) if len > 0 => {
            let number = host.number(buffer);
            handle_bits(number, handle.start.wrapping_add(by) as i64)
        }
        Some(_) if whole > 0 => by,
        _ => handle.start.wrapping_add(by),
    }
}

/// Reads a leaf of an IR type from memory.
pub fn read_leaf<L: Lane>(module: &Module, ty: Type, host: &mut dyn Host, buffer: u32, at: u64) -> Value<L> {
    let types = &module.types;
    let (count, size, _) = lanes_of(types, ty);
    let mut bytes = vec![0; (count * size) as usize];
    host.read(buffer, at, &mut bytes);
    let mut lanes = bytes.chunks_exact(size as usize).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    build(module, ty, &mut lanes, host)
}

fn build<L: Lane>(
    module: &Module,
    ty: Type,
    lanes: &mut dyn Iterator<Item = u64>,
    host: &mut dyn Host,
) -> Value<L> {
    let types = &module.types;
    let is_bool = types.scalar_of(ty) == Some(Scalar::Bool);
    let lane = |lanes: &mut dyn Iterator<Item = u64>| {
        let bits = lanes.next().unwrap_or(0);
        L::from_bits(if is_bool { (bits != 0) as u64 } else { bits })
    };
    match types[ty] {
        TypeData::Scalar(_) => Value::Scalar(lane(lanes)),
        TypeData::Vector(_, n) => Value::Vector((0..n).map(|_| lane(lanes)).collect()),
        TypeData::Array(t, n) => Value::array((0..n).map(|_| build(module, t, lanes, host)).collect()),
        TypeData::Cell(_) | TypeData::Stack(_) | TypeData::Residuals(_) => Value::zero(types, ty),
        TypeData::Buffer(element) => {
            let bits = lanes.next().unwrap_or(0);
            Value::Buffer(handle_of(bits, module.mem.size(element), host))
        }
    }
}

/// The bytes of a leaf in memory.
pub fn leaf_bytes<L: Lane>(module: &Module, ty: Type, value: &Value<L>, host: &mut dyn Host) -> Vec<u8> {
    let types = &module.types;
    let (count, size, handle) = lanes_of(types, ty);
    let mut bytes = Vec::with_capacity((count * size) as usize);
    if handle {
        put_handles(module, ty, value, host, &mut bytes);
        return bytes;
    }
    for lane in value.lanes() {
        bytes.extend_from_slice(&lane.bits().to_le_bytes()[..size as usize]);
    }
    bytes
}

fn put_handles<L: Lane>(module: &Module, ty: Type, value: &Value<L>, host: &mut dyn Host, out: &mut Vec<u8>) {
    match (value, module.types[ty]) {
        (Value::Array(elements), TypeData::Array(of, _)) => {
            elements.iter().for_each(|element| put_handles(module, of, element, host, out));
        }
        (Value::Buffer(handle), TypeData::Buffer(element)) => {
            out.extend(bits_of(handle, module.mem.size(element), host).to_le_bytes());
        }
        _ => {}
    }
}

/// Lays out the leaves of a memory type (in the order of [`MemTypes::leaves`]) as the bytes of one element:
/// the initial memory of a private global. Handles are zero.
pub fn element_bytes(module: &Module, ty: MemType, leaves: &[Value]) -> Vec<u8> {
    let mut bytes = vec![0; module.mem.size(ty) as usize];
    let mut leaves = leaves.iter();
    write_element(module, ty, 0, &mut leaves, &mut bytes);
    bytes
}

fn write_element(
    module: &Module,
    ty: MemType,
    at: u64,
    leaves: &mut dyn Iterator<Item = &Value>,
    out: &mut [u8],
) {
    let mut put = |at: u64, size: u32, lanes: &[u64]| {
        for (k, lane) in lanes.iter().enumerate() {
            let at = at as usize + k * size as usize;
            out[at..at + size as usize].copy_from_slice(&lane.to_le_bytes()[..size as usize]);
        }
    };
    match &module.mem[ty] {
        MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => {
            if let Some(leaf) = leaves.next() {
                put(at, s.bytes(), &leaf.lanes());
            }
        }
        MemData::Handle(_) => drop(leaves.next()),
        MemData::Struct { fields, .. } => {
            for (idx, field) in fields.iter().enumerate() {
                write_element(module, field.1, at + module.mem.field_offset(ty, idx), leaves, out);
            }
        }
        MemData::Array(t, n) => {
            // There is one array for each leaf of the element: give each element its share of the arrays.
            let n_leaves = module.mem.n_leaves(*t);
            let arrays: Vec<&Value> = leaves.take(n_leaves).collect();
            for idx in 0..*n {
                let share: Vec<Value> =
                    arrays.iter().map(|a| a.element(idx as usize).unwrap_or(Value::Scalar(0))).collect();
                write_element(module, *t, at + module.mem.size(*t) * idx as u64, &mut share.iter(), out);
            }
        }
    }
}
