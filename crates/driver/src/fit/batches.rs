//! The order in which items are taken: in random batches, each of which is sorted so that neighbours in the
//! picture are neighbours in the batch.
//!
//! Threads that run side by side in lanes then need the same parameters, and skip together what their items
//! do not need. The order within a batch does not change its sum, but for rounding.

use crate::fit::items::Items;
use crate::gradcheck::Random;

/// The batches of an optimiser.
pub struct Batches {
    image: Option<(usize, usize)>,
    size: usize,
    /// The position of the next batch.
    at: usize,
    order: Vec<u32>,
    /// The batch of each item.
    batch_of: Vec<u32>,
    random: Random,
}

impl Batches {
    /// Batches of `size` items, at least 1 and at most as many as there are.
    pub fn new(items: &Items, size: usize, seed: u64) -> Batches {
        let size = size.clamp(1, items.n.max(1));
        Batches {
            image: items.image,
            size,
            at: items.n,
            order: if size == items.n { items.near() } else { (0..items.n as u32).collect() },
            batch_of: Vec::new(),
            random: Random::new(seed),
        }
    }

    /// The items of the next batch.
    pub fn next_batch(&mut self) -> &[u32] {
        let n = self.order.len();
        if self.at + self.size > n {
            if self.size < n {
                self.shuffle();
            }
            self.at = 0;
        }
        self.at += self.size;
        &self.order[self.at - self.size..self.at]
    }

    /// Shuffles all items, and sorts those of each batch. Items beyond the last whole batch are left out.
    fn shuffle(&mut self) {
        let n = self.order.len();
        for k in (1..n).rev() {
            self.order.swap(k, self.random.below(k + 1));
        }
        self.batch_of.resize(n, 0);
        for (place, &item) in self.order.iter().enumerate() {
            self.batch_of[item as usize] = (place / self.size) as u32;
        }
        let mut ends: Vec<usize> = (0..n.div_ceil(self.size)).map(|batch| batch * self.size).collect();
        let (order, batch_of) = (&mut self.order, &self.batch_of);
        each_near(self.image, n, |item| {
            let end = &mut ends[batch_of[item as usize] as usize];
            order[*end] = item;
            *end += 1;
        });
    }
}

impl Items {
    /// All items; neighbours in the picture are near each other.
    pub fn near(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.n);
        each_near(self.image, self.n, |item| order.push(item));
        order
    }
}

/// Visits all items: the pixels of a picture in Morton order, other items in theirs.
fn each_near(image: Option<(usize, usize)>, n: usize, mut visit: impl FnMut(u32)) {
    let Some((width, height)) = image else { return (0..n as u32).for_each(visit) };
    // Squares of the shorter side, one after the other, so that few codes lie outside the picture.
    let side = width.min(height).next_power_of_two();
    let bits = |code: usize| {
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
        x
    };
    for top in (0..height).step_by(side) {
        for left in (0..width).step_by(side) {
            for code in 0..side * side {
                let (x, y) = (left + bits(code), top + bits(code >> 1));
                if x < width && y < height {
                    visit((y * width + x) as u32);
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
        let place = |item: u32| items.near().iter().position(|&near| near == item);
        let mut batches = Batches::new(&items, 32, 7);
        for _ in 0..3 {
            let mut all = Vec::new();
            for _ in 0..4 {
                let batch = batches.next_batch();
                assert!(batch.is_sorted_by_key(|&item| place(item)), "{batch:?}");
                all.extend_from_slice(batch);
            }
            assert_ne!(all, items.near());
            all.sort_unstable();
            assert!(all.iter().enumerate().all(|(k, &item)| k == item as usize));
        }
        // Three batches of 40, and 8 items that are left out.
        let mut batches = Batches::new(&items, 40, 7);
        let firsts: Vec<Vec<u32>> = (0..4).map(|_| batches.next_batch().to_vec()).collect();
        assert!(firsts.iter().all(|batch| batch.len() == 40));
        assert_ne!(firsts[0], firsts[3]);
        assert_eq!(Batches::new(&items, 1000, 7).next_batch(), items.near());
    }
}
