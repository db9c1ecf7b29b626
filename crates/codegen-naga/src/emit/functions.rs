//! Emits functions, entry points and calls.

use ir::{
    Builtin, Entry, Func, Global, Inst, InstData, MemData, MemType, Path, Scalar, Slot, Step, Type, TypeData,
    Value,
};
use naga::{BuiltIn, EntryPoint, Handle, ShaderStage, StructMember};

use super::{Buffer, Emitter, Held, Res, Role};
use crate::build::{Code, Expr};
use crate::module::{Cx, Emitted};
use crate::names::plain;
use crate::plan::{Arg, Base};
use crate::transfer::Spot;

/// The maximum number of parameters of a function: the limit of SPIR-V and WGSL, less the inputs that
/// identify the thread.
const MOST_PARAMS: usize = 255 - 5;

/// For a handle, which numbers must be passed at run time: the number of its buffer, and its offset. `None`
/// if the value is not a handle.
fn handle_parts(arg: &Arg) -> Option<(bool, bool)> {
    match arg {
        Arg::Handle(set, moved) => Some((set.len() > 1, *moved)),
        _ => None,
    }
}

/// The name, the naga built-in and the number of lanes of a built-in input.
fn builtin_name(builtin: Builtin) -> (&'static str, BuiltIn, u32) {
    match builtin {
        Builtin::DispatchThreadId => ("thread_id", BuiltIn::GlobalInvocationId, 3),
        Builtin::GroupId => ("group_id", BuiltIn::WorkGroupId, 3),
        Builtin::GroupThreadId => ("local_id", BuiltIn::LocalInvocationId, 3),
        Builtin::GroupIndex => ("local_index", BuiltIn::LocalInvocationIndex, 1),
        Builtin::GroupSize => ("group_size", BuiltIn::WorkGroupSize, 3),
    }
}

impl<'m> Cx<'m> {
    /// The naga function of an instance, emitted on first use.
    pub(crate) fn function(&mut self, instance: usize) -> Res<Emitted> {
        if let Some(found) = &self.emitted[instance] {
            return Ok(found.clone());
        }
        let func = self.plan.instances[instance].func.expect("an instance has a function");
        let module = self.ir;
        let f = &module.funcs[func];
        let name = self.names.unique(f.name.strip_suffix(":entry").unwrap_or(&f.name));
        self.comment(&name, &f.name, f.span);
        let mut e = Emitter::new(self, instance, f, Code::new(&name));
        let packed = e.params(instance, &name)?;
        e.region(f.body())?;
        e.ret(instance, &name)?;
        let builtins = e.builtins.iter().map(|b| b.0).collect();
        let code = e.code;
        let handle = self.add_function(code);
        let emitted = Emitted { handle, builtins, packed };
        self.emitted[instance] = Some(emitted.clone());
        Ok(emitted)
    }

    /// Emits an entry point.
    pub(crate) fn entry(&mut self, instance: usize, entry: &Entry, skips_first: bool) -> Res {
        if let Some(pipeline) = &entry.pipeline {
            return self.stage(instance, entry, pipeline);
        }
        let module = self.ir;
        let f = &module.funcs[entry.func];
        self.comment(&entry.name, &entry.name, f.span);
        let group_size = entry.group_size;
        let mut e = Emitter::new(self, instance, f, Code::new(&entry.name));
        e.role = Role::Kernel(group_size);
        e.region(f.body())?;
        e.probe_at_end();
        e.prologue(skips_first)?;
        e.write_failure();
        let code = e.code;
        self.out.entry_points.push(EntryPoint {
            name: entry.name.clone(),
            stage: ShaderStage::Compute,
            early_depth_test: None,
            workgroup_size: group_size,
            workgroup_size_overrides: None,
            function: code.finish(),
            mesh_info: None,
            task_payload: None,
            incoming_ray_payload: None,
        });
        Ok(())
    }

    /// The type that a function returns: its only result, or a struct of its results.
    fn result_type(&mut self, instance: usize, name: &str) -> Res<Option<(Handle<naga::Type>, usize)>> {
        let func: Func = self.plan.instances[instance].func.expect("an instance has a function");
        let module = self.ir;
        let f = &module.funcs[func];
        let args = self.plan.instances[instance].results.clone();
        let mut list: Vec<(String, Handle<naga::Type>)> = Vec::new();
        for (slot, arg) in f.results.iter().zip(&args) {
            list.extend(self.passed(slot, arg, "result", f.span)?);
        }
        Ok(match list.len() {
            0 => None,
            1 => Some((list[0].1, 1)),
            n => Some((self.record(&format!("{name}_results"), list), n)),
        })
    }

    /// The names and types of the expressions that are passed for a parameter or result.
    fn passed(
        &mut self,
        slot: &Slot,
        arg: &Arg,
        unnamed: &str,
        span: ir::Span,
    ) -> Res<Vec<(String, Handle<naga::Type>)>> {
        let name = slot.name.as_deref().map_or(unnamed.to_string(), plain);
        let Some((which, at)) = handle_parts(arg) else {
            let shape = if let Arg::Stack(shape) = arg { &shape[..] } else { &[] };
            return Ok(vec![(name, self.value_type(slot.ty, shape, span)?)]);
        };
        let uint = self.lanes_type(Scalar::U32, 1);
        let which = which.then(|| (format!("{name}_which"), uint));
        let at = at.then(|| (format!("{name}_at"), uint));
        Ok(which.into_iter().chain(at).collect())
    }

    /// A struct of fields of these types, with names made unique.
    fn record(&mut self, name: &str, fields: Vec<(String, Handle<naga::Type>)>) -> Handle<naga::Type> {
        let mut names = crate::names::Names::default();
        let (mut members, mut at, mut most) = (Vec::new(), 0u32, 1u32);
        for (wanted, ty) in fields {
            let (size, align) = self.natural(ty);
            at = at.next_multiple_of(align);
            members.push(StructMember { name: Some(names.unique(&wanted)), ty, binding: None, offset: at });
            at += size;
            most = most.max(align);
        }
        self.structure(name, members, at.next_multiple_of(most))
    }
}

impl<'m> Emitter<'_, 'm> {
    /// Adds the parameters of an instance, packed into a struct if there are more than a function can have;
    /// returns the type of that struct.
    fn params(&mut self, instance: usize, name: &str) -> Res<Option<Handle<naga::Type>>> {
        let args = self.cx.plan.instances[instance].params.clone();
        let f = self.f;
        let (mut names, mut list) = (crate::names::Names::default(), Vec::new());
        for (slot, arg) in f.params.iter().zip(&args) {
            if handle_parts(arg).is_none() && crate::plan::holds_handle(self.cx.ir, slot.ty) {
                let name = slot.name.as_deref().map_or("a".to_string(), plain);
                let what = format!("the parameter `{name}`, an array of buffers");
                return self.refuse(what, "functions take no such arrays", f.span);
            }
            let passed = self.cx.passed(slot, arg, "a", f.span)?;
            list.extend(passed.into_iter().map(|(name, ty)| (names.unique(&name), ty)));
        }
        let packed =
            (list.len() > MOST_PARAMS).then(|| self.cx.record(&format!("{name}_params"), list.clone()));
        let whole = packed.map(|ty| self.code.param("params", ty, None));
        let mut given = Vec::new();
        for (k, (name, ty)) in list.into_iter().enumerate() {
            let e = match whole {
                Some(whole) => self.code.part(whole, k as u32),
                None => self.code.param(&name, ty, None),
            };
            given.push((name, ty, e));
        }
        let mut given = given.into_iter();
        let mut next = || given.next().expect("every part of a parameter is given");
        for ((slot, arg), &v) in f.params.iter().zip(&args).zip(&f.regions[f.body()].params) {
            if let Some((which, moved)) = handle_parts(arg) {
                let (which, at) = (which.then(|| next().2), moved.then(|| next().2));
                self.values[v] = Held::Buffer(Buffer { bases: self.bases_of(v), which, at });
                continue;
            }
            let (name, ty, e) = next();
            if let TypeData::Stack(_) = self.types[slot.ty] {
                let place = self.code.local(&name, ty);
                self.code.store(place, e);
                self.values[v] = Held::Place(place);
            } else {
                self.set(v, e)?;
            }
        }
        Ok(packed)
    }

    /// Ends the function by returning the results of its body.
    fn ret(&mut self, instance: usize, name: &str) -> Res {
        let results = &self.f.regions[self.f.body()].results;
        let args = self.cx.plan.instances[instance].results.clone();
        let mut parts = Vec::new();
        for (&v, arg) in results.iter().zip(&args) {
            self.pass(v, arg, &mut parts);
        }
        match self.cx.result_type(instance, name)? {
            None => {}
            Some((ty, 1)) => {
                self.code.result(ty);
                self.code.ret(parts.first().copied());
            }
            Some((ty, _)) => {
                self.code.result(ty);
                let all = self.code.compose(ty, parts);
                self.code.ret(Some(all));
            }
        }
        Ok(())
    }

    /// Appends the expressions that are passed for a value.
    fn pass(&mut self, v: Value, arg: &Arg, parts: &mut Vec<Expr>) {
        if let Arg::Handle(set, moved) = arg {
            let buffer = self.buffer(v);
            let (which, at) = self.widen(&buffer, set);
            parts.extend((set.len() > 1).then_some(which));
            parts.extend(moved.then_some(at));
        } else {
            parts.push(self.get(v));
        }
    }

    pub(super) fn call(&mut self, inst: Inst) -> Res {
        let data: &'m InstData = &self.f.insts[inst];
        let callee = self.cx.plan.instances[self.instance].calls[&inst];
        let emitted = self.cx.function(callee)?;
        let params = self.cx.plan.instances[callee].params.clone();
        let mut args = Vec::new();
        for (&v, arg) in data.args.iter().zip(&params) {
            self.pass(v, arg, &mut args);
        }
        if let Some(ty) = emitted.packed {
            args = vec![self.code.compose(ty, args)];
        }
        for builtin in emitted.builtins {
            let e = self.builtin(builtin)?;
            args.push(e);
        }
        let results = self.cx.plan.instances[callee].results.clone();
        let n: usize =
            results.iter().map(|r| handle_parts(r).map_or(1, |(w, a)| w as usize + a as usize)).sum();
        let whole = self.code.call(emitted.handle, args, n > 0);
        let mut at = 0;
        let mut part = |e: &mut Self| {
            let whole = whole.expect("the function has results");
            at += 1;
            if n == 1 { whole } else { e.code.part(whole, at - 1) }
        };
        for (&v, arg) in data.results.iter().zip(&results) {
            match (handle_parts(arg), arg) {
                (Some((which, moved)), Arg::Handle(set, _)) => {
                    let which = if which { Some(part(self)) } else { None };
                    let at = if moved { Some(part(self)) } else { None };
                    self.values[v] = Held::Buffer(Buffer { bases: set.clone(), which, at });
                }
                _ => {
                    let e = part(self);
                    if self.uses[v] == 0 {
                        continue;
                    }
                    if let TypeData::Stack(_) = self.types[self.ty(v)] {
                        let place = self.variable(v, self.ty(v))?;
                        self.code.store(place, e);
                        self.values[v] = Held::Place(place);
                    } else {
                        self.set(v, e)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A built-in input: a parameter of the entry point, or of a function that receives it from its caller.
    pub(super) fn builtin(&mut self, builtin: Builtin) -> Res<Expr> {
        if let Some(found) = self.builtins.iter().find(|b| b.0 == builtin) {
            return Ok(found.1);
        }
        let (name, naga, n) = builtin_name(builtin);
        let ty = self.cx.lanes_type(Scalar::U32, n);
        let e = match (self.role, builtin) {
            (Role::Kernel(size), Builtin::GroupSize) => {
                let parts = size.iter().map(|&n| self.code.u32(n)).collect();
                return Ok(self.code.compose(ty, parts));
            }
            (Role::Kernel(_), _) => self.code.param(name, ty, Some(naga)),
            (Role::Function, _) => self.code.param(name, ty, None),
            (Role::Stage(stage), _) => {
                let what = format!("the number of a thread in a {} stage", stage.name());
                return self.refuse(what, "only kernels have threads in groups", self.f.span);
            }
        };
        self.builtins.push((builtin, e));
        Ok(e)
    }

    /// The number of groups of the dispatch in each direction.
    pub(super) fn group_counts(&mut self) -> Expr {
        if let Some(found) = self.group_counts {
            return found;
        }
        let ty = self.cx.lanes_type(Scalar::U32, 3);
        let counts = self.code.param("group_counts", ty, Some(BuiltIn::NumWorkGroups));
        self.group_counts = Some(counts);
        counts
    }

    /// Emits the end of an entry point, which reports the thread's first failure to the host.
    pub(super) fn write_failure(&mut self) {
        let Some(failed) = self.cx.reports.failed_site else { return };
        let write = self.cx.write_error();
        let place = self.code.expr(naga::Expression::GlobalVariable(failed));
        let (site, zero) = (self.code.load(place), self.code.u32(0));
        let has_failed = self.code.binary(naga::BinaryOperator::NotEqual, site, zero);
        self.code.when(has_failed, |c| c.run(write, vec![site]));
    }

    /// Emits the prologue of an entry point, which initialises the thread's own globals and zeroes
    /// group-shared memory.
    fn prologue(&mut self, skips_first: bool) -> Res {
        let inits = self.cx.initialisers(self.instance);
        for &(_, instance) in &inits {
            self.cx.function(instance)?;
        }
        let (thread, slot) = (self.cx.thread, self.cx.slot_number);
        let zeroes = !self.cx.zeroed().is_empty();
        let subgroups = self.cx.waves.uses_subgroups;
        if !subgroups && inits.is_empty() && thread.is_none() && slot.is_none() && !skips_first && !zeroes {
            return Ok(());
        }
        let counts = (slot.is_some() || skips_first).then(|| self.group_counts());
        let group = if counts.is_some() { Some(self.builtin(Builtin::GroupId)?) } else { None };
        let wants_index = slot.is_some() || zeroes || subgroups;
        let index = if wants_index { Some(self.builtin(Builtin::GroupIndex)?) } else { None };
        let id = match thread {
            Some(_) => Some(self.builtin(Builtin::DispatchThreadId)?),
            None => None,
        };
        let lanes = subgroups.then(|| {
            let ty = self.cx.lanes_type(Scalar::U32, 1);
            self.code.param("subgroup_size", ty, Some(BuiltIn::SubgroupSize))
        });
        let body = self.code.enter();
        if let (true, Some(group), Some(counts)) = (skips_first, group, counts) {
            self.skip_first(group, counts);
        }
        if let (Some(thread), Some(id)) = (thread, id) {
            let place = self.code.expr(naga::Expression::GlobalVariable(thread));
            self.code.store(place, id);
        }
        if let (Some(slot), Some(group), Some(index), Some(counts)) = (slot, group, index, counts) {
            use naga::BinaryOperator::{Add, Multiply};
            let [x, y, z] = [0, 1, 2].map(|k| self.code.part(group, k));
            let [width, height] = [0, 1].map(|k| self.code.part(counts, k));
            let row = self.code.binary(Multiply, z, height);
            let row = self.code.binary(Add, row, y);
            let number = self.code.binary(Multiply, row, width);
            let number = self.code.binary(Add, number, x);
            let size = if let Role::Kernel(size) = self.role { size.iter().product() } else { 1 };
            let size = self.code.u32(size);
            let number = self.code.binary(Multiply, number, size);
            let number = self.code.binary(Add, number, index);
            let place = self.code.expr(naga::Expression::GlobalVariable(slot));
            self.code.store(place, number);
        }
        if let (Some(lanes), Some(index)) = (lanes, index) {
            self.check_subgroups(lanes, index);
        }
        if let (true, Some(index)) = (zeroes, index) {
            self.zero_shared(index)?;
        }
        self.initialise(inits)?;
        self.code.append(body);
        Ok(())
    }

    /// Initialises private globals by the instances of their initialisers.
    pub(super) fn initialise(&mut self, inits: Vec<(Global, usize)>) -> Res {
        for (global, instance) in inits {
            let emitted = self.cx.function(instance)?;
            let mut args = Vec::new();
            for builtin in emitted.builtins {
                let e = self.builtin(builtin)?;
                args.push(e);
            }
            let module = self.cx.ir;
            let results = self.cx.plan.instances[instance].results.len();
            let func = self.cx.plan.instances[instance].func.expect("an instance has a function");
            let whole = self.code.call(emitted.handle, args, results > 0);
            let Some(whole) = whole else { continue };
            let mut leaves = Vec::new();
            for (k, slot) in module.funcs[func].results.iter().enumerate() {
                let e = if results == 1 { whole } else { self.code.part(whole, k as u32) };
                leaves.push((e, slot.ty));
            }
            let ty = module.globals[global].ty;
            self.store_leaves(Base::Global(global), ty, &mut Vec::new(), &leaves)?;
        }
        Ok(())
    }

    /// Returns early from the first group of several, which is dispatched alone later.
    fn skip_first(&mut self, group: Expr, counts: Expr) {
        use naga::BinaryOperator::{Equal, InclusiveOr, LogicalAnd, NotEqual};
        let parts: Vec<Expr> = (0..3).map(|k| self.code.part(group, k)).collect();
        let any = self.code.binary(InclusiveOr, parts[0], parts[1]);
        let any = self.code.binary(InclusiveOr, any, parts[2]);
        let zero = self.code.u32(0);
        let first = self.code.binary(Equal, any, zero);
        let counts: Vec<Expr> = (0..3).map(|k| self.code.part(counts, k)).collect();
        // Counts are never zero, so their bitwise or is 1 exactly if all of them are 1.
        let all = self.code.binary(InclusiveOr, counts[0], counts[1]);
        let all = self.code.binary(InclusiveOr, all, counts[2]);
        let one = self.code.u32(1);
        let several = self.code.binary(NotEqual, all, one);
        let skips = self.code.binary(LogicalAnd, first, several);
        self.code.when(skips, |c| c.ret(None));
    }

    /// Stores values to the leaves of a memory type.
    fn store_leaves(
        &mut self,
        base: Base,
        ty: MemType,
        path: &mut Vec<Step>,
        leaves: &[(Expr, Type)],
    ) -> Res {
        let module = self.cx.ir;
        let has_struct = |mut t: MemType| loop {
            match &module.mem[t] {
                MemData::Struct { .. } => break true,
                MemData::Array(inner, _) => t = *inner,
                _ => break false,
            }
        };
        match &module.mem[ty] {
            MemData::Struct { fields, .. } => {
                let mut at = 0;
                for (k, field) in fields.iter().enumerate() {
                    let n = module.mem.n_leaves(field.1);
                    path.push(Step::Static(k as u32));
                    self.store_leaves(base, field.1, path, &leaves[at..at + n])?;
                    path.pop();
                    at += n;
                }
                Ok(())
            }
            MemData::Array(element, n) if has_struct(*element) => {
                for k in 0..*n {
                    let parts: Vec<(Expr, Type)> = leaves
                        .iter()
                        .map(|&(e, t)| (self.code.part(e, k), self.types.element(t).unwrap_or(t)))
                        .collect();
                    path.push(Step::Static(k));
                    self.store_leaves(base, *element, path, &parts)?;
                    path.pop();
                }
                Ok(())
            }
            _ => {
                let Some(&(value, leaf)) = leaves.first() else { return Ok(()) };
                let path = Path(path.clone().into());
                let span = self.f.span;
                if self.cx.slots[&base].raw {
                    return self.refuse("a global that is seen as bytes and has a first value", "", span);
                }
                let at = self.cx.place_in(&mut self.code, base, &path, &[]);
                self.cx.transfer(&mut self.code, Spot::Typed(at), leaf, Some(value), span).map(drop)
            }
        }
    }
}
