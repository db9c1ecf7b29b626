//! Queries of shapes, which are packs of integers: `__shapePermute`, `__shapeReduce`, `__shapeConcat`, `__shapeSwap`.
//!
//! A shape lists the sizes of the axes of a tensor or tile. A query whose operands are known gives the new shape, whose
//! sizes may still be unknown; any other stays a question until its operands are substituted. A question whose operands
//! turn out not to fit stays one, so that whoever needs the number reports that it has none.

use syntax::ExprId;
use syntax::ast::{BinaryOp, ShapeOp};

use crate::exprs::infer::Checker;
use crate::generics::substitution::binary_val;
use crate::program::Program;
use crate::tables::Meaning;
use crate::types::{GenericArg, Ty, Val};

impl Program {
    /// A query of shapes, answered as far as its operands are known.
    pub(crate) fn shape(&self, op: ShapeOp, operands: Vec<Val>) -> Val {
        if operands.contains(&Val::Error) {
            return Val::Error;
        }
        match self.known_shape(op, &operands) {
            Some(Ok(sizes)) => Val::Pack(sizes),
            _ => Val::Shape(op, operands),
        }
    }

    /// Why a query of shapes has no answer though its operands are known.
    pub fn no_such_shape(&self, arg: &GenericArg) -> Option<String> {
        let GenericArg::Val(Val::Shape(op, operands)) = arg else { return None };
        self.known_shape(*op, operands)?.err().map(|why| format!("'{}': {why}", op.text()))
    }

    /// The sizes of a pack without unknown parts.
    fn sizes(&self, val: &Val) -> Option<Vec<Val>> {
        match val {
            Val::Pack(vals) => (!vals.iter().any(|val| self.is_val_pack(val))).then(|| vals.clone()),
            val => (!self.is_val_pack(val)).then(|| vec![val.clone()]),
        }
    }

    /// The answer of a query, or why there is none; nothing if an operand is not known yet.
    fn known_shape(&self, op: ShapeOp, operands: &[Val]) -> Option<Result<Vec<Val>, String>> {
        let mut sizes = self.sizes(operands.first()?)?;
        let n = sizes.len();
        let axis = |val: &Val| match val {
            Val::Int(axis) => Some(usize::try_from(*axis).ok().filter(|&axis| axis < n).ok_or_else(|| {
                let axes = if n == 1 { "1 axis".to_string() } else { format!("{n} axes") };
                format!("there is no axis {axis} in a shape of {axes}")
            })),
            _ => None,
        };
        macro_rules! axis {
            ($val:expr) => {
                match axis($val)? {
                    Ok(axis) => axis,
                    Err(message) => return Some(Err(message)),
                }
            };
        }
        match op {
            ShapeOp::Permute => {
                let order = self.sizes(operands.get(1)?)?;
                let mut from = Vec::new();
                for val in &order {
                    from.push(axis!(val));
                }
                let is_permutation = from.len() == n && (0..n).all(|axis| from.contains(&axis));
                if !is_permutation {
                    return Some(Err(format!("this order does not name each of the {n} axes once")));
                }
                sizes = from.into_iter().map(|axis| sizes[axis].clone()).collect();
            }
            ShapeOp::Reduce => sizes[axis!(operands.get(1)?)] = Val::Int(1),
            ShapeOp::Swap => {
                let (a, b) = (axis!(operands.get(1)?), axis!(operands.get(2)?));
                sizes.swap(a, b);
            }
            ShapeOp::Concat => {
                let others = self.sizes(operands.get(1)?)?;
                let along = axis!(operands.get(2)?);
                if others.len() != n {
                    return Some(Err("these shapes have different numbers of axes".into()));
                }
                for (axis, (size, other)) in sizes.iter_mut().zip(others).enumerate() {
                    if axis == along {
                        *size = binary_val(BinaryOp::Add, size.clone(), other);
                    } else if let (Val::Int(a), Val::Int(b)) = (&*size, &other)
                        && a != b
                    {
                        return Some(Err(format!(
                            "these shapes have {a} and {b} elements along axis {axis}"
                        )));
                    }
                }
            }
        }
        Some(Ok(sizes))
    }
}

impl Checker<'_> {
    /// Infers `__shapeConcat(A, B, Axis)` and the like.
    pub(crate) fn infer_shape(&mut self, expr: ExprId, op: ShapeOp, parts: &[ExprId]) -> Ty {
        let n_shapes = if op == ShapeOp::Concat || op == ShapeOp::Permute { 2 } else { 1 };
        let mut operands = Vec::new();
        for (k, &part) in parts.iter().enumerate() {
            let Some(operand) = self.shape_operand(part, k < n_shapes) else { return self.set_error(expr) };
            operands.push(operand);
        }
        let wanted = if matches!(op, ShapeOp::Concat | ShapeOp::Swap) { 3 } else { 2 };
        if operands.len() != wanted {
            let message = format!("'{}' takes {wanted} arguments", op.text());
            return self.fail(expr, "E30103", message);
        }
        if let Some(Err(message)) = self.p.known_shape(op, &operands) {
            return self.fail(expr, "E30412", message);
        }
        let val = self.p.shape(op, operands);
        self.set_value(expr, Ty::INT, Meaning::Value(val))
    }

    /// An operand: a pack of integers or a list of them, `(__first(D), 1)`, for a shape, and an integer for an axis.
    fn shape_operand(&mut self, part: ExprId, is_shape: bool) -> Option<Val> {
        self.infer_any(part, None);
        let inner = self.p.tables.plain(part);
        let val = match self.p.tables.exprs[inner].meaning.clone() {
            Meaning::Error => return None,
            Meaning::Value(val) => Some(val),
            Meaning::MakeTuple(parts) if is_shape => {
                let vals: Option<Vec<Val>> = parts.iter().map(|&part| self.p.constant(part, 0)).collect();
                vals.map(|vals| self.p.val_pack_of(vals))
            }
            Meaning::Type(_) => None,
            _ => self.p.constant(inner, 0),
        };
        let Some(val) = val.filter(|val| is_shape || !self.p.is_val_pack(val)) else {
            let wanted =
                if is_shape { "a shape, which is a pack of integers" } else { "the number of an axis" };
            self.error_in(part, "E30103", format!("this has to be {wanted}"));
            return None;
        };
        Some(val)
    }
}
