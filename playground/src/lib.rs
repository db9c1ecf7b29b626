//! The compiler as a module of WebAssembly, for the page in `page/`.
//!
//! The module is that of WASI, whose host gives it files, arguments and a clock: in the page, all of these are in memory.
//! It exports two things: [`command`], which is the command line, and [`message`], which is the language server. The
//! page makes an instance for each command, so that nothing that a program does outlives it.
#![cfg(target_family = "wasm")]

use std::cell::RefCell;

/// Runs the command of the arguments that the host gives; the exit status.
#[unsafe(no_mangle)]
pub extern "C" fn command() -> i32 {
    i32::from(cli::command())
}

thread_local! {
    static SERVER: RefCell<lsp::Local> = RefCell::default();
    static TEXT: RefCell<Vec<u8>> = RefCell::default();
}

/// Memory for a text of so many bytes, which the host writes.
#[unsafe(no_mangle)]
pub extern "C" fn text(bytes: usize) -> *mut u8 {
    TEXT.with_borrow_mut(|text| {
        text.clear();
        text.resize(bytes, 0);
        text.as_mut_ptr()
    })
}

/// Gives the language server the message in [`text`]. The answers are there afterwards, as a JSON array of so many bytes.
/// The place and message of a panic are printed to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn message() -> usize {
    let received = TEXT.take();
    let said = SERVER.with_borrow_mut(|server| server.receive(&String::from_utf8_lossy(&received)));
    let said = format!("[{}]", said.join(",")).into_bytes();
    TEXT.replace(said);
    TEXT.with_borrow(Vec::len)
}

/// The address of [`text`].
#[unsafe(no_mangle)]
pub extern "C" fn text_at() -> *const u8 {
    TEXT.with_borrow(|text| text.as_ptr())
}
