//! Maximum flow and minimum cut by Dinic's algorithm.
//!
//! Each phase labels the nodes by their distance to the sink in the residual network and then sends flow
//! along edges that lead one step nearer, until no such path is left. The nodes that can still reach the sink
//! after the last phase are the smallest sink side of a minimum cut. (E. A. Dinic, "Algorithm for solution of
//! a problem of maximum flow in networks with power estimation", 1970.)
//!
//! The networks here have tens of thousands of nodes, most paths have few edges, and compilation must stay
//! linear, whereas general-purpose libraries clear memory of the size of the network for each path.

/// A node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u32);

const NONE: u32 = u32::MAX;

/// A flow network. Edge `e` and its reverse `e ^ 1` are adjacent.
#[derive(Default)]
pub(crate) struct Network {
    /// The most recently added edge of each node.
    first: Vec<u32>,
    /// The edge of the same node that was added before this one.
    next: Vec<u32>,
    to: Vec<u32>,
    /// The residual capacity of each edge.
    room: Vec<u64>,
}

impl Network {
    pub(crate) fn add_node(&mut self) -> Node {
        self.first.push(NONE);
        Node(self.first.len() as u32 - 1)
    }

    pub(crate) fn add_edge(&mut self, from: Node, to: Node, capacity: u64) {
        for (from, to, room) in [(from.0, to.0, capacity), (to.0, from.0, 0)] {
            self.to.push(to);
            self.room.push(room);
            self.next.push(self.first[from as usize]);
            self.first[from as usize] = self.next.len() as u32 - 1;
        }
    }

    /// The sink side of the minimum cut that has the fewest nodes on that side.
    pub(crate) fn sink_side(&mut self, source: Node, sink: Node) -> SinkSide {
        let mut distance = vec![NONE; self.first.len()];
        loop {
            self.label(sink.0, &mut distance);
            if distance[source.0 as usize] == NONE {
                return SinkSide(distance);
            }
            self.block(source.0, sink.0, &mut distance);
        }
    }

    /// Computes the distances to the sink.
    fn label(&self, sink: u32, distance: &mut [u32]) {
        distance.fill(NONE);
        distance[sink as usize] = 0;
        let mut queue = vec![sink];
        let mut at = 0;
        while let Some(&node) = queue.get(at) {
            at += 1;
            let mut e = self.first[node as usize];
            while e != NONE {
                let from = self.to[e as usize];
                if self.room[(e ^ 1) as usize] > 0 && distance[from as usize] == NONE {
                    distance[from as usize] = distance[node as usize] + 1;
                    queue.push(from);
                }
                e = self.next[e as usize];
            }
        }
    }

    /// Sends flow along shortest paths until each of them has a saturated edge.
    fn block(&mut self, source: u32, sink: u32, distance: &mut [u32]) {
        let mut edge = self.first.clone();
        let mut path: Vec<u32> = Vec::new();
        let mut node = source;
        loop {
            if node == sink {
                let flow = path.iter().map(|&e| self.room[e as usize]).min().unwrap_or(0);
                let mut full = 0;
                for (k, &e) in path.iter().enumerate().rev() {
                    self.room[e as usize] -= flow;
                    self.room[(e ^ 1) as usize] += flow;
                    if self.room[e as usize] == 0 {
                        full = k;
                    }
                }
                node = self.to[(path[full] ^ 1) as usize];
                path.truncate(full);
                continue;
            }
            let e = edge[node as usize];
            if e != NONE {
                let to = self.to[e as usize];
                let nearer = distance[to as usize].wrapping_add(1) == distance[node as usize];
                if nearer && self.room[e as usize] > 0 {
                    path.push(e);
                    node = to;
                } else {
                    edge[node as usize] = self.next[e as usize];
                }
            } else if let Some(e) = path.pop() {
                // The sink cannot be reached from here.
                distance[node as usize] = NONE;
                node = self.to[(e ^ 1) as usize];
            } else {
                return;
            }
        }
    }
}

/// The nodes on the sink's side of a cut; see [`Network::sink_side`].
pub(crate) struct SinkSide(Vec<u32>);

impl SinkSide {
    pub(crate) fn contains(&self, node: Node) -> bool {
        self.0[node.0 as usize] != NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the cut with all subsets of the inner nodes.
    #[test]
    fn random_networks() {
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..400 {
            let n = 3 + random(6) as usize;
            let mut network = Network::default();
            let nodes: Vec<Node> = (0..n).map(|_| network.add_node()).collect();
            let mut edges = Vec::new();
            for _ in 0..random(20) {
                let (a, b) = (random(n as u64) as usize, random(n as u64) as usize);
                if a != b {
                    edges.push((a, b, random(8)));
                    network.add_edge(nodes[a], nodes[b], edges[edges.len() - 1].2);
                }
            }
            let side = network.sink_side(nodes[0], nodes[1]);
            let cost = |on_sink_side: &dyn Fn(usize) -> bool| -> u64 {
                edges.iter().filter(|e| !on_sink_side(e.0) && on_sink_side(e.1)).map(|e| e.2).sum()
            };
            let found = cost(&|k| side.contains(nodes[k]));
            let size = (0..n).filter(|&k| side.contains(nodes[k])).count();
            assert!(!side.contains(nodes[0]) && side.contains(nodes[1]));
            for set in 0..1u32 << n {
                if set & 1 == 0 && set & 2 != 0 {
                    let other = cost(&|k| set >> k & 1 != 0);
                    assert!(other > found || other == found && set.count_ones() as usize >= size);
                }
            }
        }
    }
}
