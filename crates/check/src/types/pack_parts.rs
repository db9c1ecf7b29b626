//! Parts of packs and tuples: `__first`, `__last`, `__trimFirst`, `__trimLast`, and `__packBranch`, which chooses a type
//! by whether a pack is empty.
//!
//! A part of a list is found as far as the elements at its end are known: the first of `int, T` is `int`, and the first of
//! `T` stays a question until `T` is known. An open question about a type is a type: an element has the interfaces of all
//! elements of its pack, and the choice of a branch those that both branches have. So a recursion over a pack (`S<first,
//! rest>` has a field of type `__packBranch(rest, End, S<…>)`) is checked once and unfolds when its arguments are known; it
//! ends there because only the branch that is chosen is looked at.

use syntax::ExprId;
use syntax::ast::PackPart;

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::tables::{ExprInfo, Meaning};
use crate::types::follow_up::text;
use crate::types::{GenericArg, Part, Ty, TyKind, Val};

impl Program {
    /// A part of a pack or tuple; `None` if the list is empty and has no such element.
    pub(crate) fn part_of_pack(&mut self, part: PackPart, pack: &GenericArg) -> Option<GenericArg> {
        let mut elements = match pack {
            GenericArg::Type(Ty::ERROR) | GenericArg::Val(Val::Error) => return Some(pack.clone()),
            GenericArg::Type(ty) => self.elements(*ty).into_iter().map(GenericArg::Type).collect(),
            GenericArg::Val(Val::Pack(vals)) => vals.iter().cloned().map(GenericArg::Val).collect(),
            GenericArg::Val(_) => vec![pack.clone()],
        };
        let is_front = matches!(part, PackPart::First | PackPart::TrimFirst);
        let end = if is_front { elements.first() } else { elements.last() };
        if let Some(end) = end.filter(|&end| self.is_pack_arg(end)) {
            // Every element of such an expansion is the same.
            if let (GenericArg::Type(ty), true) = (end, part.is_element() && elements.len() == 1)
                && let TyKind::Expand(pattern, _) = self.types[*ty]
                && !self.has_each(Part::Type(pattern))
            {
                return Some(GenericArg::Type(pattern));
            }
            return Some(match pack {
                GenericArg::Type(ty) => {
                    let ty = if let TyKind::Tuple(parts) = &self.types[*ty] {
                        self.pack_of(parts.clone())
                    } else {
                        *ty
                    };
                    GenericArg::Type(self.types.intern(TyKind::PackPart(part, ty)))
                }
                GenericArg::Val(val) => GenericArg::Val(Val::PackPart(part, Box::new(val.clone()))),
            });
        }
        let end = match (elements.is_empty(), is_front) {
            (true, _) => None,
            (false, true) => Some(elements.remove(0)),
            (false, false) => elements.pop(),
        };
        match part.is_element() {
            true => end,
            false => self.pack_of_args(matches!(pack, GenericArg::Val(_)), elements),
        }
    }

    /// Returns true if a pack is known to have elements, false if it has none; `None` if it may be either.
    pub(crate) fn is_nonempty(&mut self, pack: &GenericArg) -> Option<bool> {
        if self.assumed_nonempty.contains(pack) {
            return Some(true);
        }
        match pack {
            GenericArg::Type(Ty::ERROR) | GenericArg::Val(Val::Error) => Some(true),
            GenericArg::Type(ty) => match self.types[*ty].clone() {
                TyKind::Pack(parts) | TyKind::Tuple(parts) => {
                    let parts = parts.into_iter().map(GenericArg::Type).collect::<Vec<_>>();
                    self.has_elements(&parts)
                }
                TyKind::Expand(_, shape) => self.is_nonempty(&shape),
                TyKind::Param(param) => self.is_given_nonempty(param, pack),
                _ => None,
            },
            GenericArg::Val(val) => match val {
                Val::Pack(vals) => {
                    let vals = vals.iter().cloned().map(GenericArg::Val).collect::<Vec<_>>();
                    self.has_elements(&vals)
                }
                Val::Expand(_, shape) => self.is_nonempty(shape),
                Val::Param(param) => self.is_given_nonempty(*param, pack),
                _ => None,
            },
        }
    }

    /// Returns true if a list has elements, where some of its elements may be packs.
    fn has_elements(&mut self, list: &[GenericArg]) -> Option<bool> {
        let mut found = Some(false);
        for element in list {
            let own = if self.is_pack_arg(element) { self.is_nonempty(element) } else { Some(true) };
            match own {
                Some(true) => return own,
                Some(false) => {}
                None => found = None,
            }
        }
        found
    }

    fn is_given_nonempty(&mut self, param: syntax::DeclId, pack: &GenericArg) -> Option<bool> {
        let owner = self.scopes.param_owner.get(&param).copied()?;
        self.constraints_of(owner).nonempty.contains(pack).then_some(true)
    }

    /// `__packBranch` of a pack that may be empty.
    pub(crate) fn pack_branch(&mut self, pack: GenericArg, empty: Ty, other: Ty) -> Ty {
        match empty == other || empty == Ty::ERROR {
            true => empty,
            false if other == Ty::ERROR => other,
            false => self.types.intern(TyKind::PackBranch(Box::new(pack), empty, other)),
        }
    }
}

impl Checker<'_> {
    /// The operand of a query as a pack: of integers, of types, or the type of a value that is a pack or tuple.
    fn pack_operand(&mut self, inner: ExprId) -> Option<GenericArg> {
        self.infer_any(inner, None);
        let info = &self.p.tables.exprs[inner];
        match info.meaning.clone() {
            Meaning::Error => return Some(GenericArg::Type(Ty::ERROR)),
            Meaning::Value(val) if self.p.is_val_pack(&val) => return Some(GenericArg::Val(val)),
            _ => {}
        }
        let ty = self.p.loaded(info.coerce.unwrap_or(info.ty));
        let is_list = ty == Ty::ERROR || self.p.is_pack(ty) || matches!(self.p.types[ty], TyKind::Tuple(_));
        if is_list {
            return Some(GenericArg::Type(ty));
        }
        let message = text!("this needs a pack or a tuple, got '{}'", self.name(ty));
        self.error_in(inner, "E30103", message);
        None
    }

    /// `__first(e)` and the like.
    pub(crate) fn infer_pack_part(&mut self, expr: ExprId, part: PackPart, inner: ExprId) -> Ty {
        let Some(pack) = self.pack_operand(inner) else { return self.set_error(expr) };
        if let GenericArg::Type(Ty::ERROR) = pack {
            return self.set_error(expr);
        }
        if part.is_element() && self.p.is_nonempty(&pack) != Some(true) {
            let word = part.text();
            let message = match self.p.is_nonempty(&pack) {
                Some(_) => format!("'{word}' of an empty pack"),
                None => format!("'{word}' of a pack that may be empty: it needs 'where nonempty(…)'"),
            };
            return self.fail(expr, "E30412", message);
        }
        let Some(found) = self.p.part_of_pack(part, &pack) else { return self.set_error(expr) };
        let info = self.p.tables.exprs[inner].clone();
        let ty = match found {
            GenericArg::Val(val) => {
                let element = part.is_element().then(|| self.p.each_of(info.ty)).flatten();
                return self.set_value(expr, element.unwrap_or(info.ty), Meaning::Value(val));
            }
            GenericArg::Type(ty) => ty,
        };
        if let Meaning::Type(_) = info.meaning {
            return self.set_type(expr, ty);
        }
        // What is left of a tuple is a tuple.
        let of_tuple = !part.is_element() && matches!(pack, GenericArg::Type(ty) if !self.p.is_pack(ty));
        let ty = if of_tuple { self.p.tuple_of(vec![ty]) } else { ty };
        self.set(expr, ExprInfo::new(ty, Meaning::PackPart(part, inner), info.lvalue))
    }

    /// `__packBranch(pack, A, B)`. Within `B` the pack has elements.
    pub(crate) fn infer_pack_branch(&mut self, expr: ExprId, parts: [ExprId; 3]) -> Ty {
        let [pack, empty, other] = parts;
        let pack = self.pack_operand(pack);
        let empty = self.type_expr(empty);
        let is_nonempty = pack.as_ref().and_then(|pack| self.p.is_nonempty(pack));
        self.p.assumed_nonempty.extend(pack.clone());
        let other = self.type_expr(other);
        if pack.is_some() {
            self.p.assumed_nonempty.pop();
        }
        let ty = match (pack, is_nonempty) {
            (None, _) => return self.set_error(expr),
            (_, Some(true)) => other,
            (_, Some(false)) => empty,
            (Some(pack), None) => self.p.pack_branch(pack, empty, other),
        };
        self.set_type(expr, ty)
    }
}
