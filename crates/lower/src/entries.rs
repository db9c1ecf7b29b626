//! Entry points, and functions that the host calls.

use check::Direction;
use check::tables::{Callable, FuncRef, Meaning};
use check::types::{Ty, TyKind};
use ir::{Builtin, Entry, Function, Op, Scalar, Type, Types, Value};
use syntax::ast::{ExprKind, Modifiers};
use syntax::{DeclId, Span, Symbol};

use crate::body::Body;
use crate::declared::{FlatParam, FlatSig, Key};
use crate::lowerer::{Lowerer, Making};
use crate::request::{FunctionInfo, ParamInfo, Request, Step};

/// The kind of pipeline that a stage is a part of, if no code can be made of it.
fn missing_pipeline(stage: &str) -> Option<&'static str> {
    match stage {
        "geometry" => Some("geometry shaders"),
        "hull" | "domain" | "tesscontrol" | "tesseval" => Some("tessellation shaders"),
        "mesh" | "amplification" | "task" => Some("mesh shaders"),
        "node" => Some("work graphs"),
        "raygen" | "raygeneration" | "intersection" | "anyhit" | "closesthit" | "miss" | "callable"
        | "ser_raygen" | "ser_motion_raygen" => Some("ray tracing"),
        _ => None,
    }
}

impl Lowerer<'_> {
    /// Declares an entry point.
    pub(crate) fn entry(&mut self, types: &mut Types, decl: DeclId) {
        let name = self.program.ast.name(self.program.ast.decls[decl].name).to_owned();
        let group_size = self.group_size(decl);
        if self.program.ast.throws.contains_key(&decl) {
            let span = self.program.name_span(decl);
            self.unsupported(span, "an entry point that throws is");
            self.help("nothing is there to catch the error: call the function in a `do` with a `catch`");
        }
        if let Some(stage) = self.program.stage(decl)
            && let Some(pipeline) = missing_pipeline(&stage)
        {
            let span = self.program.name_span(decl);
            self.needs_pipeline(span, &format!("[shader(\"{stage}\")]"), pipeline);
        }
        let sig = FlatSig::returning(Ty::VOID);
        let entry = match self.stage(decl) {
            Some(stage) => {
                let (pipeline, params, results) = self.pipeline(types, decl, stage);
                let func = self.declare_flat(Key::Entry(decl), sig, params, results).func;
                Entry { pipeline: Some(pipeline), ..Entry::kernel(name, func, [1; 3]) }
            }
            None => {
                let func = self.declare_flat(Key::Entry(decl), sig, Vec::new(), Vec::new()).func;
                Entry::kernel(name, func, group_size)
            }
        };
        self.module.entries.push(entry);
    }

    /// Returns true if the four threads of a quad, between which `ddx` and `ddy` take differences, follow each other in a
    /// group, and false if they are a square. `[DerivativeGroupLinear]` and `[DerivativeGroupQuad]` on an entry point
    /// say which; otherwise they are squares unless the group is a single row.
    ///
    /// The threads of a wave follow each other, so a square has to be within 32 of them.
    pub(crate) fn quads_are_rows(&mut self) -> bool {
        let keys = self.declared.keys();
        let entries: Vec<DeclId> =
            keys.filter_map(|key| if let Key::Entry(decl) = key { Some(*decl) } else { None }).collect();
        let mut found = None;
        for decl in entries {
            let [x, y, z] = self.group_size(decl);
            let has = |p: &Lowerer, name: &str| p.program.attribute(decl, name).is_some();
            let rows =
                has(self, "DerivativeGroupLinear") || !has(self, "DerivativeGroupQuad") && (y, z) == (1, 1);
            let span = self.program.ast.decls[decl].name_span;
            if self.stage(decl).is_some() {
                self.needs_pipeline(span, "ddx", "the quads of pixel shaders");
                continue;
            }
            if !rows && !matches!(x, 2 | 4 | 8 | 16) {
                let what = format!("`ddx` and `ddy` in squares of threads whose group has rows of {x} are");
                self.unsupported(span, format_args!("{what}"));
                self.help(
                    "rows of 2, 4, 8 or 16 threads are, and `[DerivativeGroupLinear]` on the entry point is",
                );
            }
            if found.is_some_and(|found| found != rows) {
                let what =
                    "`ddx` and `ddy` in a function of entry points whose quads are of different shapes are";
                self.unsupported(span, format_args!("{what}"));
            }
            found = Some(rows);
        }
        found.unwrap_or(true)
    }

    /// Returns true if an expression is the name of a constant that gets its value later: when the program is linked, or
    /// when a pipeline is made of its code.
    fn is_given_later(&self, e: syntax::ExprId) -> bool {
        match self.program.tables.exprs[e].meaning {
            Meaning::Var(decl) => {
                self.program.ast.decls[decl].modifiers.has(Modifiers::EXTERN)
                    || self.program.is_specialized(decl)
            }
            _ => false,
        }
    }

    /// The value of `[numthreads(x, y, z)]`, or of the file's `layout(local_size_x = x, …) in;`; missing numbers
    /// are 1.
    fn group_size(&mut self, decl: DeclId) -> [u32; 3] {
        let mut size = [1; 3];
        let attribute = self.program.attribute(decl, "numthreads").cloned();
        let (args, whole) = match attribute {
            Some(attribute) => {
                let args = attribute.args.iter().enumerate().take(3);
                (args.map(|(k, &arg)| (k, arg)).collect::<Vec<_>>(), attribute.span)
            }
            None => {
                let args = self.program.local_size(decl).into_iter().enumerate();
                let args: Vec<_> = args.filter_map(|(k, arg)| Some((k, arg?))).collect();
                let Some(&(_, first)) = args.first() else { return self.default_group_size };
                let span = self.program.ast.exprs[first].span;
                (args, span)
            }
        };
        let is_open = self.only_checks && args.iter().any(|&(_, arg)| self.is_given_later(arg));
        for (k, arg) in args {
            let literal = match self.program.ast.exprs[arg].kind {
                ExprKind::Int { value, .. } => i64::try_from(value).ok(),
                _ => None,
            };
            let value = literal.or_else(|| self.program.const_int_at(decl, arg));
            match value.and_then(|v| u32::try_from(v).ok()).filter(|&v| v > 0) {
                Some(v) => size[k] = v,
                // A check leaves such a constant to whoever gives its value.
                None if self.only_checks && self.is_given_later(arg) => {}
                None => {
                    let span = self.program.ast.exprs[arg].span;
                    self.error("E0907", span, "the size of a thread group must be a positive constant");
                    if self.is_given_later(arg) {
                        self.help(
                            "a module that is linked (`--link`) gives its value: `export static const …`",
                        );
                    }
                }
            }
        }
        let threads = size.iter().fold(1u64, |n, &s| n.saturating_mul(s as u64));
        if threads > 1024 && is_open {
            return [1; 3];
        }
        if threads > 1024 {
            let message = format!("a thread group of {threads} threads is larger than 1024");
            self.error("E0907", whole, message);
            self.help("make the group smaller and dispatch more groups");
            return [1; 3];
        }
        size
    }

    /// Declares a function that the host calls, and describes its interface.
    pub(crate) fn host_function(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        request: &Request,
    ) -> Option<FunctionInfo> {
        let callable = self.canonical(Callable::Func(f.clone())).ok()?;
        let declared = self.function(types, &callable);
        let level = self.program.derivatives_of(f, check::View::default()).level;
        let backward = request.derivatives && !(request.as_marked && level == check::Level::Forward);
        let (jvp, vjp) = match request.sparse {
            true => (Step::SparseJvp, Step::SparseVjp),
            false => (Step::Jvp, Step::Vjp),
        };
        let jvp = request.derivatives.then(|| self.derived(types, &callable, &[jvp]).func);
        let vjp = backward.then(|| self.derived(types, &callable, &[vjp]).func);
        let derived =
            request.derived.iter().map(|steps| self.derived(types, &callable, steps).func).collect();
        let mut params: Vec<_> =
            declared.sig.params.iter().map(|param| self.param_info(types, param)).collect();
        // For the host, the error that a function throws is one more output.
        if let Some((ty, diff)) = &declared.sig.error {
            let is_free = |name: &&str| params.iter().all(|param| param.name != *name);
            let name = ["error", "thrown"].into_iter().find(is_free).unwrap_or("error_thrown");
            let error = FlatParam { diff: diff.clone(), ..FlatParam::new(name, *ty, Direction::Out) };
            params.push(self.param_info(types, &error));
        }
        let result = FlatParam::new("", declared.sig.ret, Direction::Out);
        let result = FlatParam { diff: declared.sig.ret_diff.clone(), ..result };
        let result = self.param_info(types, &result);
        let name = self.module.funcs[declared.func].name.clone();
        Some(FunctionInfo { name, func: declared.func, params, result, jvp, vjp, derived })
    }

    fn param_info(&mut self, types: &mut Types, param: &FlatParam) -> ParamInfo {
        let layout = self.layout(types, param.ty);
        let leaves = layout.leaves.iter().enumerate().map(|(k, leaf)| {
            let has = param.diff.as_ref().is_some_and(|d| d.map.get(k).is_some_and(Option::is_some));
            (leaf.name.clone(), leaf.ty, has)
        });
        ParamInfo {
            name: param.name.clone(),
            ty: self.program.type_name(param.ty),
            is_input: param.is_input(),
            is_output: param.is_output(),
            leaves: leaves.collect(),
            is_dynamic: layout.leaves.iter().any(|l| l.is_tag),
        }
    }
}

/// Builds the function of an entry point, which reads the thread's ids and the uniforms, or takes and gives
/// what a stage of a pipeline does, and calls the target.
pub(crate) fn build(making: Making<'_, '_>, decl: DeclId) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let f = FuncRef { decl, args: Vec::new(), self_ty: None };
    let target = lw.function(types, &Callable::Func(f));
    let is_stage = lw.stage(decl).is_some();
    let (mut body, ports) = Body::flat(lw, types, declared);
    let mut ports = &ports[..];
    let mut args = Vec::new();
    for param in target.sig.params.clone() {
        let Some(d) = param.decl else { continue };
        let semantic = body.lw.program.ast.decls[d].kind.semantic();
        if !param.is_input() {
            continue;
        }
        if is_stage && body.lw.is_varying(&param) {
            args.extend(body.of_ports(param.ty, &mut ports));
            continue;
        }
        let span = body.lw.program.ast.decls[d].name_span;
        args.extend(body.entry_input(d, param.ty, semantic, span));
    }
    if !body.fit(&args, &target.params) {
        body.internal(declared.span, "an entry point's inputs do not fit", Ty::VOID);
        return body.finish(Vec::new(), declared);
    }
    let leaves = body.b.call_func(target.func, &target.results, &args);
    let outputs = if is_stage { body.spread_over_ports(&leaves, &declared.results) } else { Vec::new() };
    body.finish(outputs, declared)
}

pub(crate) fn builtin_of(semantic: &str) -> Option<Builtin> {
    Some(match semantic.to_ascii_uppercase().as_str() {
        "SV_DISPATCHTHREADID" => Builtin::DispatchThreadId,
        "SV_GROUPID" => Builtin::GroupId,
        "SV_GROUPTHREADID" => Builtin::GroupThreadId,
        "SV_GROUPINDEX" => Builtin::GroupIndex,
        _ => return None,
    })
}

impl Body<'_, '_, '_> {
    /// The value of an entry point's parameter.
    fn entry_input(&mut self, decl: DeclId, ty: Ty, semantic: Option<Symbol>, span: Span) -> Vec<Value> {
        let text = semantic.map(|s| self.lw.program.ast.name(s).to_owned());
        if let Some(text) = text.filter(|t| t.to_ascii_uppercase().starts_with("SV_")) {
            return match builtin_of(&text) {
                Some(builtin) if self.counts(ty) => self.thread_input(builtin, ty),
                Some(_) => {
                    let name = self.lw.program.type_name(ty);
                    self.unsupported(
                        span,
                        format_args!("the semantic `{text}` on a value of type `{name}` is"),
                        ty,
                    )
                }
                None => self.unsupported(span, format_args!("the semantic `{text}` is"), ty),
            };
        }
        if matches!(self.lw.program.types[ty], TyKind::Struct(..)) && self.has_semantics(ty) {
            let mut values = Vec::new();
            for (field, field_ty, _) in self.lw.program.fields(ty) {
                let semantic = self.lw.program.ast.decls[field].kind.semantic();
                values.extend(self.entry_input(field, field_ty, semantic, span));
            }
            return values;
        }
        if self.lw.holds_buffers(ty) {
            return self.split_uniform(decl, "", ty, span);
        }
        // The function takes a value, but the memory may have another matrix order.
        let declared = self.lw.program.decl_type(decl);
        let declared = self.ty(declared);
        let place = self.memory_place(decl, declared, ty, span);
        self.read(&place)
    }

    /// Returns true if a type is a number or a vector of numbers, as a thread's ids are.
    fn counts(&mut self, ty: Ty) -> bool {
        let leaves = &self.layout(ty).leaves;
        !matches!(self.lw.program.types[ty], TyKind::Struct(..)) && leaves.len() == 1
    }

    fn has_semantics(&mut self, ty: Ty) -> bool {
        let fields = self.lw.program.fields(ty);
        fields.iter().any(|(field, ..)| self.lw.program.ast.decls[*field].kind.semantic().is_some())
    }

    pub(crate) fn thread_input(&mut self, builtin: Builtin, ty: Ty) -> Vec<Value> {
        let value_ty = match builtin {
            Builtin::GroupIndex => Type::U32,
            Builtin::DispatchThreadId | Builtin::GroupId | Builtin::GroupThreadId | Builtin::GroupSize => {
                self.b.types.vector(Scalar::U32, 3)
            }
        };
        let value = self.b.emit_typed(Op::Builtin(builtin), &[], value_ty);
        let leaf = self.leaf_types(ty).into_iter().next();
        leaf.map(|leaf| self.convert_leaf(value, leaf)).into_iter().collect()
    }
}
