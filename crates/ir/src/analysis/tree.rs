//! Finds where instructions and regions are: the tree of regions, and the order of the text.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;

use super::dense;
use crate::entities::{Inst, Region, Value};
use crate::function::Function;

/// The tree of a function's regions. Only what the body reaches is in it.
pub struct Tree {
    home: SecondaryMap<Inst, PackedOption<Region>>,
    holder: SecondaryMap<Region, PackedOption<Inst>>,
    depth: SecondaryMap<Region, u32>,
    param: SecondaryMap<Value, Option<(Region, u32)>>,
    /// The numbers of instructions in the order of the text.
    order: SecondaryMap<Inst, u32>,
    /// For each region, true if it is the body of a loop.
    is_loop: SecondaryMap<Region, bool>,
}

impl Tree {
    /// The tree of a function.
    pub fn of(func: &Function) -> Tree {
        let mut tree = Tree {
            home: dense(func.insts.len()),
            holder: dense(func.regions.len()),
            depth: dense(func.regions.len()),
            param: dense(func.values.len()),
            order: dense(func.insts.len()),
            is_loop: dense(func.regions.len()),
        };
        if func.has_body() {
            tree.region(func, func.body(), 0, &mut 0);
        }
        tree
    }

    fn region(&mut self, func: &Function, region: Region, depth: u32, next: &mut u32) {
        self.depth[region] = depth;
        for (k, &param) in func.regions[region].params.iter().enumerate() {
            self.param[param] = Some((region, k as u32));
        }
        for &inst in &func.regions[region].insts {
            self.home[inst] = region.into();
            self.order[inst] = *next;
            *next += 1;
            for &nested in &func.insts[inst].regions {
                self.holder[nested] = inst.into();
                self.is_loop[nested] = func.insts[inst].op.is_loop();
                self.region(func, nested, depth + 1, next);
            }
        }
    }

    /// The region that lists an instruction.
    #[inline]
    pub fn home(&self, inst: Inst) -> Option<Region> {
        self.home[inst].expand()
    }

    /// The instruction that holds a region; `None` for the body.
    pub fn holder(&self, region: Region) -> Option<Inst> {
        self.holder[region].expand()
    }

    /// The region around the instruction that holds a region.
    pub fn parent(&self, region: Region) -> Option<Region> {
        self.holder(region).and_then(|inst| self.home(inst))
    }

    /// The number of regions around a region.
    pub fn depth(&self, region: Region) -> u32 {
        self.depth[region]
    }

    /// Returns true if a region is the body of a loop.
    pub fn is_loop(&self, region: Region) -> bool {
        self.is_loop[region]
    }

    /// The region that a value is a parameter of, and the parameter's number.
    pub fn param(&self, v: Value) -> Option<(Region, u32)> {
        self.param[v]
    }

    /// The number of an instruction in the order of the text, where an instruction comes before its regions.
    pub fn order(&self, inst: Inst) -> u32 {
        self.order[inst]
    }

    /// Returns true if a region is `outer` or nested in it.
    pub fn contains(&self, outer: Region, mut region: Region) -> bool {
        while region != outer {
            let Some(parent) = self.parent(region) else { return false };
            region = parent;
        }
        true
    }

    /// The innermost region that contains two regions.
    pub fn common(&self, mut a: Region, mut b: Region) -> Region {
        while a != b {
            let deeper = if self.depth[a] >= self.depth[b] { &mut a } else { &mut b };
            *deeper = self.parent(*deeper).expect("only the body has no parent, and it contains all");
        }
        a
    }

    /// The instruction of a region that is, or that contains, another instruction.
    pub fn ancestor_in(&self, region: Region, mut inst: Inst) -> Option<Inst> {
        loop {
            let home = self.home(inst)?;
            if home == region {
                return Some(inst);
            }
            inst = self.holder(home)?;
        }
    }
}
