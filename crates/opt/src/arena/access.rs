//! Emits accesses to the arena: words by their places, and values of all types, which consist of words.

use ir::build::Builder;
use ir::{LoopInfo, Op, Path, Scalar, Step, Type, TypeData, Value};

use super::{Cx, Element};

/// Arrays of at most this many elements are accessed element by element without a loop.
const FEW: u32 = 4;

impl Cx<'_> {
    /// The number that a private global holds.
    pub(super) fn own(&self, b: &mut Builder, global: ir::Global) -> Value {
        let (handle, zero) = (self.handle(b, global), b.u32(0));
        b.emit_typed(Op::BufferLoad(Path::default()), &[handle, zero], Type::U32)
    }

    /// Sets a private global.
    pub(super) fn set_own(&self, b: &mut Builder, global: ir::Global, v: Value) {
        let (handle, zero) = (self.handle(b, global), b.u32(0));
        b.effect(Op::BufferStore(Path::default()), &[handle, zero, v]);
    }

    /// The number in a field of the arena's state.
    pub(super) fn state(&self, b: &mut Builder, field: u32) -> Value {
        let (handle, zero) = (self.handle(b, self.state), b.u32(0));
        let path = Path(Box::new([Step::Static(field)]));
        b.emit_typed(Op::BufferLoad(path), &[handle, zero], Type::U32)
    }

    /// The handle of a global.
    pub(super) fn handle(&self, b: &mut Builder, global: ir::Global) -> Value {
        let ty = b.types.buffer(self.module.globals[global].ty);
        b.emit_typed(Op::GlobalRef(global), &[], ty)
    }

    /// The word at a place.
    pub(super) fn word(&self, b: &mut Builder, place: Value, offset: u32) -> Value {
        let (handle, index) = self.index(b, place, offset);
        b.emit_typed(Op::BufferLoad(Path::default()), &[handle, index], Type::U32)
    }

    /// Sets the word at a place.
    pub(super) fn set_word(&self, b: &mut Builder, place: Value, offset: u32, v: Value) {
        let (handle, index) = self.index(b, place, offset);
        b.effect(Op::BufferStore(Path::default()), &[handle, index, v]);
    }

    /// The index of a word of the thread's part.
    fn index(&self, b: &mut Builder, place: Value, offset: u32) -> (Value, Value) {
        let two = b.u32(2);
        let mut word = b.emit(Op::Shr, &[place, two]);
        if offset > 0 {
            let offset = b.u32(offset / 4);
            word = b.emit(Op::Add, &[word, offset]);
        }
        let (thread, threads) = (self.own(b, self.thread), self.own(b, self.threads));
        let row = b.emit(Op::Mul, &[word, threads]);
        let index = b.emit(Op::Add, &[row, thread]);
        (self.handle(b, self.arena), index)
    }

    /// `place + index * size`
    pub(super) fn at(&self, b: &mut Builder, place: Value, index: Value, size: u32) -> Value {
        let size = b.u32(size);
        let bytes = b.emit(Op::Mul, &[index, size]);
        b.emit(Op::Add, &[place, bytes])
    }

    /// The number at a place.
    fn number(&self, b: &mut Builder, place: Value, offset: u32, s: Scalar) -> Value {
        let low = self.word(b, place, offset);
        if s.bytes() == 4 {
            return if s == Scalar::U32 { low } else { b.emit_typed(Op::Bitcast, &[low], s.into()) };
        }
        let high = self.word(b, place, offset + 4);
        let [low, high] = [low, high].map(|word| b.emit_typed(Op::Convert, &[word], Type::U64));
        let half = b.constant(Scalar::U64, 32);
        let high = b.emit(Op::Shl, &[high, half]);
        let bits = b.emit(Op::Or, &[low, high]);
        if s == Scalar::U64 { bits } else { b.emit_typed(Op::Bitcast, &[bits], s.into()) }
    }

    /// Sets the number at a place.
    fn set_number(&self, b: &mut Builder, place: Value, offset: u32, v: Value, s: Scalar) {
        let bits = |b: &mut Builder, ty: Scalar| {
            if s == ty { v } else { b.emit_typed(Op::Bitcast, &[v], ty.into()) }
        };
        if s.bytes() == 4 {
            let word = bits(b, Scalar::U32);
            return self.set_word(b, place, offset, word);
        }
        let both = bits(b, Scalar::U64);
        let half = b.constant(Scalar::U64, 32);
        let high = b.emit(Op::Shr, &[both, half]);
        let [low, high] = [both, high].map(|word| b.emit_typed(Op::Convert, &[word], Type::U32));
        self.set_word(b, place, offset, low);
        self.set_word(b, place, offset + 4, high);
    }

    /// The value of a type at a place.
    pub(super) fn read(&mut self, b: &mut Builder, place: Value, ty: Type) -> Value {
        match self.element(b.types, ty) {
            Element::Stack => self.word(b, place, 0),
            Element::Numbers(s, n) => {
                let size = s.bytes();
                let numbers: Vec<Value> = (0..n).map(|k| self.number(b, place, k * size, s)).collect();
                let is_vector = matches!(b.types[ty], TypeData::Vector(..));
                let held = if is_vector { b.types.vector(s, n) } else { s.into() };
                let v = if is_vector { b.emit_typed(Op::Construct, &numbers, held) } else { numbers[0] };
                if held == ty { v } else { b.emit_typed(Op::Convert, &[v], ty) }
            }
            Element::Array(of, n) => {
                let size = self.size(b.types, of);
                if n <= FEW {
                    let parts: Vec<Value> = (0..n)
                        .map(|k| {
                            let k = b.u32(k);
                            let at = self.at(b, place, k, size);
                            self.read(b, at, of)
                        })
                        .collect();
                    return if n == 0 { b.zero(ty) } else { b.emit_typed(Op::Construct, &parts, ty) };
                }
                let zero = b.zero(ty);
                let cell = b.emit(Op::Local, &[zero]);
                self.each(b, n, &mut |cx, b, i| {
                    let at = cx.at(b, place, i, size);
                    let x = cx.read(b, at, of);
                    b.effect(Op::Store, &[cell, i, x]);
                });
                b.emit(Op::Load, &[cell])
            }
        }
    }

    /// Sets the value at a place.
    pub(super) fn write(&mut self, b: &mut Builder, place: Value, v: Value, ty: Type) {
        match self.element(b.types, ty) {
            Element::Stack => self.set_word(b, place, 0, v),
            Element::Numbers(s, n) => {
                let size = s.bytes();
                let is_vector = matches!(b.types[ty], TypeData::Vector(..));
                let held = if is_vector { b.types.vector(s, n) } else { s.into() };
                let v = if held == ty { v } else { b.emit_typed(Op::Convert, &[v], held) };
                for k in 0..n {
                    let x = if is_vector { b.emit(Op::Extract(k), &[v]) } else { v };
                    self.set_number(b, place, k * size, x, s);
                }
            }
            Element::Array(of, n) => {
                self.parts(b, (place, v, of, n), &mut |cx, b, at, x| cx.write(b, at, x, of));
            }
        }
    }

    /// Adds a value to that at a place.
    pub(super) fn add(&mut self, b: &mut Builder, place: Value, v: Value, ty: Type) {
        match self.element(b.types, ty) {
            Element::Stack => {}
            Element::Numbers(..) => {
                let old = self.read(b, place, ty);
                let new = b.emit(Op::Add, &[old, v]);
                self.write(b, place, new, ty);
            }
            Element::Array(of, n) => {
                self.parts(b, (place, v, of, n), &mut |cx, b, at, x| cx.add(b, at, x, of));
            }
        }
    }

    /// Visits the elements of an array, each with its place.
    fn parts(
        &mut self,
        b: &mut Builder,
        (place, v, of, n): (Value, Value, Type, u32),
        visit: &mut dyn FnMut(&mut Self, &mut Builder, Value, Value),
    ) {
        let size = self.size(b.types, of);
        if n <= FEW {
            for k in 0..n {
                let (x, k) = (b.emit(Op::Extract(k), &[v]), b.u32(k));
                let at = self.at(b, place, k, size);
                visit(self, b, at, x);
            }
            return;
        }
        let cell = b.emit(Op::Local, &[v]);
        self.each(b, n, &mut |cx, b, i| {
            let (at, x) = (cx.at(b, place, i, size), b.emit(Op::Load, &[cell, i]));
            visit(cx, b, at, x);
        });
    }

    /// `for i in 0..n { body }`
    fn each(&mut self, b: &mut Builder, n: u32, body: &mut dyn FnMut(&mut Self, &mut Builder, Value)) {
        let n = b.u32(n);
        self.each_below(b, n, body);
    }

    /// `for i in 0..n { body }`
    pub(super) fn each_below(
        &mut self,
        b: &mut Builder,
        n: Value,
        body: &mut dyn FnMut(&mut Self, &mut Builder, Value),
    ) {
        let region = b.open();
        let i = b.region_param(Type::U32);
        body(self, b, i);
        b.close(Vec::new());
        b.nest(Op::For(LoopInfo::default()), &[n], &[region]);
    }

    /// `if condition { body }`
    pub(super) fn when(
        &mut self,
        b: &mut Builder,
        condition: Option<Value>,
        body: &mut dyn FnMut(&mut Self, &mut Builder),
    ) {
        let Some(condition) = condition else { return body(self, b) };
        let yes = b.open();
        body(self, b);
        b.close(Vec::new());
        let no = b.open();
        b.close(Vec::new());
        b.nest(Op::If, &[condition], &[yes, no]);
    }

    /// `if condition { yes } else { no }`, of one value.
    pub(super) fn choose(
        &mut self,
        b: &mut Builder,
        condition: Value,
        yes: &mut dyn FnMut(&mut Self, &mut Builder) -> Value,
        no: &mut dyn FnMut(&mut Self, &mut Builder) -> Value,
    ) -> Value {
        let first = b.open();
        let v = yes(self, b);
        b.close(vec![v]);
        let second = b.open();
        let v = no(self, b);
        b.close(vec![v]);
        b.nest(Op::If, &[condition], &[first, second])[0]
    }

    /// A value of a type, or what stands for it where there is none: an absent differential if `is_absent`,
    /// otherwise zero.
    pub(super) fn nothing(&self, b: &mut Builder, ty: Type, is_absent: bool) -> Value {
        let is_float = b.types.scalar_of(ty).is_some_and(Scalar::is_float);
        if let (TypeData::Stack(_), _) | (_, false) = (b.types[ty], is_absent && is_float) {
            let plain = super::plain(b.types, ty);
            return b.zero(plain);
        }
        let (span, mut insts) = (b.span, Vec::new());
        let v = crate::recursion::identity(b.types, &mut b.func, ty, span, &mut insts);
        let region = b.region();
        b.func.regions[region].insts.extend(insts);
        v
    }
}
