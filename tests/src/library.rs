//! Kernels as users of `pullback build` call them: a shared library, made by the system's C compiler and loaded.

use std::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use driver::build;
use driver::pipeline::{Failure, Loaded, Options};

/// A buffer as C has it.
#[repr(C)]
struct Buffer {
    data: *mut c_void,
    count: u64,
}

type Kernel = unsafe extern "C" fn(*const Buffer, u32, u32, u32) -> i32;

/// A library in memory.
pub struct Library {
    library: libloading::Library,
    /// The names of the buffers, in the order of the kernels' argument.
    buffers: Vec<String>,
}

/// True if there is a C compiler, without which there are no libraries.
pub fn has_linker() -> bool {
    Command::new("cc").arg("--version").output().is_ok()
}

fn other(text: impl ToString) -> Failure {
    driver::Error::input(text.to_string()).into()
}

impl Library {
    /// Builds and loads the named kernels of a file.
    pub fn new(loaded: &mut Loaded, kernels: Vec<String>, compile: &Options) -> Result<Library, Failure> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let options = build::Options {
            compile: compile.clone(),
            kernels,
            native: true,
            prefix: "library".to_string(),
            ..build::Options::default()
        };
        let built = build::build(loaded, &options)?;
        let list = built.header.split_once("in this order: ").and_then(|(_, rest)| rest.split_once(". */"));
        let (list, _) = list.ok_or_else(|| other("the header does not list the buffers"))?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf =
            std::env::temp_dir().join(format!("pullback-tests-{}-{number}.so", std::process::id()));
        build::write(&built, &path)?;
        // SAFETY: the library runs nothing when it is loaded.
        let library = unsafe { libloading::Library::new(&path) };
        // The system keeps what it loaded.
        let _ = std::fs::remove_file(&path);
        let buffers = list.split(", ").map(str::to_string).collect();
        Ok(Library { library: library.map_err(other)?, buffers })
    }

    /// True if a kernel uses the buffer.
    pub fn has(&self, buffer: &str) -> bool {
        self.buffers.iter().any(|name| name == buffer)
    }

    /// Runs a kernel on named buffers, each with the bytes of its elements; the others are empty.
    pub fn dispatch(
        &self,
        kernel: &str,
        bound: &mut [(&str, &mut [u8], usize)],
        groups: [u32; 3],
    ) -> Result<(), Failure> {
        let of = |name: &String| match bound.iter_mut().find(|b| b.0 == name) {
            Some((_, bytes, size)) => {
                Buffer { data: bytes.as_mut_ptr().cast(), count: (bytes.len() / *size) as u64 }
            }
            None => Buffer { data: std::ptr::null_mut(), count: 0 },
        };
        let buffers: Vec<Buffer> = self.buffers.iter().map(of).collect();
        // SAFETY: the header declares kernels so; each buffer has as many elements as it says.
        let status = unsafe {
            let function = self.library.get::<Kernel>(kernel.as_bytes()).map_err(other)?;
            function(buffers.as_ptr(), groups[0], groups[1], groups[2])
        };
        if status == 0 { Ok(()) } else { Err(other(format!("{kernel} gives the error {status}"))) }
    }
}
