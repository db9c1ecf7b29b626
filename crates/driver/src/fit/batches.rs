//! The order in which items are taken: in random batches, each of which is sorted so that neighbours in the
//! picture are neighbours in the batch.
//!
//! Threads that run side by side in lanes then need the same parameters, and skip together what their items
//! do not need. The order within a batch does not change its sum, but for rounding. A batch is a function of its number
//! and the seed, so a fit can go on from any step.

use crate::fit::items::Items;
use crate::gradcheck::Random;

/// The batches of an optimiser.
pub struct Batches {
    views: Vec<(usize, usize)>,
    /// The number of all items.
    n: usize,
    size: usize,
    seed: u64,
    /// The items of the batches.
    items: Vec<u32>,
    /// The pass over the items whose batches are in `order`.
    epoch: Option<u64>,
    order: Vec<u32>,
}

impl Batches {
    /// Batches of `size` of the given items, at least 1 and at most as many as there are.
    pub fn new(items: &Items, order: &[u32], size: usize, seed: u64) -> Batches {
        let size = size.clamp(1, order.len().max(1));
        let (views, n, items) = (items.views.clone(), items.n, order.to_vec());
        Batches { views, n, size, seed, items, epoch: None, order: Vec::new() }
    }

    /// The number of batches in a pass over the items. Items beyond the last whole batch are left out.
    pub fn per_epoch(&self) -> u64 {
        (self.items.len() / self.size).max(1) as u64
    }

    /// The items of batch `k`, from 0.
    pub fn batch(&mut self, k: u64) -> &[u32] {
        if self.size == self.items.len() {
            return &self.items;
        }
        let (epoch, at) = (k / self.per_epoch(), k % self.per_epoch());
        if self.epoch != Some(epoch) {
            self.shuffle(epoch);
        }
        let first = at as usize * self.size;
        &self.order[first..first + self.size]
    }

    /// Shuffles all items, and sorts those of each batch.
    fn shuffle(&mut self, epoch: u64) {
        let n = self.items.len();
        self.order.clone_from(&self.items);
        permute(&mut self.order, mixed(self.seed, epoch));
        let mut batch_of = vec![u32::MAX; self.n];
        for (place, &item) in self.order.iter().enumerate() {
            batch_of[item as usize] = (place / self.size) as u32;
        }
        let mut ends: Vec<usize> = (0..n.div_ceil(self.size)).map(|batch| batch * self.size).collect();
        let order = &mut self.order;
        each_near(&self.views, self.n, |item| {
            if let Some(end) = ends.get_mut(batch_of[item as usize] as usize) {
                order[*end] = item;
                *end += 1;
            }
        });
        self.epoch = Some(epoch);
    }
}

/// Divides items at random into those to fit and those to keep apart, a share of all; both stay in their order. At
/// least one item is fitted, and at least one is kept apart unless the share is 0.
pub fn split(order: &[u32], share: f64, seed: u64) -> (Vec<u32>, Vec<u32>) {
    let n = (share * order.len() as f64).round() as usize;
    let n = if share > 0.0 { n.clamp(1, order.len().saturating_sub(1).max(1)) } else { 0 };
    if n == 0 || order.len() < 2 {
        return (order.to_vec(), Vec::new());
    }
    let mut places: Vec<u32> = (0..order.len() as u32).collect();
    permute(&mut places, mixed(seed, u64::MAX));
    let mut is_apart = vec![false; order.len()];
    places[..n].iter().for_each(|&place| is_apart[place as usize] = true);
    let pick = |apart: bool| {
        let chosen = order.iter().zip(&is_apart).filter(|(_, is)| **is == apart);
        chosen.map(|(&item, _)| item).collect()
    };
    (pick(false), pick(true))
}

/// Shuffles a list (Fisher and Yates).
fn permute(list: &mut [u32], seed: u64) {
    let mut random = Random::new(seed);
    for k in (1..list.len()).rev() {
        list.swap(k, random.below(k + 1));
    }
}

/// The seed of the random numbers of a pass.
fn mixed(seed: u64, epoch: u64) -> u64 {
    seed ^ epoch.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Items {
    /// All items; neighbours in the picture are near each other.
    pub fn near(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.n);
        each_near(&self.views, self.n, |item| order.push(item));
        order
    }
}

/// Visits all items: the pixels of each picture in Morton order, other items in theirs.
fn each_near(views: &[(usize, usize)], n: usize, mut visit: impl FnMut(u32)) {
    if views.is_empty() {
        return (0..n as u32).for_each(visit);
    }
    let mut first = 0;
    for &(width, height) in views {
        each_pixel(width, height, |pixel| visit((first + pixel) as u32));
        first += width * height;
    }
}

/// Visits the pixels of a picture in Morton order.
fn each_pixel(width: usize, height: usize, mut visit: impl FnMut(usize)) {
    // Squares of the shorter side, one after the other, so that few codes lie outside the picture.
    let side = width.min(height).next_power_of_two();
    let bits = |code: u64| {
        let mut x = code & 0x5555_5555_5555_5555;
        for (shift, mask) in [
            (1, 0x3333_3333_3333_3333),
            (2, 0x0f0f_0f0f_0f0f_0f0f),
            (4, 0x00ff_00ff_00ff_00ff),
            (8, 0x0000_ffff_0000_ffff),
            (16, 0x0000_0000_ffff_ffff),
        ] {
            x = (x | x >> shift) & mask;
        }
        x as usize
    };
    for top in (0..height).step_by(side) {
        for left in (0..width).step_by(side) {
            for code in 0..(side * side) as u64 {
                let (x, y) = (left + bits(code), top + bits(code >> 1));
                if x < width && y < height {
                    visit(y * width + x);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_is_visited_once() {
        for (width, height) in [(1, 1), (1, 9), (7, 3), (16, 16), (33, 20), (5, 64)] {
            let items = Items::pixels(width, height, Vec::new());
            let mut order = items.near();
            assert_eq!(order.len(), items.n);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(k, &item)| k == item as usize), "{width} by {height}");
        }
        assert_eq!(Items::pixels(4, 4, Vec::new()).near()[..6], [0, 1, 4, 5, 2, 3]);
        assert_eq!(Items::indices(3).near(), [0, 1, 2]);
    }

    #[test]
    fn batches_are_sorted_and_cover_all_items() {
        let items = Items::pixels(16, 8, Vec::new());
        let near = items.near();
        let place = |item: u32| near.iter().position(|&near| near == item);
        let mut batches = Batches::new(&items, &near, 32, 7);
        let mut first = Vec::new();
        for epoch in 0..3 {
            let mut all = Vec::new();
            for k in 0..4 {
                let batch = batches.batch(4 * epoch + k);
                assert!(batch.is_sorted_by_key(|&item| place(item)), "{batch:?}");
                all.extend_from_slice(batch);
            }
            assert_ne!(all, near);
            if epoch == 0 {
                first.clone_from(&all);
            }
            all.sort_unstable();
            assert!(all.iter().enumerate().all(|(k, &item)| k == item as usize));
        }
        // A batch is a function of its number.
        assert_eq!(batches.batch(2), &first[64..96]);
        // Three batches of 40, and 8 items that are left out.
        let mut batches = Batches::new(&items, &near, 40, 7);
        let firsts: Vec<Vec<u32>> = (0..4).map(|k| batches.batch(k).to_vec()).collect();
        assert!(firsts.iter().all(|batch| batch.len() == 40));
        assert_ne!(firsts[0], firsts[3]);
        assert_eq!(Batches::new(&items, &near, 1000, 7).batch(0), near);
    }

    #[test]
    fn items_kept_apart_are_in_no_batch() {
        let items = Items::pixels(16, 8, Vec::new());
        let (order, apart) = split(&items.near(), 0.25, 3);
        assert_eq!((order.len(), apart.len()), (96, 32));
        let mut batches = Batches::new(&items, &order, 20, 3);
        let taken: Vec<u32> = (0..12).flat_map(|k| batches.batch(k).to_vec()).collect();
        assert!(taken.iter().all(|item| order.contains(item) && !apart.contains(item)));
        assert_eq!(split(&[0, 1, 2], 0.01, 1).1.len(), 1);
        assert_eq!(split(&[0], 0.5, 1), (vec![0], vec![]));
        assert_eq!(split(&[0, 1, 2], 0.0, 1), (vec![0, 1, 2], vec![]));
    }
}
