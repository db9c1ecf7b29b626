//! The body of one function: its variables as SSA values, and the joins of control flow.
//!
//! A local is a list of *slots* in the environment, one for each leaf of its type. A slot is a value, which
//! each assignment replaces, or a cell, which is used for arrays whose elements are written. The arms of an
//! `if` start from copies of the environment; the slots that differ afterwards become results of the `if`. A
//! cell is the same in every copy, so it never crosses a region.

use std::rc::Rc;

use check::signature::Subst;
use check::tables::FuncRef;
use check::types::{Ty, TyKind};
use ir::{Builder, Function, Op, Region, TypeData, Types, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::DeclKind;
use syntax::{DeclId, ExprId, Span, StmtId};

use crate::declared::{Declared, Key, Variant};
use crate::layout::Layout;
use crate::lowerer::{Lowerer, Making, ir_span};
use crate::places::Place;

/// The maximum nesting of statements and expressions; the stack of the driver's thread is large enough for
/// it.
pub(crate) const MAX_DEPTH: u32 = 3000;

/// The state of one leaf of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Value(Value),
    Cell(Value),
}

/// The slots of a variable in the environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Var {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) ty: Ty,
}

/// Identifies a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Decl(DeclId),
    This,
    /// The result of a `try`.
    Try(ExprId),
}

/// The state of building one function's body.
pub(crate) struct Body<'l, 'p, 't> {
    pub(crate) lw: &'l mut Lowerer<'p>,
    pub(crate) b: Builder<'t>,
    pub(crate) subst: Subst,
    substituted: FxHashMap<Ty, Ty>,
    pub(crate) env: Vec<Slot>,
    pub(crate) locals: Locals,
    pub(crate) exits: Exits,
    pub(crate) open: Open,
    /// The function that is being built, if it is a function of the source.
    pub(crate) func: Option<ir::Func>,
    pub(crate) ret_ty: Ty,
    /// The result of a constructor is `this`.
    pub(crate) is_init: bool,
    /// The place of `this` within a `ref` accessor.
    pub(crate) this_alias: Option<Place>,
    /// The current expression is under `no_diff`.
    pub(crate) detached: bool,
    /// The function is marked differentiable.
    pub(crate) differentiable: bool,
    /// Reads of values whose types have a custom `use` become calls of it.
    pub(crate) splits: bool,
    /// Maps words to the halves whose bits they hold.
    pub(crate) halves: FxHashMap<Value, Value>,
}

/// The variables of a function.
#[derive(Default)]
pub(crate) struct Locals {
    pub(crate) vars: FxHashMap<Name, Var>,
    /// Variables with an array of which an element is written.
    pub(crate) celled: FxHashSet<Name>,
    /// Variables whose address is taken.
    pub(crate) addressed: FxHashMap<DeclId, ExprId>,
    /// The values of indices that were evaluated where an address was taken, while its place is looked up.
    pub(crate) fixed: Vec<(ExprId, Value)>,
    /// The globals of addressed variables that have been declared.
    pub(crate) in_memory: FxHashMap<Name, (ir::Global, Ty)>,
    /// Parameters that are places in memory: its handle, and what is there.
    pub(crate) references: FxHashMap<Name, (Value, Ty)>,
}

/// The ways out of the statement that is being lowered.
#[derive(Default)]
pub(crate) struct Exits {
    /// The variable that holds the returned value. `returned` is the flag that `return` sets.
    pub(crate) ret: Option<Var>,
    pub(crate) returned: Flag,
    /// The variable that holds the optional error that leaves the function.
    pub(crate) thrown: Option<Var>,
    /// The loops and switches around, innermost last: targets of `break` and `continue`.
    pub(crate) targets: Vec<Target>,
    /// The labels around, outermost first.
    pub(crate) labels: Vec<Label>,
    /// The optional error of the last call of a function that throws.
    pub(crate) error: Vec<Value>,
    /// The `try`s of the next statement that have run.
    pub(crate) tried: Vec<ExprId>,
    pub(crate) flows: FxHashMap<StmtId, Flow>,
}

/// How control can leave a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Control continues with the next statement.
    pub(crate) falls: bool,
    pub(crate) breaks: bool,
    pub(crate) continues: bool,
    pub(crate) returns: bool,
    /// Control jumps to the ends of labelled statements, a bit for each level.
    pub(crate) labels: u32,
}

/// A flag that is set where control leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flag {
    /// The slot of its value.
    pub(crate) slot: usize,
    /// The number of constructs that read it; it is set only if there are any.
    pub(crate) readers: u32,
}

/// A loop or a switch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    pub(crate) is_loop: bool,
    /// The flag of `break`.
    pub(crate) broke: Flag,
    /// The flag of `continue`; for loops only.
    pub(crate) continued: Flag,
}

/// A statement that a `break` can name, or that catches errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    /// The flag that control has jumped to its end.
    pub(crate) flag: Flag,
    /// For each `catch`, the slots of its error.
    pub(crate) errors: Vec<Option<Var>>,
    /// The slot of the number of the `catch` that runs, and those of the errors.
    pub(crate) slots: std::ops::Range<usize>,
}

/// The constructs that are being lowered, to detect cycles and to bound nesting.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) depth: u32,
    /// The initial values of fields that are being lowered.
    pub(crate) defaults: Vec<ExprId>,
    /// The constants that are being evaluated, to detect cycles.
    pub(crate) constants: Vec<FuncRef>,
}

impl<'l, 'p, 't> Body<'l, 'p, 't> {
    pub(crate) fn new(lw: &'l mut Lowerer<'p>, types: &'t mut Types, subst: Subst, ret_ty: Ty) -> Self {
        Body {
            lw,
            b: Builder::new(types, ""),
            subst,
            substituted: FxHashMap::default(),
            env: Vec::new(),
            locals: Locals::default(),
            exits: Exits::default(),
            open: Open::default(),
            func: None,
            ret_ty,
            is_init: false,
            this_alias: None,
            detached: false,
            differentiable: false,
            splits: false,
            halves: FxHashMap::default(),
        }
    }

    /// Builds the body of a function of the source.
    pub(crate) fn build_source(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
        let Making { lw, types, declared } = making;
        let decl = lw.program.ast.decls[f.decl].clone();
        let Some(stmt) = lw.program.body_of(f.decl) else {
            let name = lw.func_name(f);
            let called = lw.called.get(&f.decl).copied();
            lw.error("E0902", called.unwrap_or(declared.span), format!("`{name}` has no body"));
            if called.is_some() {
                lw.note(declared.span, "declared here");
            }
            lw.help("give it a body; if it has derivatives only, call only these");
            return None;
        };
        let subst = lw.program.subst_of(f);
        let mut body = Body::new(lw, types, subst, declared.sig.ret);
        body.b.span = ir_span(declared.span);
        body.find_celled(stmt);
        body.func = Some(declared.func);
        let is_shared =
            |key: &Key| matches!(key, Key::Variant(_, Variant::Plain(shared)) if !shared.is_empty());
        body.differentiable = !body.lw.key_of(declared.func).is_some_and(is_shared)
            && body.lw.program.derivatives_of(f, check::View::default()).level != check::Level::None;
        body.splits = body.differentiable && !body.lw.program.is_use(f.decl);
        // Declare the parameters.
        let mut packs: Vec<(DeclId, Vec<Ty>, Vec<Value>)> = Vec::new();
        for decl in body.lw.program.params_of(f.decl) {
            let ty = body.lw.program.decl_type(decl);
            if body.lw.program.is_pack(ty) {
                packs.push((decl, Vec::new(), Vec::new()));
            }
        }
        for param in &declared.sig.params {
            let name = param.decl.map_or(Name::This, Name::Decl);
            let values: Vec<Value> = if param.is_input() {
                let slots = body.lw.slots(body.b.types, &param.name, param.ty, param.diff.as_deref());
                slots.into_iter().map(|slot| body.b.param(slot)).collect()
            } else {
                body.zeros(param.ty)
            };
            match packs.iter_mut().find(|p| param.in_pack && Some(p.0) == param.decl) {
                Some(pack) => {
                    pack.1.push(param.ty);
                    pack.2.extend(values);
                }
                None if param.is_reference => {
                    let of = match body.lw.program.types[param.ty] {
                        TyKind::Pointer(of, ..) => of,
                        _ => param.ty,
                    };
                    body.locals.references.insert(name, (values[0], of));
                }
                None => {
                    body.declare_var(name, param.ty, values);
                }
            }
        }
        for (decl, types, values) in packs {
            let ty = body.lw.program.pack_of(types);
            body.declare_var(Name::Decl(decl), ty, values);
        }
        body.exits.returned = body.new_flag(0);
        let zeros = body.zeros(declared.sig.ret);
        let (len, start) = (zeros.len(), body.new_slots(zeros));
        let ret = Var { start, len, ty: declared.sig.ret };
        body.exits.ret = Some(ret);
        body.exits.thrown = declared.sig.error.as_ref().map(|&(ty, _)| {
            let zeros = body.zeros(ty);
            let (len, start) = (zeros.len(), body.new_slots(zeros));
            Var { start, len, ty }
        });
        let is_init = matches!(decl.kind, DeclKind::Init { .. });
        body.is_init = is_init;
        if is_init {
            // `this` is a new value, and the result.
            let start = body.field_defaults(declared.sig.ret, declared.span);
            body.declare_var(Name::This, declared.sig.ret, start);
        }
        body.list(&[stmt]);
        // Collect the results.
        let ret = if is_init { body.locals.vars[&Name::This] } else { ret };
        let mut results = body.read_var(ret);
        let mut written = None;
        for param in declared.sig.params.iter().filter(|p| p.is_output()) {
            let name = param.decl.map_or(Name::This, Name::Decl);
            // The elements of a pack are one variable.
            if !param.in_pack || written != Some(name) {
                let values = match body.place_in_memory(name) {
                    Some(place) => body.read(&place),
                    None => body.read_var(body.locals.vars[&name]),
                };
                results.extend(values);
            }
            written = Some(name);
        }
        if let Some(thrown) = body.exits.thrown {
            results.extend(body.read_var(thrown));
        }
        body.finish(results, declared)
    }

    /// Builds the function that computes the initial value of a thread-local global.
    pub(crate) fn build_global_init(making: Making<'_, '_>, of: &FuncRef) -> Option<Function> {
        let Making { lw, types, declared } = making;
        let init = lw.program.ast.decls[of.decl].kind.init();
        let subst = lw.program.subst_of(of);
        let mut body = Body::new(lw, types, subst, declared.sig.ret);
        let values = match init {
            Some(init) => body.expr_as(init, declared.sig.ret, declared.span),
            None => body.default_value(declared.sig.ret, declared.span),
        };
        // The memory of a thread begins with null in the place of pointers.
        if values.iter().any(|&value| body.is_handle(value) && !body.is_zero(value)) {
            let what = "a `static` variable with a buffer or pointer in its initial value is";
            body.lw.unsupported(declared.span, what);
            body.lw.help("assign it in a function, before it is used");
        }
        let values = body.memory_leaves(declared.sig.ret, values, declared.span);
        body.finish(values, declared)
    }

    /// Returns true for a handle of memory, or an array of them.
    fn is_handle(&self, value: Value) -> bool {
        let mut ty = self.b.func.ty(value);
        while let TypeData::Array(element, _) = self.b.types[ty] {
            ty = element;
        }
        matches!(self.b.types[ty], TypeData::Buffer(_))
    }

    fn is_zero(&self, value: Value) -> bool {
        self.b.func.insts.values().any(|inst| matches!(inst.op, Op::Zero) && inst.results[0] == value)
    }

    // ---- types

    /// Substitutes this function's generic arguments in a type.
    pub(crate) fn ty(&mut self, ty: Ty) -> Ty {
        if let Some(&done) = self.substituted.get(&ty) {
            return done;
        }
        let done = self.lw.program.substitute(ty, &self.subst);
        let done = self.lw.program.types.bare(done);
        self.substituted.insert(ty, done);
        done
    }

    /// The type of an expression before the conversion that its context requires.
    pub(crate) fn raw_ty(&mut self, e: ExprId) -> Ty {
        let ty = self.lw.program.tables.exprs[e].ty;
        self.ty(ty)
    }

    /// The type of an expression as its context sees it.
    pub(crate) fn expr_ty(&mut self, e: ExprId) -> Ty {
        let info = &self.lw.program.tables.exprs[e];
        let ty = info.coerce.unwrap_or(info.ty);
        self.ty(ty)
    }

    pub(crate) fn layout(&mut self, ty: Ty) -> Rc<Layout> {
        self.lw.layout(self.b.types, ty)
    }

    /// Runs with other generic arguments, for expressions that belong to another declaration.
    pub(crate) fn with_subst<R>(&mut self, subst: Subst, run: impl FnOnce(&mut Self) -> R) -> R {
        if subst == self.subst {
            return run(self);
        }
        let subst = std::mem::replace(&mut self.subst, subst);
        let substituted = std::mem::take(&mut self.substituted);
        let result = run(self);
        self.subst = subst;
        self.substituted = substituted;
        result
    }

    // ---- problems

    pub(crate) fn span_of(&self, e: ExprId) -> Span {
        self.lw.program.ast.exprs[e].span
    }

    /// Reports an unsupported feature, and returns zeros so that lowering can continue.
    pub(crate) fn unsupported(&mut self, span: Span, what: impl std::fmt::Display, ty: Ty) -> Vec<Value> {
        self.lw.unsupported(span, what);
        self.zeros(ty)
    }

    pub(crate) fn internal(&mut self, span: Span, what: impl std::fmt::Display, ty: Ty) -> Vec<Value> {
        // The function may rely on something that is missing from the types it is instantiated with.
        self.lw.program.lacks(&self.subst);
        self.lw.internal(span, what);
        self.zeros(ty)
    }

    /// Lowers something one level of nesting deeper. Reports an error and returns `None` if that is too deep.
    pub(crate) fn nested<R>(&mut self, span: Span, lower: impl FnOnce(&mut Self) -> R) -> Option<R> {
        self.open.depth += 1;
        if self.open.depth == MAX_DEPTH {
            self.lw.error("E0903", span, "the program is nested too deeply here");
            self.lw.help("move a part of it into a function of its own");
        }
        let result = if self.open.depth < MAX_DEPTH { Some(lower(self)) } else { None };
        self.open.depth -= 1;
        result
    }

    // ---- values

    /// The types of the leaves of a type.
    pub(crate) fn leaf_types(&mut self, ty: Ty) -> Vec<ir::Type> {
        self.layout(ty).leaves.iter().map(|leaf| leaf.ty).collect()
    }

    /// Zeros for the leaves of a type.
    pub(crate) fn zeros(&mut self, ty: Ty) -> Vec<Value> {
        let layout = self.layout(ty);
        layout.leaves.iter().map(|leaf| self.b.zero(leaf.ty)).collect()
    }

    // ---- variables

    /// Finishes the function with these results. Returns `None` if they do not fit, which happens only after
    /// an error in the program.
    pub(crate) fn finish(self, results: Vec<Value>, declared: &Declared) -> Option<Function> {
        if !self.fit(&results, &declared.results) {
            self.lw.internal(declared.span, "what a function gives does not fit its results");
            return None;
        }
        Some(self.b.finish(results, declared.results.clone()))
    }

    /// Declares a variable. Its arrays are cells if elements of it are written.
    pub(crate) fn declare_var(&mut self, name: Name, ty: Ty, mut values: Vec<Value>) -> Var {
        let layout = self.layout(ty);
        if self.lw.has_errors() {
            self.fill(&mut values, ty);
        }
        if let Name::Decl(decl) = name
            && self.locals.addressed.contains_key(&decl)
        {
            self.declare_in_memory(decl, ty, &values);
            return Var { start: self.env.len(), len: 0, ty };
        }
        let var = Var { start: self.env.len(), len: values.len(), ty };
        let celled = self.locals.celled.contains(&name);
        let text: String = match name {
            Name::Decl(d) => self.lw.program.ast.decl_name(d).to_owned(),
            Name::This => "this".to_owned(),
            Name::Try(_) => "try".to_owned(),
        };
        for (k, value) in values.into_iter().enumerate() {
            let leaf = layout.leaves.get(k);
            let slot = if celled && leaf.is_some_and(|l| l.is_array) && self.is_data(value) {
                Slot::Cell(self.b.emit(Op::Local, &[value]))
            } else {
                Slot::Value(value)
            };
            if let Some(leaf) = leaf {
                let (Slot::Value(v) | Slot::Cell(v)) = slot;
                self.b.name(v, &format!("{text}{}", leaf.name));
            }
            self.env.push(slot);
        }
        self.locals.vars.insert(name, var);
        var
    }

    /// Returns true if a value consists of numbers (handles of buffers are never in cells).
    pub(crate) fn is_data(&self, value: Value) -> bool {
        self.b.types.scalar_of(self.b.func.ty(value)).is_some()
    }

    pub(crate) fn read_slot(&mut self, slot: usize) -> Value {
        match self.env[slot] {
            Slot::Value(v) => v,
            Slot::Cell(cell) => self.b.emit(Op::Load, &[cell]),
        }
    }

    pub(crate) fn read_var(&mut self, var: Var) -> Vec<Value> {
        (var.start..var.start + var.len).map(|slot| self.read_slot(slot)).collect()
    }

    /// Adds a flag to the environment.
    pub(crate) fn new_flag(&mut self, readers: u32) -> Flag {
        let value = self.b.bool(false);
        Flag { slot: self.new_slots([value]), readers }
    }

    /// Adds slots with these values to the environment; returns the first.
    pub(crate) fn new_slots(&mut self, values: impl IntoIterator<Item = Value>) -> usize {
        let start = self.env.len();
        self.env.extend(values.into_iter().map(Slot::Value));
        start
    }

    /// Replaces the values of slots.
    pub(crate) fn set_slots(&mut self, start: usize, values: impl IntoIterator<Item = Value>) {
        for (slot, value) in (start..).zip(values) {
            self.env[slot] = Slot::Value(value);
        }
    }

    /// Adds slots with zeros of these types, runs code that may set them, and returns their values.
    pub(crate) fn joined(
        &mut self,
        types: impl IntoIterator<Item = ir::Type>,
        run: impl FnOnce(&mut Self, usize),
    ) -> Vec<Value> {
        let zeros: Vec<Value> = types.into_iter().map(|ty| self.b.zero(ty)).collect();
        let slots = self.env.len()..self.env.len() + zeros.len();
        self.new_slots(zeros);
        run(self, slots.start);
        let values = slots.clone().map(|slot| self.read_slot(slot)).collect();
        self.env.truncate(slots.start);
        values
    }

    // ---- joining

    /// Opens a region, runs `run`, and closes the region without results. Returns the environment at the end;
    /// the current environment is restored.
    pub(crate) fn arm(&mut self, run: impl FnOnce(&mut Self)) -> (Region, Vec<Slot>) {
        let before = self.env.clone();
        let region = self.b.open();
        run(self);
        self.b.close(Vec::new());
        let mut after = std::mem::replace(&mut self.env, before);
        after.truncate(self.env.len());
        (region, after)
    }

    /// Makes the slots that differ between arms results of the op, and updates the environment.
    pub(crate) fn join(&mut self, op: Op, args: &[Value], arms: &[(Region, Vec<Slot>)]) {
        let mut changed = Vec::new();
        for slot in 0..self.env.len() {
            let first = arms[0].1[slot];
            let differ = arms.iter().any(|arm| arm.1[slot] != first);
            // A value of an arm's own region must leave it as a result even if all arms agree.
            if differ || first != self.env[slot] {
                changed.push(slot);
            }
        }
        for (region, after) in arms {
            let results = changed.iter().map(|&slot| match after[slot] {
                Slot::Value(v) | Slot::Cell(v) => v,
            });
            self.b.func.regions[*region].results = results.collect();
        }
        let regions: Vec<Region> = arms.iter().map(|arm| arm.0).collect();
        let results = self.b.nest(op, args, &regions);
        for (&slot, value) in changed.iter().zip(results) {
            let (Slot::Value(old) | Slot::Cell(old)) = self.env[slot];
            self.keep_name(old, value);
            self.env[slot] = Slot::Value(value);
        }
    }

    /// Gives a variable's new value the name of the old one, for printing.
    pub(crate) fn keep_name(&mut self, old: Value, new: Value) {
        if let Some(name) = self.b.func.values[old].name.clone() {
            self.b.name(new, &name);
        }
    }

    /// Lowers `if (cond) then else otherwise`.
    pub(crate) fn branch(
        &mut self,
        cond: Value,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let span = self.b.span;
        let arms = [self.arm(then), self.arm(otherwise)];
        self.b.span = span;
        self.join(Op::If, &[cond], &arms);
    }

    /// Lowers an `if` that yields values.
    pub(crate) fn choose(
        &mut self,
        cond: Value,
        ty: Ty,
        then: impl FnOnce(&mut Self) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let types = self.leaf_types(ty);
        let n = types.len();
        let put = |body: &mut Self, start: usize, values: Vec<Value>| {
            body.set_slots(start, values.into_iter().take(n));
        };
        self.joined(types, |body, start| {
            body.branch(
                cond,
                |body| {
                    let values = then(body);
                    put(body, start, values);
                },
                |body| {
                    let values = otherwise(body);
                    put(body, start, values);
                },
            );
        })
    }
}
