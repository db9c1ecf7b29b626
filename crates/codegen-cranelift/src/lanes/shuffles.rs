//! Emits shuffles, and what is made of them: transpositions, and sums over the lanes.

use cranelift_codegen::ir::{InstBuilder, Type as ClifType, Value, types};
use native::emit::{UNIFORM, VARYING};
use native::lanes::Vectors;
use native::lanes::operand::{El, Val};

use super::parts::{Parts, form};
use super::{Writer, ins};

impl Writer {
    /// A vector of these numbers of two vectors of type `ty`, one after the other.
    fn pick_of(&mut self, ty: ClifType, of: [Value; 2], numbers: impl IntoIterator<Item = u8>) -> Value {
        let bytes = ty.lane_bits() as u8 / 8;
        let picks: Vec<u8> = numbers.into_iter().flat_map(|k| k * bytes..(k + 1) * bytes).collect();
        let [a, b] = of.map(|x| self.bits_as(types::I8X16, x));
        let mask = self.bytes(&picks);
        let both = ins!(self).shuffle(a, b, mask);
        self.bits_as(ty, both)
    }

    /// Transposes two or four vectors of as many numbers.
    pub(super) fn transpose(&mut self, ty: ClifType, rows: Vec<Value>) -> Vec<Value> {
        let mut pick = |a: Value, b: Value, of: &[u8]| self.pick_of(ty, [a, b], of.iter().copied());
        match rows[..] {
            [a, b] => vec![pick(a, b, &[0, 2]), pick(a, b, &[1, 3])],
            [a, b, c, d] => {
                let (low, high) = ([0, 4, 1, 5], [2, 6, 3, 7]);
                let (first, second) = ([0, 1, 4, 5], [2, 3, 6, 7]);
                let (ab, cd) = (pick(a, b, &low), pick(c, d, &low));
                let (ab_high, cd_high) = (pick(a, b, &high), pick(c, d, &high));
                vec![
                    pick(ab, cd, &first),
                    pick(ab, cd, &second),
                    pick(ab_high, cd_high, &first),
                    pick(ab_high, cd_high, &second),
                ]
            }
            _ => unreachable!("two or four vectors"),
        }
    }

    /// The sums of the numbers of all lanes by repeated halving, until one number is left.
    pub(super) fn emit_sum_by_halves(&mut self, a: Val) -> Val {
        let mut sum = self.vector(a);
        if self.func.dfg.value_type(sum) == types::F32X4 {
            let high = self.high_half(sum);
            sum = ins!(self).fadd(sum, high);
        }
        let [low, high] = [0, 1].map(|k| ins!(self).extractlane(sum, k));
        let sum = ins!(self).fadd(low, high);
        self.register(a.el, UNIFORM, Parts::from_slice(&[sum]))
    }
}

/// All vectors have 128 bits.
impl Vectors for Writer {
    type Vector = Value;

    fn vector(&mut self, a: Val) -> Value {
        let mut all = self.parts(a, VARYING);
        while all.len() > 1 {
            let (low, high) = all.split_at(all.len() / 2);
            all = low.iter().zip(high).map(|(&low, &high)| ins!(self).fadd(low, high)).collect();
        }
        all[0]
    }

    fn pick(&mut self, el: El, of: [Value; 2], numbers: &[u32]) -> Value {
        let (ty, _) = form(el, VARYING, self.lanes);
        self.pick_of(ty, of, numbers.iter().map(|&k| k as u8))
    }

    fn add_vectors(&mut self, _: El, [a, b]: [Value; 2]) -> Value {
        ins!(self).fadd(a, b)
    }

    fn group(&mut self, _: El, all: Value, more: Option<Val>) -> Value {
        match more {
            Some(more) => {
                let more = self.parts(more, VARYING)[0];
                ins!(self).fadd(all, more)
            }
            None => all,
        }
    }

    fn number(&mut self, el: El, group: Value, k: u32) -> Val {
        let x = ins!(self).extractlane(group, k as u8);
        self.register(el, UNIFORM, Parts::from_slice(&[x]))
    }
}
