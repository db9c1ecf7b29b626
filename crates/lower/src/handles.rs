//! Handles of resources: `number ↦ resource`.
//!
//! A resource has no number of its own in the IR, so the number is an index into the resources that a handle of its type
//! can name. These are known: those that the host binds as `TYPE.Handle[n]`, which have the number `n`, and those that it
//! binds where the program has a uniform handle, which get numbers here. So finding a resource is indexing an array of
//! resources, on every backend; where the number is a constant of this function, it is that resource.
//!
//! A number that names none of them stops the run, except that 0, if the host gives it to no resource, is null, which
//! reads zeros. The numbers of uniform handles are found on the way, so lowering is repeated if more are found after an
//! array has been made ([`Handles::settle`]).

use check::tables::{Callable, FuncRef};
use check::types::{GenericArg, Ty, TyKind, Val};
use indexmap::IndexSet;
use ir::{Op, Scalar, Type, Value};
use rustc_hash::FxBuildHasher;
use syntax::{DeclId, Span};

use crate::body::Body;
use crate::lowerer::{FxIndexMap, Lowerer};
use crate::places::{Place, Proj};

/// The upper half of the numbers of uniform handles. No host gives such numbers.
const OF_UNIFORM: u64 = 0xffff_ffff;

/// The most resources that the handles of a type can name.
const MOST: usize = 1024;

/// The resources that uniform handles name, by number: the uniform, the path of the field, and the type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handles {
    uniforms: IndexSet<(DeclId, String, Ty), FxBuildHasher>,
    /// The number of uniform handles that the first array of each type was made with.
    searched: FxIndexMap<Ty, usize>,
}

impl Handles {
    /// Returns true if an array lacks resources, so that lowering has to be repeated.
    pub(crate) fn settle(&mut self) -> bool {
        let searched = std::mem::take(&mut self.searched);
        searched.into_iter().any(|(ty, n)| self.of_type(ty).len() > n)
    }

    fn of_type(&self, ty: Ty) -> Vec<usize> {
        (0..self.uniforms.len()).filter(|&k| self.uniforms[k].2 == ty).collect()
    }
}

impl Lowerer<'_> {
    /// The numbers that the host gives to resources of a type, and the name under which it binds them.
    fn host_numbers(&mut self, ty: Ty) -> (String, Vec<u32>) {
        let name = self.program.type_name(ty);
        let bare = name.split('<').next().unwrap_or(&name);
        let is_default = name == format!("{bare}<float4>");
        let names = [format!("{name}.Handle"), format!("{bare}.Handle")];
        let mut numbers = Vec::new();
        for whole in names.iter().take(if is_default { 2 } else { 1 }) {
            let lengths = &self.program.lengths;
            numbers.extend(0..lengths.get(whole).copied().unwrap_or(0));
            let number = |key: &String| -> Option<u32> {
                key.strip_prefix(whole.as_str())?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
            };
            numbers.extend(lengths.keys().filter_map(number));
            if !numbers.is_empty() {
                numbers.sort_unstable();
                numbers.dedup();
                return (whole.clone(), numbers);
            }
        }
        let [name, _] = names;
        (name, numbers)
    }
}

impl Body<'_, '_, '_> {
    /// The value of a uniform handle: a number that names the resource which is bound in its place.
    pub(crate) fn named_handle(&mut self, root: DeclId, path: &str, target: Ty) -> Vec<Value> {
        let (number, _) = self.lw.handles.uniforms.insert_full((root, path.to_owned(), target));
        let parts = [self.b.u32(number as u32), self.b.u32(OF_UNIFORM as u32)];
        let pair = self.b.types.vector(Scalar::U32, 2);
        vec![self.b.emit_typed(Op::Construct, &parts, pair)]
    }

    /// Converts a handle to its number or to what it names, and a resource of no known kind to one of a kind. `None` for
    /// all other conversions.
    pub(crate) fn convert_handle(
        &mut self,
        values: &[Value],
        from: Ty,
        to: Ty,
        span: Span,
    ) -> Option<Vec<Value>> {
        if self.lw.program.is_dynamic_resource(from) {
            let zero = self.b.u32(0);
            let pair = self.b.types.vector(Scalar::U32, 2);
            let number = self.b.emit_typed(Op::Construct, &[*values.first()?, zero], pair);
            return Some(self.resource_of(to, number, span));
        }
        let target = self.lw.program.handle_target(from)?;
        let &number = values.first()?;
        match self.lw.program.types[to] {
            TyKind::Vector(..) => return Some(vec![number]),
            TyKind::Scalar(_) if self.lw.program.is_handle_number(to) => {
                let [low, high] = self.halves(number).map(|half| self.convert_leaf(half, Type::U64));
                let by = self.b.constant(Scalar::U64, 32);
                let high = self.b.emit(Op::Shl, &[high, by]);
                let whole = self.b.emit(Op::Or, &[high, low]);
                let leaf = self.layout(to).leaves.first()?.ty;
                return Some(vec![self.convert_leaf(whole, leaf)]);
            }
            _ if self.lw.program.is_existential(to) => return None,
            _ => {}
        }
        let own = self.lw.program.finders_of_resources().first().copied();
        let found = match own {
            Some(decl) => {
                let find = FuncRef { decl, args: vec![GenericArg::Type(target)], self_ty: None };
                self.call_values(&Callable::Func(find), vec![(values.to_vec(), from)], span)
            }
            None => self.resource_of(target, number, span),
        };
        Some(self.convert(found, target, to, span))
    }

    fn halves(&mut self, number: Value) -> [Value; 2] {
        [0, 1].map(|k| self.b.emit(Op::Extract(k), &[number]))
    }

    /// The resource of a type that a number names.
    pub(crate) fn resource_of(&mut self, ty: Ty, number: Value, span: Span) -> Vec<Value> {
        if let Some((root, path, _)) = self.uniform_of(number) {
            return self.split_uniform(root, &path, ty, span);
        }
        let (name, numbers) = self.lw.host_numbers(ty);
        let uniforms = self.lw.handles.of_type(ty);
        self.lw.handles.searched.entry(ty).or_insert(uniforms.len());
        let n = numbers.len() + uniforms.len();
        if n > MOST {
            let what = format_args!("{n} resources that a handle of this type can name are");
            return self.unsupported(span, what, ty);
        }
        let Some(root) = self.lw.program.handle_decl() else { return self.zeros(ty) };
        let mut elements = Vec::new();
        for number in &numbers {
            elements.push(self.split_uniform(root, &format!("{name}[{number}]"), ty, span));
        }
        for &k in &uniforms {
            let (root, path, _) = self.lw.handles.uniforms[k].clone();
            elements.push(self.split_uniform(root, &path, ty, span));
        }
        // The index of the number, or that of the null resource at the end.
        let [low, high] = self.halves(number);
        let mut at = self.b.u32(n as u32);
        let all = numbers
            .iter()
            .map(|&k| (u64::from(k), 0))
            .chain(uniforms.iter().map(|&k| (k as u64, OF_UNIFORM)));
        for (k, pair) in all.enumerate() {
            let own = [pair.0, pair.1].map(|half| self.b.u32(half as u32));
            let same = [self.b.emit(Op::Eq, &[low, own[0]]), self.b.emit(Op::Eq, &[high, own[1]])];
            let same = self.b.emit(Op::And, &same);
            let k = self.b.u32(k as u32);
            at = self.b.emit(Op::Select, &[same, k, at]);
        }
        let end = self.b.u32(n as u32);
        let known = self.b.emit(Op::Ne, &[at, end]);
        let any = self.b.emit(Op::Or, &[low, high]);
        let zero = self.b.u32(0);
        let is_null = self.b.emit(Op::Eq, &[any, zero]);
        let fits = self.b.emit(Op::Or, &[known, is_null]);
        self.b.span = crate::lowerer::ir_span(span);
        let message = format!("this number names no `{}` of the run", self.lw.program.type_name(ty));
        self.b.effect(Op::Assert(message.into()), &[fits]);
        elements.push(self.zeros(ty));
        let array = TyKind::Array(ty, Some(Val::Int(elements.len() as i64)));
        let array = self.lw.program.types.intern(array);
        let values = self.array_of_elements(array, ty, elements);
        let place = self.project(Place::value(array, values), Proj::Element(at), ty);
        self.read(&place)
    }

    /// The uniform handle that a number is, if this is known here.
    fn uniform_of(&self, number: Value) -> Option<(DeclId, String, Ty)> {
        let defined = self
            .b
            .func
            .insts
            .iter()
            .rev()
            .take(4096)
            .find(|(_, data)| data.results.first() == Some(&number))?;
        let (Op::Construct, &[low, high]) = (&defined.1.op, &defined.1.args[..]) else { return None };
        let is_uniform = self.constant_of(high)? == OF_UNIFORM;
        self.lw
            .handles
            .uniforms
            .get_index(usize::try_from(self.constant_of(low)?).ok()?)
            .filter(|_| is_uniform)
            .cloned()
    }
}
