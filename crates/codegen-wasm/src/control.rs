//! Writes a function's graph of control as WebAssembly's structured control.
//!
//! A block that several others lead to is written after a `block` that encloses what leads to it, the head of a loop in a
//! `loop`, and every other block where the one branch to it is (Ramsey, "Beyond Relooper", ICFP 2022). The graph is
//! reducible, since it was made of structured IR. Work that is left is kept on a stack of its own, not on the compiler's.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, BlockCall, Function, InstructionData, Value};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use wasm_encoder::{BlockType, Instruction};

use crate::function::Body;

/// The graph of control.
pub(crate) struct Graph {
    tree: DominatorTree,
    /// The blocks that can be reached, in reverse postorder.
    pub(crate) order: Vec<Block>,
    /// The place of each block in the order.
    place: SecondaryMap<Block, u32>,
    is_loop: SecondaryMap<Block, bool>,
    is_merge: SecondaryMap<Block, bool>,
}

impl Graph {
    pub(crate) fn new(func: &Function) -> Graph {
        let flow = ControlFlowGraph::with_function(func);
        let tree = DominatorTree::with_function(func, &flow);
        let order: Vec<Block> = tree.cfg_rpo().copied().collect();
        let mut place = SecondaryMap::new();
        for (k, &block) in order.iter().enumerate() {
            place[block] = k as u32;
        }
        let (mut is_loop, mut forward) = (SecondaryMap::new(), SecondaryMap::<Block, u32>::new());
        for &block in &order {
            let Some(last) = func.layout.last_inst(block) else { continue };
            for call in
                func.dfg.insts[last].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables)
            {
                let to = call.block(&func.dfg.value_lists);
                if place[to] <= place[block] {
                    is_loop[to] = true;
                } else {
                    forward[to] += 1;
                }
            }
        }
        let mut is_merge = SecondaryMap::new();
        order.iter().for_each(|&block| is_merge[block] = forward[block] > 1);
        Graph { tree, order, place, is_loop, is_merge }
    }

    /// The blocks that a block dominates directly and that several blocks lead to, the last one first.
    fn merges(&self, block: Block) -> Vec<Block> {
        let mut all: Vec<Block> = self.tree.children(block).filter(|&child| self.is_merge[child]).collect();
        all.sort_by_key(|&child| std::cmp::Reverse(self.place[child]));
        all
    }
}

/// A frame of structured control that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// A branch to it goes to the block after its end.
    Before(Block),
    /// A branch to it goes to the head of a loop.
    Loop(Block),
    If,
}

/// A part of the function that is left to write.
enum Task {
    /// A block, and all that it dominates.
    Tree(Block),
    /// A block inside frames for the merges from this number on.
    Within(Block, Vec<Block>, usize),
    /// A branch that leaves a block.
    Branch(Block, BlockCall),
    Else,
    End,
}

/// Writes the blocks of a function.
pub(crate) fn write(body: &mut Body<'_>, graph: &Graph) {
    let Some(entry) = body.func.layout.entry_block() else { return };
    let mut frames: Vec<Frame> = Vec::new();
    let mut tasks = vec![Task::Tree(entry)];
    while let Some(task) = tasks.pop() {
        match task {
            Task::Tree(block) => {
                if graph.is_loop[block] {
                    body.put(&Instruction::Loop(BlockType::Empty));
                    frames.push(Frame::Loop(block));
                    tasks.push(Task::End);
                }
                tasks.push(Task::Within(block, graph.merges(block), 0));
            }
            Task::Within(block, merges, k) => match merges.get(k).copied() {
                Some(merge) => {
                    body.put(&Instruction::Block(BlockType::Empty));
                    frames.push(Frame::Before(merge));
                    tasks.push(Task::Tree(merge));
                    tasks.push(Task::End);
                    tasks.push(Task::Within(block, merges, k + 1));
                }
                None => {
                    body.block(block);
                    leave(body, block, &mut frames, &mut tasks);
                }
            },
            Task::Branch(from, call) => {
                let to = call.block(&body.func.dfg.value_lists);
                let args: SmallVec<[Value; 8]> =
                    call.args(&body.func.dfg.value_lists).filter_map(|arg| arg.as_value()).collect();
                body.pass(to, &args);
                let back = graph.place[to] <= graph.place[from];
                if !back && !graph.is_merge[to] {
                    tasks.push(Task::Tree(to));
                    continue;
                }
                let frame = if back { Frame::Loop(to) } else { Frame::Before(to) };
                let depth = frames.iter().rev().position(|&open| open == frame);
                body.put(&Instruction::Br(depth.expect("the graph is reducible") as u32));
            }
            Task::Else => body.put(&Instruction::Else),
            Task::End => {
                frames.pop();
                body.put(&Instruction::End);
            }
        }
    }
}

/// Writes the end of a block, if it is a branch.
fn leave(body: &mut Body<'_>, block: Block, frames: &mut Vec<Frame>, tasks: &mut Vec<Task>) {
    let Some(last) = body.func.layout.last_inst(block) else { return };
    match body.func.dfg.insts[last] {
        InstructionData::Jump { destination, .. } => tasks.push(Task::Branch(block, destination)),
        InstructionData::Brif { arg, blocks: [yes, no], .. } => {
            body.condition(arg);
            body.put(&Instruction::If(BlockType::Empty));
            frames.push(Frame::If);
            tasks.push(Task::End);
            tasks.push(Task::Branch(block, no));
            tasks.push(Task::Else);
            tasks.push(Task::Branch(block, yes));
        }
        _ => {}
    }
}
