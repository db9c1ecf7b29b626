//! Emits accesses whose addresses have no known stride: gathers and scatters.
//!
//! An expected gather or scatter is an instruction of the backend. A rare one is a call of a helper, since expanding
//! each such access to a branch for each lane would take LLVM longer than everything else. The helper touches only
//! the memory that the access would touch, and its operands, so the call has the same alias metadata.

use crate::emit::{Cast, Instructions, VARYING, notes};
use crate::profile::Event;
use crate::runtime::Helper;

use super::local::{Place, memory_el};
use super::operand::{El, Val};
use super::{Backend, Class, Emitter, Writer};

/// Memory about which nothing is known, except that the host or a helper sees it.
const ANY_BUFFER: Class = Class::Buffer { global: None, constant: false };

impl<B: Backend> Emitter<'_, '_, B> {
    pub(super) fn gather(&mut self, e: El, at: Val, class: Class, mask: Option<Val>) -> Val {
        notes::event(self, Event::Gather, 1);
        let mask = self.w.spread(mask.unwrap_or(Val::bool(true)));
        self.w.gather(e, at, class, mask)
    }

    pub(super) fn scatter(&mut self, x: Val, at: Val, class: Class, mask: Val) {
        notes::event(self, Event::Gather, 1);
        let (x, mask) = (self.w.spread(x), self.w.spread(mask));
        self.w.scatter(x, at, class, mask);
    }

    /// A rare gather, by a helper, of numbers at an offset of `at` bytes from a place.
    pub(super) fn rare_gather(&mut self, e: El, place: Place, at: u64) -> Val {
        let mem = memory_el(e);
        let numbers = self.rare(Helper::Gather, Helper::GatherElements, place, self.mask, at, mem);
        let x = self.w.load(mem, VARYING, numbers, ANY_BUFFER);
        self.number_of(e, x, place.class)
    }

    /// A rare scatter, by a helper, of numbers to an offset of `at` bytes from a place.
    pub(super) fn rare_scatter(&mut self, x: Val, place: Place, at: u64) {
        let x = if x.el == El::I1 { self.w.cast(Cast::ZeroExtend, x, El::I8) } else { x };
        let x = self.w.spread(x);
        let numbers = self.handed().1;
        self.w.store(x, numbers, ANY_BUFFER);
        self.rare(Helper::Scatter, Helper::ScatterElements, place, place.mask, at, x.el);
    }

    /// The memory in which helpers receive the addresses of the lanes or the numbers of elements, and the
    /// memory for numbers.
    fn handed(&mut self) -> (Val, Val) {
        let room = 8 * u64::from(crate::MOST_LANES);
        let w = &mut self.w;
        *self.handed.get_or_insert_with(|| (w.alloca(room, 64), w.alloca(room, 64)))
    }

    /// Calls a helper that touches only the memory that an access at the place touches, and its operands: one
    /// that takes addresses, or one that takes the numbers of elements if the place has them. Returns the
    /// memory for numbers.
    fn rare(
        &mut self,
        any: Helper,
        of_elements: Helper,
        place: Place,
        mask: Option<Val>,
        at: u64,
        el: El,
    ) -> Val {
        let (places, numbers) = self.handed();
        let bytes = Val::i64(el.bytes() as i64);
        let by = Val::i64(at as i64);
        let all = Val::bool(true);
        let (helper, args) = match place.elements {
            Some(elements) => {
                self.w.store(elements.numbers, places, ANY_BUFFER);
                let bits = self.w.mask_bits(mask.unwrap_or(all));
                let bits = self.w.select(elements.certain, bits, Val::i32(0));
                let first = self.w.offset(elements.first, by);
                let (size, signed) = (Val::i64(elements.size as i64), Val::i32(i64::from(elements.signed)));
                (of_elements, vec![places, numbers, bits, bytes, first, elements.count, size, signed])
            }
            None => {
                let at = self.w.offset(place.addr, by);
                let at = self.w.spread(at);
                self.w.store(at, places, ANY_BUFFER);
                let mask = self.both(place.inside, mask);
                (any, vec![places, numbers, self.w.mask_bits(mask.unwrap_or(all)), bytes])
            }
        };
        self.w.access_helper(helper, &args, place.class);
        numbers
    }
}
