//! The functions of the arena.
//!
//! They are IR, like the code that calls them, so each backend compiles them and the interpreter runs them.

use ir::build::Builder;
use ir::{AtomicOp, Builtin, Func, Function, Inline, Math, Op, Path, Scalar, Slot, Step, Type, Types, Value};

use super::{Cx, Element, HEAD, Helper};

/// A stack takes at most this many bytes: places are numbers of 32 bits.
const MOST: u32 = u32::MAX;
/// The first capacity of a stack that grows.
const FIRST: u32 = 4;
/// The places of the length, the capacity and the place of the elements in a header, and its size.
pub(super) const LENGTH: u32 = 0;
pub(super) const CAPACITY: u32 = 4;
pub(super) const ELEMENTS: u32 = 8;
const HEADER: u32 = 12;

impl Cx<'_> {
    /// Tells the thread its number and what there is of the arena, before it begins.
    pub(super) fn initialise(&mut self, types: &mut Types) {
        let thread = self.function(types, "thread", &[], Self::number_of_thread);
        let threads = self.function(types, "threads", &[], |cx, b, _| cx.state(b, 4));
        let last = self.function(types, "last", &[], |cx, b, _| cx.state(b, 1));
        let first = self.function(types, "first", &[], Self::first);
        // lavapipe runs the loops of lanes that have no thread until they end, too, and these read what they never
        // wrote.
        let lost = self.function(types, "beyond", &[], |cx, b, _| {
            let (number, threads) = (cx.number_of_thread(b, &[]), cx.state(b, 4));
            let is_beyond = b.emit(Op::Ge, &[number, threads]);
            b.emit_typed(Op::Convert, &[is_beyond], Type::U32)
        });
        for (global, init) in [
            (self.thread, thread),
            (self.threads, threads),
            (self.end, last),
            (self.top, first),
            (self.lost, lost),
        ] {
            self.module.globals[global].init = Some(init);
        }
    }

    /// The helper, made on first use.
    fn helper(&mut self, types: &mut Types, helper: Helper) -> Func {
        if let Some(&found) = self.helpers.get(&helper) {
            return found;
        }
        let func = match helper {
            Helper::Take => self.function(types, "take", &["bytes"], Self::take),
            Helper::Room => self.function(types, "room", &["stack", "n", "size"], Self::room),
            Helper::Grow => {
                self.function(types, "grow", &["stack", "index", "size", "low", "high"], Self::grow)
            }
            Helper::Make => self.function(types, "make", &["n", "size"], Self::make),
            Helper::Copy(depth) => {
                self.function(types, "copy", &["stack", "size"], |cx, b, args| cx.copy(b, args, depth))
            }
            Helper::Add(ty) => {
                self.function(types, "add", &["to", "from"], |cx, b, args| cx.sum(b, args, ty))
            }
        };
        self.helpers.insert(helper, func);
        func
    }

    /// Calls a helper.
    pub(super) fn call(&mut self, b: &mut Builder, helper: Helper, args: &[Value]) -> Value {
        let func = self.helper(b.types, helper);
        b.call(Op::Call(func), args, &[(Type::U32, false)])[0]
    }

    /// Defines a function of numbers that gives one.
    fn function(
        &mut self,
        types: &mut Types,
        name: &str,
        params: &[&str],
        body: impl FnOnce(&mut Self, &mut Builder, &[Value]) -> Value,
    ) -> Func {
        let slot = |name: Option<&str>| Slot {
            ty: Type::U32,
            diff: false,
            linear: false,
            name: name.map(Into::into),
        };
        let mut b = Builder::new(types, "");
        let args: Vec<Value> = params.iter().map(|&name| b.param(slot(Some(name)))).collect();
        let result = body(self, &mut b, &args);
        let made = b.finish(vec![result], vec![slot(None)]);
        // The body may have made functions of its own.
        let name = self.module.free_name(&format!("arena_{name}"));
        self.module.funcs.push(Function { name, inline: Inline::Never, ..made })
    }

    /// `() -> place`: the first place that is free, behind the header of the empty stack, which is cleared: what the
    /// threads of another dispatch kept may be there. Nothing is read of the thread's own globals, which need not
    /// be initialised yet.
    fn first(&mut self, b: &mut Builder, _: &[Value]) -> Value {
        let mut index = self.number_of_thread(b, &[]);
        let (threads, handle, zero) = (self.state(b, 4), self.handle(b, self.arena), b.u32(0));
        for _ in 0..HEAD / 4 {
            b.effect(Op::BufferStore(Path::default()), &[handle, index, zero]);
            index = b.emit(Op::Add, &[index, threads]);
        }
        b.u32(HEAD)
    }

    /// `() -> number`: that of the thread, in the order of groups, then of threads within the group.
    fn number_of_thread(&mut self, b: &mut Builder, _: &[Value]) -> Value {
        let vector = b.types.vector(Scalar::U32, 3);
        let group = b.emit_typed(Op::Builtin(Builtin::GroupId), &[], vector);
        let size = b.emit_typed(Op::Builtin(Builtin::GroupSize), &[], vector);
        let index = b.emit(Op::Builtin(Builtin::GroupIndex), &[]);
        let [x, y, z] = [0, 1, 2].map(|k| b.emit(Op::Extract(k), &[group]));
        let [width, height, depth] = [0, 1, 2].map(|k| b.emit(Op::Extract(k), &[size]));
        let (groups_x, groups_y) = (self.state(b, 2), self.state(b, 3));
        let mut number = b.emit(Op::Mul, &[z, groups_y]);
        number = b.emit(Op::Add, &[number, y]);
        number = b.emit(Op::Mul, &[number, groups_x]);
        number = b.emit(Op::Add, &[number, x]);
        for n in [width, height, depth] {
            number = b.emit(Op::Mul, &[number, n]);
        }
        b.emit(Op::Add, &[number, index])
    }

    /// Takes memory from the front of what is left.
    fn take(&mut self, b: &mut Builder, args: &[Value]) -> Value {
        let bytes = args[0];
        let (top, end) = (self.own(b, self.top), self.own(b, self.end));
        let left = b.emit(Op::Sub, &[end, top]);
        let fits = b.emit(Op::Le, &[bytes, left]);
        self.choose(
            b,
            fits,
            &mut |cx, b| {
                let next = b.emit(Op::Add, &[top, bytes]);
                cx.set_own(b, cx.top, next);
                top
            },
            &mut |cx, b| {
                cx.lose(b);
                b.u32(0)
            },
        )
    }

    /// Records that the thread's part is too small.
    fn lose(&mut self, b: &mut Builder) {
        let one = b.u32(1);
        self.set_own(b, self.lost, one);
        let (handle, zero) = (self.handle(b, self.state), b.u32(0));
        let path = Path(Box::new([Step::Static(0)]));
        b.emit_typed(Op::Atomic(path, AtomicOp::Or), &[handle, zero, one], Type::U32);
    }

    /// The number of elements of `size` bytes that a stack may have.
    fn most(&mut self, b: &mut Builder, size: Value) -> Value {
        let most = b.u32(MOST);
        b.emit(Op::Div, &[most, size])
    }

    /// Sets a header.
    fn set_header(
        &mut self,
        b: &mut Builder,
        header: Value,
        length: Value,
        capacity: Value,
        elements: Value,
    ) {
        self.set_word(b, header, LENGTH, length);
        self.set_word(b, header, CAPACITY, capacity);
        self.set_word(b, header, ELEMENTS, elements);
    }

    fn room(&mut self, b: &mut Builder, args: &[Value]) -> Value {
        let &[stack, n, size] = args else { unreachable!("three parameters") };
        let capacity = self.word(b, stack, CAPACITY);
        let has = b.emit(Op::Le, &[n, capacity]);
        self.choose(b, has, &mut |_, _| stack, &mut |cx, b| {
            let most = cx.most(b, size);
            let fits = b.emit(Op::Le, &[n, most]);
            cx.choose(
                b,
                fits,
                &mut |cx, b| {
                    let (two, first) = (b.u32(2), b.u32(FIRST));
                    let twice = b.emit(Op::Mul, &[capacity, two]);
                    let mut wanted = b.emit(Op::Math(Math::Max), &[twice, first]);
                    wanted = b.emit(Op::Math(Math::Min), &[wanted, most]);
                    wanted = b.emit(Op::Math(Math::Max), &[wanted, n]);
                    let bytes = b.emit(Op::Mul, &[wanted, size]);
                    let elements = cx.call(b, Helper::Take, &[bytes]);
                    cx.move_to(b, stack, (wanted, elements), size)
                },
                &mut |cx, b| {
                    cx.lose(b);
                    stack
                },
            )
        })
    }

    /// Moves the elements of a stack to a place with room for more, unless there is none; makes a header if the
    /// stack was empty. Gives the stack.
    fn move_to(
        &mut self,
        b: &mut Builder,
        stack: Value,
        (capacity, elements): (Value, Value),
        size: Value,
    ) -> Value {
        let zero = b.u32(0);
        let is_new = b.emit(Op::Eq, &[stack, zero]);
        let header = self.choose(
            b,
            is_new,
            &mut |cx, b| {
                let bytes = b.u32(HEADER);
                cx.call(b, Helper::Take, &[bytes])
            },
            &mut |_, _| stack,
        );
        let [has_header, has_elements] = [header, elements].map(|place| b.emit(Op::Ne, &[place, zero]));
        let moves = b.emit(Op::And, &[has_header, has_elements]);
        self.choose(
            b,
            moves,
            &mut |cx, b| {
                let (length, from) = (cx.word(b, stack, LENGTH), cx.word(b, stack, ELEMENTS));
                cx.copy_words(b, elements, from, length, size);
                cx.set_header(b, header, length, capacity, elements);
                header
            },
            &mut |_, _| stack,
        )
    }

    /// Copies `n` elements.
    fn copy_words(&mut self, b: &mut Builder, to: Value, from: Value, n: Value, size: Value) {
        let (bytes, two) = (b.emit(Op::Mul, &[n, size]), b.u32(2));
        let words = b.emit(Op::Shr, &[bytes, two]);
        self.each_below(b, words, &mut |cx, b, k| {
            let (to, from) = (cx.at(b, to, k, 4), cx.at(b, from, k, 4));
            let word = cx.word(b, from, 0);
            cx.set_word(b, to, 0, word);
        });
    }

    fn grow(&mut self, b: &mut Builder, args: &[Value]) -> Value {
        let &[stack, index, size, low, high] = args else { unreachable!("five parameters") };
        let (length, far) = (self.word(b, stack, LENGTH), b.u32(1 << 31));
        let is_beyond = b.emit(Op::Ge, &[index, length]);
        let exists = b.emit(Op::Lt, &[index, far]);
        let grows = b.emit(Op::And, &[is_beyond, exists]);
        self.choose(
            b,
            grows,
            &mut |cx, b| {
                let one = b.u32(1);
                let n = b.emit(Op::Add, &[index, one]);
                let grown = cx.call(b, Helper::Room, &[stack, n, size]);
                let capacity = cx.word(b, grown, CAPACITY);
                let has = b.emit(Op::Le, &[n, capacity]);
                cx.when(b, Some(has), &mut |cx, b| {
                    let two = b.u32(2);
                    let [first, last] = [length, n].map(|n| {
                        let bytes = b.emit(Op::Mul, &[n, size]);
                        b.emit(Op::Shr, &[bytes, two])
                    });
                    let (words, elements) = (b.emit(Op::Sub, &[last, first]), cx.word(b, grown, ELEMENTS));
                    cx.each_below(b, words, &mut |cx, b, k| {
                        let k = b.emit(Op::Add, &[first, k]);
                        let (one, zero) = (b.u32(1), b.u32(0));
                        let odd = b.emit(Op::And, &[k, one]);
                        let odd = b.emit(Op::Ne, &[odd, zero]);
                        let (word, at) = (b.emit(Op::Select, &[odd, high, low]), cx.at(b, elements, k, 4));
                        cx.set_word(b, at, 0, word);
                    });
                    cx.set_word(b, grown, LENGTH, n);
                });
                grown
            },
            &mut |_, _| stack,
        )
    }

    fn make(&mut self, b: &mut Builder, args: &[Value]) -> Value {
        let &[n, size] = args else { unreachable!("two parameters") };
        let zero = b.u32(0);
        let some = b.emit(Op::Ne, &[n, zero]);
        self.choose(
            b,
            some,
            &mut |cx, b| {
                let stack = cx.call(b, Helper::Room, &[zero, n, size]);
                let made = b.emit(Op::Ne, &[stack, zero]);
                cx.when(b, Some(made), &mut |cx, b| cx.set_word(b, stack, LENGTH, n));
                stack
            },
            &mut |_, _| zero,
        )
    }

    fn copy(&mut self, b: &mut Builder, args: &[Value], depth: u32) -> Value {
        let &[stack, size] = args else { unreachable!("two parameters") };
        let length = self.word(b, stack, LENGTH);
        let size_here = if depth == 0 { size } else { b.u32(4) };
        let copy = self.call(b, Helper::Make, &[length, size_here]);
        let (to, from) = (self.word(b, copy, ELEMENTS), self.word(b, stack, ELEMENTS));
        // The copy is empty if there was no room.
        let n = self.word(b, copy, LENGTH);
        if depth == 0 {
            self.copy_words(b, to, from, n, size);
        } else {
            self.each_below(b, n, &mut |cx, b, k| {
                let (to, from) = (cx.at(b, to, k, 4), cx.at(b, from, k, 4));
                let inner = cx.word(b, from, 0);
                let inner = cx.call(b, Helper::Copy(depth - 1), &[inner, size]);
                cx.set_word(b, to, 0, inner);
            });
        }
        copy
    }

    /// Adds the elements of a stack of type `ty` to those of another, which grows to their number.
    fn sum(&mut self, b: &mut Builder, args: &[Value], ty: Type) -> Value {
        let &[to, from] = args else { unreachable!("two parameters") };
        let element = b.types.element(ty).expect("a stack has elements");
        let size = self.size(b.types, element);
        let (zero, one, length) = (b.u32(0), b.u32(1), self.word(b, from, LENGTH));
        let some = b.emit(Op::Ne, &[length, zero]);
        self.choose(
            b,
            some,
            &mut |cx, b| {
                let last = b.emit(Op::Sub, &[length, one]);
                let grown = cx.grown(b, to, last, element);
                let (n, to, from) =
                    (cx.word(b, grown, LENGTH), cx.word(b, grown, ELEMENTS), cx.word(b, from, ELEMENTS));
                let n = b.emit(Op::Math(Math::Min), &[n, length]);
                cx.each_below(b, n, &mut |cx, b, k| {
                    let (to, from) = (cx.at(b, to, k, size), cx.at(b, from, k, size));
                    if let Element::Stack = cx.element(b.types, element) {
                        let [inner, other] = [to, from].map(|place| cx.word(b, place, 0));
                        let inner = cx.call(b, Helper::Add(element), &[inner, other]);
                        cx.set_word(b, to, 0, inner);
                    } else if b.types.scalar_of(element) != Some(Scalar::Bool) {
                        let x = cx.read(b, from, element);
                        cx.add(b, to, x, element);
                    }
                });
                grown
            },
            &mut |_, _| to,
        )
    }

    /// A stack with an element at `index`.
    pub(super) fn grown(&mut self, b: &mut Builder, stack: Value, index: Value, element: Type) -> Value {
        let (low, high) = super::filling(b.types, element);
        let size = self.size(b.types, element);
        let [size, low, high] = [size, low, high].map(|n| b.u32(n));
        self.call(b, Helper::Grow, &[stack, index, size, low, high])
    }
}
