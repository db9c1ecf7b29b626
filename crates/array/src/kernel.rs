//! Builds the kernel around a function: it reads the arguments from arrays, calls the function, and writes or
//! adds the results.

use driver::wrap::{self, Kernel, Stride};
use ir::{AtomicOp, Entry, Func, Global, GlobalData, MemData, Module, Op, Path, Scalar, Space, Span, Value};

use crate::mapping::{Along, Key, Place};

/// The number of threads of a group, if they do not see each other.
const GROUP: u32 = 64;

/// The globals to which a kernel's numbers and arrays are bound.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The global of [`crate::mapping::Mapping::numbers`].
    pub(crate) numbers: Global,
    /// The globals of the operands.
    pub(crate) arrays: Vec<Global>,
    /// The number of threads of a group.
    pub(crate) group: u32,
}

/// Builds the only entry point of a module. The arguments of the function are the first operands, its results
/// the others.
pub(crate) fn build(module: &mut Module, func: Func, key: &Key) -> Places {
    let (params, results) = (module.funcs[func].params.clone(), module.funcs[func].results.clone());
    debug_assert_eq!(params.len() + results.len(), key.len());
    let mut global = |name: String, space: Space, kind: Scalar| {
        let ty = module.mem.intern(MemData::Scalar(kind));
        (ty, module.globals.push(GlobalData { name, space, ty, init: None, span: Span::NONE }))
    };
    let numbers = global("array.numbers".into(), Space::ReadOnly, Scalar::U32);
    let mut arrays = Vec::new();
    for (k, place) in key.iter().enumerate() {
        let space = if k < params.len() { Space::ReadOnly } else { Space::ReadWrite };
        arrays.push(global(format!("array.{k}"), space, place.kind));
    }
    let n_dims = key.first().map_or(0, |place| place.along.len());
    let mut k = Kernel::new(&mut module.types, "array kernel".into());
    let table = k.table(numbers);
    let mut reader = Numbers { table, next: 0 };
    let n = reader.next(&mut k);
    let inside = k.b.emit(Op::Lt, &[k.thread, n]);
    let then = k.b.open();
    let sizes: Vec<Value> = (1..n_dims).map(|_| reader.next(&mut k)).collect();
    let at = places(&mut k, &sizes, n_dims);
    let (inputs, outputs) = key.split_at(params.len());
    let mut args = Vec::new();
    for ((slot, place), &array) in params.iter().zip(inputs).zip(&arrays) {
        let dims = wrap::dims(k.b.types, slot.ty);
        let (first, strides) = find(&mut k, &mut reader, place, &dims, &at);
        let table = k.table(array);
        args.push(k.read(slot.ty, place.kind, table, first, &strides));
    }
    let mut found = Vec::new();
    for ((slot, place), &array) in results.iter().zip(outputs).zip(&arrays[params.len()..]) {
        let dims = wrap::dims(k.b.types, slot.ty);
        let (first, strides) = find(&mut k, &mut reader, place, &dims, &at);
        found.push((place, k.table(array), first, strides));
    }
    let values = k.b.call_func(func, &results, &args);
    for (v, (place, table, first, strides)) in values.into_iter().zip(found) {
        k.write(v, first, &strides, &mut |k, at, x| match place.adds {
            true => {
                let x = k.convert(x, place.kind);
                k.b.emit_typed(
                    Op::Atomic(Path::default(), AtomicOp::Add),
                    &[table, at, x],
                    place.kind.into(),
                );
            }
            false => k.store(place.kind, table, at, x),
        });
    }
    k.b.close(Vec::new());
    let otherwise = k.b.open();
    k.b.close(Vec::new());
    k.b.nest(Op::If, &[inside], &[then, otherwise]);
    let kernel = k.b.finish(Vec::new(), Vec::new());
    let kernel = module.funcs.push(kernel);
    let group = if wrap::sees_wave(module, func) { 1 } else { GROUP };
    module.entries = vec![Entry::kernel("array", kernel, [group, 1, 1])];
    Places { numbers: numbers.1, arrays: arrays.into_iter().map(|a| a.1).collect(), group }
}

/// Reads the kernel's numbers in order.
struct Numbers {
    table: Value,
    next: u32,
}

impl Numbers {
    fn next(&mut self, k: &mut Kernel<'_>) -> Value {
        let at = k.b.u32(self.next);
        self.next += 1;
        k.b.emit_typed(Op::BufferLoad(Path::default()), &[self.table, at], Scalar::U32.into())
    }
}

/// The thread's index along each dimension; `sizes` are the sizes of all dimensions but the first.
fn places(k: &mut Kernel<'_>, sizes: &[Value], n_dims: usize) -> Vec<Value> {
    let mut rest = k.thread;
    let mut at = Vec::new();
    for &size in sizes.iter().rev() {
        at.push(k.b.emit(Op::Rem, &[rest, size]));
        rest = k.b.emit(Op::Div, &[rest, size]);
    }
    if n_dims > 0 {
        at.push(rest);
    }
    at.reverse();
    at
}

/// The position of the first number of the thread's value, and the strides to its other numbers. Positions
/// are modulo 2³², so strides may be negative.
fn find(
    k: &mut Kernel<'_>,
    reader: &mut Numbers,
    place: &Place,
    dims: &[u32],
    at: &[Value],
) -> (Value, Vec<Stride>) {
    let count: u32 = dims.iter().product();
    let mut first = place.has_base.then(|| reader.next(k));
    for (along, &index) in place.along.iter().zip(at) {
        let step = match along {
            Along::Same => continue,
            Along::Dense if count == 1 => index,
            Along::Dense => {
                let count = k.b.u32(count);
                k.b.emit(Op::Mul, &[index, count])
            }
            Along::Stride => {
                let stride = reader.next(k);
                k.b.emit(Op::Mul, &[index, stride])
            }
        };
        first = Some(match first {
            None => step,
            Some(first) => k.b.emit(Op::Add, &[first, step]),
        });
    }
    let first = first.unwrap_or_else(|| k.b.u32(0));
    let strides = match place.is_dense {
        true => (0..dims.len()).map(|d| Stride::Of(dims[d + 1..].iter().product())).collect(),
        false => dims.iter().map(|_| Stride::At(reader.next(k))).collect(),
    };
    (first, strides)
}
