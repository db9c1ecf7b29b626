//! The inputs of runs: numbers for its parameters, and memory with the program's content or random numbers.

use ir::interp::{Handle, Memory, Value, element_bytes};
use ir::{Func, MemData, MemType, MemTypes, Module, Scalar, Space, Type, TypeData, scalar};

use super::{Outcome, Same, run};
use crate::gradcheck::Random;

/// The number of elements of a buffer whose content is random.
const ELEMENTS: usize = 24;
/// The number of bytes of a bound buffer that are used, since each run copies them.
const MOST_BYTES: usize = 1 << 16;

/// The memory of a program, by global: what is bound, and nothing for the rest.
#[derive(Default)]
pub(super) struct Bound(pub(super) Vec<Option<Vec<u8>>>);

/// The inputs of one run.
pub(super) struct Inputs {
    pub(super) args: Vec<Value>,
    pub(super) memory: Memory,
}

impl Inputs {
    /// The `at`th inputs of a function; the reason why it has none.
    pub(super) fn random(module: &Module, func: Func, bound: &Bound, at: u64) -> Result<Inputs, String> {
        let mut draw = Draw::new(at);
        let mut memory = memory(module, bound, &mut draw);
        let mut args = Vec::new();
        for slot in &module.funcs[func].params {
            args.push(draw.value(module, slot.ty, &mut memory)?);
        }
        Ok(Inputs { args, memory })
    }

    /// Runs a function on these inputs.
    pub(super) fn run(&self, module: &Module, func: Func) -> Outcome {
        run(module, func, &self.args, &self.memory)
    }

    /// The parameters and their values, for messages.
    pub(super) fn show(&self, module: &Module, func: Func) -> String {
        let slots = module.funcs[func].params.iter().enumerate();
        let one = |((k, slot), value): ((usize, &ir::Slot), &Value)| {
            let name = slot.name.as_deref().map_or_else(|| format!("parameter {k}"), str::to_owned);
            format!("{name} = {}", value.display(&module.types, slot.ty))
        };
        let shown: Vec<String> = slots.zip(&self.args).map(one).collect();
        let thread = self.memory.thread;
        if shown.is_empty() { format!("thread {thread:?}") } else { shown.join(", ") }
    }
}

/// Draws numbers of one kind.
pub(super) struct Draw {
    random: Random,
    kind: u64,
}

impl Draw {
    pub(super) fn new(at: u64) -> Draw {
        Draw { random: Random::new(at), kind: at % 4 }
    }

    /// Returns true if numbers are neither large nor those that rules have exceptions for.
    pub(super) fn is_moderate(&self) -> bool {
        self.kind < 2
    }

    /// A number: of moderate size, of either sign, among those that rules have exceptions for, or large.
    pub(super) fn number(&mut self, s: Scalar) -> u64 {
        const RARE: [f64; 10] =
            [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30, 1e-30];
        const WHOLE: [i64; 8] = [0, 1, -1, 2, 31, 32, i64::MAX, i64::MIN];
        if s == Scalar::Bool {
            return self.random.bits() & 1;
        }
        let is_rare = self.kind == 2 && self.random.bits() & 1 == 1;
        if s.is_float() {
            let (low, high) = [(0.25, 1.75), (-2.0, 2.0), (-2.0, 2.0), (-100.0, 100.0)][self.kind as usize];
            match is_rare {
                true => scalar::from_f64(s, RARE[self.random.below(RARE.len())]),
                false => self.random.scalar(s, low, high),
            }
        } else {
            let (low, n) = [(0, 4), (-3, 9), (0, 6), (0, 40)][self.kind as usize];
            match is_rare {
                true => scalar::from_i64(s, WHOLE[self.random.below(WHOLE.len())]),
                false => scalar::from_i64(s, low + self.random.below(n) as i64),
            }
        }
    }

    /// A value of a type; a buffer is new memory.
    fn value(&mut self, module: &Module, ty: Type, memory: &mut Memory) -> Result<Value, String> {
        let types = &module.types;
        Ok(match types[ty] {
            TypeData::Scalar(s) => Value::Scalar(self.number(s)),
            TypeData::Vector(s, n) => Value::Vector((0..n).map(|_| self.number(s)).collect()),
            TypeData::Array(t, n) => {
                let elements: Result<Vec<Value>, String> =
                    (0..n).map(|_| self.value(module, t, memory)).collect();
                Value::array(elements?)
            }
            TypeData::Buffer(element) => {
                let buffer = memory.buffers.len() as u32;
                memory.buffers.push(self.bytes(&module.mem, element, ELEMENTS));
                Value::Buffer(Handle { buffer: Some(buffer), ..Handle::default() })
            }
            TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Residuals(_) => {
                return Err("it takes what another function has kept".into());
            }
        })
    }

    fn bytes(&mut self, mem: &MemTypes, ty: MemType, n: usize) -> Vec<u8> {
        let size = mem.size(ty) as usize;
        let mut bytes = vec![0; size.saturating_mul(n).min(MOST_BYTES.max(size))];
        let last = bytes.len() / size.max(1);
        for k in 0..last {
            each_number(mem, ty, k * size, &mut |s, at| {
                let width = s.bytes() as usize;
                bytes[at..at + width].copy_from_slice(&self.number(s).to_le_bytes()[..width]);
            });
        }
        bytes
    }
}

/// Calls `visit` with each number of a memory type that begins at a byte: its type, and its byte. Handles are left out.
fn each_number(mem: &MemTypes, ty: MemType, at: usize, visit: &mut dyn FnMut(Scalar, usize)) {
    match &mem[ty] {
        MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => {
            let width = s.bytes() as usize;
            (0..mem.size(ty) as usize / width).for_each(|k| visit(*s, at + k * width));
        }
        MemData::Array(t, n) => {
            let size = mem.size(*t) as usize;
            (0..*n as usize).for_each(|k| each_number(mem, *t, at + k * size, visit));
        }
        MemData::Struct { fields, .. } => {
            for (idx, field) in fields.iter().enumerate() {
                each_number(mem, field.1, at + mem.field_offset(ty, idx) as usize, visit);
            }
        }
        MemData::Handle(_) => {}
    }
}

/// The memory of a run.
fn memory(module: &Module, bound: &Bound, draw: &mut Draw) -> Memory {
    let mut memory = Memory::default();
    for (k, (global, data)) in module.globals.iter().enumerate() {
        let size = module.mem.size(data.ty) as usize;
        let n = if matches!(data.space, Space::ReadWrite | Space::ReadOnly) { ELEMENTS } else { 1 };
        let bytes = match bound.0.get(k) {
            Some(Some(bytes)) => {
                let most = (MOST_BYTES / size.max(1)).max(1) * size;
                bytes[..bytes.len().min(most)].to_vec()
            }
            _ if matches!(data.space, Space::GroupShared | Space::Private) => vec![0; size],
            _ => draw.bytes(&module.mem, data.ty, n),
        };
        memory.bind(global, bytes);
    }
    // An initialiser may read earlier variables.
    for (global, data) in &module.globals {
        let Some(init) = data.init.filter(|&init| module.funcs[init].has_body()) else { continue };
        if let Outcome::Done(leaves, _) = run(module, init, &[], &memory) {
            let number = memory.bound[global].expect("is bound") as usize;
            memory.buffers[number] = element_bytes(module, data.ty, &leaves);
        }
    }
    memory.group_size = module.entries.first().map_or([1; 3], |entry| entry.group_size);
    if draw.kind > 0 {
        memory.thread = [8, 3, 2].map(|n| draw.random.below(n) as u32);
    }
    memory
}

/// How the memory that two runs left differs; `None` if it does not.
pub(super) fn memory_differs(module: &Module, before: &Memory, after: &Memory, same: Same) -> Option<String> {
    for (global, data) in &module.globals {
        let (a, b) = (before.bytes(global), after.bytes(global));
        let size = module.mem.size(data.ty) as usize;
        if a == b || size == 0 {
            continue;
        }
        if a.len() != b.len() {
            return Some(format!("`{}` has another length", data.name));
        }
        for k in 0..a.len() / size {
            let mut wrong = None;
            each_number(&module.mem, data.ty, k * size, &mut |s, at| {
                let number = |bytes: &[u8]| {
                    let (mut word, width) = ([0; 8], s.bytes() as usize);
                    word[..width].copy_from_slice(&bytes[at..at + width]);
                    u64::from_le_bytes(word)
                };
                let (a, b) = (number(a), number(b));
                if !same.agree(s, a, b) {
                    let text = |bits| ir::print::scalar_text(s, bits);
                    wrong.get_or_insert_with(|| {
                        format!("`{}[{k}]` has {} instead of {}", data.name, text(b), text(a))
                    });
                }
            });
            if wrong.is_some() {
                return wrong;
            }
        }
    }
    // Memory that has no name is compared as a whole.
    let named = module.globals.len();
    let rest = |memory: &Memory| memory.buffers.get(named..).map(<[Vec<u8>]>::to_vec);
    (same == Same::Exactly && rest(before) != rest(after))
        .then(|| "memory of a parameter differs".to_string())
}
