//! Implements packs: any number of types, values, or compile-time integers.
//!
//! A pack is a generic parameter declared with `each`, a known list, or `expand P`: the pattern `P` for each
//! element of the packs that it mentions with `each`. A pattern keeps its *shape*, the first of those packs,
//! since `P` itself may not determine the number of elements (`expand 1`, or `each T` where `T == int`).
//! Lists are always spliced: `Tuple<A, T>` with `T` = `B, C` is `Tuple<A, B, C>`, and `expand each T` is `T`;
//! hence equal packs have equal handles.

use syntax::ast::{ExprKind, Modifiers};
use syntax::{DeclId, ExprId};

use crate::exprs::infer::Checker;
use crate::exprs::overload::Argument;
use crate::program::Program;
use crate::signature::Subst;
use crate::tables::{ExprInfo, Meaning};
use crate::types::follow_up::text;
use crate::types::{GenericArg, Part, Ty, TyKind, Val};

/// The arguments of a call that belong to each parameter: the index of the first, and the count.
pub(crate) type Groups = Vec<(usize, usize)>;

impl Program {
    /// Returns true if a generic parameter stands for any number of types or integers.
    pub(crate) fn is_pack_param(&self, param: DeclId) -> bool {
        self.ast.decls[param].modifiers.has(Modifiers::EACH)
    }

    /// Returns true if a type is a pack, known or not.
    pub fn is_pack(&self, ty: Ty) -> bool {
        match self.types[ty] {
            TyKind::Pack(_) | TyKind::Expand(..) => true,
            TyKind::PackPart(part, _) => !part.is_element(),
            TyKind::Param(param) => self.is_pack_param(param),
            _ => false,
        }
    }

    /// Returns true if a compile-time integer is a pack of integers.
    pub(crate) fn is_val_pack(&self, val: &Val) -> bool {
        match val {
            Val::Pack(_) | Val::Expand(..) | Val::Shape(..) => true,
            Val::PackPart(part, _) => !part.is_element(),
            Val::Param(param) => self.is_pack_param(*param),
            _ => false,
        }
    }

    pub(crate) fn is_pack_arg(&self, arg: &GenericArg) -> bool {
        match arg {
            GenericArg::Type(ty) => self.is_pack(*ty),
            GenericArg::Val(val) => self.is_val_pack(val),
        }
    }

    /// The pack of a list of types.
    pub fn pack_of(&mut self, parts: Vec<Ty>) -> Ty {
        let parts = self.spliced(parts);
        match parts[..] {
            [only] if self.is_pack(only) => only,
            _ => self.types.intern(TyKind::Pack(parts)),
        }
    }

    /// The tuple of a list of types.
    pub(crate) fn tuple_of(&mut self, parts: Vec<Ty>) -> Ty {
        let parts = self.spliced(parts);
        self.types.intern(TyKind::Tuple(parts))
    }

    /// Replaces the known packs in a list by their elements.
    pub(crate) fn spliced(&self, parts: Vec<Ty>) -> Vec<Ty> {
        if !parts.iter().any(|&p| matches!(self.types[p], TyKind::Pack(_))) {
            return parts;
        }
        let mut out = Vec::new();
        for part in parts {
            match &self.types[part] {
                TyKind::Pack(inner) => out.extend_from_slice(inner),
                _ => out.push(part),
            }
        }
        out
    }

    pub(crate) fn val_pack_of(&self, vals: Vec<Val>) -> Val {
        let mut out = Vec::new();
        for val in vals {
            match val {
                Val::Pack(inner) => out.extend(inner),
                val => out.push(val),
            }
        }
        match &out[..] {
            [only] if self.is_val_pack(only) => out.swap_remove(0),
            _ => Val::Pack(out),
        }
    }

    /// Packs a list of generic arguments for a pack parameter; `None` if an argument is of the wrong kind.
    fn pack_arg(&mut self, param: DeclId, args: Vec<GenericArg>) -> Option<GenericArg> {
        self.pack_of_args(self.is_value_param(param), args)
    }

    pub(crate) fn pack_of_args(&mut self, is_value: bool, args: Vec<GenericArg>) -> Option<GenericArg> {
        let (mut types, mut vals) = (Vec::new(), Vec::new());
        for arg in args {
            match arg {
                GenericArg::Type(ty) if !is_value => types.push(ty),
                GenericArg::Val(val) if is_value => vals.push(val),
                _ => return None,
            }
        }
        Some(if is_value {
            GenericArg::Val(self.val_pack_of(vals))
        } else {
            GenericArg::Type(self.pack_of(types))
        })
    }

    /// The empty pack of types or integers for a pack parameter.
    pub(crate) fn empty_pack(&mut self, param: DeclId) -> Option<GenericArg> {
        if self.is_pack_param(param) { self.pack_arg(param, Vec::new()) } else { None }
    }

    /// The elements of a pack or tuple as far as they are known; an element that is itself a pack stands for
    /// several.
    pub fn elements(&self, ty: Ty) -> Vec<Ty> {
        match &self.types[ty] {
            TyKind::Pack(parts) | TyKind::Tuple(parts) => parts.clone(),
            _ => vec![ty],
        }
    }

    /// The number of elements of a pack or tuple, if it is known.
    pub(crate) fn known_count(&self, ty: Ty) -> Option<i64> {
        self.shape_count(&GenericArg::Type(ty)).map(|n| n as i64)
    }

    /// The number of elements of an expansion's shape, if it is known.
    pub fn shape_count(&self, shape: &GenericArg) -> Option<usize> {
        let elements = self.shape_elements(shape)?;
        (!elements.iter().any(|element| self.is_pack_arg(element))).then_some(elements.len())
    }

    /// The elements of a known pack.
    fn shape_elements(&self, shape: &GenericArg) -> Option<Vec<GenericArg>> {
        match shape {
            GenericArg::Type(ty) => match &self.types[*ty] {
                TyKind::Pack(parts) | TyKind::Tuple(parts) => {
                    Some(parts.iter().map(|&ty| GenericArg::Type(ty)).collect())
                }
                _ => None,
            },
            GenericArg::Val(Val::Pack(vals)) => Some(vals.iter().cloned().map(GenericArg::Val).collect()),
            GenericArg::Val(_) => None,
        }
    }

    /// `countof` of a pack.
    pub(crate) fn count_of(&self, shape: &GenericArg) -> Val {
        if let Some(n) = self.shape_count(shape) {
            return Val::Int(n as i64);
        }
        match shape {
            GenericArg::Type(ty) => match &self.types[*ty] {
                TyKind::Expand(_, shape) => self.count_of(shape),
                _ => Val::CountOf(*ty),
            },
            GenericArg::Val(Val::Expand(_, shape)) => self.count_of(shape),
            GenericArg::Val(val) => Val::CountOfVals(Box::new(val.clone())),
        }
    }

    /// `each pack` as a type: any one of the elements. `None` if the type is not a pack.
    pub(crate) fn each_of(&mut self, pack: Ty) -> Option<Ty> {
        match self.types[pack].clone() {
            TyKind::Expand(pattern, _) => Some(pattern),
            TyKind::Pack(parts) => {
                if let [first, rest @ ..] = &parts[..]
                    && !self.is_pack(*first)
                    && rest.iter().all(|part| part == first)
                {
                    return Some(*first);
                }
                Some(self.types.intern(TyKind::Each(pack)))
            }
            TyKind::Tuple(parts) => {
                let pack = self.pack_of(parts);
                self.each_of(pack)
            }
            TyKind::Param(param) if self.is_pack_param(param) => {
                // An equality constraint may give the type of the elements: `int` for `where T == int`.
                let owner = self.scopes.param_owner.get(&param).copied();
                let element = owner.and_then(|owner| self.element_of_pack(owner, pack));
                let element = element.filter(|&element| !self.is_pack(element));
                Some(element.unwrap_or_else(|| self.types.intern(TyKind::Each(pack))))
            }
            TyKind::PackPart(part, _) if !part.is_element() => Some(self.types.intern(TyKind::Each(pack))),
            TyKind::Error => Some(Ty::ERROR),
            _ => None,
        }
    }

    pub(crate) fn each_val(&self, val: Val) -> Val {
        match val {
            Val::Expand(pattern, _) => *pattern,
            val => Val::Each(Box::new(val)),
        }
    }

    /// `expand ty` over the elements of `shape`.
    pub(crate) fn expand_of(&mut self, ty: Ty, shape: &GenericArg) -> Ty {
        if let TyKind::Each(pack) = self.types[ty]
            && self.is_pack(pack)
        {
            return pack;
        }
        if ty == Ty::ERROR {
            return ty;
        }
        if let GenericArg::Type(pack) = shape
            && self.each_of(*pack) == Some(ty)
        {
            return *pack;
        }
        if let Some(n) = self.shape_count(shape)
            && !self.has_each(Part::Type(ty))
        {
            return self.types.intern(TyKind::Pack(vec![ty; n]));
        }
        self.types.intern(TyKind::Expand(ty, Box::new(shape.clone())))
    }

    pub(crate) fn expand_val(&self, val: Val, shape: &GenericArg) -> Val {
        match val {
            Val::Each(pack) if self.is_val_pack(&pack) => *pack,
            val => Val::Expand(Box::new(val), Box::new(shape.clone())),
        }
    }

    /// Returns true if a type mentions `each` outside of an inner expansion.
    pub(crate) fn has_each(&self, part: Part<'_>) -> bool {
        let mut found = false;
        let mut visit = |part: Part<'_>| found |= self.has_each(part);
        match part {
            Part::Type(ty) => match &self.types[ty] {
                TyKind::Each(_) => return true,
                TyKind::Expand(..) => {}
                kind => kind.for_each_part(&mut visit),
            },
            Part::Val(Val::Each(_)) => return true,
            Part::Val(Val::Expand(..)) => {}
            Part::Val(val) => val.for_each_part(&mut visit),
        }
        found
    }

    /// Expands a pattern for each element of a shape while substituting arguments.
    pub(crate) fn substitute_expand(
        &mut self,
        pattern: &GenericArg,
        shape: &GenericArg,
        env: &Subst,
    ) -> GenericArg {
        let shape = self.substitute_arg(shape, env);
        let mut inner = env.clone();
        let Some(elements) = self.shape_elements(&shape) else {
            inner.element = None;
            let arg = self.substitute_arg(pattern, &inner);
            return self.expand_arg(arg, &shape);
        };
        let mut parts = Vec::new();
        for (idx, element) in elements.into_iter().enumerate() {
            inner.element = Some(idx);
            let arg = self.substitute_arg(pattern, &inner);
            parts.push(if self.is_pack_arg(&element) { self.expand_arg(arg, &element) } else { arg });
        }
        let is_value = matches!(pattern, GenericArg::Val(_));
        self.pack_of_args(is_value, parts).unwrap_or(GenericArg::Type(Ty::ERROR))
    }

    /// `expand arg` over the elements of `shape`.
    fn expand_arg(&mut self, arg: GenericArg, shape: &GenericArg) -> GenericArg {
        match arg {
            GenericArg::Type(ty) => GenericArg::Type(self.expand_of(ty, shape)),
            GenericArg::Val(val) => GenericArg::Val(self.expand_val(val, shape)),
        }
    }

    /// Substitutes arguments in `each pack`: the result is the current element of the expansion, if it is
    /// known.
    pub(crate) fn substitute_each(&mut self, pack: &GenericArg, env: &Subst) -> GenericArg {
        let pack = self.substitute_arg(pack, env);
        let elements = env.element.and_then(|idx| Some((idx, self.shape_elements(&pack)?)));
        let element = elements.and_then(|(idx, elements)| elements.get(idx).cloned());
        match element {
            Some(element) if !self.is_pack_arg(&element) => element,
            element => match element.unwrap_or(pack) {
                GenericArg::Type(ty) => GenericArg::Type(self.each_of(ty).unwrap_or(Ty::ERROR)),
                GenericArg::Val(val) => GenericArg::Val(self.each_val(val)),
            },
        }
    }

    /// Assigns explicit generic arguments to parameters; parameters without an argument get `None`. A pack
    /// takes the arguments that the others leave; several packs of a kind share these evenly.
    pub(crate) fn assign_generics(
        &mut self,
        params: &[DeclId],
        args: &[GenericArg],
    ) -> Option<Vec<Option<GenericArg>>> {
        let mut out = Vec::new();
        let mut at = 0;
        for (idx, &param) in params.iter().enumerate() {
            if self.opened.params.contains(&param) {
                // The type of a parameter of interface type is never given explicitly.
                out.push(None);
                continue;
            }
            if !self.is_pack_param(param) {
                out.push(args.get(at).cloned());
                at += usize::from(at < args.len());
                continue;
            }
            let later = &params[idx + 1..];
            let needed = later
                .iter()
                .filter(|&&p| {
                    !self.is_pack_param(p) && !self.opened.params.contains(&p) && !self.has_default(p)
                })
                .count();
            let value = self.is_value_param(param);
            let packs: Vec<bool> =
                later.iter().filter(|&&p| self.is_pack_param(p)).map(|&p| self.is_value_param(p)).collect();
            let left = args.len().saturating_sub(at).saturating_sub(needed);
            let take = if packs.is_empty() {
                left
            } else if packs.iter().all(|&v| v == value) {
                if left % (packs.len() + 1) != 0 {
                    return None;
                }
                left / (packs.len() + 1)
            } else {
                let fits = |arg: &&GenericArg| matches!(arg, GenericArg::Val(_)) == value;
                args[at..at + left].iter().take_while(fits).count()
            };
            if take == 0 && at >= args.len() {
                out.push(None);
                continue;
            }
            let arg = self.pack_arg(param, args[at..at + take].to_vec())?;
            out.push(Some(arg));
            at += take;
        }
        (at == args.len()).then_some(out)
    }

    /// Unifies a list with a pattern in which some elements are packs.
    pub(crate) fn unify_list(&mut self, a: &[Ty], b: &[Ty], params: &[DeclId], env: &mut Subst) -> bool {
        let n_packs = a.iter().filter(|&&t| self.is_pack(t)).count();
        if n_packs == 0 {
            return a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| self.unify(a, b, params, env));
        }
        let Some(left) = b.len().checked_sub(a.len() - n_packs) else { return false };
        if left % n_packs != 0 {
            return false;
        }
        let (take, mut at) = (left / n_packs, 0);
        for &pattern in a {
            let fits = if self.is_pack(pattern) {
                let pack = self.pack_of(b[at..at + take].to_vec());
                at += take;
                self.unify(pattern, pack, params, env)
            } else {
                at += 1;
                self.unify(pattern, b[at - 1], params, env)
            };
            if !fits {
                return false;
            }
        }
        true
    }

    /// Unifies each element of a pack with the pattern of an expansion; the arguments found for `each T` at
    /// the elements form the pack `T`.
    pub(crate) fn unify_expand(
        &mut self,
        pattern: Ty,
        shape: &GenericArg,
        pack: Ty,
        params: &[DeclId],
        env: &mut Subst,
    ) -> bool {
        let mut found: Vec<(DeclId, Vec<GenericArg>)> = Vec::new();
        let parts = self.elements(pack);
        for &part in &parts {
            let mut inner = Subst { this: env.this, ..Subst::default() };
            inner.map.extend(env.map.iter().filter(|m| !self.is_pack_param(m.0)).cloned());
            let known = inner.map.len();
            let several = self.is_pack(part);
            let element = if several { self.each_of(part).unwrap_or(Ty::ERROR) } else { part };
            if !self.unify(pattern, element, params, &mut inner) {
                return false;
            }
            for (param, arg) in inner.map.split_off(known) {
                if !self.is_pack_param(param) {
                    env.map.push((param, arg));
                    continue;
                }
                let arg = if several { self.expand_arg(arg, &GenericArg::Type(part)) } else { arg };
                match found.iter_mut().find(|f| f.0 == param) {
                    Some(entry) => entry.1.push(arg),
                    None => found.push((param, vec![arg])),
                }
            }
        }
        // The shape has the same number of elements, even if the elements do not determine it.
        let shape_param = match shape {
            GenericArg::Type(ty) => match self.types[*ty] {
                TyKind::Param(param) => Some(param),
                _ => None,
            },
            GenericArg::Val(Val::Param(param)) => Some(*param),
            GenericArg::Val(_) => None,
        };
        if let Some(param) = shape_param.filter(|p| params.contains(p))
            && !found.iter().any(|f| f.0 == param)
        {
            let ty = self.types.intern(TyKind::Param(param));
            let owner = self.scopes.param_owner.get(&param).copied();
            match owner.and_then(|owner| self.element_of_pack(owner, ty)) {
                Some(element) => found.push((param, vec![GenericArg::Type(element); parts.len()])),
                None if parts.is_empty() => found.push((param, Vec::new())),
                None => {}
            }
        }
        for (param, args) in found {
            if args.len() != parts.len() {
                return false;
            }
            let Some(arg) = self.pack_arg(param, args) else { return false };
            match env.get(param) {
                Some(bound) if *bound != arg => return false,
                Some(_) => {}
                None => env.map.push((param, arg)),
            }
        }
        true
    }

    /// Returns true if two types satisfy an equality constraint; for a pack, if each of its elements equals
    /// the other type.
    pub(crate) fn same_types(&self, a: Ty, b: Ty) -> bool {
        if a == b || a == Ty::ERROR || b == Ty::ERROR {
            return true;
        }
        match (&self.types[a], &self.types[b]) {
            (TyKind::Pack(parts), _) => parts.iter().all(|&part| part == b),
            (_, TyKind::Pack(parts)) => parts.iter().all(|&part| part == a),
            // The elements of the pack are not known yet.
            _ => self.is_pack(a) || self.is_pack(b),
        }
    }

    /// The type that a function's constraints give to each element of a pack.
    pub(crate) fn element_of_pack(&mut self, decl: DeclId, pack: Ty) -> Option<Ty> {
        let constraints = self.constraints_of(decl);
        let other = |&(a, b): &(Ty, Ty)| if a == pack { Some(b) } else { (b == pack).then_some(a) };
        constraints.equal.iter().find_map(other)
    }
}

impl Checker<'_> {
    /// Assigns arguments to parameters where some parameters are packs. A pack that is not known yet takes
    /// the arguments that the other parameters leave; several such packs share these evenly.
    pub(crate) fn group_arguments(
        &mut self,
        types: &[Ty],
        open: &[DeclId],
        n_args: usize,
        n_defaults: usize,
    ) -> Option<Groups> {
        let sizes: Vec<Option<usize>> = types
            .iter()
            .map(|&ty| {
                if !self.p.is_pack(ty) {
                    return Some(1);
                }
                let mut mentioned = Vec::new();
                self.p.params_in(ty, &mut mentioned);
                let is_open = mentioned.iter().any(|p| open.contains(p));
                (!is_open).then(|| self.p.elements(ty).len())
            })
            .collect();
        let fixed: usize = sizes.iter().flatten().sum();
        let n_open = sizes.iter().filter(|s| s.is_none()).count();
        let mut share = 0;
        if n_open > 0 {
            // Trailing parameters with defaults may be left out.
            let left =
                n_args.checked_sub(fixed).or(if n_args + n_defaults >= fixed { Some(0) } else { None })?;
            if left % n_open != 0 {
                return None;
            }
            share = left / n_open;
        }
        let mut groups = Groups::new();
        let mut at = 0;
        for size in sizes {
            let size = size.unwrap_or(share);
            if at == n_args && size > 0 {
                break;
            }
            if at + size > n_args {
                return None;
            }
            groups.push((at, size));
            at += size;
        }
        (at == n_args).then_some(groups)
    }

    /// Combines the arguments for one pack into a single argument of the pack's type, for matching with the
    /// parameter.
    pub(crate) fn packed_argument(&mut self, decl: DeclId, pack: Ty, given: &[Argument]) -> Option<Argument> {
        let element = self.p.element_of_pack(decl, pack);
        let known = self.p.elements(pack);
        let mut types = Vec::new();
        for (idx, arg) in given.iter().enumerate() {
            let Some(from) = arg.ty else {
                // A brace list takes the type of its element, if that is known.
                types.push(*known.get(idx).filter(|&&t| !self.p.is_pack(t))?);
                continue;
            };
            let to = match element {
                Some(element) if !self.p.is_pack(from) => element,
                _ => self.p.loaded(from),
            };
            types.push(to);
        }
        let ty = self.p.pack_of(types);
        let expr = given.first().map_or(self.placeholder, |a| a.expr);
        Some(Argument { expr, ty: Some(ty), source: Default::default(), lvalue: true })
    }

    /// The elements of `expand each t` as separate arguments, where the elements of `t` are known.
    pub(crate) fn spread(&mut self, expr: ExprId, ty: Ty) -> Option<Vec<Argument>> {
        let TyKind::Pack(parts) = self.p.types[ty].clone() else { return None };
        // An expression with side effects is evaluated once, as a pack.
        let Meaning::Expand { inner, .. } = self.p.tables.exprs[expr].meaning else { return None };
        let Meaning::Each(named) = self.p.tables.exprs[inner].meaning else { return None };
        let is_name = matches!(self.p.tables.exprs[named].meaning, Meaning::Var(_) | Meaning::Field { .. });
        if !is_name || self.p.known_count(ty).is_none() {
            return None;
        }
        let (span, lvalue) = (self.span(expr), self.p.tables.exprs[expr].lvalue);
        let mut out = Vec::new();
        for (idx, part) in parts.into_iter().enumerate() {
            let name = self.p.ast.symbols.intern(&format!("_{idx}"));
            let kind = ExprKind::Member { base: expr, name, name_span: span, arrow: false };
            let element = self.p.add_expr(kind, span);
            let meaning = Meaning::TupleField { base: expr, idx: idx as u32 };
            self.set(element, ExprInfo::new(part, meaning, lvalue));
            out.push(Argument { expr: element, ty: Some(part), source: Default::default(), lvalue });
        }
        Some(out)
    }

    /// `each e`: the current element of a pack in the surrounding expansion.
    pub(crate) fn infer_each(&mut self, expr: ExprId, inner: ExprId) -> Ty {
        self.infer_any(inner, None);
        let info = self.p.tables.exprs[inner].clone();
        let (shape, meaning) = match info.meaning {
            Meaning::Error => return self.set_error(expr),
            Meaning::Value(val) if self.p.is_val_pack(&val) => {
                (GenericArg::Val(val.clone()), Meaning::Value(self.p.each_val(val)))
            }
            Meaning::Type(_) => (GenericArg::Type(info.ty), Meaning::Type(info.ty)),
            _ => (GenericArg::Type(self.p.loaded(info.ty)), Meaning::Each(inner)),
        };
        let shape = match shape {
            GenericArg::Type(ty) => match self.p.types[ty].clone() {
                TyKind::Tuple(parts) => GenericArg::Type(self.p.pack_of(parts)),
                _ => GenericArg::Type(ty),
            },
            shape => shape,
        };
        let pack = match &shape {
            GenericArg::Type(ty) => *ty,
            GenericArg::Val(_) => info.ty,
        };
        let element = if self.p.is_pack(pack) { self.p.each_of(pack) } else { None };
        let Some(ty) = element else {
            let message = text!("'each' needs a pack or a tuple, got '{}'", self.name(info.ty));
            return self.fail(expr, "E30103", message);
        };
        match self.expanding.last_mut() {
            Some(shapes) => shapes.push(shape),
            None => {
                return self.fail(expr, "E30104", "'each' is only known inside an 'expand'");
            }
        }
        let meaning = if let Meaning::Type(_) = meaning { Meaning::Type(ty) } else { meaning };
        self.set(expr, ExprInfo::new(ty, meaning, info.lvalue))
    }

    /// `expand e`: `e` for each element of the packs in it.
    pub(crate) fn infer_expand(&mut self, expr: ExprId, inner: ExprId) -> Ty {
        self.expanding.push(Vec::new());
        self.infer_any(inner, None);
        let shapes = self.expanding.pop().unwrap_or_default();
        let info = self.p.tables.exprs[inner].clone();
        if let Meaning::Error = info.meaning {
            return self.set_error(expr);
        }
        let Some(shape) = shapes.into_iter().next() else {
            // A pack without `each` is itself the result.
            if self.p.is_pack(info.ty) {
                let meaning = match info.meaning {
                    Meaning::Type(_) | Meaning::Value(_) => info.meaning,
                    _ => Meaning::Same(inner),
                };
                return self.set(expr, ExprInfo::new(info.ty, meaning, info.lvalue));
            }
            return self.fail(expr, "E30105", "'expand' needs a pack: name one with 'each'");
        };
        if let Meaning::Func { .. } | Meaning::Namespace(_) = info.meaning {
            self.infer(inner, None);
            return self.set_error(expr);
        }
        let own = info.coerce.unwrap_or(info.ty);
        let ty = self.p.expand_of(own, &shape);
        let meaning = match info.meaning {
            Meaning::Type(_) => Meaning::Type(ty),
            _ => Meaning::Expand { inner, shape },
        };
        self.set(expr, ExprInfo::new(ty, meaning, info.lvalue))
    }
}
