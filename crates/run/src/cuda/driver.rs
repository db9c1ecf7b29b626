//! Implements [`Driver`] with NVIDIA's driver.
//!
//! The library is opened at the first use. Its calls refer to the context that is current on the calling
//! thread, so every function here makes its own context current first.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUjit_option_enum as Jit};

use super::{Driver, Kernels, Limits, Memory};

/// The first version of CUDA whose drivers can read the generated PTX, which is of version 7.0.
const FIRST_VERSION: i32 = 11_000;
/// The first generation of devices that can run it.
const FIRST_GENERATION: i32 = 70;

/// An opened device.
struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    name: String,
    generation: u32,
    limits: Limits,
}

// SAFETY: the driver's functions may be called from any thread; the handle is only passed to them, after it
// was made current on the calling thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The driver's message for an error.
fn text(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("error {}", error.0 as u32),
    }
}

/// Opens the driver; returns the version of CUDA that it supports, and the number of devices.
pub(super) fn open() -> Result<(i32, i32), String> {
    // SAFETY: the loaded library is the driver's, if there is one.
    if !unsafe { sys::is_culib_present() } {
        return Err("this machine has no CUDA driver (libcuda.so.1)".into());
    }
    let mut version = 0;
    // SAFETY: the function writes one number to the given place.
    let known = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    if known == sys::CUresult::CUDA_SUCCESS && version < FIRST_VERSION {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(format!("the CUDA driver of this machine is for CUDA {major}.{minor}; 11.0 is needed"));
    }
    result::init().map_err(|e| format!("this machine's CUDA driver does not start: {}", text(e)))?;
    match result::device::get_count() {
        Ok(0) => Err("this machine has no device that its CUDA driver can use".into()),
        Ok(n) => Ok((version, n)),
        Err(e) => Err(format!("this machine's CUDA driver lists no devices: {}", text(e))),
    }
}

/// A device's name and generation.
pub(super) fn describe(number: i32) -> Result<(String, i32), String> {
    let device = result::device::get(number).map_err(text)?;
    let name = result::device::get_name(device).map_err(text)?;
    let major = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok((name, 10 * major as i32 + minor as i32))
}

fn attribute(device: sys::CUdevice, which: Attribute) -> Result<u32, String> {
    // SAFETY: the device was obtained from the driver.
    let value = unsafe { result::device::get_attribute(device, which) };
    value.map(|n| n.max(0) as u32).map_err(text)
}

/// The first device of this machine.
pub(super) fn first() -> Result<Arc<dyn Driver>, String> {
    open()?;
    let (name, generation) = describe(0)?;
    if generation < FIRST_GENERATION {
        return Err(format!(
            "the device `{name}` is of generation sm_{generation}; sm_{FIRST_GENERATION} is needed"
        ));
    }
    let device = result::device::get(0).map_err(text)?;
    let limits = Limits {
        groups: [
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        group_size: [
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        threads: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
    };
    // SAFETY: the device was obtained from the driver; the context is released when the `Context` is dropped.
    let context = unsafe { result::primary_ctx::retain(device) };
    let context = context.map_err(|e| format!("`{name}`: {}", text(e)))?;
    let generation = generation as u32;
    Ok(Arc::new(Nvidia(Arc::new(Context { device, context, name, generation, limits }))))
}

impl Context {
    /// An error with the device's name.
    fn named(&self, error: DriverError) -> String {
        format!("the device `{}`: {}", self.name, text(error))
    }

    /// Makes the context current on this thread.
    fn enter(&self) -> Result<(), String> {
        // SAFETY: the context was retained, and is not released before `self` is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| self.named(e))
    }

    /// Waits for all work that was started.
    fn wait(&self) -> Result<(), String> {
        self.enter()?;
        result::ctx::synchronize().map_err(|e| self.named(e))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, and everything that was made in it holds an `Arc` of it.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// NVIDIA's driver, on one device.
struct Nvidia(Arc<Context>);

impl Driver for Nvidia {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn generation(&self) -> u32 {
        self.0.generation
    }

    fn limits(&self) -> Limits {
        self.0.limits
    }

    fn free_bytes(&self) -> Result<u64, String> {
        self.0.enter()?;
        result::mem_get_info().map(|(free, _)| free as u64).map_err(|e| self.0.named(e))
    }

    fn zeros(&self, len: u64) -> Result<Box<dyn Memory>, String> {
        let memory = Allocated::new(&self.0, len)?;
        memory.clear(len)?;
        Ok(Box::new(memory))
    }

    fn borrow(&self, address: u64, len: u64) -> Box<dyn Memory> {
        Box::new(Allocated { context: self.0.clone(), at: address, len, is_borrowed: true })
    }

    fn load(&self, text: &str, names: &[&str]) -> Result<Box<dyn Kernels>, String> {
        Ok(Box::new(Module::load(&self.0, text, names)?))
    }
}

/// Memory on a device.
struct Allocated {
    context: Arc<Context>,
    at: u64,
    len: u64,
    /// The memory is freed by its owner and not here.
    is_borrowed: bool,
}

impl Allocated {
    /// Allocates `len` bytes, which the caller must write before they are read.
    fn new(context: &Arc<Context>, len: u64) -> Result<Allocated, String> {
        context.enter()?;
        // SAFETY: the memory is not read before it was written: the caller writes all of it.
        let at = unsafe { result::malloc_sync(len as usize) }
            .map_err(|e| format!("{} ({len} bytes of memory)", context.named(e)))?;
        Ok(Allocated { context: context.clone(), at, len, is_borrowed: false })
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
        self.context.enter()?;
        let len = len.min(self.len);
        // SAFETY: the memory is at least `len` bytes long and still allocated; launches have been waited for.
        unsafe { result::memset_d8_sync(self.at, 0, len as usize) }.map_err(|e| self.context.named(e))
    }

    fn write(&self, bytes: &[u8]) -> Result<(), String> {
        self.context.enter()?;
        let bytes = &bytes[..bytes.len().min(self.len as usize)];
        // SAFETY: the memory is at least that long and still allocated; the call returns after the bytes were
        // read.
        unsafe { result::memcpy_htod_sync(self.at, bytes) }.map_err(|e| self.context.named(e))
    }

    fn read(&self, bytes: &mut [u8]) -> Result<(), String> {
        self.context.enter()?;
        let len = bytes.len().min(self.len as usize);
        // SAFETY: the memory is at least `len` bytes long and still allocated; the call returns after the
        // bytes were written.
        unsafe { result::memcpy_dtoh_sync(&mut bytes[..len], self.at) }.map_err(|e| self.context.named(e))
    }

    fn duplicate(&self) -> Result<Box<dyn Memory>, String> {
        let copy = Allocated::new(&self.context, self.len)?;
        copy.restore(self)?;
        Ok(Box::new(copy))
    }

    fn restore(&self, duplicate: &dyn Memory) -> Result<(), String> {
        self.context.enter()?;
        let len = duplicate.len().min(self.len);
        // SAFETY: both are at least `len` bytes long, and still allocated.
        unsafe { result::memcpy_dtod_sync(self.at, duplicate.address(), len as usize) }
            .map_err(|e| self.context.named(e))?;
        // A copy on the device may still be in progress when the call returns.
        self.context.wait()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        if !self.is_borrowed && self.context.enter().is_ok() {
            // SAFETY: the memory was allocated once, and everything that used it was waited for.
            let _ = unsafe { result::free_sync(self.at) };
        }
    }
}

/// Code on a device.
struct Module {
    context: Arc<Context>,
    module: sys::CUmodule,
    functions: Vec<sys::CUfunction>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Module {}
// SAFETY: as for `Context`.
unsafe impl Sync for Module {}

/// The size in bytes of the buffer for the log of the driver's compiler.
const LOG: usize = 8 << 10;

impl Module {
    /// Has the driver compile a text, and looks up the kernels with these names.
    fn load(context: &Arc<Context>, ptx: &str, names: &[&str]) -> Result<Module, String> {
        context.enter()?;
        let image = CString::new(ptx).map_err(|_| "the text has a zero in it".to_string())?;
        let mut log = vec![0u8; LOG];
        let mut options = [Jit::CU_JIT_ERROR_LOG_BUFFER, Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG as *mut c_void];
        let mut module = std::ptr::null_mut();
        // SAFETY: the text ends with a zero; there are two options with their values (the address of a
        // buffer, and its size in bytes, passed as a number in place of a pointer); and all of these live
        // until the call returns.
        let made = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                image.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        made.result().map_err(|e| {
            let said = String::from_utf8_lossy(&log);
            let said = said.split('\0').next().unwrap_or_default().trim();
            format!("{}{}{said}", context.named(e), if said.is_empty() { "" } else { ": " })
        })?;
        let mut own = Module { context: context.clone(), module, functions: Vec::new() };
        for &name in names {
            let c_name = CString::new(name).map_err(|_| "a name has a zero in it".to_string())?;
            // SAFETY: the module was loaded above.
            let function = unsafe { result::module::get_function(module, c_name) };
            own.functions.push(function.map_err(|e| format!("{} (`{name}`)", context.named(e)))?);
        }
        Ok(own)
    }
}

impl Kernels for Module {
    fn launch(
        &self,
        kernel: usize,
        groups: [u32; 3],
        group_size: [u32; 3],
        parameters: &[u64],
    ) -> Result<(), String> {
        self.context.enter()?;
        let mut parameters = parameters.to_vec();
        let mut places: Vec<*mut c_void> =
            parameters.iter_mut().map(|p| std::ptr::from_mut(p).cast()).collect();
        let triple = |[x, y, z]: [u32; 3]| (x, y, z);
        // SAFETY: the function belongs to a module that is loaded; the driver copies the parameters, whose
        // number and size the caller guarantees, before it returns. They refer to memory of the device, where
        // the code checks every index that is not known to be in range. The null stream is the context's own.
        let launched = unsafe {
            result::launch_kernel(
                self.functions[kernel],
                triple(groups),
                triple(group_size),
                0,
                std::ptr::null_mut(),
                &mut places,
            )
        };
        launched.map_err(|e| self.context.named(e))
    }

    fn wait(&self) -> Result<(), String> {
        self.context.wait()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: the module was loaded once, and its launches were waited for.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
