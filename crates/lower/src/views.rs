//! Determines which functions are differentiated, to which order, and on behalf of which module.
//!
//! A function's custom derivatives are lowered only if it is differentiated. The order to which it is
//! differentiated (its *level*) follows from the calls: the operand of a derivative operator is one level
//! above the function that applies the operator, a callee is on the level of its caller, and a custom
//! derivative, which has already done one differentiation, is one level below the function that it belongs
//! to.
//!
//! The derivative of a function depends on the module that requests it ([`check::View`]), and so do the
//! derivatives of all functions that call it. So the unit of differentiation is a pair of a function and a
//! view (a [`Node`]). Nodes of the same function that differ, in their own derivative or in that of a
//! function they reach, become separate functions: in the IR, the identity of a function determines its
//! derivative, and later passes know nothing of modules.

use check::tables::Callable;
use check::{ModuleId, View};
use ir::{DerivativeOp, Func, Op, Span, Types, Witness};
use rustc_hash::FxHashMap;

use crate::declared::{Key, Variant};
use crate::lowerer::{FxIndexMap, Lowerer, Node, source_span};

/// The limit on levels: no program needs custom derivatives for derivatives of a higher order.
const MAX_LEVEL: u8 = 5;

/// The key that distinguishes nodes: the function, its derivatives, its previous class, and the classes of
/// the nodes that it reaches.
type Class = (Func, [Option<Func>; 4], u32, Vec<u32>);

/// How an instruction uses another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Call,
    Forward,
    /// Two orders of forward mode.
    Second,
    Backward,
}

impl Edge {
    fn of(op: DerivativeOp) -> Edge {
        match op {
            DerivativeOp::Second => Edge::Second,
            _ if op.is_forward() => Edge::Forward,
            _ => Edge::Backward,
        }
    }

    /// The number of differentiations.
    fn order(self) -> u8 {
        match self {
            Edge::Call => 0,
            Edge::Forward | Edge::Backward => 1,
            Edge::Second => 2,
        }
    }
}

impl Lowerer<'_> {
    /// Declares the missing witnesses. Returns true if there is more to build.
    pub(crate) fn request_witnesses(&mut self, types: &mut Types) -> bool {
        let edges = self.edges();
        self.want(&edges);
        let before = self.declared.len();
        for k in 0..self.wanted.len() {
            let (&(func, view), wanted) = self.wanted.get_index(k).expect("k is in range");
            let (modes, call) = (wanted.modes, wanted.call);
            let (key, declared) = self.declared.get_index(func.as_u32() as usize).expect("declared in order");
            let declared = declared.clone();
            let key = key.clone();
            if std::mem::replace(&mut self.wanted[k].known, true) {
                continue;
            }
            self.wanted[k].witness = match &key {
                Key::Variant(f, Variant::Use(ty)) => self.request_use(f, *ty, &declared),
                Key::Variant(f, Variant::Quiet) => self.request_quiet(types, f, view),
                Key::Callable(Callable::Func(f)) => self.request_witness(types, f, &declared, view),
                Key::Callable(_) | Key::Variant(..) | Key::Derived(..) | Key::Entry(_) => continue,
            };
            if let (Key::Callable(Callable::Func(f)), Some((_, span))) = (key, call) {
                let derivatives = self.program.derivatives_of(&f, view);
                let span = source_span(span);
                for (backward, _) in [false, true].into_iter().zip(modes).filter(|m| m.1) {
                    self.program.report_ambiguity(&f, &derivatives, backward, span);
                }
            }
        }
        self.declared.len() > before || self.next < self.declared.len()
    }

    /// Finds the functions to differentiate: the least set that contains the operands of derivative operators
    /// and is closed under the functions that the differentiation of its members differentiates.
    fn want(&mut self, edges: &[Vec<(Func, Edge, Span)>]) {
        let mut work: Vec<Node> = Vec::new();
        for (caller, edges) in edges.iter().enumerate() {
            let asks = self.asks(Func::from_u32(caller as u32));
            for &(callee, edge, _) in edges.iter().filter(|e| e.1 != Edge::Call) {
                let view = self.view_of(callee, View::of(asks));
                let modes = [edge != Edge::Backward, edge == Edge::Backward];
                self.raise((callee, view), edge.order(), modes, None, &mut work);
            }
        }
        work.extend(self.wanted.keys().copied());
        while let Some(node) = work.pop() {
            let wanted = self.wanted[&node];
            let (func, view) = node;
            for &(callee, edge, span) in &edges[func.as_u32() as usize] {
                if edge == Edge::Call {
                    let view = self.view_in(callee, func, view);
                    let call = Some((func, span));
                    self.raise((callee, view), wanted.level, wanted.modes, call, &mut work);
                } else {
                    let view = self.view_of(callee, View::of(self.asks(func)));
                    self.raise((callee, view), wanted.level + edge.order(), wanted.modes, None, &mut work);
                }
            }
            let Witness { jvp, vjp, apply, substitute, .. } = wanted.witness;
            for custom in [jvp, vjp, apply].into_iter().flatten() {
                let view = self.view_in(custom, func, view);
                self.raise((custom, view), wanted.level - 1, [true; 2], None, &mut work);
            }
            if let Some(substitute) = substitute {
                let view = self.view_in(substitute, func, view);
                self.raise((substitute, view), wanted.level, wanted.modes, None, &mut work);
            }
        }
    }

    fn raise(
        &mut self,
        node: Node,
        level: u8,
        modes: [bool; 2],
        call: Option<(Func, Span)>,
        work: &mut Vec<Node>,
    ) {
        let level = level.min(MAX_LEVEL);
        if level == 0 {
            return;
        }
        let wanted = self.wanted.entry(node).or_default();
        let modes = [wanted.modes[0] || modes[0], wanted.modes[1] || modes[1]];
        if wanted.level < level || wanted.modes != modes {
            wanted.level = wanted.level.max(level);
            wanted.modes = modes;
            wanted.call = wanted.call.or(call);
            work.push(node);
        }
    }

    /// The item that a function is built from.
    pub(crate) fn key_of(&self, func: Func) -> Option<&Key> {
        self.declared.get_index(func.as_u32() as usize).map(|d| d.0)
    }

    /// The module on whose behalf a function's derivative operators request derivatives.
    fn asks(&self, func: Func) -> ModuleId {
        let key = self.key_of(func);
        if let Some(f) = key.and_then(Key::source) {
            return self.program.asked_by(f).unwrap_or_else(|| self.program.asking(f.decl));
        }
        match key {
            Some(Key::Callable(Callable::Derived(_, _, asks))) => *asks,
            Some(Key::Derived(callable, _)) => {
                callable.function().map_or(ModuleId(0), |f| self.program.asking(f.decl))
            }
            _ => ModuleId(0),
        }
    }

    /// The module whose source contains a function's calls.
    fn home(&self, func: Func) -> ModuleId {
        match self.key_of(func).and_then(Key::source) {
            Some(f) => self.program.asking(f.decl),
            None => self.asks(func),
        }
    }

    /// The view of a callee, given the view of its caller.
    fn view_in(&mut self, callee: Func, caller: Func, view: View) -> View {
        let calls = self.home(caller);
        self.view_of(callee, View { calls, ..view })
    }

    /// A view without the components that make no difference for this function.
    fn view_of(&mut self, callee: Func, view: View) -> View {
        let calls = match self.key_of(callee).and_then(Key::source).map(|f| f.decl) {
            Some(decl) => self.program.seen_by(decl, view).calls,
            None => ModuleId(0),
        };
        View { calls, ..view }
    }

    /// For each function, the functions that it calls and differentiates.
    fn edges(&self) -> Vec<Vec<(Func, Edge, Span)>> {
        let mut edges = Vec::with_capacity(self.module.funcs.len());
        for function in self.module.funcs.values() {
            let mut own: Vec<(Func, Edge, Span)> = Vec::new();
            for inst in function.insts.values() {
                match inst.op {
                    Op::Call(f) | Op::CallTransposeOf(f) => own.push((f, Edge::Call, inst.span)),
                    Op::CallDerivative(op, f) => own.push((f, Edge::of(op), inst.span)),
                    _ => {}
                }
            }
            own.sort_by_key(|e| (e.0, e.1));
            own.dedup_by_key(|e| (e.0, e.1));
            edges.push(own);
        }
        edges
    }

    /// Gives each function its witness; nodes that differ become separate functions.
    pub(crate) fn separate_views(&mut self) {
        let edges = self.edges();
        let classes = self.classes(&edges);
        // `made` has the function of each class, and `targets` the function of each node.
        let mut made: FxHashMap<u32, Func> = FxHashMap::default();
        let mut taken: FxHashMap<Func, u32> = FxHashMap::default();
        let mut targets: FxHashMap<Node, Func> = FxHashMap::default();
        let mut instances: Vec<(Func, Option<Node>)> = Vec::new();
        let nodes: Vec<Node> = self.wanted.keys().copied().collect();
        for (&node, &class) in nodes.iter().zip(&classes) {
            let func = node.0;
            let target = match made.get(&class) {
                Some(&target) => target,
                None if !taken.contains_key(&func) => func,
                None => {
                    let mut copy = self.module.funcs[func].clone();
                    copy.name = self.unique_name(copy.name.clone());
                    self.module.funcs.push(copy)
                }
            };
            if made.insert(class, target).is_none() {
                taken.insert(func, class);
                instances.push((target, Some(node)));
            }
            targets.insert(node, target);
        }
        for k in 0..self.residuals.len() {
            let (&(of, asks), ()) = self.residuals.get_index(k).expect("k is in range");
            let view = self.view_of(of.func, View::of(asks));
            let func = targets.get(&(of.func, view)).copied().unwrap_or(of.func);
            self.module.residuals.push(ir::Residuals { func, ..of });
        }
        // Functions that are not differentiated themselves may request derivatives.
        for k in 0..edges.len() {
            let func = Func::from_u32(k as u32);
            if !taken.contains_key(&func) {
                instances.push((func, None));
            }
        }
        for (target, node) in instances {
            let source = node.map_or(target, |n| n.0);
            let find = |lw: &mut Self, callee: Func, edge: Edge| {
                let view = match (edge, node) {
                    (Edge::Call, Some((_, view))) => lw.view_in(callee, source, view),
                    (Edge::Call, None) => return callee,
                    (Edge::Forward | Edge::Second | Edge::Backward, _) => {
                        let asks = lw.asks(source);
                        lw.view_of(callee, View::of(asks))
                    }
                };
                targets.get(&(callee, view)).copied().unwrap_or(callee)
            };
            let insts: Vec<ir::Inst> = self.module.funcs[target].insts.keys().collect();
            for inst in insts {
                let op = match self.module.funcs[target].insts[inst].op {
                    Op::Call(f) => Op::Call(find(self, f, Edge::Call)),
                    Op::CallTransposeOf(f) => Op::CallTransposeOf(find(self, f, Edge::Call)),
                    Op::CallDerivative(op, f) => Op::CallDerivative(op, find(self, f, Edge::of(op))),
                    _ => continue,
                };
                self.module.funcs[target].insts[inst].op = op;
            }
            let Some(node) = node else { continue };
            let mut witness = self.wanted[&node].witness;
            let Witness { jvp, vjp, apply, substitute, .. } = &mut witness;
            for custom in [jvp, vjp, apply, substitute].into_iter().flatten() {
                *custom = find(self, *custom, Edge::Call);
            }
            if witness != Witness::default() {
                self.module.witnesses.insert(target, witness);
            }
        }
    }

    /// The classes of nodes: two nodes have the same class if they have the same function and witness, and
    /// reach nodes of the same classes. They are found by partition refinement: classes are split until
    /// nothing changes.
    fn classes(&mut self, edges: &[Vec<(Func, Edge, Span)>]) -> Vec<u32> {
        let nodes: Vec<Node> = self.wanted.keys().copied().collect();
        let mut funcs: Vec<Func> = nodes.iter().map(|n| n.0).collect();
        funcs.sort_unstable();
        if funcs.windows(2).all(|w| w[0] != w[1]) {
            return (0..nodes.len() as u32).collect();
        }
        let mut reached: Vec<Vec<usize>> = Vec::with_capacity(nodes.len());
        for &(func, view) in &nodes {
            let mut own = Vec::new();
            for &(callee, edge, _) in &edges[func.as_u32() as usize] {
                if edge == Edge::Call {
                    let view = self.view_in(callee, func, view);
                    own.extend(self.wanted.get_index_of(&(callee, view)));
                }
            }
            let Witness { jvp, vjp, apply, substitute, .. } = self.wanted[&(func, view)].witness;
            for custom in [jvp, vjp, apply, substitute].into_iter().flatten() {
                let view = self.view_in(custom, func, view);
                own.extend(self.wanted.get_index_of(&(custom, view)));
            }
            reached.push(own);
        }
        let mut classes: Vec<u32> = vec![0; nodes.len()];
        let mut n_classes = 0;
        loop {
            let mut numbers: FxIndexMap<Class, u32> = FxIndexMap::default();
            let mut next = Vec::with_capacity(nodes.len());
            for (k, node) in nodes.iter().enumerate() {
                let Witness { jvp, vjp, apply, substitute, .. } = self.wanted[k].witness;
                let below = reached[k].iter().map(|&r| classes[r]).collect();
                let key = (node.0, [jvp, vjp, apply, substitute], classes[k], below);
                let n = numbers.len() as u32;
                next.push(*numbers.entry(key).or_insert(n));
            }
            let n = numbers.len();
            classes = next;
            if n == n_classes {
                return classes;
            }
            n_classes = n;
        }
    }
}
