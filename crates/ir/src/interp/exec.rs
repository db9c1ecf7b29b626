//! Executes single instructions.

use super::value::{Handle, Lane, Value};
use super::{Access, AccessKind, Bound, Host, Kind, Machine};
use crate::entities::{Inst, Value as Name};
use crate::function::{Function, InstData, Span};
use crate::ops::{AtomicOp, Builtin, Math, Op, Path, Rest, Step};
use crate::scalar;
use crate::spec::Class;
use crate::types::{Scalar, Type, TypeData};

/// The maximum number of elements of a stack that grows by `add_to`.
const STACK_LIMIT: usize = 1 << 28;

fn unknown(op: &Op) -> String {
    format!("the interpreter does not know `{}`", op.spec().name)
}

impl<L: Lane> Machine<'_, L> {
    fn present(&self, f: &Function, data: &InstData) -> Result<Value<L>, String> {
        let s = self.module.types.scalar_of(f.ty(data.args[0])).ok_or("no numbers")?;
        let number = |lane: L| L::elementwise(&Op::Present, s, s, &[lane]).unwrap_or(lane);
        Ok(self.value(data.args[0])?.map(&mut { number }))
    }

    pub(super) fn execute(&mut self, f: &Function, inst: Inst, host: &mut dyn Host) -> Result<(), String> {
        let data = &f.insts[inst];
        let result = match data.op.spec().class {
            Class::Number => match &data.op {
                Op::Const(bits) => Some(Value::Scalar(L::from_bits(*bits))),
                _ => Some(self.elementwise(f, data)?),
            },
            Class::Differential => Some(match &data.op {
                Op::Absent => Value::absent(&self.module.types, result_type(f, data)),
                Op::Present => self.present(f, data)?,
                _ => self.elementwise(f, data)?,
            }),
            Class::Aggregate => Some(self.aggregate(f, data)?),
            Class::Cell => self.cell_op(f, data)?,
            Class::World => self.world(f, data, host)?,
            Class::Call => return self.call(data),
            Class::Control => return self.control(f, inst),
        };
        if let Some(result) = result {
            let name = *data.results.first().ok_or("an op without its result")?;
            self.bind(name, Bound::Value(result));
        }
        Ok(())
    }

    fn aggregate(&self, f: &Function, data: &InstData) -> Result<Value<L>, String> {
        Ok(match &data.op {
            Op::Zero => Value::zero(&self.module.types, result_type(f, data)),
            Op::Select => self.select(f, data)?,
            Op::Detach => self.cut(self.value(data.args[0])?),
            Op::Construct => {
                let mut elements = Vec::with_capacity(data.args.len());
                for &arg in &data.args {
                    elements.push(self.value(arg)?.clone());
                }
                match self.module.types[result_type(f, data)] {
                    TypeData::Vector(..) => Value::Vector(elements.iter().map(Value::lane).collect()),
                    _ => Value::array(elements),
                }
            }
            Op::Splat => {
                let element = self.value(data.args[0])?.clone();
                match self.module.types[result_type(f, data)] {
                    TypeData::Vector(_, n) => {
                        Value::Vector(smallvec::SmallVec::from_elem(element.lane(), n as usize))
                    }
                    TypeData::Array(_, n) => Value::array(vec![element; n as usize]),
                    _ => element,
                }
            }
            Op::Extract(idx) => self.element(f, data, Some(*idx as usize))?,
            Op::Index => {
                let idx = self.index(f, data.args[1])?;
                self.element(f, data, idx)?
            }
            Op::Insert(idx) => {
                let mut whole = self.value(data.args[0])?.clone();
                whole.set_element(*idx as usize, self.value(data.args[1])?.clone());
                whole
            }
            Op::Sum => {
                let s = self.scalar(f, data.args[0])?;
                let lanes = self.value(data.args[0])?.lanes();
                let mut sum = *lanes.first().ok_or("the sum of no lanes")?;
                for &lane in &lanes[1..] {
                    sum = L::elementwise(&Op::Add, s, s, &[sum, lane]).ok_or("a sum of no numbers")?;
                }
                Value::Scalar(sum)
            }
            _ => return Err(unknown(&data.op)),
        })
    }

    /// Executes an op on cells; the value of its result, if that is not a cell.
    fn cell_op(&mut self, f: &Function, data: &InstData) -> Result<Option<Value<L>>, String> {
        Ok(Some(match &data.op {
            Op::Local => {
                let content = self.value(data.args[0])?.clone();
                self.bind(data.results[0], Bound::Cell(content));
                return Ok(None);
            }
            Op::SubCell => {
                let idx = self.index(f, data.args[1])?;
                let (root, mut path) = self.cell(data.args[0])?;
                path.push(idx);
                self.bind(data.results[0], Bound::SubCell(root, path));
                return Ok(None);
            }
            Op::Load => {
                let (root, path) = self.place(f, &data.args)?;
                let Bound::Cell(mut content) = self.bound(root).clone() else { return Err(no_cell(root)) };
                let mut of_stack = false;
                for idx in path {
                    of_stack |= matches!(content, Value::Stack(_));
                    match idx.and_then(|idx| content.element(idx)) {
                        Some(element) => content = element,
                        None => {
                            let missing = if of_stack { Value::absent } else { Value::zero };
                            content = missing(&self.module.types, result_type(f, data));
                            break;
                        }
                    }
                }
                content
            }
            Op::Store | Op::AddTo => {
                self.write_cell(f, data)?;
                return Ok(None);
            }
            _ => return Err(unknown(&data.op)),
        }))
    }

    fn world(
        &mut self,
        f: &Function,
        data: &InstData,
        host: &mut dyn Host,
    ) -> Result<Option<Value<L>>, String> {
        Ok(Some(match &data.op {
            Op::GlobalRef(global) => {
                Value::Buffer(Handle { buffer: host.global(*global), ..Handle::default() })
            }
            Op::BufferLoad(path) => {
                let ty = result_type(f, data);
                match self.address(f, path, &data.args, host)? {
                    Some((buffer, at)) => {
                        if host.watches() {
                            let len = super::memory::leaf_size(&self.module.types, ty);
                            let (kind, span) = (AccessKind::Read, self.user_span());
                            host.accesses(Access { buffer, at, len, kind, bytes: None, span });
                        }
                        self.known(buffer, super::read_leaf(self.module, ty, host, buffer, at))
                    }
                    None => Value::zero(&self.module.types, ty),
                }
            }
            Op::BufferStore(path) => {
                let (x, place) = data.args.split_last().ok_or("a store of nothing")?;
                if let Some((buffer, at)) = self.address(f, path, place, host)? {
                    let value = self.value(*x)?;
                    let bytes = super::leaf_bytes(self.module, f.ty(*x), value, host);
                    let lost = self.lost(value);
                    self.tell(host, (buffer, at), AccessKind::Write, &bytes);
                    host.write(buffer, at, &bytes);
                    self.forget(buffer, lost);
                }
                return Ok(None);
            }
            Op::Atomic(path, op) => self.atomic(f, data, path, *op, host)?,
            Op::BufferLen => {
                let (handle, len, size) = self.buffer(f, data.args[0], host)?;
                let len = ((len / size) as i128 - handle.offset as i128).clamp(0, u32::MAX as i128);
                Value::Scalar(L::from_bits(len as u64))
            }
            Op::BufferOffset => {
                let Value::Buffer(handle) = self.value(data.args[0])? else { return Err(no_buffer()) };
                let by = scalar::to_i64(
                    self.scalar(f, data.args[1])?,
                    self.value(data.args[1])?.lane().decided()?,
                );
                Value::Buffer(Handle { offset: handle.offset.wrapping_add(by), ..*handle })
            }
            Op::BufferCast(kind) => {
                let (handle, len, from) = self.buffer(f, data.args[0], host)?;
                let by = scalar::to_i64(
                    self.scalar(f, data.args[1])?,
                    self.value(data.args[1])?.lane().decided()?,
                );
                let TypeData::Buffer(to) = self.module.types[result_type(f, data)] else {
                    return Err(no_buffer());
                };
                let to = (self.module.mem.size(to) as i64).max(1);
                let at = handle.offset.wrapping_mul(from as i64).wrapping_add(by);
                let (offset, rest) = (at.div_euclid(to), at.rem_euclid(to) as u64);
                let len = len.saturating_sub(rest);
                let len = match kind {
                    Rest::Kept => len,
                    Rest::Dropped => len / to as u64 * to as u64,
                };
                Value::Buffer(Handle { offset, start: handle.start + rest, len: Some(len), ..handle })
            }
            Op::OnDevice => Value::Scalar(L::from_bits(0)),
            Op::BufferAddress => {
                let (handle, _, size) = self.buffer(f, data.args[0], host)?;
                let at = handle.buffer.map_or(0, |buffer| {
                    let start = (u64::from(buffer) + 1) << 40;
                    start.wrapping_add(handle.start).wrapping_add((handle.offset as u64).wrapping_mul(size))
                });
                Value::Vector([at & 0xffff_ffff, at >> 32].into_iter().map(L::from_bits).collect())
            }
            Op::Clock => {
                let now = crate::clock();
                Value::Vector([now & 0xffff_ffff, now >> 32].into_iter().map(L::from_bits).collect())
            }
            Op::HandleBits => {
                let (handle, _, size) = self.buffer(f, data.args[0], host)?;
                Value::Scalar(L::from_bits(super::memory::bits_of(&handle, size, host)))
            }
            Op::HandleOf => {
                let TypeData::Buffer(element) = self.module.types[result_type(f, data)] else {
                    return Err(no_buffer());
                };
                let bits = self.value(data.args[0])?.lane().decided()?;
                Value::Buffer(super::memory::handle_of(bits, self.module.mem.size(element), host))
            }
            Op::Barrier | Op::WaveGather => return Ok(None),
            Op::WaveMultiply(_) => return Err("there are no matrix units here".to_string()),
            Op::Builtin(builtin) => {
                let place = host.builtin(*builtin).map(|x| L::from_bits(x as u64));
                match builtin {
                    Builtin::GroupIndex => Value::Scalar(place[0]),
                    Builtin::DispatchThreadId
                    | Builtin::GroupId
                    | Builtin::GroupThreadId
                    | Builtin::GroupSize => Value::Vector(place.into_iter().collect()),
                }
            }
            Op::Printf(format) => {
                let mut args = Vec::with_capacity(data.args.len());
                for &arg in &data.args {
                    args.push((self.scalar(f, arg)?, self.value(arg)?.lane().bits()));
                }
                host.print(&crate::printf::print(format, &args))?;
                return Ok(None);
            }
            Op::Assert(message) => {
                return match self.value(data.args[0])?.lane().decided()? {
                    0 => Err(message.to_string()),
                    _ => Ok(None),
                };
            }

            Op::CheckFinite(what) => {
                let mut values = Vec::with_capacity(data.args.len());
                for &arg in &data.args {
                    let s = self.module.types.scalar_of(f.ty(arg)).ok_or("a check of no numbers")?;
                    values.push((s, self.value(arg)?.lanes().iter().map(|lane| lane.bits()).collect()));
                }
                if let Some(message) = super::not_finite_message(what, &values) {
                    return Err(message);
                }
                self.value(data.args[0])?.clone()
            }
            _ => return Err(unknown(&data.op)),
        }))
    }

    fn call(&mut self, data: &InstData) -> Result<(), String> {
        match &data.op {
            Op::Call(callee) => {
                let mut args = Vec::with_capacity(data.args.len());
                for (&arg, slot) in data.args.iter().zip(&self.module.funcs[*callee].params) {
                    let mut value = self.value(arg)?.clone();
                    self.pass(&mut value, slot);
                    args.push(value);
                }
                self.enter(*callee, args)
            }
            Op::CallDerivative(_, callee) | Op::CallTransposeOf(callee) => {
                let name = &self.module.funcs[*callee].name;
                Err(format!("a derivative of '{name}' was not differentiated"))
            }
            op => Err(unknown(op)),
        }
    }

    fn control(&mut self, f: &Function, inst: Inst) -> Result<(), String> {
        let data = &f.insts[inst];
        match &data.op {
            Op::If => {
                let taken = self.value(data.args[0])?.lane().decided()? != 0;
                let region = data.regions[usize::from(!taken)];
                self.begin(f, region, Vec::new(), Kind::Arm(inst));
            }
            Op::Switch(cases) => {
                let tag = scalar::to_i64(
                    self.scalar(f, data.args[0])?,
                    self.value(data.args[0])?.lane().decided()?,
                );
                let arm = cases.iter().position(|&case| case == tag).unwrap_or(cases.len());
                self.begin(f, data.regions[arm], Vec::new(), Kind::Arm(inst));
            }
            Op::For(_) => {
                let n = self.value(data.args[0])?.lane().decided()?;
                let carried = self.values(&data.args[1..])?;
                let stacks = vec![Vec::new(); data.results.len() - carried.len()];
                if n > 0 {
                    self.check_bound(f, inst, n - 1)?;
                }
                self.next_trip(f, inst, 0, n, carried, stacks);
            }
            Op::Loop(_) => {
                let carried = self.values(&data.args)?;
                let stacks = vec![Vec::new(); data.results.len() - carried.len()];
                self.begin(f, data.regions[0], carried, Kind::Loop { inst, trip: 0, stacks });
            }
            op => return Err(unknown(op)),
        }
        Ok(())
    }

    fn values(&self, names: &[Name]) -> Result<Vec<Value<L>>, String> {
        names.iter().map(|&name| self.value(name).cloned()).collect()
    }

    /// The scalar type that a value is made of.
    fn scalar(&self, f: &Function, name: Name) -> Result<Scalar, String> {
        self.module.types.scalar_of(f.ty(name)).ok_or_else(|| format!("{name} is not a number"))
    }

    /// Evaluates an index; `None` if it is negative or does not fit in a `usize`.
    fn index(&self, f: &Function, name: Name) -> Result<Option<usize>, String> {
        Ok(scalar::index(self.scalar(f, name)?, self.value(name)?.lane().decided()?, usize::MAX))
    }

    fn element(&self, f: &Function, data: &InstData, idx: Option<usize>) -> Result<Value<L>, String> {
        let whole = self.value(data.args[0])?;
        let missing = if matches!(whole, Value::Stack(_)) { Value::absent } else { Value::zero };
        let element = idx.and_then(|idx| whole.element(idx));
        Ok(element.unwrap_or_else(|| missing(&self.module.types, result_type(f, data))))
    }

    fn elementwise(&self, f: &Function, data: &InstData) -> Result<Value<L>, String> {
        let from = self.scalar(f, data.args[0])?;
        let to = self.module.types.scalar_of(result_type(f, data)).ok_or("not a number")?;
        let args: Vec<&Value<L>> = data.args.iter().map(|&arg| self.value(arg)).collect::<Result<_, _>>()?;
        let is_cut = is_step(&data.op, from, to);
        let lane = |lanes: &[L]| {
            let made = L::elementwise(&data.op, from, to, lanes)
                .ok_or_else(|| format!("{:?} is not defined for {}", data.op, from.name()))?;
            let lost = |lane: &L| lane.cut_at(&|| self.user_span());
            Ok::<L, String>(if is_cut { made.detached(lanes.iter().find_map(lost)) } else { made })
        };
        if let Value::Vector(first) = args[0] {
            let mut lanes = smallvec::SmallVec::new();
            for k in 0..first.len() {
                let operands: smallvec::SmallVec<[L; 4]> =
                    args.iter().map(|arg| arg.element(k).map_or(L::from_bits(0), |e| e.lane())).collect();
                lanes.push(lane(&operands)?);
            }
            return Ok(Value::Vector(lanes));
        }
        let operands: smallvec::SmallVec<[L; 4]> = args.iter().map(|arg| arg.lane()).collect();
        Ok(Value::Scalar(lane(&operands)?))
    }

    fn select(&self, f: &Function, data: &InstData) -> Result<Value<L>, String> {
        let s = self.module.types.scalar_of(result_type(f, data)).unwrap_or(Scalar::Bool);
        let (c, a, b) = (self.value(data.args[0])?, self.value(data.args[1])?, self.value(data.args[2])?);
        Ok(match (c, a, b) {
            (Value::Vector(c), Value::Vector(a), Value::Vector(b)) => Value::Vector(
                c.iter().zip(a.iter().zip(b)).map(|(c, (&a, &b))| c.selected(a, b, s)).collect(),
            ),
            (Value::Scalar(c), Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(c.selected(*a, *b, s)),
            (Value::Scalar(c), Value::Vector(a), Value::Vector(b)) => {
                Value::Vector(a.iter().zip(b).map(|(&a, &b)| c.selected(a, b, s)).collect())
            }
            _ => (if c.lane().decided()? != 0 { a } else { b }).clone(),
        })
    }

    // ---- cells

    /// The cell that a name is bound to: the name of its root cell and the path from there.
    fn cell(&self, name: Name) -> Result<(Name, Vec<Option<usize>>), String> {
        match self.bound(name) {
            Bound::Cell(_) => Ok((name, Vec::new())),
            Bound::SubCell(root, path) => Ok((*root, path.clone())),
            Bound::Nothing | Bound::Value(_) => Err(no_cell(name)),
        }
    }

    /// The part of a cell that the operands `cell, i…` select.
    fn place(&self, f: &Function, args: &[Name]) -> Result<(Name, Vec<Option<usize>>), String> {
        let (root, mut path) = self.cell(args[0])?;
        for &arg in &args[1..] {
            path.push(self.index(f, arg)?);
        }
        Ok((root, path))
    }

    fn write_cell(&mut self, f: &Function, data: &InstData) -> Result<(), String> {
        let (&x, place) = data.args.split_last().ok_or("a store of nothing")?;
        let (root, path) = self.place(f, place)?;
        let x_value = self.value(x)?.clone();
        let adds = match data.op {
            Op::AddTo => Some(self.scalar(f, x)?),
            _ => None,
        };
        let types = &self.module.types;
        let mut ty = types.content(f.ty(root)).ok_or_else(|| no_cell(root))?;
        let frame = self.frames.last_mut().expect("a frame is active");
        let bound = &mut frame.names[cranelift_entity::EntityRef::index(root)];
        let Bound::Cell(content) = bound else { return Err(no_cell(root)) };
        // Descend to the place, taking each part out of its parent and putting it back, so that sharing ends
        // along the way.
        let mut at = content;
        for idx in path {
            let Some(idx) = idx else { return Ok(()) };
            let element = types.element(ty).ok_or("an index into a scalar")?;
            if let Value::Stack(elements) = at
                && adds.is_some()
                && idx >= elements.len()
            {
                if idx >= STACK_LIMIT {
                    return Err(format!("a stack grows past {STACK_LIMIT} elements"));
                }
                std::sync::Arc::make_mut(elements).resize_with(idx + 1, || Value::absent(types, element));
            }
            if idx >= at.len() {
                return Ok(());
            }
            match at {
                Value::Array(elements) | Value::Stack(elements) => {
                    at = &mut std::sync::Arc::make_mut(elements)[idx];
                }
                Value::Vector(lanes) => {
                    let old = Value::Scalar(lanes[idx]);
                    lanes[idx] = match adds {
                        Some(s) => old.add(&x_value, s).lane(),
                        None => x_value.lane(),
                    };
                    return Ok(());
                }
                Value::Scalar(_) | Value::Buffer(_) => return Ok(()),
            }
            ty = element;
        }
        *at = match adds {
            Some(s) => at.add(&x_value, s),
            None => x_value,
        };
        Ok(())
    }

    // ---- memory

    /// A buffer's handle, the size of its memory in bytes, and the size of an element.
    fn buffer(&self, f: &Function, name: Name, host: &mut dyn Host) -> Result<(Handle, u64, u64), String> {
        let (Value::Buffer(handle), TypeData::Buffer(element)) =
            (self.value(name)?, self.module.types[f.ty(name)])
        else {
            return Err(no_buffer());
        };
        // A type without a size, such as `void`, counts as bytes.
        let size = self.module.mem.size(element).max(1);
        let len = match handle.len {
            Some(len) => len,
            None => handle.buffer.map_or(0, |buffer| host.byte_len(buffer) / size * size),
        };
        Ok((*handle, len, size))
    }

    /// The buffer and byte that `buf, i, dyn…` with a path addresses, if in range.
    fn address(
        &self,
        f: &Function,
        path: &Path,
        args: &[Name],
        host: &mut dyn Host,
    ) -> Result<Option<(u32, u64)>, String> {
        let (handle, len, size) = self.buffer(f, args[0], host)?;
        let TypeData::Buffer(element) = self.module.types[f.ty(args[0])] else { return Err(no_buffer()) };
        let i = scalar::to_i128(self.scalar(f, args[1])?, self.value(args[1])?.lane().decided()?);
        let i = i + handle.offset as i128;
        let mut dynamic = Vec::new();
        for &arg in &args[2..] {
            dynamic.push((self.scalar(f, arg)?, self.value(arg)?.lane().decided()?));
        }
        debug_assert_eq!(path.0.iter().filter(|s| matches!(s, Step::Dynamic)).count(), dynamic.len());
        let place = super::resolve(&self.module.mem, element, path, &dynamic);
        Ok(match (handle.buffer, place) {
            (Some(buffer), Some((at, place))) if i >= 0 => {
                let at = i * size as i128 + at as i128;
                let end = at + place.bytes(&self.module.mem) as i128;
                (end <= len as i128).then(|| (buffer, handle.start + at as u64))
            }
            _ => None,
        })
    }

    fn atomic(
        &mut self,
        f: &Function,
        data: &InstData,
        path: &Path,
        op: AtomicOp,
        host: &mut dyn Host,
    ) -> Result<Value<L>, String> {
        let n_values = op.n_values();
        let (place, values) = data.args.split_at(data.args.len() - n_values);
        let ty = result_type(f, data);
        let s = self.module.types.scalar_of(ty).ok_or("an atomic of no number")?;
        let Some((buffer, at)) = self.address(f, path, place, host)? else {
            return Ok(Value::zero(&self.module.types, ty));
        };
        let old: Value<L> = self.known(buffer, super::read_leaf(self.module, ty, host, buffer, at));
        let x = self.value(*values.last().ok_or("an atomic without operand")?)?.lane();
        let new = match atomic_op(op) {
            Some(op) => {
                L::elementwise(&op, s, s, &[old.lane(), x]).ok_or("an atomic the type does not have")?
            }
            None if op == AtomicOp::Exchange => x,
            None => match self.value(values[0])?.lane().decided()? == old.lane().decided()? {
                true => x,
                false => old.lane(),
            },
        };
        let bytes = super::leaf_bytes(self.module, ty, &Value::Scalar(new), host);
        self.tell(host, (buffer, at), AccessKind::Atomic, &bytes);
        host.write(buffer, at, &bytes);
        self.forget(buffer, self.lost(&Value::Scalar(x)));
        Ok(old)
    }

    /// The place where a value loses its derivative, at the latest here; `None` if it has none to lose.
    fn lost(&self, value: &Value<L>) -> Option<Span> {
        value.lanes().iter().find_map(|lane| lane.cut_at(&|| self.user_span()))
    }

    /// Records that derivatives were lost in a buffer, since memory holds only bits.
    fn forget(&mut self, buffer: u32, lost: Option<Span>) {
        if let Some(at) = lost {
            self.lost_in.entry(buffer).or_insert(at);
        }
    }

    /// A value that was read from a buffer, marked as cut if the buffer has lost derivatives.
    fn known(&self, buffer: u32, value: Value<L>) -> Value<L> {
        match self.lost_in.get(&buffer) {
            Some(&at) => value.map(&mut |lane| lane.cut(Some(at))),
            None => value,
        }
    }

    /// Notifies the host that bytes are about to be written, if it watches.
    fn tell(&self, host: &mut dyn Host, (buffer, at): (u32, u64), kind: AccessKind, bytes: &[u8]) {
        if host.watches() {
            let (len, span) = (bytes.len() as u64, self.user_span());
            host.accesses(Access { buffer, at, len, kind, bytes: Some(bytes), span });
        }
    }
}

/// Returns true for step functions: their derivative is zero between the steps, however small the steps are.
fn is_step(op: &Op, from: Scalar, to: Scalar) -> bool {
    match op {
        Op::Convert | Op::Bitcast => from.is_float() && !to.is_float() && to != Scalar::Bool,
        Op::Math(m) => matches!(m, Math::Floor | Math::Ceil | Math::Round | Math::Trunc),
        _ => false,
    }
}

/// The binary op that an atomic applies to the old value and its operand; `None` for the exchanges.
fn atomic_op(op: AtomicOp) -> Option<Op> {
    Some(match op {
        AtomicOp::Add => Op::Add,
        AtomicOp::Min => Op::Math(Math::Min),
        AtomicOp::Max => Op::Math(Math::Max),
        AtomicOp::And => Op::And,
        AtomicOp::Or => Op::Or,
        AtomicOp::Xor => Op::Xor,
        AtomicOp::Exchange | AtomicOp::CompareExchange => return None,
    })
}

fn result_type(f: &Function, data: &InstData) -> Type {
    f.ty(data.results[0])
}

fn no_cell(name: Name) -> String {
    format!("{name} is not a cell")
}

fn no_buffer() -> String {
    "not a buffer".to_string()
}
