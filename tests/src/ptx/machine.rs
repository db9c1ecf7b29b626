//! Executes a launch: groups one after the other, and in a group each thread until it waits or ends.

use std::collections::HashMap;
use std::sync::MutexGuard;

use super::parse::{Function, Operand, Program, Ty};
use super::{Held, Space, lock, matrices, number};

/// The addresses of the memory of a group, and of a thread's local memory.
const SHARED: u64 = 1 << 48;
const LOCAL: u64 = 2 << 48;
/// The size in bytes of a thread's local memory for all its calls.
const LOCAL_BYTES: usize = 512 << 10;
/// Threads per warp.
const LANES: usize = 32;
/// The maximum number of instructions of a launch.
const MOST_STEPS: u64 = 2_000_000_000;

/// Kernels and the module's memory.
pub(super) struct Code {
    program: Program,
    by_name: HashMap<String, usize>,
    kernels: Vec<usize>,
    /// The address of each symbol that the module declares.
    symbols: HashMap<String, u64>,
    shared_bytes: usize,
    space: Space,
}

impl Code {
    pub(super) fn new(program: Program, names: &[&str], space: Space) -> Result<Code, String> {
        let by_name: HashMap<String, usize> =
            program.functions.iter().enumerate().map(|(k, f)| (f.name.clone(), k)).collect();
        let kernels: Result<Vec<usize>, String> = names
            .iter()
            .map(|&n| by_name.get(n).copied().ok_or_else(|| format!("there is no kernel {n}")))
            .collect();
        let mut symbols = HashMap::new();
        let mut shared_bytes = 0u64;
        for (name, bytes) in &program.shared {
            shared_bytes = shared_bytes.next_multiple_of(16);
            symbols.insert(name.clone(), SHARED + shared_bytes);
            shared_bytes += bytes;
        }
        let mut held = lock(&space);
        for global in &program.globals {
            let mut bytes = global.bytes.clone();
            for (at, name) in &global.names {
                let address = symbols.get(name).copied().ok_or_else(|| format!("{name} comes too late"))?;
                bytes[*at..at + 8].copy_from_slice(&address.to_le_bytes());
            }
            let at = held.allocate(bytes);
            symbols.insert(global.name.clone(), at);
        }
        drop(held);
        Ok(Code { kernels: kernels?, by_name, symbols, shared_bytes: shared_bytes as usize, space, program })
    }

    pub(super) fn launch(
        &self,
        kernel: usize,
        groups: [u32; 3],
        size: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), String> {
        let function = self.kernels[kernel];
        let n_params = self.program.functions[function].params.len();
        if n_params != parameters.len() {
            return Err(format!("{} parameters instead of {n_params}", parameters.len()));
        }
        let mut run = Run {
            code: self,
            held: lock(&self.space),
            shared: Vec::new(),
            groups,
            size,
            group: [0; 3],
            steps: 0,
        };
        for z in 0..groups[2] {
            for y in 0..groups[1] {
                for x in 0..groups[0] {
                    run.group = [x, y, z];
                    run.group(function, parameters)?;
                }
            }
        }
        Ok(())
    }
}

pub(super) struct Frame {
    function: usize,
    pub(super) at: usize,
    pub(super) registers: Vec<u64>,
    params: HashMap<String, Vec<u8>>,
    /// The address of the call's local memory.
    local: u64,
}

/// A warp operation that a thread has reached.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Meeting {
    function: usize,
    at: usize,
    mask: u32,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    Ready,
    Barrier,
    /// The operation, the value that the thread contributes, and the lane whose value it takes.
    Wave(Meeting, u64, u32),
    Done,
}

pub(super) struct Thread {
    pub(super) frames: Vec<Frame>,
    local: Vec<u8>,
    pub(super) state: State,
    place: [u32; 3],
}

struct Run<'c> {
    code: &'c Code,
    held: MutexGuard<'c, Held>,
    /// The memory of the group.
    shared: Vec<u8>,
    groups: [u32; 3],
    size: [u32; 3],
    group: [u32; 3],
    steps: u64,
}

impl<'c> Run<'c> {
    fn group(&mut self, function: usize, parameters: &[u64]) -> Result<(), String> {
        // Group memory is uninitialised.
        self.shared = vec![0xa5; self.code.shared_bytes];
        let [x, y, z] = self.size;
        let mut threads = Vec::new();
        for k in 0..x * y * z {
            let code = &self.code.program.functions[function];
            let bytes = parameters.iter().map(|p| p.to_le_bytes().to_vec());
            let params = code.params.iter().cloned().zip(bytes).collect();
            let mut thread = Thread {
                frames: Vec::new(),
                local: Vec::new(),
                state: State::Ready,
                place: [k % x, k / x % y, k / (x * y)],
            };
            enter(&mut thread, code, function, params)?;
            threads.push(thread);
        }
        loop {
            let mut moved = false;
            for thread in &mut threads {
                moved |= thread.state == State::Ready;
                while thread.state == State::Ready {
                    self.step(thread).map_err(|why| self.told(thread, &why))?;
                }
            }
            if threads.iter().all(|t| t.state == State::Done) {
                return Ok(());
            }
            for wave in threads.chunks_mut(LANES) {
                moved |= self.meet(wave)?;
            }
            if threads.iter().all(|t| matches!(t.state, State::Barrier | State::Done)) {
                threads.iter_mut().filter(|t| t.state == State::Barrier).for_each(|t| t.state = State::Ready);
                moved = true;
            }
            if !moved {
                return Err("threads wait for each other forever".into());
            }
        }
    }

    /// An error message with its place.
    fn told(&self, thread: &Thread, why: &str) -> String {
        let Some(frame) = thread.frames.last() else { return why.to_string() };
        let function = &self.code.program.functions[frame.function];
        let inst = function.code.get(frame.at).map(|i| &i.text);
        format!(
            "{why} in `{}`, {:?}, thread {:?} of {:?}: {inst:?}",
            function.name, frame.at, thread.place, self.group
        )
    }

    /// Lets lanes of a warp proceed that have reached the same operation, once all lanes in its mask that
    /// have not ended are there.
    fn meet(&mut self, wave: &mut [Thread]) -> Result<bool, String> {
        for k in 0..wave.len() {
            let State::Wave(meeting, ..) = wave[k].state else { continue };
            if meeting.mask >> k & 1 == 0 {
                return Err(self.told(&wave[k], "a lane that is not in its own mask"));
            }
            let named = |l: usize| meeting.mask >> l & 1 == 1;
            if (wave.len()..LANES).any(named) {
                return Err(self.told(&wave[k], "a mask with lanes that there are not"));
            }
            let here = |t: &Thread| matches!(t.state, State::Wave(m, ..) if m == meeting);
            if !(0..wave.len()).filter(|&l| named(l)).all(|l| here(&wave[l]) || wave[l].state == State::Done)
            {
                continue;
            }
            let values: Vec<Option<u64>> = wave
                .iter()
                .map(|t| match t.state {
                    State::Wave(m, value, _) if m == meeting => Some(value),
                    _ => None,
                })
                .collect();
            let inst = &self.code.program.functions[meeting.function].code[meeting.at];
            if inst.op[0] == "mma" {
                matrices::multiply(wave, inst).map_err(|why| self.told(&wave[k], &why))?;
                return Ok(true);
            }
            for thread in wave.iter_mut().filter(|t| here(t)) {
                let State::Wave(_, own, lane) = thread.state else { continue };
                let result = match inst.op[0].as_str() {
                    // The value of a lane that does not take part is undefined.
                    "shfl" => Some(values.get(lane as usize).copied().flatten().unwrap_or(0xdead_beef)),
                    "match" => {
                        let same = |l: &usize| values[*l] == Some(own);
                        Some((0..values.len()).filter(same).fold(0u64, |mask, l| mask | 1 << l))
                    }
                    _ => None,
                };
                let frame = thread.frames.last_mut().ok_or("a thread without code")?;
                if let (Some(result), Some(Operand::Register(to))) = (result, inst.operands.first()) {
                    frame.registers[*to] = result;
                }
                frame.at += 1;
                thread.state = State::Ready;
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn special(&self, name: &str, place: [u32; 3]) -> Option<u64> {
        let (kind, axis) = name.trim_start_matches('%').split_once('.')?;
        let axis = ["x", "y", "z"].iter().position(|a| *a == axis)?;
        let all = match kind {
            "tid" => place,
            "ntid" => self.size,
            "ctaid" => self.group,
            "nctaid" => self.groups,
            _ => return None,
        };
        Some(u64::from(all[axis]))
    }

    fn symbol(&self, frame: &Frame, name: &str) -> Result<u64, String> {
        let local = &self.code.program.functions[frame.function].local;
        match local {
            Some((own, _)) if own == name => Ok(frame.local),
            _ => self.code.symbols.get(name).copied().ok_or_else(|| format!("what is `{name}`?")),
        }
    }

    fn value(&self, frame: &Frame, place: [u32; 3], operand: &Operand) -> Result<u64, String> {
        match operand {
            Operand::Register(k) => Ok(frame.registers[*k]),
            Operand::Number(n) => Ok(*n),
            Operand::Symbol(name) => self.symbol(frame, name),
            Operand::Special(name) => self.special(name, place).ok_or_else(|| format!("what is `{name}`?")),
            Operand::At(base, by) => Ok(self.value(frame, place, base)?.wrapping_add(*by as u64)),
            Operand::Vector(_) => Err("a vector where a number is wanted".into()),
        }
    }

    /// The bytes of an access.
    fn memory<'m>(&'m mut self, local: &'m mut [u8], at: u64, len: usize) -> Result<&'m mut [u8], String> {
        if !at.is_multiple_of(len as u64) {
            return Err(format!("the address {at:#x} is no multiple of {len}"));
        }
        let within = |bytes: &'m mut [u8], from: u64| bytes.get_mut(from as usize..from as usize + len);
        let found = match at {
            LOCAL.. => within(local, at - LOCAL),
            SHARED.. => within(&mut self.shared, at - SHARED),
            _ => self.held.bytes(at, len),
        };
        found.ok_or_else(|| format!("there is no memory at {at:#x}"))
    }

    /// Executes one instruction of a thread.
    fn step(&mut self, thread: &mut Thread) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err("too many instructions".into());
        }
        let place = thread.place;
        let n_frames = thread.frames.len();
        let frame = thread.frames.last_mut().ok_or("a thread without code")?;
        let code = &self.code.program.functions[frame.function].code;
        let inst = code.get(frame.at).ok_or("the code ends without an end")?;
        if let Some((register, wanted)) = inst.guard
            && (frame.registers[register] != 0) != wanted
        {
            frame.at += 1;
            return Ok(());
        }
        let arg = |k: usize| self.value(frame, place, inst.operands.get(k).ok_or("an operand is missing")?);
        let op = inst.op[0].as_str();
        let modifier = inst.op.get(1).map(String::as_str);
        let Ty(_, bits) = inst.ty;
        let result = match op {
            "bra" => {
                frame.at = inst.target;
                return Ok(());
            }
            "exit" => {
                thread.state = State::Done;
                return Ok(());
            }
            "ret" => {
                let done = thread.frames.pop().ok_or("a return from nowhere")?;
                thread.local.truncate((done.local - LOCAL) as usize);
                match thread.frames.last_mut() {
                    None => thread.state = State::Done,
                    Some(caller) => {
                        if let Some(value) = done.params.get("func_retval0") {
                            caller.params.insert("retval0".into(), value.clone());
                        }
                        caller.at += 1;
                    }
                }
                return Ok(());
            }
            "call" => {
                let (name, args) = inst.call.as_ref().ok_or("a call of nothing")?;
                let function = *self.code.by_name.get(name).ok_or_else(|| format!("what is `{name}`?"))?;
                let callee = &self.code.program.functions[function];
                if callee.params.len() != args.len() || n_frames > 64 {
                    return Err("a call with other parameters, or one too deep".into());
                }
                let value = |name: &String| frame.params.get(name).cloned();
                let values: Option<Vec<Vec<u8>>> = args.iter().map(value).collect();
                let values = values.ok_or("an argument that was not given")?;
                let params = callee.params.iter().cloned().zip(values).collect();
                return enter(thread, callee, function, params);
            }
            "ld" | "st" if inst.op.iter().any(|m| m == "param") => {
                let Some((name, by, own)) = inst.operands.iter().enumerate().find_map(|(k, o)| match o {
                    Operand::At(base, by) => match &**base {
                        Operand::Symbol(name) => Some((name, *by as usize, k)),
                        _ => None,
                    },
                    _ => None,
                }) else {
                    return Err("a parameter without a name".into());
                };
                let other = &inst.operands[1 - own];
                let parts = std::slice::from_ref(other);
                let parts = if let Operand::Vector(parts) = other { parts } else { parts };
                let len = bits as usize / 8;
                for (k, part) in parts.iter().enumerate() {
                    let (from, to) = (by + k * len, by + (k + 1) * len);
                    if op == "st" {
                        let value = self.value(frame, place, part)?;
                        let bytes = frame.params.entry(name.clone()).or_default();
                        bytes.resize(bytes.len().max(to), 0);
                        bytes[from..to].copy_from_slice(&value.to_le_bytes()[..len]);
                    } else {
                        let bytes = frame.params.get(name).and_then(|b| b.get(from..to));
                        let mut word = [0; 8];
                        word[..len].copy_from_slice(bytes.ok_or("a parameter that was not given")?);
                        let Operand::Register(to) = part else { return Err("no register".into()) };
                        frame.registers[*to] = u64::from_le_bytes(word);
                    }
                }
                frame.at += 1;
                return Ok(());
            }
            "ld" | "st" => {
                let (at, other) = if op == "ld" { (1, 0) } else { (0, 1) };
                let at = arg(at)?;
                let other = &inst.operands[other];
                let parts = std::slice::from_ref(other);
                let parts = if let Operand::Vector(parts) = other { parts } else { parts };
                let len = bits as usize / 8;
                if !at.is_multiple_of((len * parts.len()) as u64) {
                    return Err(format!("the address {at:#x} of a vector is no multiple of its size"));
                }
                let local = &mut thread.local;
                for (k, part) in parts.iter().enumerate() {
                    let at = at + (k * len) as u64;
                    if op == "st" {
                        let value = self.value(frame, place, part)?;
                        self.memory(local, at, len)?.copy_from_slice(&value.to_le_bytes()[..len]);
                    } else {
                        let mut word = [0; 8];
                        word[..len].copy_from_slice(self.memory(local, at, len)?);
                        let mut value = u64::from_le_bytes(word);
                        if inst.ty.0 == 's' {
                            // The register may be wider than the value; later instructions use as many bits
                            // as they need.
                            value = number::signed(value, bits) as u64;
                        }
                        let Operand::Register(to) = part else { return Err("no register".into()) };
                        frame.registers[*to] = value;
                    }
                }
                frame.at += 1;
                return Ok(());
            }
            "atom" | "red" => {
                let first = usize::from(op == "atom");
                let (at, x) = (arg(first)?, arg(first + 1)?);
                let y = if inst.operands.len() > first + 2 { arg(first + 2)? } else { 0 };
                let what = inst.op.last().map(String::as_str).unwrap_or_default();
                let ty = inst.ty;
                let len = bits as usize / 8;
                let bytes = self.memory(&mut thread.local, at, len)?;
                let mut word = [0; 8];
                word[..len].copy_from_slice(bytes);
                let old = u64::from_le_bytes(word);
                let new = match what {
                    "exch" => x,
                    "cas" if old == number::cut(x, bits) => y,
                    "cas" => old,
                    what => number::binary(what, ty, old, x).ok_or("an unknown atomic operation")?,
                };
                bytes.copy_from_slice(&new.to_le_bytes()[..len]);
                if op == "red" {
                    frame.at += 1;
                    return Ok(());
                }
                old
            }
            "bar" if modifier == Some("sync") => {
                frame.at += 1;
                thread.state = State::Barrier;
                return Ok(());
            }
            "mma" => {
                let meeting = Meeting { function: frame.function, at: frame.at, mask: u32::MAX };
                thread.state = State::Wave(meeting, 0, 0);
                return Ok(());
            }
            "bar" | "shfl" | "match" => {
                let last = inst.operands.len() - 1;
                let (value, lane) = match op {
                    "bar" => (0, 0),
                    "match" => (arg(1)?, 0),
                    _ if inst.op.get(2).is_some_and(|m| m == "idx") => (arg(1)?, arg(2)? as u32 & 31),
                    _ => return Err("a shuffle of another kind".into()),
                };
                let meeting = Meeting { function: frame.function, at: frame.at, mask: arg(last)? as u32 };
                thread.state = State::Wave(meeting, value, lane);
                return Ok(());
            }
            "mov" => match (&inst.operands[0], &inst.operands[1]) {
                (Operand::Vector(parts), _) => {
                    let (all, each) = (arg(1)?, bits / parts.len() as u32);
                    for (k, part) in parts.iter().enumerate() {
                        let Operand::Register(to) = part else { return Err("no register".into()) };
                        frame.registers[*to] = number::cut(all >> (k as u32 * each), each);
                    }
                    frame.at += 1;
                    return Ok(());
                }
                (_, Operand::Vector(parts)) => {
                    let each = bits / parts.len() as u32;
                    let mut all = 0;
                    for (k, part) in parts.iter().enumerate() {
                        let value = self.value(frame, place, part)?;
                        all |= number::cut(value, each) << (k as u32 * each);
                    }
                    all
                }
                _ => number::cut(arg(1)?, bits),
            },
            "cvta" => arg(1)?,
            "selp" => arg(if arg(3)? != 0 { 1 } else { 2 })?,
            // Both halves of registers, for two predicates.
            "setp" if let Some(Operand::Vector(parts)) = inst.operands.first() => {
                let (x, y) = (arg(1)?, arg(2)?);
                for (k, part) in parts.iter().enumerate() {
                    let half = |x: u64| number::cut(x >> (16 * k), 16);
                    let is = number::compare(modifier.unwrap_or_default(), Ty('f', 16), half(x), half(y));
                    let (Operand::Register(to), Some(is)) = (part, is) else {
                        return Err("an unknown comparison".into());
                    };
                    frame.registers[*to] = u64::from(is);
                }
                frame.at += 1;
                return Ok(());
            }
            _ if inst.op.last().is_some_and(|word| word == "f16x2") => {
                let args: Vec<u64> = (1..inst.operands.len()).map(arg).collect::<Result<_, _>>()?;
                number::in_halves(op, &args).ok_or_else(|| format!("what is `{}`?", inst.op.join(".")))?
            }
            "setp" => {
                let is = number::compare(modifier.unwrap_or_default(), inst.ty, arg(1)?, arg(2)?)
                    .ok_or("an unknown comparison")?;
                let is = match inst.op.get(2).map(String::as_str) {
                    None | Some("ftz") => is,
                    Some("and") => is && arg(3)? != 0,
                    Some("or") => is || arg(3)? != 0,
                    Some(_) => return Err("an unknown comparison".into()),
                };
                u64::from(is)
            }
            "mul" | "mad" => {
                let (x, y) = (arg(1)?, arg(2)?);
                let (product, bits) = match modifier {
                    Some("wide") => (number::wide(inst.ty, x, y), 2 * bits),
                    Some("hi") => (number::high(inst.ty, x, y), bits),
                    _ => (number::binary("mul", inst.ty, x, y).ok_or("no product")?, bits),
                };
                if op == "mad" { number::cut(product.wrapping_add(arg(3)?), bits) } else { product }
            }
            "fma" => number::fma(bits, arg(1)?, arg(2)?, arg(3)?),
            "cvt" => {
                let to = inst.first.ok_or("a conversion to nothing")?;
                // The types are in the order of the text: destination, source.
                number::convert(modifier, to, inst.ty, arg(1)?).ok_or("an unknown conversion")?
            }
            "bfe" => {
                let (x, from, len) = (arg(1)?, arg(2)? as u32 & 255, arg(3)? as u32 & 255);
                if len == 0 || from + len > bits {
                    return Err("bits that there are not".into());
                }
                let field = number::cut(x >> from, len);
                let field = if inst.ty.0 == 's' { number::signed(field, len) as u64 } else { field };
                number::cut(field, bits)
            }
            "bfi" => {
                let (field, x) = (arg(1)?, arg(2)?);
                let (from, len) = (arg(3)? as u32 & 255, arg(4)? as u32 & 255);
                if len == 0 || from + len > bits {
                    return Err("bits that there are not".into());
                }
                let mask = number::cut(u64::MAX, len) << from;
                x & !mask | field << from & mask
            }
            _ => {
                let known = match inst.operands.len() {
                    2 => number::unary(op, inst.ty, arg(1)?),
                    3 => number::binary(op, inst.ty, arg(1)?, arg(2)?),
                    _ => None,
                };
                known.ok_or_else(|| format!("what is `{}`?", inst.op.join(".")))?
            }
        };
        let Some(Operand::Register(to)) = inst.operands.first() else { return Err("no register".into()) };
        frame.registers[*to] = result;
        frame.at += 1;
        Ok(())
    }
}

/// Enters a function.
fn enter(
    thread: &mut Thread,
    code: &Function,
    function: usize,
    params: HashMap<String, Vec<u8>>,
) -> Result<(), String> {
    let start = thread.local.len().next_multiple_of(64);
    let bytes = code.local.as_ref().map_or(0, |l| l.1 as usize);
    if start + bytes > LOCAL_BYTES {
        return Err("too much memory of a thread".into());
    }
    thread.local.resize(start + bytes, 0xa5);
    let registers = vec![0xbad_bad_bad; code.n_registers];
    thread.frames.push(Frame { function, at: 0, registers, params, local: LOCAL + start as u64 });
    Ok(())
}
