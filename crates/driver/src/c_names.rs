//! Names with a meaning in C or C++, which neither a function nor a parameter in a header may have.

/// Keywords of C23 and C++23, and those that compilers add.
const KEYWORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t \
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue \
    decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if \
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public \
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct \
    switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using \
    virtual void volatile wchar_t while xor xor_eq";

/// Lower-case macros of the standard headers and of compilers.
const MACROS: &str = "assert complex errno i386 imaginary kill_dependency linux noreturn offsetof setjmp sigsetjmp \
    sa_handler sa_sigaction si_addr si_int si_pid si_ptr si_status si_uid si_value st_atime st_ctime st_mtime s_addr h_addr \
    interface small hyper cdecl pascal huge stderr stdin stdout unix va_arg va_copy va_end va_start near far";

/// Functions that the headers of C and POSIX declare. If a library defined a function with one of these
/// names, the system's code, and the library itself, would call that function instead of the system's.
/// Variants (`qsort_r`, `isalpha_l`, `fopen64`, `getc_unlocked`) are not listed.
const FUNCTIONS: &str = "a64l abort abs accept access acct alarm aligned_alloc alloca arc4random arc4random_buf arc4random_uniform \
    asctime asprintf at_quick_exit atexit atof atoi atol atoll basename bcmp bcopy bind brk bsearch btowc bzero \
    calloc canonicalize_file_name chdir chown chroot clearenv clearerr clock clock_adjtime clock_getcpuclockid \
    clock_getres clock_gettime clock_nanosleep clock_settime close close_range closefrom confstr connect crypt \
    ctermid ctime cuserid daemon daylight difftime div dprintf drand48 dup dup2 dup3 duplocale dysize eaccess \
    ecvt endusershell environ erand48 euidaccess exec execl execle execlp execv execve execveat execvp execvpe \
    exit explicit_bzero faccessat fchdir fchown fchownat fclose fcloseall fcvt fdatasync fdopen feclearexcept \
    fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode fegetround feholdexcept feof \
    feraiseexcept ferror fesetenv fesetexcept fesetexceptflag fesetmode fesetround fetestexcept fetestexceptflag \
    feupdateenv fexecve fflush ffs ffsl ffsll fgetc fgetpos fgets fgetwc fgetws fileno fini flockfile fmemopen \
    fopen fopencookie fork fpathconf fprintf fputc fputs fputwc fputws fread free freelocale freopen fscanf \
    fseek fseeko fsetpos fsync ftell ftello ftruncate ftrylockfile funlockfile fwide fwprintf fwrite fwscanf \
    gcvt get_current_dir_name getc getchar getcwd getdate getdate_err getdelim getdomainname getdtablesize \
    getegid getenv geteuid getgid getgroups gethostid gethostname getline getloadavg getlogin getopt getpagesize \
    getpass getpgid getpgrp getpid getppid getpt getresgid getresuid gets getsid getsubopt gettid getuid \
    getusershell getw getwc getwchar getwd gmtime grantpt group_member gsignal imaxabs imaxdiv index init \
    initstate isalnum isalpha isascii isatty isblank iscntrl isctype isdigit isgraph islower isprint ispunct \
    isspace isupper isxdigit jrand48 kill killpg l64a labs lchown lcong48 ldiv link linkat listen llabs lldiv \
    localeconv localtime lockf longjmp lrand48 lseek main malloc mblen mbrlen mbrtowc mbsinit mbsnrtowcs \
    mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memcpy memfrob memmem memmove mempcpy memrchr memset mkdir \
    mkdtemp mkostemp mkostemps mkstemp mkstemps mktemp mktime mmap mrand48 munmap nanosleep newlocale nice \
    nothrow nrand48 obstack_printf obstack_vprintf on_exit open open_memstream open_wmemstream optarg opterr \
    optind optopt pathconf pause pclose perror pipe pipe2 poll popen posix_memalign posix_openpt pread printf \
    profil pselect psiginfo psignal pthread_kill pthread_sigmask pthread_sigqueue ptsname push putc putchar \
    putenv puts putw putwc putwchar pwrite qecvt qfcvt qgcvt qsort quick_exit raise rand random rawmemchr read \
    readlink readlinkat realloc reallocarray realpath recv remove rename renameat renameat2 revoke rewind rindex \
    rmdir rpmatch sbrk scanf secure_getenv seed48 select send setbuf setbuffer setdomainname setegid setenv \
    seteuid setgid sethostid sethostname setlinebuf setlocale setlogin setpgid setpgrp setregid setresgid \
    setresuid setreuid setsid setstate setuid setusershell setvbuf shutdown sigabbrev sigaction sigaddset \
    sigaltstack sigandset sigblock sigdelset sigdescr sigemptyset sigfillset siggetmask sighold sigignore \
    siginterrupt sigisemptyset sigismember signal signgam sigorset sigpause sigpending sigprocmask sigqueue \
    sigrelse sigreturn sigset sigsetmask sigstack sigsuspend sigtimedwait sigwait sigwaitinfo sleep snprintf \
    socket sprintf srand srand48 srandom sscanf ssignal stat stpcpy stpncpy strcasecmp strcasestr strcat strchr \
    strchrnul strcmp strcoll strcpy strcspn strdup strerror strerrordesc strerrorname strfromd strfromf strfroml \
    strfry strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime strrchr strsep \
    strsignal strspn strstr strtod strtof strtof128 strtof32 strtof32x strtof64x strtoimax strtok strtol strtold \
    strtoll strtoq strtoul strtoull strtoumax strtouq strverscmp strxfrm swab swprintf swscanf symlink symlinkat \
    sync syncfs syscall sysconf system sysv_signal tcgetpgrp tcsetpgrp tempnam tgkill time timegm timelocal \
    timer_create timer_delete timer_getoverrun timer_gettime timer_settime timespec_get timespec_getres timezone \
    tmpfile tmpnam toascii tolower toupper truncate ttyname ttyslot tzname tzset ualarm umask uname ungetc \
    ungetwc unlink unlinkat unlockpt unsetenv uselocale usleep utime valloc vasprintf vdprintf vfork vfprintf \
    vfscanf vfwprintf vfwscanf vhangup vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf \
    vwscanf wait waitpid wcpcpy wcpncpy wcrtomb wcscasecmp wcscat wcschr wcschrnul wcscmp wcscoll wcscpy wcscspn \
    wcsdup wcsftime wcslen wcsncasecmp wcsncat wcsncmp wcsncpy wcsnlen wcsnrtombs wcspbrk wcsrchr wcsrtombs \
    wcsspn wcsstr wcstod wcstof wcstof128 wcstof32 wcstof32x wcstof64x wcstoimax wcstok wcstol wcstold wcstoll \
    wcstombs wcstoq wcstoul wcstoull wcstoumax wcstouq wcswcs wcswidth wcsxfrm wctob wctomb wcwidth wmemchr \
    wmemcmp wmemcpy wmemmove wmempcpy wmemset wprintf write wscanf";

/// Functions of C's mathematics library, up to C23; each also exists with suffixes such as `f`, `l` or `f32`.
const MATHEMATICS: &str = "acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cabs cacos cacosh canonicalize carg \
    casin casinh catan catanh cbrt ccos ccosh ceil cexp cimag clog clog10 compoundn conj copysign cos cosh cospi \
    cpow cproj creal csin csinh csqrt ctan ctanh dadd ddiv dfma dmul drem dsqrt dsub erf erfc exp exp10 exp10m1 \
    exp2 exp2m1 expm1 fabs fadd fdim fdiv ffma finite floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num \
    fmaximum_num fmaxmag fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod fmul fpclassify \
    frexp fromfp fromfpx fsqrt fsub gamma getpayload hypot ilogb isfinite isgreater isgreaterequal isinf isless \
    islessequal islessgreater isnan isnormal isunordered j0 j1 jn ldexp lgamma llogb llrint llround log log10 \
    log10p1 log1p log2 log2p1 logb logp1 lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup \
    pow pow10 pown powr remainder remquo rint rootn round roundeven rsqrt scalb scalbln scalbn setpayload \
    setpayloadsig signbit significand sin sincos sinh sinpi sqrt tan tanh tanpi tgamma totalorder totalordermag \
    trunc ufromfp ufromfpx y0 y1 yn";

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|word| word == name)
}

/// Returns true if a parameter of that name may not compile: keywords, macros, and the names of types and
/// constants.
pub(crate) fn is_odd(name: &str) -> bool {
    let is_constant = name == "I" || name.len() > 1 && !name.chars().any(|c| c.is_ascii_lowercase());
    has(KEYWORDS, name) || has(MACROS, name) || name.ends_with("_t") || is_constant
}

/// Returns true for names that C reserves for compilers and libraries: `__f`, `_F`.
fn is_reserved(name: &str) -> bool {
    let rest = name.strip_prefix('_').unwrap_or_default();
    rest == "exit" || rest.starts_with(|c: char| c == '_' || c.is_ascii_uppercase())
}

/// Returns true if a name has a meaning in C or its library, so that no function of a library can have it.
pub(crate) fn is_taken(name: &str) -> bool {
    let variants = ["_unlocked", "_r", "_l", "64"];
    let plain = variants.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let types = ["f", "l", "f16", "f32", "f64", "f128", "f32x", "f64x"];
    let mut all = vec![name, plain];
    all.extend(types.iter().filter_map(|ending| name.strip_suffix(ending)));
    let is_known = |name: &&str| has(FUNCTIONS, name) || has(MATHEMATICS, name);
    is_odd(name)
        || all[..2].iter().any(is_known)
        || all[2..].iter().any(|n| has(MATHEMATICS, n))
        || is_reserved(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c() {
        for name in ["restrict", "template", "linux", "errno", "int32_t", "NAN", "I", "not"] {
            assert!(is_odd(name) && is_taken(name), "{name}");
        }
        for name in [
            "sinf", "malloc", "main", "expl", "memcpy", "y0", "__f", "free", "conj", "fadd", "rsqrtf",
            "qsort_r", "sync",
        ] {
            assert!(is_taken(name), "{name}");
        }
        for name in ["loss", "model", "x", "sine", "f", "mainly", "N", "Q_len", "info"] {
            assert!(!is_odd(name) && !is_taken(name), "{name}");
        }
    }
}
