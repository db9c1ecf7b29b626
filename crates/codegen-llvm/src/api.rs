//! LLVM's interface for C, from its shared library, which is opened when it is first needed.
//!
//! Opening it takes longer than most commands of ours: some 20 ms. So nothing is linked with it; what needs no machine
//! code of LLVM's, or finds it in the cache, never pays for it. And a program that was built with this backend starts
//! where LLVM is not installed, and says so only when it is asked for.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock};

use libloading::Library;

/// Anything of LLVM's.
pub(crate) type Ref = *mut c_void;

macro_rules! api {
    ($($field:ident = $symbol:literal($($param:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used, by their names without `LLVM`.
        pub(crate) struct Api {
            $(pub(crate) $field: unsafe extern "C" fn($($param),*) $(-> $result)?,)*
            library: Library,
        }

        impl Api {
            fn of(library: Library) -> Result<Api, String> {
                // SAFETY: the symbols have these types in LLVM 19, whose interface for C is stable; the functions
                // are used only while the library is open, which is for ever.
                unsafe {
                    $(let $field = *library.get($symbol.as_bytes()).map_err(|e| e.to_string())?;)*
                    Ok(Api { $($field,)* library })
                }
            }
        }
    };
}

api! {
    version = "LLVMGetVersion"(*mut c_uint, *mut c_uint, *mut c_uint);
    parse_options = "LLVMParseCommandLineOptions"(c_int, *const *const c_char, *const c_char);
    on_end = "LLVMInstallFatalErrorHandler"(unsafe extern "C" fn(*const c_char));
    context_create = "LLVMContextCreate"() -> Ref;
    on_message = "LLVMContextSetDiagnosticHandler"(Ref, unsafe extern "C" fn(Ref, *mut c_void), *mut c_void);
    message_severity = "LLVMGetDiagInfoSeverity"(Ref) -> c_int;
    message_text = "LLVMGetDiagInfoDescription"(Ref) -> *mut c_char;
    context_dispose = "LLVMContextDispose"(Ref);
    buffer_copy = "LLVMCreateMemoryBufferWithMemoryRangeCopy"(*const c_char, usize, *const c_char) -> Ref;
    buffer_start = "LLVMGetBufferStart"(Ref) -> *const u8;
    buffer_size = "LLVMGetBufferSize"(Ref) -> usize;
    buffer_dispose = "LLVMDisposeMemoryBuffer"(Ref);
    parse_ir = "LLVMParseIRInContext"(Ref, Ref, *mut Ref, *mut *mut c_char) -> c_int;
    module_dispose = "LLVMDisposeModule"(Ref);
    verify = "LLVMVerifyModule"(Ref, c_int, *mut *mut c_char) -> c_int;
    set_target = "LLVMSetTarget"(Ref, *const c_char);
    set_layout = "LLVMSetModuleDataLayout"(Ref, Ref);
    message_dispose = "LLVMDisposeMessage"(*mut c_char);
    host_name = "LLVMGetHostCPUName"() -> *mut c_char;
    host_features = "LLVMGetHostCPUFeatures"() -> *mut c_char;
    default_triple = "LLVMGetDefaultTargetTriple"() -> *mut c_char;
    target_of = "LLVMGetTargetFromTriple"(*const c_char, *mut Ref, *mut *mut c_char) -> c_int;
    machine_create = "LLVMCreateTargetMachine"(
        Ref, *const c_char, *const c_char, *const c_char, c_int, c_int, c_int
    ) -> Ref;
    machine_dispose = "LLVMDisposeTargetMachine"(Ref);
    machine_layout = "LLVMCreateTargetDataLayout"(Ref) -> Ref;
    layout_dispose = "LLVMDisposeTargetData"(Ref);
    emit = "LLVMTargetMachineEmitToMemoryBuffer"(Ref, Ref, c_int, *mut *mut c_char, *mut Ref) -> c_int;
    pass_options = "LLVMCreatePassBuilderOptions"() -> Ref;
    pass_options_dispose = "LLVMDisposePassBuilderOptions"(Ref);
    first_function = "LLVMGetFirstFunction"(Ref) -> Ref;
    next_function = "LLVMGetNextFunction"(Ref) -> Ref;
    attribute_kind = "LLVMGetEnumAttributeKindForName"(*const c_char, usize) -> c_uint;
    attribute_create = "LLVMCreateEnumAttribute"(Ref, c_uint, u64) -> Ref;
    attribute_of = "LLVMGetStringAttributeAtIndex"(Ref, c_uint, *const c_char, c_uint) -> Ref;
    attribute_add = "LLVMAddAttributeAtIndex"(Ref, c_uint, Ref);
    run_passes = "LLVMRunPasses"(Ref, *const c_char, Ref, Ref) -> Ref;
    error_message = "LLVMGetErrorMessage"(Ref) -> *mut c_char;
    error_message_dispose = "LLVMDisposeErrorMessage"(*mut c_char);
}

/// Where the library was when this was built, if that was said.
const BUILT_WITH: Option<&str> = option_env!("LLVM_SYS_191_PREFIX");

/// See [`found_at`].
static FOUND: OnceLock<String> = OnceLock::new();

/// Names LLVM's shared library, which is tried before the system's. Without effect once it has been opened.
pub fn found_at(path: String) {
    let _ = FOUND.set(path);
}

/// The library, opened once; or why it cannot be.
pub(crate) fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(open).as_ref().map_err(Clone::clone)
}

/// Opens the first library of that version among those that are named.
fn open() -> Result<Api, String> {
    let mut names: Vec<String> = Vec::new();
    match std::env::var("PULLBACK_LIBLLVM") {
        Ok(path) => names.push(path),
        Err(_) => {
            let prefixes = [std::env::var("LLVM_SYS_191_PREFIX").ok(), BUILT_WITH.map(str::to_string)];
            for prefix in prefixes.into_iter().flatten() {
                names.push(format!("{prefix}/lib/libLLVM.so.19.1"));
                names.push(format!("{prefix}/lib/libLLVM.dylib"));
            }
            names.extend(FOUND.get().cloned());
            names.extend(["libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so"].map(str::to_string));
        }
    }
    let mut errors = Vec::new();
    for name in &names {
        // SAFETY: LLVM's library does nothing when it is opened but fill its tables.
        match unsafe { Library::new(name) } {
            Ok(library) => {
                let api = Api::of(library)?;
                let mut major = 0;
                // SAFETY: three places for numbers; null where they are not wanted.
                unsafe { (api.version)(&mut major, std::ptr::null_mut(), std::ptr::null_mut()) };
                if major == 19 {
                    // Its fast instruction selection, which code that is not optimised gets, ends the process over
                    // some vectors of truth values ("Cannot emit physreg copy instruction").
                    // And from more accesses of memory in a block than so many on, its scheduler no longer looks at each
                    // pair of them, which takes most of the time where a loop carries hundreds of values.
                    let options =
                        [c"pullback", c"-fast-isel=0", c"-dag-maps-huge-region=200"].map(CStr::as_ptr);
                    // SAFETY: three terminated texts; nobody else uses the library yet. The handler takes a text.
                    unsafe {
                        (api.parse_options)(3, options.as_ptr(), std::ptr::null());
                        (api.on_end)(crate::apart::ended);
                    }
                    crate::background::at_end();
                    return Ok(api);
                }
                errors.push(format!("{name} is version {major}"));
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    let why = errors.pop().unwrap_or_default();
    Err(format!("LLVM 19 could not be opened ({why}); PULLBACK_LIBLLVM can name its shared library"))
}

impl Api {
    /// Makes a target known, by LLVM's name of it: `X86`, `AArch64`, `NVPTX`. While the guard is held, no other thread
    /// changes the list of targets, which LLVM itself does not guard: one that is added twice at once is its own successor,
    /// and no search in the list comes to an end.
    pub(crate) fn initialize(
        &self,
        target: &'static str,
    ) -> Result<MutexGuard<'_, Vec<&'static str>>, String> {
        static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
        if known.contains(&target) {
            return Ok(known);
        }
        for part in ["TargetInfo", "Target", "TargetMC", "AsmPrinter"] {
            let symbol = format!("LLVMInitialize{target}{part}");
            // SAFETY: these functions have this type; no other thread calls one of them or looks at the list meanwhile.
            unsafe {
                let function: libloading::Symbol<'_, unsafe extern "C" fn()> = self
                    .library
                    .get(symbol.as_bytes())
                    .map_err(|_| format!("LLVM was built without its target {target}"))?;
                function();
            }
        }
        known.push(target);
        Ok(known)
    }

    /// A text of LLVM's, which is given back.
    pub(crate) fn text(&self, message: *mut c_char) -> String {
        if message.is_null() {
            return String::new();
        }
        // SAFETY: a terminated text that LLVM made for the caller.
        unsafe {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.message_dispose)(message);
            text
        }
    }

    /// An error of LLVM's as text.
    pub(crate) fn check(&self, error: Ref) -> Result<(), String> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: an error that is not null has a message, which is ours to dispose of.
        unsafe {
            let message = (self.error_message)(error);
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.error_message_dispose)(message);
            Err(text)
        }
    }
}

/// A text for C.
pub(crate) fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|e| e.to_string())
}
