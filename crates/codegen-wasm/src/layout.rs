//! Where things are in a module's memory.
//!
//! From low addresses to high: the context of the threads, descriptors of globals, memory that is always zero, memory that
//! receives dropped writes, empty stacks, tables, memory of groups and of threads, shapes, the stack, and the memory of
//! buffers, after which stacks of programs and large arrays grow. The first bytes are left free, so that no address is
//! zero.

use ir::{Global, Module, Scalar, Space, scalar};
use native::plan::Plan;
use native::runtime::offsets;
use native::types::Shape;
use native::{MOST_BUNDLED, MOST_LANES};

/// The address of the context.
pub(crate) const CONTEXT: u32 = 1024;
/// The bytes of a shape.
pub(crate) const SHAPE: u32 = 40;
/// The bytes of the stack.
const STACK: u32 = 1 << 20;
/// The digits of 2/π take this many bytes.
const DIGITS: u32 = 8 * 48;

/// The addresses.
pub(crate) struct Layout {
    /// The descriptors of globals.
    pub(crate) globals: u32,
    /// Zeros.
    pub(crate) zero: u32,
    /// Where dropped writes go.
    sink: u32,
    /// The headers of empty stacks, and a word with their address.
    pub(crate) empty: u32,
    pub(crate) empty_at: u32,
    /// The digits of 2/π.
    pub(crate) digits: u32,
    /// The size of an element, and the room, of each global.
    pub(crate) sizes: u32,
    /// Room for an address for each lane.
    pub(crate) places: u32,
    /// The memory of each global that is one of threads or of groups, and its size.
    pub(crate) own: Vec<Option<(u32, u32)>>,
    /// The shapes, after which nothing is before they are known.
    pub(crate) shapes: u32,
}

/// The end of an area.
struct End(u32);

impl End {
    fn area(&mut self, bytes: u64) -> u32 {
        let at = self.0;
        self.0 = at.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX - 64)).next_multiple_of(64);
        at
    }
}

impl Layout {
    /// The layout for a module.
    pub(crate) fn new(module: &Module, plan: &Plan) -> Layout {
        let mut end = End(CONTEXT);
        end.area(offsets::AFTER as u64);
        let n = module.globals.len() as u64;
        let wide = (plan.largest / 16 + 2) * 16 * u64::from(MOST_LANES);
        let globals = end.area(16 * n.max(1));
        let (zero, sink) = (end.area(wide), end.area(wide));
        let empty = end.area(24 * MOST_BUNDLED as u64);
        let empty_at = end.area(8);
        let digits = end.area(DIGITS.into());
        let sizes = end.area(8 * n.max(1));
        let places = end.area(8 * u64::from(MOST_LANES));
        let own = |(_, data): (Global, &ir::GlobalData)| {
            let lanes = match data.space {
                Space::Private => u64::from(MOST_LANES),
                Space::GroupShared => 1,
                Space::ReadWrite | Space::ReadOnly | Space::Uniform | Space::Arena => return None,
            };
            let bytes = (module.mem.size(data.ty) / 16 + 1) * 16 * lanes;
            Some((end.area(bytes), u32::try_from(bytes).unwrap_or(u32::MAX)))
        };
        let own = module.globals.iter().map(own).collect();
        let shapes = end.area(0);
        Layout { globals, zero, sink, empty, empty_at, digits, sizes, places, own, shapes }
    }

    /// Returns true if the areas fit into memory.
    pub(crate) fn fits(&self) -> bool {
        self.shapes < 1 << 30
    }

    /// The initial contents of memory, as areas with their addresses; and the end of the stack.
    pub(crate) fn data(
        &self,
        module: &Module,
        plan: &Plan,
        shapes: &[Shape],
        digits: &[f64],
    ) -> (Vec<(u32, Vec<u8>)>, u32) {
        let mut all = Vec::new();
        let (described, end) = self.describe(shapes);
        let stack = (self.shapes + described.len() as u32).next_multiple_of(64);
        debug_assert!(stack >= end);
        let mut context = vec![0u8; offsets::AFTER as usize];
        let mut word = |at: i32, x: u64| {
            context[at as usize..at as usize + 8].copy_from_slice(&x.to_le_bytes());
        };
        // The limit leaves room for the frames of functions that do not call themselves.
        word(offsets::STACK_LIMIT, u64::from(stack + STACK / 4));
        word(offsets::GLOBALS, self.globals.into());
        word(offsets::SINK, self.sink.into());
        word(offsets::HANDLES, self.globals.into());
        word(offsets::HANDLE_COUNT, module.globals.len() as u64);
        context[offsets::SITE as usize..offsets::SITE as usize + 4].fill(0xff);
        context[offsets::ALONE as usize] = 1;
        all.push((CONTEXT, context));
        let (mut descs, mut sizes) = (Vec::new(), Vec::new());
        for ((global, data), own) in module.globals.iter().zip(&self.own) {
            let (at, count, size) = match own {
                Some((at, _)) => (*at, 1, 0),
                None => (self.zero, 0, module.mem.size(data.ty) as u32),
            };
            descs.extend(u64::from(at).to_le_bytes());
            descs.extend(u64::to_le_bytes(count));
            sizes.extend(size.to_le_bytes());
            sizes.extend((plan.room[global] as u32).to_le_bytes());
        }
        all.push((self.globals, descs));
        all.push((self.sizes, sizes));
        let header = [u64::from(self.zero), 0, 0].map(u64::to_le_bytes).concat();
        all.push((self.empty, header.repeat(MOST_BUNDLED)));
        all.push((self.empty_at, u64::from(self.empty).to_le_bytes().to_vec()));
        all.push((self.digits, digits.iter().flat_map(|x| x.to_le_bytes()).collect()));
        all.push((self.shapes, described));
        all.retain(|(_, bytes)| bytes.iter().any(|&b| b != 0));
        (all, stack + STACK)
    }

    /// The shapes, and after them those that they refer to.
    fn describe(&self, shapes: &[Shape]) -> (Vec<u8>, u32) {
        let mut queue: Vec<Shape> = shapes.to_vec();
        let mut bytes = Vec::new();
        let mut k = 0;
        while let Some(shape) = queue.get(k).cloned() {
            let (kind, of, n, absent) = match &shape {
                Shape::Flat(s, n) if s.is_float() => (0u32, *s, *n, scalar::absent(*s)),
                Shape::Flat(s, n) => (0, *s, *n, 0),
                Shape::Opaque(n) => (1, Scalar::Bool, *n, 0),
                Shape::Stack(_) => (2, Scalar::Bool, 1, 0),
            };
            let inner = match &shape {
                Shape::Stack(inner) => {
                    queue.push((**inner).clone());
                    u64::from(self.shapes) + (queue.len() as u64 - 1) * u64::from(SHAPE)
                }
                Shape::Flat(..) | Shape::Opaque(_) => 0,
            };
            bytes.extend(kind.to_le_bytes());
            bytes.extend((of as u32).to_le_bytes());
            for x in [n, shape.size(), inner, absent] {
                bytes.extend(x.to_le_bytes());
            }
            k += 1;
        }
        let end = self.shapes + bytes.len() as u32;
        (bytes, end)
    }
}
