//! Loads and stores values of any type at places in memory: places of a type of the device, or bytes among words.
//! Vectors and arrays that are laid out otherwise than values are transferred number by number.

use ir::{Scalar, Type, TypeData};
use naga::{BinaryOperator, ScalarKind, TypeInner};

use crate::build::{Code, Expr};
use crate::memory::{At, Res, Slot};
use crate::module::Cx;
use crate::words::{Half, divisor, number_of_word, word_of_number};

/// Where a value lies.
#[derive(Clone, Copy)]
pub(crate) enum Spot<'s> {
    /// At a pointer.
    Typed(At),
    /// In memory that is words.
    Words(Bytes<'s>),
}

/// A place in memory that is words.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'s> {
    pub(crate) slot: &'s Slot,
    /// The number of a byte, and the power of two, at most 4, that is known to divide it.
    pub(crate) at: Expr,
    pub(crate) align: u32,
    /// How many bytes further the place is.
    pub(crate) by: u32,
}

impl<'s> Bytes<'s> {
    pub(crate) fn further(self, by: u32) -> Bytes<'s> {
        Bytes { by: self.by + by, ..self }
    }

    /// The power of two, at most 4, that is known to divide the number of the place's byte.
    pub(crate) fn divisor(self) -> u32 {
        self.align.min(divisor(self.by))
    }
}

impl Cx<'_> {
    /// Stores a value of a type in memory, or loads it, if none is given.
    pub(crate) fn transfer(
        &mut self,
        code: &mut Code,
        spot: Spot<'_>,
        leaf: Type,
        value: Option<Expr>,
        span: ir::Span,
    ) -> Res<Option<Expr>> {
        let is_list = matches!(self.ir.types[leaf], TypeData::Array(..) | TypeData::Vector(..));
        let why = match spot {
            Spot::Words(bytes) if !is_list => return self.transfer_words(code, bytes, leaf, value, span),
            Spot::Words(_) => "it is in memory that is seen as bytes",
            Spot::Typed(At { pointer, ty, .. }) => {
                if ty == self.value_type(leaf, &[], span)? {
                    return Ok(code.load_or_store(pointer, value));
                }
                if !is_list || !matches!(self.out.types[ty].inner, TypeInner::Array { .. }) {
                    return Ok(self.transfer_number(code, pointer, ty, leaf, value));
                }
                "its layout differs from that of a local array"
            }
        };
        let (element, n) = (self.element_type(leaf), self.length(leaf));
        self.check_length(n, if value.is_some() { "written" } else { "read" }, why, span)?;
        let bytes = self.ir.types.bytes(element) as u32;
        let is_one = n == 1 && matches!(self.ir.types[leaf], TypeData::Vector(..));
        let mut parts = Vec::new();
        for k in 0..if value.is_some() { n } else { n.max(1) } {
            let part = value.map(|value| if is_one { value } else { code.part(value, k) });
            let spot = match spot {
                Spot::Typed(at) => Spot::Typed(self.array_part(code, at, k)),
                Spot::Words(place) => Spot::Words(place.further(k * bytes)),
            };
            parts.extend(self.transfer(code, spot, element, part, span)?);
        }
        if value.is_some() || is_one {
            return Ok(parts.pop());
        }
        let ty = self.value_type(leaf, &[], span)?;
        Ok(Some(code.compose(ty, parts)))
    }

    /// Transfers what is atomic, or a `bool`, which is a number in memory that the host sees.
    fn transfer_number(
        &mut self,
        code: &mut Code,
        pointer: Expr,
        ty: naga::Handle<naga::Type>,
        leaf: Type,
        value: Option<Expr>,
    ) -> Option<Expr> {
        if let TypeInner::Atomic(word) = self.out.types[ty].inner {
            let is_float = self.ir.types.scalar_of(leaf).is_some_and(Scalar::is_float);
            if word.kind == ScalarKind::Float || !is_float {
                return code.load_or_store(pointer, value);
            }
            let bits = value.map(|value| code.convert(value, ScalarKind::Uint, None));
            let bits = code.load_or_store(pointer, bits)?;
            return Some(code.convert(bits, ScalarKind::Float, None));
        }
        let n = self.ir.types.lanes(leaf).unwrap_or(1);
        let [one, zero] = [1, 0].map(|k| {
            let k = code.u32(k);
            code.splat(n, k)
        });
        let bits = value.map(|value| code.select(value, one, zero));
        let bits = code.load_or_store(pointer, bits)?;
        Some(code.binary(BinaryOperator::NotEqual, bits, zero))
    }

    /// Transfers a number in memory that is words.
    fn transfer_words(
        &mut self,
        code: &mut Code,
        at: Bytes<'_>,
        ty: Type,
        value: Option<Expr>,
        span: ir::Span,
    ) -> Res<Option<Expr>> {
        let TypeData::Scalar(s) = self.ir.types[ty] else {
            return Err(self.refuse(
                "a pointer in memory that is seen as bytes",
                "devices have no pointers",
                span,
            ));
        };
        self.check_scalar(if s == Scalar::F64 { Scalar::U64 } else { s }, span)?;
        let Some(value) = value else {
            let word = self.load_word(code, at, s.bytes());
            let high = (s.bytes() == 8).then(|| self.load_word(code, at.further(4), 4));
            return Ok(Some(number_of_word(code, s, word, high)));
        };
        let low = word_of_number(code, s, value, Half::Low);
        if s.bytes() < 4 {
            self.store_part(code, at, low, s.bits())?;
            return Ok(None);
        }
        self.store_word(code, at, low, span);
        if s.bytes() == 8 {
            let high = word_of_number(code, s, value, Half::High);
            self.store_word(code, at.further(4), high, span);
        }
        Ok(None)
    }
}
