//! Tests of the host's part in dispatches on NVIDIA devices: when buffers are copied, and how an arena that
//! is too small is handled. The device is simulated by a list of memory, and its kernel by a Rust function.
#![cfg(feature = "cuda")]

use std::sync::{Arc, Mutex};

use ir::{Global, Module};
use pullback_run::cuda::{self, Code, Driver, Kernel, Kernels, Limits, Memory};
use pullback_run::{Buffers, Foreign, Interpreter, Options, dispatch};

/// The requests made to the device, and its memory: allocation number `k` is at address `k << 32`.
#[derive(Default)]
struct State {
    memory: Vec<Option<Vec<u8>>>,
    written: Vec<usize>,
    read: Vec<usize>,
    launches: Vec<([u32; 3], Vec<u64>)>,
    /// The bytes of each thread's part in each launch.
    parts: Vec<u64>,
    waits: usize,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn with<R>(&self, then: impl FnOnce(&mut State) -> R) -> R {
        then(&mut self.0.lock().expect("nobody panics"))
    }

    fn make(&self, bytes: Vec<u8>) -> Box<dyn Memory> {
        let at = self.with(|s| {
            s.memory.push(Some(bytes));
            s.memory.len() - 1
        });
        Box::new(Held { device: self.clone(), at, is_borrowed: false })
    }

    /// The sizes of the writes to and reads from the device since the last call.
    fn traffic(&self) -> (Vec<usize>, Vec<usize>) {
        self.with(|s| (std::mem::take(&mut s.written), std::mem::take(&mut s.read)))
    }
}

impl Driver for Fake {
    fn name(&self) -> &str {
        "fake"
    }
    fn generation(&self) -> u32 {
        70
    }
    fn limits(&self) -> Limits {
        Limits { groups: [100; 3], group_size: [64; 3], threads: 64 }
    }
    fn free_bytes(&self) -> Result<u64, String> {
        let held = self.with(|s| s.memory.iter().flatten().map(Vec::len).sum::<usize>());
        Ok((1 << 20) - held as u64)
    }
    fn zeros(&self, len: u64) -> Result<Box<dyn Memory>, String> {
        Ok(self.make(vec![0; len as usize]))
    }
    fn borrow(&self, address: u64, _: u64) -> Box<dyn Memory> {
        Box::new(Held { device: self.clone(), at: (address >> 32) as usize, is_borrowed: true })
    }
    fn load(&self, text: &str, names: &[&str]) -> Result<Box<dyn Kernels>, String> {
        assert_eq!((text, names), ("the text", &["main"][..]));
        Ok(Box::new(self.clone()))
    }
}

struct Held {
    device: Fake,
    at: usize,
    is_borrowed: bool,
}

impl Held {
    fn with<R>(&self, then: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.device.with(|s| then(s.memory[self.at].as_mut().expect("it lives")))
    }
}

impl Memory for Held {
    fn address(&self) -> u64 {
        (self.at as u64) << 32
    }
    fn len(&self) -> u64 {
        self.with(|m| m.len() as u64)
    }
    fn clear(&self, len: u64) -> Result<(), String> {
        self.with(|m| m[..len as usize].fill(0));
        Ok(())
    }
    fn write(&self, bytes: &[u8]) -> Result<(), String> {
        self.with(|m| m[..bytes.len()].copy_from_slice(bytes));
        self.device.with(|s| s.written.push(bytes.len()));
        Ok(())
    }
    fn read(&self, bytes: &mut [u8]) -> Result<(), String> {
        self.with(|m| bytes.copy_from_slice(&m[..bytes.len()]));
        self.device.with(|s| s.read.push(bytes.len()));
        Ok(())
    }
    fn duplicate(&self) -> Result<Box<dyn Memory>, String> {
        Ok(self.device.make(self.with(|m| m.clone())))
    }
    fn restore(&self, duplicate: &dyn Memory) -> Result<(), String> {
        let from = (duplicate.address() >> 32) as usize;
        let bytes = self.device.with(|s| s.memory[from].clone()).expect("it lives");
        self.with(|m| m.clone_from(&bytes));
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_borrowed {
            self.device.with(|s| s.memory[self.at] = None);
        }
    }
}

/// The number of bytes of the arena that the kernel needs per thread.
const NEEDED: u64 = 5000;

impl Kernels for Fake {
    /// `x[i] += step` for all `i`; then the state tells if the arena is too small.
    fn launch(
        &self,
        kernel: usize,
        groups: [u32; 3],
        size: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), String> {
        assert_eq!((kernel, size), (0, [8, 1, 1]));
        let &[x, count, step, one, error, _, words, state] = parameters else { panic!("{parameters:?}") };
        assert_eq!(one, 1);
        self.with(|s| {
            s.launches.push((groups, parameters.to_vec()));
            let step = s.memory[(step >> 32) as usize].as_ref().expect("it lives")[0];
            let x = s.memory[(x >> 32) as usize].as_mut().expect("it lives");
            for k in 0..count as usize {
                x[4 * k] += step;
            }
            assert_eq!(state, error + 16);
            let state = &mut s.memory[(error >> 32) as usize].as_mut().expect("it lives")[16..];
            let field =
                |k: usize| u64::from(u32::from_le_bytes(*state[4 * k..].first_chunk().expect("a word")));
            let (each, threads) = (field(1), field(4));
            assert_eq!((field(0), field(2), words), (0, u64::from(groups[0]), threads * each / 4));
            s.parts.push(each);
            state[0] = u8::from(each < NEEDED);
        });
        Ok(())
    }
    fn wait(&self) -> Result<(), String> {
        self.with(|s| s.waits += 1);
        Ok(())
    }
}

fn setup() -> (Fake, Module, cuda::Program, Buffers, [Global; 2]) {
    let module = ir::parse::parse_module(
        "global x: read_write u32\nglobal step: uniform u32\nentry main: main [8, 1, 1]\nfunc main() {\n    yield\n}\n",
    )
    .expect("it is read");
    let mut globals = module.globals.iter().map(|g| g.0);
    let [x, step] = std::array::from_fn(|_| globals.next().expect("there are two"));
    drop(globals);
    let device = Fake::default();
    let code = Code {
        text: "the text".into(),
        kernels: vec![Kernel {
            name: "main".into(),
            group_size: [8, 1, 1],
            first_group_last: false,
            uses_arena: true,
        }],
        globals: vec![x, step],
        has_arena: true,
        ..Code::default()
    };
    let program = cuda::Program::new(Arc::new(device.clone()), code).expect("it is loaded");
    let mut buffers = Buffers::new(&module);
    let words = |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|w| w.to_le_bytes()).collect() };
    buffers.bind(&module, x, &words(&[1, 2, 3]));
    buffers.bind(&module, step, &words(&[10]));
    (device, module, program, buffers, [x, step])
}

#[test]
fn the_arena_grows_and_nothing_is_done_twice() {
    let (device, module, program, mut buffers, [x, _]) = setup();
    let run =
        |buffers: &mut Buffers, groups| dispatch(&program, &module, 0, groups, buffers, Options::default());
    run(&mut buffers, [2, 1, 1]).expect("it runs");
    let first: Vec<u8> = buffers.bytes(x).iter().step_by(4).copied().collect();
    assert_eq!(first, [11, 12, 13]);
    let each = device.with(|s| s.parts.clone());
    assert_eq!(each, [1 << 10, 1 << 12, 1 << 14]);
    // The required size is known from here on.
    run(&mut buffers, [2, 1, 1]).expect("it runs");
    assert_eq!(device.with(|s| s.launches.len()), 4);
    assert_eq!(buffers.bytes(x)[0], 21);
    // The parts of more threads are smaller, as large as there is room for, and enough.
    run(&mut buffers, [20, 1, 1]).expect("it runs");
    let each = device.with(|s| s.parts.split_off(4));
    assert_eq!(each.len(), 1);
    assert!((NEEDED..1 << 14).contains(&each[0]), "{each:?}");
    assert_eq!(buffers.bytes(x)[0], 31);
    // There is not enough memory for this many threads.
    let why = run(&mut buffers, [100, 1, 1]).expect_err("there is no room");
    assert!(why.error.message.contains("what 800 threads keep"), "{}", why.error.message);
    let why = run(&mut buffers, [101, 1, 1]).expect_err("it is too large");
    assert!(why.error.message.contains("101 thread groups along x"), "{}", why.error.message);
}

#[test]
fn only_what_has_changed_is_copied() {
    let (device, module, program, mut buffers, [x, step]) = setup();
    let run = |buffers: &mut Buffers, reads: Option<&[(Global, usize)]>| {
        let options = Options { reads, ..Options::default() };
        dispatch(&program, &module, 0, [1; 3], buffers, options).expect("it runs");
    };
    run(&mut buffers, None);
    device.traffic();
    // Only the arena's state is copied to the device; the reports and all of `x` are copied back.
    run(&mut buffers, None);
    assert_eq!(device.traffic(), (vec![36], vec![36, 12]));
    // First the sums stay on the device, then a part of them is read.
    run(&mut buffers, Some(&[]));
    assert_eq!(device.traffic(), (vec![36], vec![36]));
    assert_eq!(buffers.bytes(x)[0], 21);
    run(&mut buffers, Some(&[(x, 4)]));
    assert_eq!(device.traffic(), (vec![36], vec![36, 4]));
    assert_eq!((buffers.bytes(x)[0], buffers.bytes(x)[4]), (41, 22));
    // Memory changed by the host is copied before the next dispatch.
    buffers.bytes_mut(step)[0] = 1;
    run(&mut buffers, None);
    assert_eq!(device.traffic(), (vec![4, 36], vec![36, 12]));
    assert_eq!((buffers.bytes(x)[0], buffers.bytes(x)[4]), (42, 43));
    // All memory is freed, except for that still in use.
    drop(program);
    assert!(device.with(|s| s.memory.iter().all(Option::is_none)));
}

#[test]
fn what_the_host_has_on_the_device_stays_there() {
    let (device, module, program, mut buffers, [x, step]) = setup();
    let held = device.make([7u32, 8, 9].iter().flat_map(|w| w.to_le_bytes()).collect());
    let at = std::num::NonZero::new(held.address() as usize).expect("it is not the first");
    // SAFETY: the simulated device has that many bytes at this address.
    let memory = unsafe { Foreign::on_device(std::ptr::NonNull::without_provenance(at), 12) };
    buffers.bind_foreign(&module, x, memory);
    let run = |backend, buffers: &mut Buffers| {
        dispatch(backend, &module, 0, [2, 1, 1], buffers, Options::default())
    };
    run(&program, &mut buffers).expect("it runs");
    // The memory is neither copied nor updated twice when the arena grows; and it has no bytes here.
    let (written, read) = device.traffic();
    assert_eq!((written, read), (vec![4, 36, 36, 36], vec![36; 3]));
    // Other work may be using the memory beforehand, so there is an additional wait.
    assert_eq!(device.with(|s| (s.launches.len(), s.waits)), (3, 4));
    let mut bytes = [0; 12];
    held.read(&mut bytes).expect("it is there");
    assert_eq!(bytes.iter().copied().step_by(4).collect::<Vec<u8>>(), [17, 18, 19]);
    assert!(buffers.bytes(x).is_empty());
    let why = run(&Interpreter, &mut buffers).expect_err("it is not there");
    assert!(why.error.message.contains("memory on a CUDA device"), "{}", why.error.message);
    // The host binds memory of its own instead.
    buffers.bind(&module, x, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    buffers.bytes_mut(step)[0] = 1;
    run(&program, &mut buffers).expect("it runs");
    assert_eq!((buffers.bytes(x)[0], buffers.bytes(x)[8]), (2, 4));
    drop(program);
    held.read(&mut bytes).expect("it still lives");
    assert_eq!(bytes[0], 17);
}
