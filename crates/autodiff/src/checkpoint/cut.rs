//! The minimum cut between what is kept and what is computed again.

use cranelift_entity::EntitySet;
use ir::{Inst, Op, Value};
use petgraph::Direction;
use petgraph::algo::dinics;
use petgraph::graph::{Graph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

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
    there: NodeIndex,
    /// Where it can be computed again; all results of a call share it.
    again: Option<NodeIndex>,
}

struct Network {
    graph: Graph<(), u64>,
    source: NodeIndex,
    sink: NodeIndex,
    nodes: FxHashMap<Value, Nodes>,
    /// Of the instructions that can be done again.
    insts: FxHashMap<Inst, NodeIndex>,
    /// In the order in which they were met.
    values: Vec<Value>,
}

impl Plan<'_> {
    /// The cheapest choice; of equally cheap ones, that with the fewest values.
    pub(super) fn cut(&self) -> Decision {
        let mut graph = Graph::new();
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        let mut network = Network {
            graph,
            source,
            sink,
            nodes: FxHashMap::default(),
            insts: FxHashMap::default(),
            values: Vec::new(),
        };
        let mut work = Vec::new();
        for &v in &self.needed {
            if let Some(nodes) = self.meet(&mut network, v, &mut work) {
                network.graph.add_edge(nodes.there, sink, NEVER);
            }
        }
        while let Some(v) = work.pop() {
            let Some(again) = network.nodes[&v].again else { continue };
            for operand in self.operands(v) {
                if let Some(nodes) = self.meet(&mut network, operand, &mut work) {
                    network.graph.add_edge(nodes.there, again, NEVER);
                }
            }
        }
        let truths = network.truths();
        let mut decision = Decision { stored: EntitySet::new(), recomputed: Vec::new() };
        for &v in &network.values {
            let nodes = network.nodes[&v];
            if truths[nodes.there.index()] {
                if nodes.again.is_some_and(|again| truths[again.index()]) {
                    decision.recomputed.push(v);
                } else {
                    decision.stored.insert(v);
                }
            }
        }
        decision
    }

    /// The nodes of a value, with the edges of its costs; `None` if it is there in any case.
    fn meet(&self, network: &mut Network, v: Value, work: &mut Vec<Value>) -> Option<Nodes> {
        if self.counters.contains(v) {
            return None;
        }
        if let Some(&known) = network.nodes.get(&v) {
            return Some(known);
        }
        let graph = &mut network.graph;
        let trips = self.place(v).trips;
        let there = graph.add_node(());
        let inst = self.defs[v].expand().and_then(|inst| network.insts.get(&inst));
        let mut is_new = false;
        let again = match inst {
            Some(&again) => Some(again),
            None => self.again(v).map(|cost| {
                let again = graph.add_node(());
                graph.add_edge(network.source, again, cost.saturating_mul(trips).min(MOST));
                network.insts.extend(self.defs[v].expand().map(|inst| (inst, again)));
                is_new = true;
                again
            }),
        };
        graph.add_edge(again.unwrap_or(network.source), there, self.keep(v).saturating_mul(trips).min(MOST));
        let nodes = Nodes { there, again };
        network.nodes.insert(v, nodes);
        network.values.push(v);
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
        if self.defs[v].is_none() && place.holder.is_none() { cost / 2 } else { cost }
    }

    fn again(&self, v: Value) -> Option<u64> {
        if self.policy.inductions.contains_key(&v) {
            return Some(cost::INDUCTION);
        }
        let inst = self.defs[v].expand()?;
        let always = matches!(self.src.insts[inst].op, Op::Const(_) | Op::Zero | Op::GlobalRef(_));
        let outside = self.place(v).depth == 0 && !self.policy.in_loop;
        if !always && (outside || self.policy.prefer_kept) {
            return None;
        }
        match self.src.insts[inst].op {
            Op::Call(callee) => self.policy.calls.get(&callee).copied().flatten(),
            _ => cost::again(self.module, self.src, &self.defs, inst),
        }
    }

    fn operands(&self, v: Value) -> SmallVec<[Value; 4]> {
        match (self.policy.inductions.get(&v), self.defs[v].expand()) {
            (Some(induction), _) => induction.operands.iter().copied().collect(),
            (None, Some(inst)) => self.src.insts[inst].args.iter().copied().collect(),
            (None, None) => SmallVec::new(),
        }
    }
}

impl Network {
    /// For each node, whether it is on the sink's side: there is a way to the sink that is not used up.
    fn truths(&self) -> Vec<bool> {
        let graph = &self.graph;
        let (_, flows) = dinics(graph, self.source, self.sink);
        let mut truths = vec![false; graph.node_count()];
        truths[self.sink.index()] = true;
        let mut work = vec![self.sink];
        while let Some(node) = work.pop() {
            let open = graph
                .edges_directed(node, Direction::Incoming)
                .filter(|e| flows[e.id().index()] < *e.weight());
            let back = graph.edges_directed(node, Direction::Outgoing).filter(|e| flows[e.id().index()] > 0);
            for other in open.map(|e| e.source()).chain(back.map(|e| e.target())) {
                if !std::mem::replace(&mut truths[other.index()], true) {
                    work.push(other);
                }
            }
        }
        truths
    }
}
