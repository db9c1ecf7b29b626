//! Globals: constants are evaluated where they are used; all others are memory.

use check::Resolved;
use check::tables::{FuncRef, Meaning};
use check::types::{BufferKind, Ty, TyKind, Val};
use ir::{Global, GlobalData, MemData, Op, Space, Types, Value};
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, ExprId, Span};

use crate::body::Body;
use crate::declared::{FlatSig, Key, Variant};
use crate::entries::builtin_of;
use crate::lowerer::{Lowerer, ir_span};
use crate::places::Place;

impl Lowerer<'_> {
    /// The global of a declaration. `of` has the generic arguments of the declaration's container: each
    /// instance has its own global.
    pub(crate) fn global(&mut self, types: &mut Types, of: &FuncRef, ty: Ty) -> Option<Global> {
        if let Some(&global) = self.globals.get(of) {
            return global;
        }
        let global = self.new_global(types, of, ty);
        self.globals.insert(of.clone(), global);
        global
    }

    fn new_global(&mut self, types: &mut Types, of: &FuncRef, ty: Ty) -> Option<Global> {
        let decl = of.decl;
        let node = self.program.ast.decls[decl].clone();
        let span = node.name_span;
        let (space, element) = match () {
            _ if node.modifiers.has(Modifiers::GROUPSHARED) => (Space::GroupShared, ty),
            _ if node.modifiers.has(Modifiers::STATIC) => (Space::Private, ty),
            _ => self.space_of(ty),
        };
        let is_memory = matches!(space, Space::Private | Space::GroupShared);
        if is_memory && matches!(self.program.types[ty], TyKind::Buffer(..)) {
            self.unsupported(span, "a `static` or `groupshared` variable that holds a buffer is");
            return None;
        }
        if let TyKind::Array(element, None) = self.program.types[ty]
            && self.is_resource(element)
        {
            if !self.only_checks {
                let name = self.program.ast.name(node.name).to_owned();
                self.no_length(span, Some(&name));
            }
            return None;
        }
        if let Some(bad) = self.opaque_in(ty, is_memory, 0) {
            let name = self.program.type_name(bad);
            self.unsupported(span, format_args!("the type `{name}` is"));
            return None;
        }
        let mut mem = self.mem_type(types, element);
        if let (MemData::Handle(target), false) = (&self.mem[mem], is_memory) {
            let whole = self.whole_memory(types, *target);
            mem = self.mem.intern(MemData::Handle(whole));
        }
        let has_init = node.kind.init().is_some() && !self.is_set_when_reached(decl);
        // Zero-initialised memory would be read as a value of the first type.
        let is_open = space == Space::Private && self.layout(types, ty).leaves.iter().any(|leaf| leaf.is_tag);
        let init = if space == Space::Private && (has_init || is_open) {
            self.program.body(decl);
            let sig = FlatSig::returning(ty);
            let slot = |ty| ir::Slot { ty, diff: false, linear: false, name: None };
            let results = self.mem.leaves(types, mem).into_iter().map(slot).collect();
            Some(
                self.declare_flat(Key::Variant(of.clone(), Variant::GlobalInit), sig, Vec::new(), results)
                    .func,
            )
        } else {
            None
        };
        let name = self.program.ast.name(node.name).to_owned();
        let span = ir_span(span);
        Some(self.module.globals.push(GlobalData { name, space, ty: mem, init, span }))
    }

    /// Returns true if the initial value of a `static` variable of a function depends on the function's other variables:
    /// then the variable gets it when a thread first comes by its declaration, rather than when the thread begins.
    pub(crate) fn is_set_when_reached(&self, decl: DeclId) -> bool {
        let decls = &self.program.ast.decls;
        let is_local = |decl: DeclId| {
            decls[decl].parent.is_some_and(|parent| matches!(decls[parent].kind, DeclKind::Func { .. }))
        };
        let Some(init) = decls[decl].kind.init().filter(|_| is_local(decl)) else { return false };
        let mut exprs = vec![init];
        while let Some(expr) = exprs.pop() {
            match self.program.tables.exprs[expr].meaning {
                Meaning::This | Meaning::Field { base: None, .. } => return true,
                Meaning::Var(var) if is_local(var) && !decls[var].modifiers.has(Modifiers::STATIC) => {
                    return true;
                }
                _ => self.program.ast.exprs[expr].kind.operands(&mut exprs),
            }
        }
        false
    }

    /// The global that is true once a thread has come by the declaration of a `static` variable.
    fn reached_flag(&mut self, types: &mut Types, of: &FuncRef) -> Global {
        if let Some(&global) = self.reached.get(of) {
            return global;
        }
        let node = &self.program.ast.decls[of.decl];
        let (name, span) = (self.program.ast.name(node.name).to_owned(), ir_span(node.name_span));
        let ty = self.mem_type(types, Ty::BOOL);
        let name = format!("{name} is set");
        let global =
            self.module.globals.push(GlobalData { name, space: Space::Private, ty, init: None, span });
        self.reached.insert(of.clone(), global);
        global
    }

    /// The address space of what the host binds to a global of this type, and the type of its elements.
    pub(crate) fn space_of(&self, ty: Ty) -> (Space, Ty) {
        match self.program.types[ty] {
            TyKind::Buffer(BufferKind::RWStructuredBuffer, element) => (Space::ReadWrite, element),
            TyKind::Buffer(BufferKind::StructuredBuffer, element) => (Space::ReadOnly, element),
            TyKind::Buffer(BufferKind::ConstantBuffer | BufferKind::ParameterBlock, element) => {
                (Space::Uniform, element)
            }
            _ => (Space::Uniform, ty),
        }
    }

    /// Finds a type within a type that cannot be kept in memory.
    fn opaque_in(&mut self, ty: Ty, is_memory: bool, depth: u32) -> Option<Ty> {
        if depth > 16 {
            return None;
        }
        match self.program.types[ty].clone() {
            // The host cannot provide the index of a text.
            TyKind::String if !is_memory => Some(ty),
            TyKind::Opaque(..) => Some(ty),
            TyKind::Array(element, _) | TyKind::Buffer(_, element) => {
                self.opaque_in(element, is_memory, depth + 1)
            }
            TyKind::Struct(..) => {
                let fields = self.program.fields(ty);
                fields.into_iter().find_map(|(_, ty, _)| self.opaque_in(ty, is_memory, depth + 1))
            }
            _ => None,
        }
    }
}

impl Body<'_, '_, '_> {
    /// The place of a variable that is not a local.
    pub(crate) fn global_place(&mut self, e: ExprId, decl: DeclId, ty: Ty) -> Place {
        let span = self.span_of(e);
        let node = self.lw.program.ast.decls[decl].clone();
        let DeclKind::Var { init, semantic, .. } = node.kind else {
            let name = self.lw.program.ast.name(node.name).to_owned();
            let values = self.internal(span, format_args!("`{name}` is no variable"), ty);
            return Place::value(ty, values);
        };
        let is_const = node.modifiers.has(Modifiers::CONST) || node.modifiers.has(Modifiers::LET);
        let is_static = node.modifiers.has(Modifiers::STATIC);
        if init.is_none() && is_const && is_static && node.modifiers.has(Modifiers::EXTERN) {
            if self.lw.is_left_to_link(decl) {
                return Place::value(ty, self.zeros(ty));
            }
            // Zeros would be a value that was never given.
            let name = self.lw.program.ast.name(node.name).to_owned();
            let message = format!("`{name}` has no value");
            self.lw.error("E45001", node.name_span, message);
            self.lw.help(format!("give it a default, which others may replace: `{name} = …`"));
            return Place::value(ty, self.zeros(ty));
        }
        let is_shared = node.modifiers.has(Modifiers::GROUPSHARED);
        if let (Some(init), true, false) = (init, is_const, is_shared) {
            let values = self.constant(decl, init, ty, span);
            return Place::value(ty, values);
        }
        self.lw.program.body(decl);
        let declared = self.lw.program.decl_type(decl);
        let declared = self.ty(declared);
        let builtin = semantic.and_then(|s| builtin_of(self.lw.program.ast.name(s)));
        if let Some(builtin) = builtin {
            let values = self.thread_input(builtin, declared);
            return Place::value(ty, values);
        }
        if node.modifiers.has(Modifiers(Modifiers::IN.0 | Modifiers::OUT.0)) {
            let name = self.lw.program.ast.name(node.name).to_owned();
            let values =
                self.unsupported(span, format_args!("the global `{name}` of a graphics stage is"), ty);
            return Place::value(ty, values);
        }
        if let TyKind::Array(element, _) = self.lw.program.types[declared]
            && self.lw.program.is_dynamic_resource(element)
        {
            return Place::value(declared, Vec::new());
        }
        if !is_shared && !node.modifiers.has(Modifiers::STATIC) && self.lw.holds_buffers(declared) {
            let values = self.split_uniform(decl, "", declared, span);
            return Place::value(ty, values);
        }
        self.memory_place(decl, declared, ty, span)
    }

    /// The place of a static member of a generic type, or of one that an interface requires.
    pub(crate) fn static_member_place(&mut self, e: ExprId, member: &FuncRef, ty: Ty) -> Place {
        let span = self.span_of(e);
        let member = self.lw.program.substitute_func(member, &self.subst);
        let member = match self.lw.program.resolve_requirement(&member) {
            Resolved::Func(member) if !member.self_ty.is_some_and(|t| self.lw.program.is_existential(t)) => {
                member
            }
            Resolved::Func(_) | Resolved::Synthesized(..) | Resolved::Builtin(_) | Resolved::Unresolved => {
                let name = self.lw.program.ast.name(self.lw.program.ast.decls[member.decl].name).to_owned();
                let whose = member.self_ty.map_or(String::new(), |of| self.lw.program.type_name(of));
                let what = format_args!("the member `{name}` of `{whose}` is");
                let values = self.unsupported(span, what, ty);
                return Place::value(ty, values);
            }
        };
        // A recursion over a pack may name the rest's constant several times at each step: it is evaluated once.
        if self.lw.scalar_of(ty).is_some_and(|scalar| !scalar.is_float())
            && let Val::Int(value) = self.lw.program.constant_member(member.clone())
        {
            let values = self.integer(value, ty);
            return Place::value(ty, values);
        }
        let inner = self.lw.program.subst_of(&member);
        self.with_subst(inner, |body| body.global_place(e, member.decl, ty))
    }

    /// The place of a global in memory.
    pub(crate) fn memory_place(&mut self, decl: DeclId, declared: Ty, ty: Ty, span: Span) -> Place {
        let of = self.global_of(decl);
        let Some(global) = self.lw.global(self.b.types, &of, declared) else {
            let values = self.zeros(ty);
            return Place::value(ty, values);
        };
        let space = self.lw.module.globals[global].space;
        self.b.span = ir_span(span);
        let handle = self.global_handle(global);
        let is_handle = matches!(space, Space::ReadWrite | Space::ReadOnly)
            || matches!(
                self.lw.program.types[declared],
                TyKind::Buffer(BufferKind::ConstantBuffer | BufferKind::ParameterBlock, _)
            );
        if is_handle {
            return Place::value(ty, vec![handle]);
        }
        self.content_place(declared, handle)
    }

    /// Lowers the declaration of a `static` variable of a function: see [`Lowerer::is_set_when_reached`].
    pub(crate) fn set_when_reached(&mut self, decl: DeclId, init: ExprId) {
        let span = self.lw.program.ast.decls[decl].name_span;
        let of = self.global_of(decl);
        let declared = self.declared_ty(decl);
        let flag = self.lw.reached_flag(self.b.types, &of);
        let handle = self.global_handle(flag);
        let flag = self.content_place(Ty::BOOL, handle);
        let was = self.read(&flag)[0];
        let set = |body: &mut Self| {
            let yes = body.b.bool(true);
            body.write(&flag, vec![yes]);
            let values = body.expr_as(init, declared, span);
            let place = body.memory_place(decl, declared, declared, span);
            body.write(&place, values);
        };
        self.branch(was, |_| {}, set);
    }

    fn global_of(&mut self, decl: DeclId) -> FuncRef {
        let params = self.lw.program.all_generic_params(decl);
        let args = params.iter().filter_map(|&p| self.subst.get(p).cloned()).collect();
        FuncRef { decl, args, self_ty: None }
    }

    /// The handle of a global.
    pub(crate) fn global_handle(&mut self, global: Global) -> Value {
        let ty = self.b.types.buffer(self.lw.module.globals[global].ty);
        self.b.emit_typed(Op::GlobalRef(global), &[], ty)
    }

    /// The value of a `static const`.
    fn constant(&mut self, decl: DeclId, init: ExprId, ty: Ty, span: Span) -> Vec<Value> {
        // The members of different instances are different constants.
        let params = self.lw.program.all_generic_params(decl);
        let args = params.iter().filter_map(|&p| self.subst.get(p).cloned()).collect();
        let key = FuncRef { decl, args, self_ty: None };
        if self.open.constants.contains(&key) || self.open.constants.len() > 200 {
            let name = self.lw.program.ast.decl_name(decl);
            self.lw.error("E0906", span, format!("the constant `{name}` is defined by itself"));
            return self.zeros(ty);
        }
        self.lw.program.body(decl);
        self.open.constants.push(key);
        let declared = self.lw.program.decl_type(decl);
        let declared = self.ty(declared);
        let values = self.expr_as(init, declared, span);
        self.open.constants.pop();
        self.convert(values, declared, ty, span)
    }
}
