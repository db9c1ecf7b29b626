//! The minimum cut between what is kept and what is computed again.

use cranelift_entity::EntitySet;
use ir::{Inst, Op, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::flow::{Network, Node};
use super::{Plan, cost};

/// What the linear side finds.
pub(crate) struct Decision {
    pub(crate) stored: EntitySet<Value>,
    pub(crate) recomputed: Vec<Value>,
}

/// More than any sum of costs.
const NEVER: u64 = 1 << 60;
/// No single cost is larger, so that sums stay below [`NEVER`].
const MOST: u64 = 1 << 36;

/// The nodes of a value. On the sink's side of the cut, the proposition is true.
#[derive(Clone, Copy)]
struct Nodes {
    there: Node,
    /// Where it can be computed again; all results of a call share it.
    again: Option<Node>,
}

struct Graph {
    network: Network,
    source: Node,
    nodes: FxHashMap<Value, Nodes>,
    /// Of the instructions that can be done again.
    insts: FxHashMap<Inst, Node>,
    /// In the order in which they were met.
    values: Vec<Value>,
}

impl Plan<'_> {
    /// The cheapest choice; of equally cheap ones, that with the fewest values.
    pub(super) fn cut(&self) -> Decision {
        let mut network = Network::default();
        let (source, sink) = (network.add_node(), network.add_node());
        let mut graph = Graph {
            network,
            source,

            nodes: FxHashMap::default(),
            insts: FxHashMap::default(),
            values: Vec::new(),
        };
        let mut work = Vec::new();
        for &v in &self.needed {
            if let Some(nodes) = self.meet(&mut graph, v, &mut work) {
                graph.network.add_edge(nodes.there, sink, NEVER);
            }
        }
        while let Some(v) = work.pop() {
            let Some(again) = graph.nodes[&v].again else { continue };
            for operand in self.operands(v) {
                if let Some(nodes) = self.meet(&mut graph, operand, &mut work) {
                    graph.network.add_edge(nodes.there, again, NEVER);
                }
            }
        }
        let there = graph.network.sink_side(source, sink);
        let mut decision = Decision { stored: EntitySet::new(), recomputed: Vec::new() };
        for &v in &graph.values {
            let nodes = graph.nodes[&v];
            if there.contains(nodes.there) {
                if nodes.again.is_some_and(|again| there.contains(again)) {
                    decision.recomputed.push(v);
                } else {
                    decision.stored.insert(v);
                }
            }
        }
        decision
    }

    /// The nodes of a value, with the edges of its costs; `None` if it is there in any case.
    fn meet(&self, graph: &mut Graph, v: Value, work: &mut Vec<Value>) -> Option<Nodes> {
        if self.counters.contains(v) {
            return None;
        }
        if let Some(&known) = graph.nodes.get(&v) {
            return Some(known);
        }
        let trips = self.place(v).trips;
        let there = graph.network.add_node();
        let inst = self.defs.inst(v).and_then(|inst| graph.insts.get(&inst));
        let mut is_new = false;
        let again = match inst {
            Some(&again) => Some(again),
            None => self.again(v).map(|cost| {
                let again = graph.network.add_node();
                graph.network.add_edge(graph.source, again, cost.saturating_mul(trips).min(MOST));
                graph.insts.extend(self.defs.inst(v).map(|inst| (inst, again)));
                is_new = true;
                again
            }),
        };
        graph.network.add_edge(
            again.unwrap_or(graph.source),
            there,
            self.keep(v).saturating_mul(trips).min(MOST),
        );
        let nodes = Nodes { there, again };
        graph.nodes.insert(v, nodes);
        graph.values.push(v);
        if is_new {
            work.push(v);
        }
        Some(nodes)
    }

    fn keep(&self, v: Value) -> u64 {
        let ty = self.src.ty(v);
        let place = self.place(v);
        if place.depth == 0 && !self.policy.in_loop {
            // Passed on; but fewer bytes are better than more.
            return self.module.types.bytes(ty);
        }
        let cost = cost::keep(&self.module.types, ty).saturating_mul(self.policy.thrift);
        // A parameter is the caller's, which may have kept it anyway.
        if self.defs.inst(v).is_none() && place.holder.is_none() { cost / 2 } else { cost }
    }

    fn again(&self, v: Value) -> Option<u64> {
        if self.policy.inductions.contains_key(&v) {
            return Some(cost::INDUCTION);
        }
        let inst = self.defs.inst(v)?;
        let is_constant = |inst: ir::Inst| {
            matches!(self.src.insts[inst].op, Op::Const(_) | Op::Zero | Op::Absent | Op::GlobalRef(_))
        };
        let data = &self.src.insts[inst];
        // A constant of several lanes is one, too, however many bytes it has.
        if is_constant(inst) || data.op == Op::Splat && self.defs.inst(data.args[0]).is_some_and(is_constant)
        {
            return Some(0);
        }
        let outside = self.place(v).depth == 0 && !self.policy.in_loop;
        if outside || self.policy.prefer_kept {
            return None;
        }
        let cost = match self.src.insts[inst].op {
            Op::Call(callee) => self.policy.calls.get(&callee).copied().flatten()?,
            _ => cost::again(self.module, self.src, &self.defs, inst)?,
        };
        // Whatever its operands cost: to keep its results is cheaper.
        let kept: u64 = self.src.insts[inst].results.iter().map(|&v| self.keep(v)).sum();
        (cost < kept).then_some(cost)
    }

    fn operands(&self, v: Value) -> SmallVec<[Value; 4]> {
        match (self.policy.inductions.get(&v), self.defs.inst(v)) {
            (Some(induction), _) => induction.operands.iter().copied().collect(),
            (None, Some(inst)) => self.src.insts[inst].args.iter().copied().collect(),
            (None, None) => SmallVec::new(),
        }
    }
}
