//! LLVM's C interface, from its shared library, which is opened on first use.
//!
//! Opening the library takes longer than most commands do: some 20 ms. So nothing is linked with it, and work
//! that needs no machine code from LLVM, or finds it in the cache, does not pay for it. Besides, a program
//! that was built with this backend starts where LLVM is not installed, and only reports an error when LLVM
//! is needed.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock};

use libloading::Library;

/// A pointer to any of LLVM's objects.
pub(crate) type Ref = *mut c_void;

macro_rules! api {
    ($($field:ident = $symbol:literal($($param:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions in use, by their names without the prefix `LLVM`.
        pub(crate) struct Api {
            $(pub(crate) $field: unsafe extern "C" fn($($param),*) $(-> $result)?,)*
            library: Library,
            found: Found,
        }

        impl Api {
            fn of(library: Library, path: &str) -> Result<Api, String> {
                // SAFETY: the symbols have these types in LLVM 19 to 22, and the library stays open for ever.
                unsafe {
                    $(let $field = *library.get($symbol.as_bytes()).map_err(|e| e.to_string())?;)*
                    let found = Found { path: path.to_string(), version: [0; 3] };
                    let mut api = Api { $($field,)* library, found };
                    let [major, minor, patch] = &mut api.found.version;
                    (api.version)(major, minor, patch);
                    Ok(api)
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
    comments = "LLVMSetTargetMachineAsmVerbosity"(Ref, c_int);
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

/// LLVM's shared library, as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its file, or the name by which the system finds it.
    pub path: String,
    /// Its version: three numbers.
    pub version: [c_uint; 3],
}

/// The versions that serve, in the order in which they are looked for. All of them read the same text and have
/// the functions above with the same types; the tests run on the first.
const VERSIONS: [c_uint; 4] = [19, 20, 21, 22];

/// The folder of rustc's own libraries when this was built. Rust's distribution has LLVM's shared library there,
/// so that whoever built this with it has an LLVM.
const RUSTC_LIBRARIES: &str = env!("PULLBACK_RUSTC_LIBRARIES");

/// See [`found_at`].
static FOUND: OnceLock<String> = OnceLock::new();

/// Sets a path of LLVM's shared library that is tried before the system's. Has no effect once the library is
/// open.
pub fn found_at(path: String) {
    let _ = FOUND.set(path);
}

/// LLVM's library, which is opened for this; or the reason why it cannot be opened.
pub fn found() -> Result<&'static Found, String> {
    api().map(|api| &api.found)
}

/// The library, opened on first use; or the reason why it cannot be opened.
pub(crate) fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(open).as_ref().map_err(Clone::clone)
}

/// The candidate libraries, in the order in which they are tried.
fn candidates() -> Vec<String> {
    if let Ok(path) = std::env::var("PULLBACK_LIBLLVM") {
        return vec![path];
    }
    let mut names: Vec<String> = FOUND.get().cloned().into_iter().collect();
    for version in VERSIONS {
        if cfg!(target_os = "macos") {
            let homes = ["/opt/homebrew/opt", "/usr/local/opt"];
            names.extend(homes.map(|home| format!("{home}/llvm@{version}/lib/libLLVM.dylib")));
        } else {
            names.push(format!("libLLVM.so.{version}.1"));
            names.extend(["so.1", "so"].map(|end| format!("libLLVM-{version}.{end}")));
        }
    }
    let files = std::fs::read_dir(RUSTC_LIBRARIES).into_iter().flatten().flatten();
    let mut of_rustc: Vec<String> = files
        .map(|file| file.path().display().to_string())
        .filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("libLLVM.")))
        .collect();
    of_rustc.sort();
    names.extend(of_rustc);
    names
}

/// Opens the first of the candidate libraries that has a version that serves.
fn open() -> Result<Api, String> {
    let mut why = String::new();
    for name in candidates() {
        // SAFETY: the initialisers of LLVM's library only fill its tables.
        let opened = unsafe { Library::new(&name) }.map_err(|error| error.to_string());
        match opened.and_then(|library| Api::of(library, &name)) {
            Ok(api) if VERSIONS.contains(&api.found.version[0]) => {
                // LLVM's fast instruction selection, which unoptimised code gets, ends the process on some
                // vectors of truth values ("Cannot emit physreg copy instruction"). The second option makes
                // the scheduler stop comparing each pair of memory accesses in a block with more than this
                // number of them. That comparison takes most of the time if a loop carries hundreds of values.
                let options = [c"pullback", c"-fast-isel=0", c"-dag-maps-huge-region=200"].map(CStr::as_ptr);
                // SAFETY: there are three terminated strings, and nothing else uses the library yet. The
                // handler takes a string.
                unsafe {
                    (api.parse_options)(3, options.as_ptr(), std::ptr::null());
                    (api.on_end)(crate::apart::ended);
                }
                crate::background::at_end();
                return Ok(api);
            }
            Ok(api) => why = format!("{name} is version {}", api.found.version[0]),
            // The first error is about the version that is wanted most.
            Err(error) if why.is_empty() => why = error,
            Err(_) => {}
        }
    }
    let [first, .., last] = VERSIONS;
    let install = install_command();
    Err(format!(
        "LLVM {first} to {last} could not be opened ({why}); {install}, or name its shared library by \
         PULLBACK_LIBLLVM"
    ))
}

/// The command that installs LLVM's shared library on a system like this one.
fn install_command() -> &'static str {
    if cfg!(target_os = "macos") {
        return "install it by `brew install llvm@19`";
    }
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let kinds = release.lines().filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")));
    for kind in kinds.flat_map(|kinds| kinds.trim_matches('"').split_whitespace()) {
        match kind {
            "debian" | "ubuntu" => return "install it by `apt-get install libllvm19`",
            "fedora" | "rhel" => return "install it by `dnf install llvm-libs`",
            "arch" => return "install it by `pacman -S llvm-libs`",
            "alpine" => return "install it by `apk add llvm19-libs`",
            "suse" | "opensuse" => return "install it by `zypper install libLLVM19`",
            _ => {}
        }
    }
    "install its shared library"
}

impl Api {
    /// Registers a target by LLVM's name for it: `X86`, `AArch64`, `NVPTX`. While the guard is held, no other
    /// thread changes the list of targets, which LLVM itself does not guard: a target that two threads add at
    /// once becomes its own successor, and no search of the list terminates.
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
            // SAFETY: these functions have this type, and no other thread calls one of them or reads the list
            // meanwhile.
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

    /// Converts a string that LLVM made to a `String`, and disposes of the original.
    pub(crate) fn text(&self, message: *mut c_char) -> String {
        if message.is_null() {
            return String::new();
        }
        // SAFETY: `message` is a terminated string that LLVM made for the caller.
        unsafe {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.message_dispose)(message);
            text
        }
    }

    /// Converts an error of LLVM's to a `String`.
    pub(crate) fn check(&self, error: Ref) -> Result<(), String> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: an error that is not null has a message, of which the caller has to dispose.
        unsafe {
            let message = (self.error_message)(error);
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.error_message_dispose)(message);
            Err(text)
        }
    }
}

/// Converts a string to a C string.
pub(crate) fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|e| e.to_string())
}
