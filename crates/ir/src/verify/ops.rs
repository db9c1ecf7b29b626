//! Checks the typing rule of every op.

use super::{Checked, Verifier, check};
use crate::entities::{MemType, Region, Value};
use crate::function::{Function, InstData};
use crate::ops::{AtomicOp, Builtin, Math, Op, Path, Step, WAVE_LANES};
use crate::scalar;
use crate::spec::{Class, Typing};
use crate::types::{Scalar, Type, TypeData};

impl Verifier<'_> {
    /// Rule 1: checks the number of operands, results and regions.
    pub(super) fn arity(&self, data: &InstData) -> Checked {
        let spec = data.op.spec();
        let (least, most) = spec.operands;
        let n = data.args.len();
        check((least..=most).contains(&n), || format!("it has {n} operands instead of {least}"))?;
        let regions = match &data.op {
            Op::If => 2,
            Op::Switch(cases) => cases.len() + 1,
            Op::For(_) | Op::Loop(_) => 1,
            _ => 0,
        };
        let results = spec.results.unwrap_or(data.results.len());
        check(results == data.results.len(), || {
            format!("it has {} results instead of {results}", data.results.len())
        })?;
        check(regions == data.regions.len(), || {
            format!("it holds {} regions instead of {regions}", data.regions.len())
        })
    }

    fn ty(&self, v: Value) -> Type {
        self.f.ty(v)
    }

    fn same(&self, v: Value, ty: Type, what: &str) -> Checked {
        check(self.ty(v) == ty, || {
            format!("{what} {v} is {} instead of {}", self.name(self.ty(v)), self.name(ty))
        })
    }

    /// Checks that all operands have one scalar or vector type; returns its scalar.
    fn uniform(&self, data: &InstData) -> Result<Scalar, String> {
        let ty = self.ty(data.args[0]);
        for &arg in &data.args[1..] {
            self.same(arg, ty, "the operand")?;
        }
        self.numeric(data.args[0])
    }

    /// The scalar type of a scalar or vector.
    fn numeric(&self, v: Value) -> Result<Scalar, String> {
        match self.types[self.ty(v)] {
            TypeData::Scalar(s) | TypeData::Vector(s, _) => Ok(s),
            TypeData::Array(..)
            | TypeData::Stack(_)
            | TypeData::Cell(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => {
                Err(format!("{v} is {}, not a scalar or vector", self.name(self.ty(v))))
            }
        }
    }

    /// Checks that a value is the residuals of a function.
    fn keeps(&self, func: crate::Func, kept: Value, forward: bool) -> Checked {
        let of = crate::Residuals { func, forward };
        match self.types[self.ty(kept)] {
            TypeData::Residuals(n) if self.module.residuals.get(n as usize) == Some(&of) => Ok(()),
            _ => Err(format!("{kept} is {}, not what that function keeps", self.name(self.ty(kept)))),
        }
    }

    fn integer(&self, v: Value, what: &str) -> Checked {
        match self.types[self.ty(v)] {
            TypeData::Scalar(s) if s.is_int() => Ok(()),
            _ => Err(format!("{what} {v} is {}, not an integer", self.name(self.ty(v)))),
        }
    }

    fn differentiable(&self, v: Value) -> Checked {
        check(self.types.is_differentiable(self.ty(v)), || {
            format!("{v} is {}, which has no differential", self.name(self.ty(v)))
        })
    }

    fn not_cell(&self, v: Value) -> Checked {
        check(!matches!(self.types[self.ty(v)], TypeData::Cell(_)), || format!("{v} is a cell"))
    }

    /// Checks that the result has the lanes of `v` with the scalar type `s`.
    fn shaped(&self, result: Value, v: Value, s: Scalar) -> Checked {
        let want = match self.types[self.ty(v)] {
            TypeData::Vector(_, n) => TypeData::Vector(s, n),
            _ => TypeData::Scalar(s),
        };
        check(self.types[self.ty(result)] == want, || {
            format!("the result is {}, not {} in the shape of {v}", self.name(self.ty(result)), s.name())
        })
    }

    /// Rule 3: checks the types.
    pub(super) fn op(&self, data: &InstData) -> Checked {
        let args = &data.args;
        let undefined =
            |s: Scalar| format!("{} is not defined for {}", crate::print::op_name(&data.op), s.name());
        match data.op.spec().typing {
            Typing::Same(kind) => {
                let s = self.uniform(data)?;
                check(kind.has(s), || undefined(s))?;
                return self.same(data.results[0], self.ty(args[0]), "the result");
            }
            Typing::Compare => {
                self.uniform(data)?;
                return self.shaped(data.results[0], args[0], Scalar::Bool);
            }
            Typing::Own => {}
        }
        match &data.op {
            Op::Const(bits) => match self.types[self.ty(data.results[0])] {
                TypeData::Scalar(s) => check(scalar::canonical(s, *bits) == *bits, || {
                    format!("the bits {bits:#x} are not a {}", s.name())
                }),
                _ => Err("a constant is a scalar".to_string()),
            },
            Op::Zero => self.not_cell(data.results[0]),
            Op::Absent => self.differentiable(data.results[0]),
            Op::Present => {
                self.differentiable(args[0])?;
                self.same(data.results[0], self.ty(args[0]), "the result")
            }
            Op::Math(m) => {
                let s = self.uniform(data)?;
                check(scalar::has_math(*m, s), || undefined(s))?;
                let to = if matches!(m, Math::IsNan | Math::IsInf) { Scalar::Bool } else { s };
                self.shaped(data.results[0], args[0], to)
            }
            Op::Convert => {
                self.numeric(args[0])?;
                self.shaped(data.results[0], args[0], self.numeric(data.results[0])?)
            }
            Op::Bitcast => {
                let (from, to) = (self.numeric(args[0])?, self.numeric(data.results[0])?);
                check(from.bits() == to.bits() && to != Scalar::Bool, || {
                    format!("{} and {} are not of one width", from.name(), to.name())
                })?;
                self.shaped(data.results[0], args[0], to)
            }
            Op::Select => {
                self.same(args[2], self.ty(args[1]), "the operand")?;
                self.same(data.results[0], self.ty(args[1]), "the result")?;
                self.not_cell(args[1])?;
                match (self.types[self.ty(args[0])], self.types[self.ty(args[1])]) {
                    (TypeData::Scalar(Scalar::Bool), _) => Ok(()),
                    (TypeData::Vector(Scalar::Bool, n), TypeData::Vector(_, m)) if n == m => Ok(()),
                    _ => Err(format!("the condition {} is {}", args[0], self.name(self.ty(args[0])))),
                }
            }
            Op::Detach => {
                self.not_cell(args[0])?;
                self.same(data.results[0], self.ty(args[0]), "the result")
            }

            Op::Construct => {
                let (element, n) = self.elements(data.results[0])?;
                check(args.len() == n as usize, || format!("{n} elements have {} operands", args.len()))?;
                args.iter().try_for_each(|&arg| self.same(arg, element, "the element"))
            }
            Op::Splat => {
                let (element, _) = self.elements(data.results[0])?;
                self.same(args[0], element, "the element")
            }
            Op::Extract(idx) => {
                let (element, n) = self.elements(args[0])?;
                check(*idx < n, || format!("element {idx} of {n}"))?;
                self.same(data.results[0], element, "the result")
            }
            Op::Insert(idx) => {
                let (element, n) = self.elements(args[0])?;
                check(*idx < n, || format!("element {idx} of {n}"))?;
                self.same(args[1], element, "the element")?;
                self.same(data.results[0], self.ty(args[0]), "the result")
            }
            Op::Index => {
                self.integer(args[1], "the index")?;
                let element = self.types.element(self.ty(args[0]));
                let element = element.ok_or_else(|| format!("{} has no elements", args[0]))?;
                self.same(data.results[0], element, "the result")
            }
            Op::Sum => match self.types[self.ty(args[0])] {
                TypeData::Vector(s, _) if s != Scalar::Bool => {
                    self.same(data.results[0], s.into(), "the result")
                }
                _ => Err(format!("{} is {}, not a vector", args[0], self.name(self.ty(args[0])))),
            },

            op => match op.spec().class {
                Class::Cell => self.cell_op(data),
                Class::World => self.memory_op(data),
                Class::Call => self.call(data),
                Class::Control => self.control(data),
                Class::Number | Class::Differential | Class::Aggregate => {
                    Err("it has no typing rule".to_string())
                }
            },
        }
    }

    /// The rules of cells.
    fn cell_op(&self, data: &InstData) -> Checked {
        let args = &data.args;
        match &data.op {
            Op::Local => {
                self.not_cell(args[0])?;
                let content = self.types.content(self.ty(data.results[0]));
                check(content == Some(self.ty(args[0])), || {
                    format!("the result is {}", self.name(self.ty(data.results[0])))
                })
            }
            Op::Load => self.same(data.results[0], self.part(&args[..])?, "the result"),
            Op::Store => {
                let last = args.len() - 1;
                self.same(args[last], self.part(&args[..last])?, "the value")
            }
            Op::AddTo => {
                let last = args.len() - 1;
                let ty = self.part(&args[..last])?;
                let s = self.types.scalar_of(ty);
                // Only the empty stack of `bool` is ever added, which makes the stack around it grow.
                let is_added = |s: Scalar| s != Scalar::Bool || self.types.has_stack(ty);
                check(s.is_some_and(is_added), || format!("{} cannot be added", self.name(ty)))?;
                self.same(args[last], ty, "the value")
            }
            Op::SubCell => {
                self.integer(args[1], "the index")?;
                let content = self.types.content(self.ty(args[0]));
                let inner = content.and_then(|c| match self.types[c] {
                    TypeData::Stack(t) if matches!(self.types[t], TypeData::Stack(_)) => Some(t),
                    _ => None,
                });
                let inner = inner.ok_or_else(|| format!("{} holds no stack of stacks", args[0]))?;
                check(self.types.content(self.ty(data.results[0])) == Some(inner), || {
                    format!("the result is {}", self.name(self.ty(data.results[0])))
                })
            }
            _ => Err("it has no typing rule".to_string()),
        }
    }

    /// The rules of memory and of what else is around a thread.
    fn memory_op(&self, data: &InstData) -> Checked {
        let args = &data.args;
        let undefined =
            |s: Scalar| format!("{} is not defined for {}", crate::print::op_name(&data.op), s.name());
        match &data.op {
            Op::GlobalRef(global) => {
                let global = self.module.globals.get(*global).ok_or("the global does not exist")?;
                check(self.types[self.ty(data.results[0])] == TypeData::Buffer(global.ty), || {
                    format!("the result is {}", self.name(self.ty(data.results[0])))
                })
            }
            Op::BufferLoad(path) => self.access(path, args, data.results[0]),
            Op::BufferStore(path) => {
                let last = args.len() - 1;
                self.not_cell(args[last])?;
                self.access(path, &args[..last], args[last])
            }
            Op::Atomic(path, op) => {
                let n_values = op.n_values();
                let (place, values) = args.split_at(args.len() - n_values);
                self.access(path, place, data.results[0])?;
                let ty = self.ty(data.results[0]);
                values.iter().try_for_each(|&v| self.same(v, ty, "the operand"))?;
                match (self.types[ty], op) {
                    (TypeData::Scalar(s), _) if s.is_int() => Ok(()),
                    (TypeData::Scalar(s), AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => Err(undefined(s)),
                    (TypeData::Scalar(s), _) if s.is_float() => Ok(()),
                    _ => Err(format!("{} has no atomic operations", self.name(ty))),
                }
            }
            Op::BufferLen => {
                self.element_of_buffer(args[0])?;
                self.same(data.results[0], Type::U32, "the result")
            }
            Op::BufferOffset => {
                self.element_of_buffer(args[0])?;
                self.same(args[1], Type::I64, "the offset")?;
                self.same(data.results[0], self.ty(args[0]), "the result")
            }
            Op::BufferCast(_) => {
                self.element_of_buffer(args[0])?;
                self.same(args[1], Type::I64, "the offset")?;
                self.element_of_buffer(data.results[0]).map(|_| ())
            }
            Op::OnDevice => self.same(data.results[0], Type::BOOL, "the result"),
            Op::BufferAddress => {
                self.element_of_buffer(args[0])?;
                let ty = self.ty(data.results[0]);
                check(self.types[ty] == TypeData::Vector(Scalar::U32, 2), || {
                    format!("the result is {}", self.name(ty))
                })
            }
            Op::HandleBits => {
                self.element_of_buffer(args[0])?;
                self.same(data.results[0], Type::U64, "the result")
            }
            Op::HandleOf => {
                self.same(args[0], Type::U64, "the number")?;
                self.element_of_buffer(data.results[0]).map(|_| ())
            }
            Op::Clock => {
                let ty = self.ty(data.results[0]);
                check(self.types[ty] == TypeData::Vector(Scalar::U32, 2), || {
                    format!("the result is {}", self.name(ty))
                })
            }
            Op::Barrier => Ok(()),
            Op::WaveGather => {
                self.not_cell(args[0])?;
                let own = self.ty(args[0]);
                let whole = self.ty(data.results[0]);
                let fits = matches!(self.types[whole], TypeData::Array(t, n) if t == own && n == WAVE_LANES);
                check(fits && self.types.scalar_of(own).is_some() && !self.types.has_stack(own), || {
                    format!("the result is {}", self.name(whole))
                })?;
                self.same(data.results[1], Type::U32, "the mask")
            }
            Op::WaveMultiply(factors) => {
                let kinds = [(Scalar::U32, 4), (Scalar::U32, 2), (factors.sum(), 4)];
                for (&arg, (scalar, n)) in args.iter().zip(kinds) {
                    let ty = self.ty(arg);
                    check(self.types[ty] == TypeData::Vector(scalar, n), || {
                        format!("an operand is {}", self.name(ty))
                    })?;
                }
                let sum = self.ty(args[2]);
                self.same(data.results[0], sum, "the result")
            }
            Op::Builtin(builtin) => {
                let want = match builtin {
                    Builtin::GroupIndex => TypeData::Scalar(Scalar::U32),
                    Builtin::DispatchThreadId
                    | Builtin::GroupId
                    | Builtin::GroupThreadId
                    | Builtin::GroupSize => TypeData::Vector(Scalar::U32, 3),
                };
                check(self.types[self.ty(data.results[0])] == want, || {
                    format!("the result is {}", self.name(self.ty(data.results[0])))
                })
            }
            Op::Printf(_) => args.iter().try_for_each(|&arg| match self.types[self.ty(arg)] {
                TypeData::Scalar(_) => Ok(()),
                _ => Err(format!("{arg} is not a scalar")),
            }),
            Op::Assert(_) => self.same(args[0], Type::BOOL, "the condition"),
            Op::CheckFinite(_) => {
                let first = *args.first().ok_or("nothing to check")?;
                self.same(first, self.ty(data.results[0]), "what is checked")?;
                args.iter().try_for_each(|&arg| match self.types[self.ty(arg)] {
                    TypeData::Scalar(_) | TypeData::Vector(..) => Ok(()),
                    _ => Err(format!("{arg} is neither a number nor a vector")),
                })
            }
            _ => Err("it has no typing rule".to_string()),
        }
    }

    /// The rules of calls.
    fn call(&self, data: &InstData) -> Checked {
        let args = &data.args;
        match &data.op {
            Op::Call(callee) => {
                let callee = self.callee(*callee)?;
                self.list("operand", args, callee.params.iter().map(|p| p.ty))?;
                self.list("result", &data.results, callee.results.iter().map(|r| r.ty))
            }
            Op::CallDerivative(op, of) => {
                let [operands, results] = op.signature(self.callee(*of)?, args.len());
                let forward = op.is_forward();
                self.list_with("operand", args, &operands, |kept| self.keeps(*of, kept, forward))?;
                self.list_with("result", &data.results, &results, |kept| self.keeps(*of, kept, forward))
            }
            Op::CallTransposeOf(vjp) => {
                let vjp = self.callee(*vjp)?;
                let n = args.len().checked_sub(vjp.results.len()).filter(|n| *n <= vjp.params.len());
                let n = n.ok_or("the operands are not those of the transpose of a vjp")?;
                let (primals, cotangents) = vjp.params.split_at(n);
                self.list("operand", args, primals.iter().chain(&vjp.results).map(|s| s.ty))?;
                self.list("result", &data.results, cotangents.iter().map(|s| s.ty))
            }
            _ => Err("it has no typing rule".to_string()),
        }
    }

    /// The rules of ops with regions.
    fn control(&self, data: &InstData) -> Checked {
        let args = &data.args;
        match &data.op {
            Op::If => {
                self.same(args[0], Type::BOOL, "the condition")?;
                data.regions.iter().try_for_each(|&region| self.arm(region, &data.results))
            }
            Op::Switch(cases) => {
                self.integer(args[0], "the tag")?;
                let mut sorted = cases.to_vec();
                sorted.sort_unstable();
                sorted.dedup();
                check(sorted.len() == cases.len(), || "two cases are the same".to_string())?;
                data.regions.iter().try_for_each(|&region| self.arm(region, &data.results))
            }
            Op::For(_) => {
                let counter = self.types[self.ty(args[0])];
                check(matches!(counter, TypeData::Scalar(s) if s.is_int() && s.bits() >= 32), || {
                    format!("the trip count {} is not an integer of 32 or 64 bits", args[0])
                })?;
                let params = &self.f.regions[data.regions[0]].params;
                let (i, params) = params.split_first().ok_or("the body has no counter")?;
                self.same(*i, self.ty(args[0]), "the counter")?;
                self.trips(&args[1..], params, &self.f.regions[data.regions[0]].results, &data.results)
            }
            Op::Loop(info) => {
                check(!info.down, || "only a `for` counts down".to_string())?;
                let body = &self.f.regions[data.regions[0]];
                let (again, results) = body.results.split_first().ok_or("the body does not say again")?;
                self.same(*again, Type::BOOL, "again:")?;
                self.trips(args, &body.params, results, &data.results)
            }
            _ => Err("it has no typing rule".to_string()),
        }
    }

    /// The element type and the number of elements of a vector or array.
    fn elements(&self, v: Value) -> Result<(Type, u32), String> {
        match self.types[self.ty(v)] {
            TypeData::Vector(s, n) => Ok((s.into(), n)),
            TypeData::Array(t, n) => Ok((t, n)),
            TypeData::Scalar(_)
            | TypeData::Stack(_)
            | TypeData::Cell(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => {
                Err(format!("{v} is {}, not a vector or array", self.name(self.ty(v))))
            }
        }
    }

    /// The type of the part of a cell that the operands `cell, i…` select.
    fn part(&self, args: &[Value]) -> Result<Type, String> {
        let content = self.types.content(self.ty(args[0]));
        let mut ty = content.ok_or_else(|| format!("{} is not a cell", args[0]))?;
        for &idx in &args[1..] {
            self.integer(idx, "the index")?;
            ty = self.types.element(ty).ok_or_else(|| format!("{idx} indexes {}", self.name(ty)))?;
        }
        Ok(ty)
    }

    fn element_of_buffer(&self, v: Value) -> Result<MemType, String> {
        match self.types[self.ty(v)] {
            TypeData::Buffer(element) => Ok(element),
            _ => Err(format!("{v} is {}, not a buffer", self.name(self.ty(v)))),
        }
    }

    /// Checks that the operands `buf, i, dyn…` with a path reach a leaf of the type of `leaf`.
    fn access(&self, path: &Path, args: &[Value], leaf: Value) -> Checked {
        let element = self.element_of_buffer(args[0])?;
        args[1..].iter().try_for_each(|&idx| self.integer(idx, "the index"))?;
        check(self.leaf_is(element, path, self.ty(leaf)), || {
            format!("the path does not lead to {}", self.name(self.ty(leaf)))
        })
    }

    /// Returns true if a path leads to a leaf of the given IR type (without interning types).
    fn leaf_is(&self, element: MemType, path: &Path, ty: Type) -> bool {
        use crate::memory::MemData;
        let mem = &self.module.mem;
        let mut at = element;
        let mut steps = path.0.iter();
        while let Some(step) = steps.next() {
            let fits = |n: u32| match *step {
                Step::Static(idx) => idx < n,
                Step::Dynamic => true,
            };
            match &mem[at] {
                MemData::Struct { fields, .. } => match *step {
                    Step::Static(idx) if (idx as usize) < fields.len() => at = fields[idx as usize].1,
                    Step::Static(_) | Step::Dynamic => return false,
                },
                MemData::Array(t, n) if fits(*n) => at = *t,
                MemData::Vector(s, n) if fits(*n) => {
                    return steps.next().is_none() && self.types[ty] == TypeData::Scalar(*s);
                }
                MemData::Matrix(s, r, c, _) if fits(*r) => {
                    return match steps.next() {
                        None => self.types[ty] == TypeData::Vector(*s, *c),
                        Some(Step::Static(idx)) if idx >= c => false,
                        Some(_) => steps.next().is_none() && self.types[ty] == TypeData::Scalar(*s),
                    };
                }
                _ => return false,
            }
        }
        self.is_leaf(at, ty)
    }

    /// Returns true if an IR type is the leaf type of a memory type.
    pub(super) fn is_leaf(&self, mem: MemType, ty: Type) -> bool {
        super::module::is_leaf(self.module, mem, ty)
    }

    fn callee(&self, callee: crate::entities::Func) -> Result<&Function, String> {
        self.module.funcs.get(callee).ok_or_else(|| format!("{callee} does not exist"))
    }

    fn list(&self, what: &str, values: &[Value], types: impl Iterator<Item = Type>) -> Checked {
        self.list_with(what, values, &types.map(Some).collect::<Vec<_>>(), |_| Ok(()))
    }

    /// Checks the number and the types of values; those without a type here are left to `other`.
    fn list_with(
        &self,
        what: &str,
        values: &[Value],
        types: &[Option<Type>],
        other: impl Fn(Value) -> Checked,
    ) -> Checked {
        check(values.len() == types.len(), || {
            format!("there are {} {what}s instead of {}", values.len(), types.len())
        })?;
        values.iter().zip(types).try_for_each(|(&v, ty)| match ty {
            Some(ty) => self.same(v, *ty, &format!("the {what}")),
            None => other(v),
        })
    }

    /// Checks that an arm has no parameters and yields the results.
    fn arm(&self, region: Region, results: &[Value]) -> Checked {
        let data = &self.f.regions[region];
        check(data.params.is_empty(), || "an arm has parameters".to_string())?;
        self.list("yielded value", &data.results, results.iter().map(|&v| self.ty(v)))
    }

    /// Checks the values that a loop carries and stacks.
    fn trips(&self, inits: &[Value], params: &[Value], yields: &[Value], results: &[Value]) -> Checked {
        let n = inits.len();
        inits.iter().try_for_each(|&v| self.not_cell(v))?;
        self.list("parameter", params, inits.iter().map(|&v| self.ty(v)))?;
        check(yields.len() >= n && yields.len() == results.len(), || {
            format!("{n} values are carried, {} yielded, {} results", yields.len(), results.len())
        })?;
        self.list("carried value", &yields[..n], inits.iter().map(|&v| self.ty(v)))?;
        self.list("carried result", &results[..n], inits.iter().map(|&v| self.ty(v)))?;
        for (&v, &result) in yields[n..].iter().zip(&results[n..]) {
            self.not_cell(v)?;
            check(self.types[self.ty(result)] == TypeData::Stack(self.ty(v)), || {
                format!("the stack of {v} is {}", self.name(self.ty(result)))
            })?;
        }
        Ok(())
    }

    /// Rule 5 for calls and control flow.
    pub(super) fn structure_linearity(&self, data: &InstData) -> Checked {
        let marks = |what: &str, values: &[Value], marks: &mut dyn Iterator<Item = bool>| {
            values.iter().zip(marks).try_for_each(|(&v, mark)| {
                check(self.linear(v) == mark, || {
                    format!("the {what} {v} must {}be linear", if mark { "" } else { "not " })
                })
            })
        };
        let of = |values: &[Value]| values.iter().map(|&v| self.linear(v)).collect::<Vec<_>>().into_iter();
        let mut never = std::iter::repeat(false);
        match &data.op {
            Op::Call(callee) => {
                let callee = self.callee(*callee)?;
                marks("operand", &data.args, &mut callee.params.iter().map(|p| p.linear))?;
                marks("result", &data.results, &mut callee.results.iter().map(|r| r.linear))
            }
            Op::CallTransposeOf(vjp) => {
                let n = data.args.len() - self.callee(*vjp)?.results.len();
                marks("operand", &data.args[..n], &mut never)?;
                marks("operand", &data.args[n..], &mut std::iter::repeat(true))?;
                marks("result", &data.results, &mut std::iter::repeat(true))
            }
            Op::If | Op::Switch(_) => {
                marks("operand", &data.args, &mut never)?;
                data.regions.iter().try_for_each(|&region| {
                    marks("yielded value", &self.f.regions[region].results, &mut of(&data.results))
                })
            }
            Op::For(_) => {
                let body = &self.f.regions[data.regions[0]];
                marks("trip count", &data.args[..1], &mut never)?;
                marks("counter", &body.params[..1], &mut never)?;
                marks("parameter", &body.params[1..], &mut of(&data.args[1..]))?;
                marks("yielded value", &body.results, &mut of(&data.results))?;
                let n = data.args.len() - 1;
                marks("carried result", &data.results[..n], &mut of(&data.args[1..]))
            }
            Op::Loop(_) => {
                let body = &self.f.regions[data.regions[0]];
                marks("condition", &body.results[..1], &mut never)?;
                marks("parameter", &body.params, &mut of(&data.args))?;
                marks("yielded value", &body.results[1..], &mut of(&data.results))?;
                marks("carried result", &data.results[..data.args.len()], &mut of(&data.args))
            }
            _ => {
                marks("operand", &data.args, &mut never)?;
                marks("result", &data.results, &mut never)
            }
        }
    }
}
