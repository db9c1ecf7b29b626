//! Dispatches on the reference interpreter: one group after the other, and within a group each thread in turn
//! up to its next barrier.

use cranelift_entity::EntityRef;
use ir::interp::{self, Access, AccessKind, Deadline, Host, Limits, Machine, RunError, Step};
use ir::{Builtin, Global, MemData, Module, Op, Space};

use crate::buffers::Buffers;
use crate::printed::{Place as Turn, Printed};
use crate::races::{RaceAccess, Races};
use crate::{Cost, Launch, group_at, interrupted, phases};

/// The environment of one thread.
struct Thread<'a> {
    module: &'a Module,
    buffers: &'a mut Buffers,
    /// The memory of the group and of the thread, by global.
    shared: &'a mut [Vec<u8>],
    private: &'a mut [Vec<u8>],
    printed: &'a mut Text,
    out: &'a Out<'a>,
    place: Place,
    races: Option<&'a mut Races>,
}

/// The text that a thread has printed and that has not been taken yet.
#[derive(Default)]
struct Text {
    text: String,
    /// No text of an earlier thread is missing before it.
    in_order: bool,
    /// The length of the text when it was last offered.
    offered: usize,
}

/// The destination of a group's text.
struct Out<'a> {
    printed: &'a Printed,
    turn: Turn,
}

/// The position of a thread in the dispatch.
#[derive(Clone, Copy)]
struct Place {
    size: [u32; 3],
    group: [u32; 3],
    local: [u32; 3],
}

/// Group-shared and private memory is numbered from these values, by global.
const SHARED: u32 = 1 << 30;
const PRIVATE: u32 = 1 << 31;

impl Thread<'_> {
    fn memory(&mut self, buffer: u32) -> &mut [u8] {
        if buffer >= PRIVATE {
            &mut self.private[(buffer - PRIVATE) as usize]
        } else if buffer >= SHARED {
            &mut self.shared[(buffer - SHARED) as usize]
        } else {
            self.buffers.all[buffer as usize].bytes_mut()
        }
    }
}

impl Host for Thread<'_> {
    fn global(&mut self, global: Global) -> Option<u32> {
        let n = global.index() as u32;
        Some(match self.module.globals[global].space {
            Space::GroupShared => SHARED + n,
            Space::Private => PRIVATE + n,
            Space::ReadWrite | Space::ReadOnly | Space::Uniform | Space::Arena => n,
        })
    }
    fn byte_len(&mut self, buffer: u32) -> u64 {
        self.memory(buffer).len() as u64
    }
    fn read(&mut self, buffer: u32, at: u64, out: &mut [u8]) {
        let at = at as usize;
        out.copy_from_slice(&self.memory(buffer)[at..at + out.len()]);
    }
    fn write(&mut self, buffer: u32, at: u64, bytes: &[u8]) {
        let at = at as usize;
        self.memory(buffer)[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn numbered(&mut self, number: u64) -> Option<u32> {
        let global = usize::try_from(number).ok().filter(|&n| n < self.module.globals.len());
        match global {
            Some(n) => self.global(Global::from_u32(n as u32)),
            None => (number < self.buffers.all.len() as u64).then_some(number as u32),
        }
    }
    fn number(&mut self, buffer: u32) -> u64 {
        u64::from(buffer & !(SHARED | PRIVATE))
    }
    fn builtin(&mut self, builtin: Builtin) -> [u32; 3] {
        let Place { size, group, local } = self.place;
        match builtin {
            Builtin::DispatchThreadId => {
                std::array::from_fn(|k| group[k].wrapping_mul(size[k]).wrapping_add(local[k]))
            }
            Builtin::GroupId => group,
            Builtin::GroupThreadId => local,
            Builtin::GroupSize => size,
            Builtin::GroupIndex => [local[0] + size[0] * (local[1] + size[1] * local[2]), 0, 0],
        }
    }
    fn print(&mut self, text: &str) -> Result<(), String> {
        let Text { text: all, in_order, offered } = &mut *self.printed;
        all.push_str(text);
        if all.len() < *offered + native::PRINT_EVERY {
            return Ok(());
        }
        let taken = self.out.printed.more(&self.out.turn, all, *in_order);
        *offered = all.len();
        taken
    }
    fn watches(&self) -> bool {
        self.races.is_some()
    }
    fn accesses(&mut self, access: Access<'_>) {
        let Access { buffer, at, len, kind, bytes, span } = access;
        let space = self.module.globals.get(Global::from_u32(buffer & !SHARED)).map(|g| g.space);
        if buffer >= PRIVATE || matches!(space, Some(Space::ReadOnly | Space::Uniform)) {
            return;
        }
        let thread = self.builtin(Builtin::DispatchThreadId);
        let (from, to) = (at as usize, (at + len) as usize);
        // Writing a value that is already there changes nothing.
        let is_same = bytes.is_some_and(|bytes| &self.memory(buffer)[from..to] == bytes);
        if let Some(races) = &mut self.races
            && !(kind == AccessKind::Write && is_same)
        {
            races.access(buffer, at, len, RaceAccess { thread, kind, span });
        }
    }
}

/// A thread of the current group.
struct Running<'m> {
    machine: Machine<'m>,
    place: Place,
    private: Vec<Vec<u8>>,
    printed: Text,
    wait: Wait,
}

/// The reason why a thread is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Ready,
    Barrier,
    Wave,
    Done,
}

pub(crate) fn dispatch(
    launch: Launch<'_>,
    mut races: Option<&mut Races>,
) -> Result<(Cost, Option<f64>), RunError> {
    let Launch { module, entry, groups, buffers, options, printed } = launch;
    let limits = Limits::default();
    let limits = Limits {
        memory: options.memory.unwrap_or(limits.memory),
        deadline: options.seconds.and_then(Deadline::after),
        ..limits
    };
    let entry = &module.entries[entry];
    let n: u64 = groups.iter().map(|&n| n as u64).product();
    let mut cost = Cost::default();
    let mut result = Ok(());
    let out = Out { printed, turn: Turn::new(false) };
    let has_barrier = ir::walk::reaches(module, entry.func, |op| matches!(op, Op::Barrier));
    'phases: for range in phases(n, has_barrier) {
        for k in range {
            if options.is_stopped() {
                result = Err(interrupted());
                break 'phases;
            }
            out.turn.begin(k);
            if let Some(races) = &mut races {
                races.next_group(|buffer| (SHARED..PRIVATE).contains(&buffer));
            }
            let group = group_at(groups, k);
            let races = races.as_deref_mut();
            match run_group(module, entry, (group, k), buffers, &out, races, limits) {
                Ok(steps) => cost.steps += steps,
                Err(error) => {
                    result = Err(error);
                    break 'phases;
                }
            }
        }
    }
    result.map(|()| (cost, None))
}

/// The global that a buffer belongs to, and the size of the units that are numbered in it: the elements, if
/// it is an array.
pub(crate) fn place(module: &Module, buffers: &Buffers, buffer: u32) -> (Option<Global>, u64) {
    let global = Global::from_u32(buffer & !SHARED);
    let Some(data) = module.globals.get(global) else {
        return match module.globals.keys().find(|&g| buffers.number(g) == buffer as usize) {
            Some(global) => (Some(global), buffers.all[buffer as usize].element),
            None => (None, 1),
        };
    };
    let ty = match module.mem[data.ty] {
        MemData::Array(element, _) if buffer >= SHARED => element,
        _ => data.ty,
    };
    (Some(global), module.mem.size(ty))
}

/// Runs one group; returns the number of steps.
fn run_group(
    module: &Module,
    entry: &ir::Entry,
    (group, number): ([u32; 3], u64),
    buffers: &mut Buffers,
    out: &Out<'_>,
    mut races: Option<&mut Races>,
    limits: Limits,
) -> Result<u64, RunError> {
    let (func, size) = (entry.func, entry.group_size);
    let zeroed = |space: Space| -> Vec<Vec<u8>> {
        let bytes = |g: &ir::GlobalData| if g.space == space { module.mem.size(g.ty) } else { 0 };
        module.globals.values().map(|g| vec![0; bytes(g) as usize]).collect()
    };
    let mut shared = zeroed(Space::GroupShared);
    let mut threads = Vec::new();
    for k in 0..size.iter().map(|&n| n as u64).product() {
        let place = Place { size, group, local: group_at(size, k) };
        let machine = Machine::new(module, func, &[], limits)?;
        let private = zeroed(Space::Private);
        threads.push(Running { machine, place, private, printed: Text::default(), wait: Wait::Ready });
    }
    // Without barriers each thread runs to its end in the first round, so the text is in the order of
    // threads.
    let mut first = true;
    let mut left = threads.len();
    // The number of leading threads that have ended, and their text.
    let (mut ended, mut before) = (0, String::new());
    let mut result = Ok(());
    while left > 0 && result.is_ok() {
        for (k, t) in threads.iter_mut().enumerate() {
            if ended == k {
                before.push_str(&t.printed.text);
                t.printed.text = std::mem::take(&mut before);
                t.printed.in_order = true;
            }
            if t.wait == Wait::Ready && first {
                result = init(module, buffers, &mut shared, (t, out));
            }
            let mut host = Thread {
                module,
                buffers,
                shared: &mut shared,
                private: &mut t.private,
                printed: &mut t.printed,
                out,
                place: t.place,
                races: races.as_deref_mut(),
            };
            if result.is_ok() && t.wait == Wait::Ready {
                match t.machine.resume(&mut host) {
                    Ok(Step::Barrier) => t.wait = Wait::Barrier,
                    Ok(Step::Wave) => t.wait = Wait::Wave,
                    Ok(Step::Done(_)) => {
                        t.wait = Wait::Done;
                        left -= 1;
                    }
                    Err(error) => result = Err(error),
                }
            }
            if result.is_err() {
                break;
            }
            if ended == k && t.wait == Wait::Done {
                before = std::mem::take(&mut t.printed.text);
                ended += 1;
            }
        }
        first = false;
        let mut exchanged = false;
        for wave in threads.chunks_mut(ir::WAVE_LANES as usize) {
            exchanged |= exchange(wave);
        }
        if !exchanged {
            if let Some(races) = &mut races {
                races.next_epoch();
            }
            threads.iter_mut().filter(|t| t.wait == Wait::Barrier).for_each(|t| t.wait = Wait::Ready);
        }
    }
    threads.iter().for_each(|t| before.push_str(&t.printed.text));
    let taken = out.printed.end(&out.turn, number..number + 1, before, result.is_err());
    result?;
    taken.map_err(|message| RunError { message, span: ir::Span::NONE, thread: [0; 3] })?;
    Ok(threads.iter().map(|t| t.machine.steps()).sum())
}

/// Lets the lanes of a wave that wait together at the earliest place exchange their values; returns false if
/// there are none.
fn exchange(wave: &mut [Running<'_>]) -> bool {
    if wave.iter().all(|t| t.wait != Wait::Wave) {
        return false;
    }
    let waiting = |t: &Running<'_>| matches!(t.wait, Wait::Barrier | Wait::Wave);
    let paths: Vec<Option<Vec<u64>>> = wave.iter().map(|t| waiting(t).then(|| t.machine.path())).collect();
    let places =
        paths.iter().zip(wave.iter()).map(|(path, t)| Some((&path.as_ref()?[..], t.wait == Wait::Wave)));
    let mask = interp::first_together(places);
    let here = |k: &usize| mask >> k & 1 == 1;
    let lanes = (0..wave.len()).filter(here).map(|k| (k as u32, wave[k].machine.offered()));
    let lanes: Vec<(u32, interp::Value)> = lanes.collect();
    for k in (0..wave.len()).filter(here) {
        wave[k].machine.receive(&lanes);
        wave[k].wait = Wait::Ready;
    }
    mask != 0
}

/// Initialises the private globals of a thread.
fn init(
    module: &Module,
    buffers: &mut Buffers,
    shared: &mut [Vec<u8>],
    (t, out): (&mut Running<'_>, &Out<'_>),
) -> Result<(), RunError> {
    for (global, data) in module.globals.iter().filter(|(_, g)| g.space == Space::Private) {
        if data.init.is_none() {
            continue;
        }
        let mut host = Thread {
            module,
            buffers,
            shared,
            private: &mut t.private,
            printed: &mut t.printed,
            out,
            place: t.place,
            races: None,
        };
        let bytes = interp::initial_bytes(module, global, &mut host)?;
        t.private[global.index()] = bytes;
    }
    Ok(())
}
