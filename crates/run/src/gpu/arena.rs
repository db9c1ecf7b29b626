//! The arena of what threads keep: its memory, and the repetition of a dispatch for which it was too small.
//!
//! The size of the parts is that of [`crate::arena`]. The buffers that the kernel may write are copied before the
//! dispatch, within the device; if a part was too small, they are restored, and the dispatch is repeated with larger
//! parts. The size stays for later dispatches of the kernel.

use codegen_naga::BindingKind;

use super::{Held, Program, Resource};
use crate::arena;

/// Places in the arena are numbers of 32 bits. Devices allow no more than that for one buffer of Vulkan, and wgpu
/// one byte less than 2 GiB.
const MOST: u64 = u32::MAX as u64;

/// The needs of a program's arenas on the device.
pub(super) struct Arenas {
    /// The bytes wanted for a thread's part, by entry point.
    wanted: Vec<u64>,
    /// The copies of buffers, by binding.
    saved: Vec<Option<wgpu::Buffer>>,
}

impl Arenas {
    /// The state of a program with so many entry points and bindings.
    pub(super) fn new(entries: usize, bindings: usize) -> Arenas {
        Arenas { wanted: vec![arena::FIRST; entries], saved: (0..bindings).map(|_| None).collect() }
    }
}

impl Program {
    /// The binding of a kind that an entry point uses.
    fn binding_of(&self, entry: usize, kind: BindingKind) -> Option<usize> {
        let all = &self.built.reflection;
        all.entries[entry].uses.iter().map(|u| u.binding).find(|&n| all.bindings[n].kind == kind)
    }

    /// Returns true if threads of an entry point may keep something in an arena.
    pub(super) fn has_arena(&self, entry: usize) -> bool {
        self.binding_of(entry, BindingKind::ArenaState).is_some()
    }

    /// Makes the arena for the threads of a dispatch, and tells them the size of their parts. Returns that size,
    /// which is more than `too_small`.
    pub(super) fn make_arena(
        &self,
        entry: usize,
        groups: [u32; 3],
        too_small: u64,
        held: &mut Held,
    ) -> Result<u64, String> {
        let Some(state) = self.binding_of(entry, BindingKind::ArenaState) else { return Ok(0) };
        let all = &self.built.reflection;
        let size = all.entries[entry].group_size;
        let threads = groups.iter().chain(&size).fold(1u64, |n, &k| n.saturating_mul(k.into())).max(1);
        let limits = [self.limits.max_storage_buffer_binding_size, self.limits.max_buffer_size, MOST];
        let most = limits.into_iter().min().unwrap_or(MOST);
        let wanted = held.arenas.wanted[entry];
        let Some(each) = arena::part(wanted, too_small, threads, most) else {
            return Err(format!(
                "what {threads} threads keep takes more than {too_small} bytes each; the arena of `{}` has at most {most}",
                self.name
            ));
        };
        let len = threads * each;
        if let Some(arena) = self.binding_of(entry, BindingKind::Arena) {
            self.ensure(arena, len, held);
        }
        self.ensure(state, arena::STATE, held);
        if let Some(resource) = &held.buffers[state] {
            self.queue.write_buffer(&resource.buffer, 0, &arena::state(each, groups, threads));
        }
        Ok(each)
    }

    /// Makes a buffer that has at least so many bytes.
    pub(super) fn ensure(&self, number: usize, len: u64, held: &mut Held) {
        if held.buffers[number].as_ref().is_none_or(|r| r.len < len) {
            // The old memory is given back before the new is taken.
            held.buffers[number] = None;
            held.groups.fill_with(|| None);
            held.buffers[number] = Some(self.resource(&self.built.reflection.bindings[number], len, 0));
        }
    }

    /// Copies the buffers that an entry point may write.
    pub(super) fn save(&self, entry: usize, held: &mut Held) {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for number in self.written(entry) {
            let Some(Resource { buffer, len, .. }) = &held.buffers[number] else { continue };
            let copy = &mut held.arenas.saved[number];
            if copy.as_ref().is_none_or(|copy| copy.size() != *len) {
                *copy = Some(self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: *len,
                    usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
                    mapped_at_creation: false,
                }));
            }
            if let Some(copy) = copy {
                encoder.copy_buffer_to_buffer(buffer, 0, copy, 0, *len);
            }
        }
        self.queue.submit([encoder.finish()]);
    }

    /// Returns true if the part of a thread was too small: then the buffers are as they were, the words that
    /// the device reports in are zero, and more than `each` bytes will be wanted.
    pub(super) fn was_short(&self, entry: usize, each: u64, held: &mut Held) -> Result<bool, String> {
        let Some(state) = self.binding_of(entry, BindingKind::ArenaState) else { return Ok(false) };
        let found = self.read(&[(state, arena::STATE)], held)?;
        if !found.first().is_some_and(|bytes| arena::was_short(bytes)) {
            return Ok(false);
        }
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for number in self.written(entry) {
            let (Some(resource), Some(copy)) = (&held.buffers[number], &held.arenas.saved[number]) else {
                continue;
            };
            encoder.copy_buffer_to_buffer(copy, 0, &resource.buffer, 0, resource.len);
        }
        self.queue.submit([encoder.finish()]);
        for kind in [BindingKind::ErrorWord, BindingKind::PrintLog] {
            let resource = self.binding_of(entry, kind).and_then(|number| held.buffers[number].as_ref());
            if let Some(resource) = resource {
                self.queue.write_buffer(&resource.buffer, 0, &[0; 32]);
            }
        }
        held.arenas.wanted[entry] = arena::larger(each);
        Ok(true)
    }

    /// The program's buffers that an entry point may write.
    fn written(&self, entry: usize) -> impl Iterator<Item = usize> {
        let all = &self.built.reflection;
        let uses = all.entries[entry].uses.iter().filter(|u| u.written).map(|u| u.binding);
        uses.filter(|&number| all.bindings[number].kind == BindingKind::Storage)
    }
}
