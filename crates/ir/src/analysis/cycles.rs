//! The call graph: an order in which callees come before callers, and which functions call each other
//! recursively: Tarjan's strongly connected components of the call
//! graph, computed without recursion in Rust.
//!
//! Components are found on demand and kept. That is right while a module grows, since the callees of a
//! function that has a body do not change; a function without a body gets no component and is visited again
//! when it is queried later.

use cranelift_entity::EntitySet;
use rustc_hash::FxHashMap;

use crate::{Func, Module};

/// The components found so far: those of the functions queried and of their direct and indirect callees.
#[derive(Clone, Debug, Default)]
pub struct Cycles {
    component: FxHashMap<Func, u32>,
    recursive: EntitySet<Func>,
    next: u32,
}

/// A frame of the explicit stack: a function that is being visited.
struct Frame {
    func: Func,
    callees: Vec<Func>,
    at: usize,
}

/// A function's number in order of visit, and the least number that it reaches.
struct Mark {
    index: u32,
    low: u32,
    open: bool,
}

impl Cycles {
    /// Returns true if a function calls itself, directly or through others.
    pub fn is_recursive(&mut self, module: &Module, func: Func) -> bool {
        self.visit(module, func);
        self.recursive.contains(func)
    }

    /// Returns true if `callee`, which `caller` calls, calls `caller` in turn, directly or through others.
    pub fn closes(&mut self, module: &Module, caller: Func, callee: Func) -> bool {
        self.visit(module, caller);
        self.recursive.contains(callee) && self.component.get(&caller) == self.component.get(&callee)
    }

    fn visit(&mut self, module: &Module, root: Func) {
        if self.component.contains_key(&root) || !module.funcs[root].has_body() {
            return;
        }
        let mut marks: FxHashMap<Func, Mark> = FxHashMap::default();
        let mut open: Vec<Func> = Vec::new();
        let mut frames: Vec<Frame> = Vec::new();
        let start = |func: Func, marks: &mut FxHashMap<Func, Mark>, open: &mut Vec<Func>| {
            let index = marks.len() as u32;
            marks.insert(func, Mark { index, low: index, open: true });
            open.push(func);
            Frame { func, callees: crate::walk::callees(&module.funcs[func]), at: 0 }
        };
        frames.push(start(root, &mut marks, &mut open));
        while let Some(frame) = frames.last_mut() {
            let func = frame.func;
            if let Some(&callee) = frame.callees.get(frame.at) {
                frame.at += 1;
                if callee == func {
                    self.recursive.insert(func);
                }
                if self.component.contains_key(&callee) || !module.funcs[callee].has_body() {
                    continue;
                }
                match marks.get(&callee).map(|m| (m.open, m.index)) {
                    None => frames.push(start(callee, &mut marks, &mut open)),
                    Some((true, index)) => lower(&mut marks, func, index),
                    Some((false, _)) => {}
                }
                continue;
            }
            frames.pop();
            let (index, low) = marks.get(&func).map_or((0, 0), |m| (m.index, m.low));
            if let Some(parent) = frames.last() {
                lower(&mut marks, parent.func, low);
            }
            if low != index {
                continue;
            }
            let from = open.iter().rposition(|&f| f == func).expect("it is open");
            let ring = open.len() - from > 1;
            for member in open.drain(from..) {
                if let Some(mark) = marks.get_mut(&member) {
                    mark.open = false;
                }
                self.component.insert(member, self.next);
                if ring {
                    self.recursive.insert(member);
                }
            }
            self.next += 1;
        }
    }
}

fn lower(marks: &mut FxHashMap<Func, Mark>, func: Func, to: u32) {
    if let Some(mark) = marks.get_mut(&func) {
        mark.low = mark.low.min(to);
    }
}

/// All functions, callees before callers where there is no recursion.
pub fn post_order(module: &Module) -> Vec<Func> {
    post_order_of(module, module.funcs.keys(), &|_| false)
}

/// The roots and the functions that they reach, callees before callers where there is no recursion, without
/// those for which `is_known` is true. Computed without recursion in Rust.
pub fn post_order_of(
    module: &Module,
    roots: impl IntoIterator<Item = Func>,
    is_known: &dyn Fn(Func) -> bool,
) -> Vec<Func> {
    let (mut order, mut seen) = (Vec::new(), EntitySet::new());
    let mut stack: Vec<(Func, std::vec::IntoIter<Func>)> = Vec::new();
    let start = |f: Func| (f, crate::walk::callees(&module.funcs[f]).into_iter());
    for root in roots {
        if !is_known(root) && seen.insert(root) {
            stack.push(start(root));
        }
        while let Some((f, callees)) = stack.last_mut() {
            match callees.next() {
                Some(callee) if !is_known(callee) && seen.insert(callee) => stack.push(start(callee)),
                Some(_) => {}
                None => {
                    order.push(*f);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// The roots and the functions that they lead to, where `next` lists those that one function leads to.
pub fn reach<I: IntoIterator<Item = Func>>(
    roots: impl IntoIterator<Item = Func>,
    mut next: impl FnMut(Func) -> I,
) -> EntitySet<Func> {
    let mut reached = EntitySet::new();
    let mut left: Vec<Func> = roots.into_iter().collect();
    while let Some(func) = left.pop() {
        if reached.insert(func) {
            left.extend(next(func));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_found_whatever_is_asked_first() {
        let function = |name: &str, callees: &[&str]| {
            let mut text = format!("func {name}(v0: f32) -> (f32) {{\n");
            for (n, callee) in callees.iter().enumerate() {
                text += &format!("    v{} = call {callee}(v{n})\n", n + 1);
            }
            text + &format!("    yield v{}\n}}\n", callees.len())
        };
        let text = [
            function("leaf", &[]),
            function("self", &["self", "leaf"]),
            function("a", &["leaf", "b"]),
            function("b", &["c", "leaf"]),
            function("c", &["self", "a"]),
            function("top", &["a", "self"]),
        ];
        let module = crate::parse::parse_module(&text.concat()).unwrap();
        let names: Vec<Func> = module.funcs.keys().collect();
        let [leaf, own, a, b, c, top] = names[..] else { panic!("six functions") };
        for first in names {
            let mut cycles = Cycles::default();
            cycles.is_recursive(&module, first);
            assert!([own, a, b, c].iter().all(|&f| cycles.is_recursive(&module, f)));
            assert!(!cycles.is_recursive(&module, leaf) && !cycles.is_recursive(&module, top));
            assert!(cycles.closes(&module, own, own) && cycles.closes(&module, b, c));
            assert!(!cycles.closes(&module, top, a) && !cycles.closes(&module, c, own));
        }
    }
}
