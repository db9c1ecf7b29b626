//! Maps the types of IR values to naga types.
//!
//! - Integers of fewer than 32 bits are held in 32 bits, always in sign- or zero-extended form.
//! - A vector of one lane is that lane, and a vector of more than four lanes is an array.
//! - An array without elements has a single element that is never read.
//! - A stack is a struct of its length and an array of known size.

use std::num::NonZeroU32;

use ir::{Scalar, Type, TypeData};
use naga::{ArraySize, Handle, Span, StructMember, TypeInner};

use crate::build::vector_size;
use crate::module::Cx;
use crate::{Target, Unsupported};

/// A type together with the sizes of its stacks.
pub(crate) type Shaped = (Type, Vec<u32>);

/// The naga kind of a number.
pub(crate) fn scalar(s: Scalar) -> naga::Scalar {
    match s {
        Scalar::Bool => naga::Scalar::BOOL,
        Scalar::I8 | Scalar::I16 | Scalar::I32 => naga::Scalar::I32,
        Scalar::U8 | Scalar::U16 | Scalar::U32 => naga::Scalar::U32,
        Scalar::I64 => naga::Scalar::I64,
        Scalar::U64 => naga::Scalar::U64,
        Scalar::F16 => naga::Scalar::F16,
        Scalar::F32 => naga::Scalar::F32,
        Scalar::F64 => naga::Scalar::F64,
    }
}

impl Cx<'_> {
    /// The handle of an anonymous type.
    pub(crate) fn ty(&mut self, inner: TypeInner) -> Handle<naga::Type> {
        self.out.types.insert(naga::Type { name: None, inner }, Span::default())
    }

    /// A struct with that name, or a similar one if the name is taken.
    pub(crate) fn structure(
        &mut self,
        name: &str,
        members: Vec<StructMember>,
        span: u32,
    ) -> Handle<naga::Type> {
        let name = Some(self.types.names.unique(name));
        self.out
            .types
            .insert(naga::Type { name, inner: TypeInner::Struct { members, span } }, Span::default())
    }

    /// The size and alignment of a type.
    pub(crate) fn natural(&mut self, ty: Handle<naga::Type>) -> (u32, u32) {
        // The layouter iterates over all types to find the new ones, so it is only updated when needed.
        if ty.index() >= self.types.laid_out {
            // A type that is too large for the layouter is reported by the validator as well.
            let _ = self.types.layouter.update(self.out.to_ctx());
            self.types.laid_out = self.out.types.len();
        }
        let layout = self.types.layouter[ty];
        (layout.size, layout.alignment.round_up(1))
    }

    /// An array of `n` elements, or a runtime-sized array, whose length the host determines.
    pub(crate) fn array_of(&mut self, base: Handle<naga::Type>, n: Option<NonZeroU32>) -> Handle<naga::Type> {
        let (size, align) = self.natural(base);
        let size_of = n.map_or(ArraySize::Dynamic, ArraySize::Constant);
        self.ty(TypeInner::Array { base, size: size_of, stride: size.next_multiple_of(align) })
    }

    /// Refuses a kind of number that the target lacks.
    pub(crate) fn check_scalar(&self, s: Scalar, span: ir::Span) -> Result<(), Unsupported> {
        let has = |target: Target| match s {
            Scalar::I64 | Scalar::U64 => target.has_int64(),
            Scalar::F64 => target.has_float64(),
            Scalar::F16 => target.has_float16(),
            _ => true,
        };
        if has(self.options.target) {
            return Ok(());
        }
        let word = match s {
            Scalar::I64 => "int64_t",
            Scalar::U64 => "uint64_t",
            Scalar::F64 => "double",
            _ => "half",
        };
        let others = Target::ALL.into_iter().filter(|&target| has(target)).map(Target::name);
        let others = others.collect::<Vec<_>>().join(", ");
        let other = match s {
            Scalar::I64 => "int",
            Scalar::U64 => "uint",
            _ => "float",
        };
        let refused =
            self.refuse(format!("a number of type `{word}`"), format!("it has no `{}`", s.name()), span);
        Err(Unsupported {
            help: Some(format!("use `{other}`, or a language that has it: {others}")),
            ..refused
        })
    }

    /// The type of a scalar or of a vector of up to four lanes; for more lanes, an array.
    pub(crate) fn lanes_type(&mut self, s: Scalar, n: u32) -> Handle<naga::Type> {
        let scalar = scalar(s);
        match (n, vector_size(n)) {
            (0 | 1, _) => self.ty(TypeInner::Scalar(scalar)),
            (_, Some(size)) => self.ty(TypeInner::Vector { size, scalar }),
            _ => {
                let base = self.ty(TypeInner::Scalar(scalar));
                self.array_of(base, NonZeroU32::new(n))
            }
        }
    }

    /// The type of values of an IR type; `shape` gives the sizes of its stacks.
    pub(crate) fn value_type(
        &mut self,
        ty: Type,
        shape: &[u32],
        span: ir::Span,
    ) -> Result<Handle<naga::Type>, Unsupported> {
        let key = (ty, shape.to_vec());
        if let Some(&found) = self.types.of_values.get(&key) {
            return Ok(found);
        }
        let made = match self.ir.types[ty] {
            TypeData::Scalar(s) => {
                self.check_scalar(s, span)?;
                self.lanes_type(s, 1)
            }
            TypeData::Vector(s, n) => {
                self.check_scalar(s, span)?;
                self.lanes_type(s, n)
            }
            TypeData::Array(t, n) => {
                let base = self.value_type(t, shape, span)?;
                self.check_size(base, n, span)?;
                self.array_of(base, NonZeroU32::new(n.max(1)))
            }
            TypeData::Cell(t) => self.value_type(t, shape, span)?,
            TypeData::Stack(t) => {
                let n = shape.first().copied().unwrap_or(1).max(1);
                let base = self.value_type(t, shape.get(1..).unwrap_or_default(), span)?;
                self.check_size(base, n, span)?;
                let items = self.array_of(base, NonZeroU32::new(n));
                let len = self.ty(TypeInner::Scalar(naga::Scalar::U32));
                let (size, align) = self.natural(items);
                let at = 4u32.next_multiple_of(align);
                let members = vec![member("length", len, 0), member("items", items, at)];
                self.structure("Stack", members, (at + size).next_multiple_of(align.max(4)))
            }
            TypeData::Residuals(_) => {
                return Err(self.refuse("a pullback", "it was not differentiated", span));
            }
            TypeData::Buffer(_) => {
                return Err(self.refuse("a buffer or pointer as a value", "it has no such values", span));
            }
        };
        self.types.of_values.insert(key, made);
        Ok(made)
    }

    /// Returns true if a type contains `bool`.
    pub(crate) fn has_bool(&self, ty: Handle<naga::Type>) -> bool {
        match &self.out.types[ty].inner {
            TypeInner::Array { base, .. } => self.has_bool(*base),
            TypeInner::Struct { members, .. } => members.iter().any(|m| self.has_bool(m.ty)),
            TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } => s.kind == naga::ScalarKind::Bool,
            _ => false,
        }
    }

    /// Refuses local arrays that are too large for any device.
    fn check_size(&mut self, base: Handle<naga::Type>, n: u32, span: ir::Span) -> Result<(), Unsupported> {
        let (size, align) = self.natural(base);
        let bytes = size.next_multiple_of(align) as u64 * n as u64;
        if bytes > LARGEST_LOCAL {
            let what = format!("a local array of {bytes} bytes");
            let mut error = self.refuse(what, format!("{LARGEST_LOCAL} are the most for each thread"), span);
            error.help =
                Some("a smaller bound in `[MaxIters(n)]`, or `[Checkpoint(n)]`, makes it smaller".into());
            return Err(error);
        }
        Ok(())
    }
}

/// The largest local array, in bytes.
const LARGEST_LOCAL: u64 = 1 << 26;

/// A member of a struct.
pub(crate) fn member(name: &str, ty: Handle<naga::Type>, offset: u32) -> StructMember {
    StructMember { name: Some(name.to_string()), ty, binding: None, offset }
}
