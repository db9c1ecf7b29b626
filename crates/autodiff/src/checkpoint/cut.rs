//! The minimum cut between kept and recomputed values.

use cranelift_entity::EntitySet;
use ir::analysis::cost::keep;
use ir::{Inst, Op, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::flow::{Network, Node};
use super::{Plan, cost};

/// How the linear side obtains the primal values that it reads.
pub(crate) struct Decision {
    pub(crate) stored: EntitySet<Value>,
    pub(crate) recomputed: Vec<Value>,
}

/// A capacity larger than any sum of costs.
const NEVER: u64 = 1 << 60;
/// The upper limit of a single cost, so that sums stay below [`NEVER`].
const MOST: u64 = 1 << 36;

/// The nodes of a value's propositions. A proposition is true if its node is on the sink's side of the cut.
#[derive(Clone, Copy)]
struct Nodes {
    there: Node,
    /// Present if the value can be recomputed. All results of a call share this node.
    again: Option<Node>,
}

struct Graph {
    network: Network,
    source: Node,
    nodes: FxHashMap<Value, Nodes>,
    /// The `again` nodes of the instructions met so far: `None` if one cannot be recomputed.
    insts: FxHashMap<Inst, Option<Node>>,
    /// All values in the graph, in the order in which they were added.
    values: Vec<Value>,
}

impl Plan<'_> {
    /// Finds the cheapest choice; among equally cheap ones, the one with the fewest values.
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

    /// Adds a value to the graph, with the edges of its costs. Returns `None` if the value is available in
    /// any case.
    fn meet(&self, graph: &mut Graph, v: Value, work: &mut Vec<Value>) -> Option<Nodes> {
        if self.counters.contains(v) {
            return None;
        }
        if let Some(&known) = graph.nodes.get(&v) {
            return Some(known);
        }
        let trips = self.place(v).trips;
        let there = graph.network.add_node();
        let inst = self.defs.inst(v);
        let met = inst.and_then(|inst| graph.insts.get(&inst)).copied();
        let again = met.unwrap_or_else(|| {
            let again = self.again(v).map(|cost| {
                let again = graph.network.add_node();
                graph.network.add_edge(graph.source, again, cost.saturating_mul(trips).min(MOST));
                again
            });
            graph.insts.extend(inst.map(|inst| (inst, again)));
            again
        });
        graph.network.add_edge(
            again.unwrap_or(graph.source),
            there,
            self.keep(v).saturating_mul(trips).min(MOST),
        );
        let nodes = Nodes { there, again };
        graph.nodes.insert(v, nodes);
        graph.values.push(v);
        if met.is_none() && again.is_some() {
            work.push(v);
        }
        Some(nodes)
    }

    fn keep(&self, v: Value) -> u64 {
        let ty = self.src.ty(v);
        let place = self.place(v);
        if place.depth == 0 && !self.policy.in_loop {
            // The value is only passed on, but fewer bytes are better than more.
            return self.module.types.bytes(ty);
        }
        let cost = keep(&self.module.types, ty).saturating_mul(self.policy.thrift);
        // A parameter belongs to the caller, which may have kept it anyway.
        if self.home(v) == self.src.body() && self.defs.inst(v).is_none() { cost / 2 } else { cost }
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
        // A splat of a constant is a constant, too, however many bytes it has.
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
        // If keeping the results is cheaper than this instruction alone, the operands need not be considered.
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
