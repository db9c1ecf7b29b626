//! A simulated NVIDIA device for tests, which interprets PTX one instruction after the other.
//!
//! It replaces the driver under `--backend cuda`, so the tests cover the text that LLVM writes, and the
//! host's part in a dispatch. Threads of a group run one after the other, each until it waits; so no test
//! passes only because threads run in lockstep. Undefined behaviour on a device is an error here: accesses to
//! memory that was not allocated, misaligned addresses, values taken from a lane outside of the mask, and
//! threads that wait for each other forever.

mod machine;
mod matrices;
mod number;
mod parse;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use driver::device::cuda::{Driver, Kernels, Limits, Memory};

/// The memory of the device, by address.
type Space = Arc<Mutex<Held>>;

/// The allocations.
#[derive(Default)]
struct Held {
    all: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Held {
    fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        // Allocations are separated by gaps, so that accesses beyond their ends are detected.
        self.next = self.next.max(1 << 32).next_multiple_of(256) + 256;
        let at = self.next;
        self.next += bytes.len() as u64;
        self.all.insert(at, bytes);
        at
    }

    /// The bytes of an access.
    fn bytes(&mut self, at: u64, len: usize) -> Option<&mut [u8]> {
        let (start, bytes) = self.all.range_mut(..=at).next_back()?;
        let from = usize::try_from(at - start).ok()?;
        bytes.get_mut(from..from.checked_add(len)?)
    }
}

/// The device.
pub struct Device {
    space: Space,
    generation: u32,
}

impl Default for Device {
    fn default() -> Device {
        Device::of_generation(90)
    }
}

impl Device {
    /// A device that says it is of this generation, such as 80 for sm_80. (It runs all instructions, whatever that is.)
    pub fn of_generation(generation: u32) -> Device {
        Device { space: Space::default(), generation }
    }
}

fn lock(space: &Space) -> std::sync::MutexGuard<'_, Held> {
    space.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver for Device {
    fn name(&self) -> &str {
        "PTX in tests"
    }

    fn generation(&self) -> u32 {
        self.generation
    }

    fn limits(&self) -> Limits {
        Limits { groups: [2_147_483_647, 65_535, 65_535], group_size: [1024, 1024, 64], threads: 1024 }
    }

    fn free_bytes(&self) -> Result<u64, String> {
        Ok(1 << 30)
    }

    fn zeros(&self, len: u64) -> Result<Box<dyn Memory>, String> {
        let at = lock(&self.space).allocate(vec![0; len as usize]);
        Ok(Box::new(Allocated { space: self.space.clone(), at, len, is_borrowed: false }))
    }

    fn borrow(&self, address: u64, len: u64) -> Box<dyn Memory> {
        Box::new(Allocated { space: self.space.clone(), at: address, len, is_borrowed: true })
    }

    fn load(&self, text: &str, names: &[&str]) -> Result<Box<dyn Kernels>, String> {
        let program = parse::parse(text)?;
        let code = machine::Code::new(program, names, self.space.clone())?;
        Ok(Box::new(Loaded(code)))
    }
}

struct Allocated {
    space: Space,
    at: u64,
    len: u64,
    /// The memory is owned and freed elsewhere.
    is_borrowed: bool,
}

impl Allocated {
    fn with<R>(&self, len: u64, then: impl FnOnce(&mut [u8]) -> R) -> Result<R, String> {
        let mut held = lock(&self.space);
        held.bytes(self.at, len as usize).map(then).ok_or_else(|| "the memory is too short".into())
    }
}

impl Memory for Allocated {
    fn address(&self) -> u64 {
        self.at
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn clear(&self, len: u64) -> Result<(), String> {
        self.with(len, |bytes| bytes.fill(0))
    }

    fn write(&self, bytes: &[u8]) -> Result<(), String> {
        self.with(bytes.len() as u64, |to| to.copy_from_slice(bytes))
    }

    fn read(&self, bytes: &mut [u8]) -> Result<(), String> {
        self.with(bytes.len() as u64, |from| bytes.copy_from_slice(from))
    }

    fn duplicate(&self) -> Result<Box<dyn Memory>, String> {
        let bytes = self.with(self.len, |bytes| bytes.to_vec())?;
        let at = lock(&self.space).allocate(bytes);
        Ok(Box::new(Allocated { space: self.space.clone(), at, len: self.len, is_borrowed: false }))
    }

    fn restore(&self, duplicate: &dyn Memory) -> Result<(), String> {
        let mut bytes = vec![0; self.len as usize];
        duplicate.read(&mut bytes)?;
        self.write(&bytes)
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        if !self.is_borrowed {
            lock(&self.space).all.remove(&self.at);
        }
    }
}

struct Loaded(machine::Code);

impl Kernels for Loaded {
    fn launch(
        &self,
        kernel: usize,
        groups: [u32; 3],
        group_size: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), String> {
        self.0.launch(kernel, groups, group_size, parameters)
    }

    fn wait(&self) -> Result<(), String> {
        Ok(())
    }
}
