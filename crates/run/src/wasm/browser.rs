//! Has the host of this module run other modules of WebAssembly: a browser, which compiles them.
//!
//! The host provides the functions of [`host`]. Modules and instances are numbers there, from 0; a negative number is an
//! error.

use native::runtime::Site;

use super::Trap;

mod host {
    #[link(wasm_import_module = "pullback_host")]
    unsafe extern "C" {
        /// Compiles a module. The numbers are those of the operands of each place that prints.
        pub(super) fn compile(bytes: *const u8, n: usize, operands: *const u32, places: usize) -> i32;
        pub(super) fn drop_code(code: i32);
        /// Makes an instance of a module.
        pub(super) fn instantiate(code: i32) -> i32;
        pub(super) fn drop_instance(instance: i32);
        /// Calls an export with 32-bit integers, and writes the result, if any: 0, or 1 for a trap, 2 for an overflow of
        /// the stack.
        pub(super) fn call(
            instance: i32,
            name: *const u8,
            bytes: usize,
            args: *const u32,
            n: usize,
            result: *mut u32,
        ) -> i32;
        pub(super) fn get(instance: i32, name: *const u8, bytes: usize) -> u32;
        pub(super) fn set(instance: i32, name: *const u8, bytes: usize, value: u32);
        /// Copies memory of the instance here: 0 if the range exists.
        pub(super) fn read(instance: i32, at: u32, to: *mut u8, n: usize) -> i32;
        /// Copies memory to the instance: 0 if the range exists.
        pub(super) fn write(instance: i32, at: u32, from: *const u8, n: usize) -> i32;
        /// The number of words that were printed: for each time the number of the place, and its operands.
        pub(super) fn printed_words(instance: i32) -> usize;
        /// Writes these words, and forgets them.
        pub(super) fn take_printed(instance: i32, to: *mut u64);
        /// The length of the last error's message.
        pub(super) fn error_bytes() -> usize;
        /// Writes that message.
        pub(super) fn take_error(to: *mut u8);
    }
}

/// The last error of the host.
fn last_error() -> String {
    // SAFETY: the host writes as many bytes as it has announced.
    let bytes = unsafe {
        let mut bytes = vec![0; host::error_bytes()];
        host::take_error(bytes.as_mut_ptr());
        bytes
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A module.
pub(super) struct Code {
    number: i32,
    operands: Vec<usize>,
}

impl Code {
    pub(super) fn new(bytes: &[u8], sites: &[Site]) -> Result<Code, String> {
        let operands: Vec<usize> = super::operands(sites).collect();
        let counts: Vec<u32> = operands.iter().map(|&n| n as u32).collect();
        // SAFETY: the host reads the bytes and the numbers, which live on.
        let number = unsafe { host::compile(bytes.as_ptr(), bytes.len(), counts.as_ptr(), counts.len()) };
        if number < 0 { Err(last_error()) } else { Ok(Code { number, operands }) }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the number is of a module that exists.
        unsafe { host::drop_code(self.number) }
    }
}

/// An instance of a module.
pub(super) struct Instance {
    number: i32,
    operands: Vec<usize>,
}

impl Instance {
    pub(super) fn new(code: &Code) -> Result<Instance, Trap> {
        // SAFETY: the number is of a module that exists.
        let number = unsafe { host::instantiate(code.number) };
        if number < 0 {
            return Err(Trap::Any(last_error()));
        }
        Ok(Instance { number, operands: code.operands.clone() })
    }

    /// Sets a global.
    pub(super) fn set(&mut self, global: &str, value: u32) -> Result<(), Trap> {
        // SAFETY: the host reads the name, which lives on.
        unsafe { host::set(self.number, global.as_ptr(), global.len(), value) };
        Ok(())
    }

    /// The value of a global.
    pub(super) fn get(&self, global: &str) -> u32 {
        // SAFETY: the host reads the name, which lives on.
        unsafe { host::get(self.number, global.as_ptr(), global.len()) }
    }

    /// Calls a function that has at most one result.
    pub(super) fn call(&mut self, name: &str, args: &[u32]) -> Result<u32, Trap> {
        let mut result = 0;
        // SAFETY: the host reads the name and the arguments, and writes the result, which live on.
        let status = unsafe {
            host::call(self.number, name.as_ptr(), name.len(), args.as_ptr(), args.len(), &mut result)
        };
        match status {
            0 => Ok(result),
            2 => Err(Trap::StackOverflow),
            _ => Err(Trap::Any(last_error())),
        }
    }

    pub(super) fn read(&self, at: u32, bytes: &mut [u8]) -> Result<(), Trap> {
        // SAFETY: the host writes as many bytes as there are.
        let status = unsafe { host::read(self.number, at, bytes.as_mut_ptr(), bytes.len()) };
        if status == 0 { Ok(()) } else { Err(Trap::Any(last_error())) }
    }

    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Trap> {
        // SAFETY: the host reads as many bytes as there are.
        let status = unsafe { host::write(self.number, at, bytes.as_ptr(), bytes.len()) };
        if status == 0 { Ok(()) } else { Err(Trap::Any(last_error())) }
    }

    /// The places that printed, with their operands, in order.
    pub(super) fn take_printed(&mut self) -> Vec<(u32, Vec<u64>)> {
        // SAFETY: the host writes as many words as it has announced.
        let words = unsafe {
            let mut words = vec![0; host::printed_words(self.number)];
            host::take_printed(self.number, words.as_mut_ptr());
            words
        };
        let (mut all, mut rest) = (Vec::new(), &words[..]);
        while let Some((&number, after)) = rest.split_first() {
            let n = self.operands.get(number as usize).copied().unwrap_or(0).min(after.len());
            all.push((number as u32, after[..n].to_vec()));
            rest = &after[n..];
        }
        all
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the number is of an instance that exists.
        unsafe { host::drop_instance(self.number) }
    }
}
