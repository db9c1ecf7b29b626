//! Names that mean something in C or C++, so that neither a function nor a parameter of a header can have them.

/// Keywords of C23 and C++23, and what compilers add.
const KEYWORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t \
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue \
    decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if \
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public \
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct \
    switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using \
    virtual void volatile wchar_t while xor xor_eq";

/// Macros in small letters of the standard headers and of compilers.
const MACROS: &str = "assert complex errno i386 imaginary kill_dependency linux noreturn offsetof setjmp sigsetjmp \
    stderr stdin stdout unix va_arg va_copy va_end va_start near far";

/// Functions of the C library: a library that has its own of that name would be called by the system's, and by itself.
const FUNCTIONS: &str = "abort abs access accept alarm aligned_alloc at_quick_exit atexit atof atoi atol atoll bind \
    bsearch calloc clearerr clock close connect ctime difftime div dup dup2 environ exec execl execv execve exit fclose fdopen feof \
    ferror fflush fgetc fgets fileno fopen fork fprintf fputc fputs fread free freopen fscanf fseek ftell fwrite \
    getc getchar getenv getopt getpid gets gmtime index init fini isalnum isalpha isatty isblank iscntrl isdigit \
    isgraph islower isprint ispunct isspace isupper isxdigit kill labs ldiv link listen llabs lldiv localtime longjmp lseek main \
    malloc mblen mbstowcs mbtowc memccpy memchr memcmp memcpy memmove memset mkdir mktime mmap munmap open optarg \
    optind pause perror pipe poll printf putc putchar puts qsort quick_exit raise rand random read realloc recv \
    remove rename rewind rindex rmdir scanf select send setbuf setenv setvbuf shutdown sigaction signal sleep snprintf \
    socket sprintf srand srandom sscanf stat strcat strchr strcmp strcoll strcpy strcspn strdup strerror strftime \
    strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol strtoll strtoul strtoull \
    strxfrm symlink system time timegm tmpfile tmpnam tolower toupper umask uname ungetc unlink usleep utime vfprintf \
    vprintf vsnprintf vsprintf wait waitpid write y0 y1 yn j0 j1 jn gamma signgam drem significand scalb environ";

/// Functions of its mathematics, each also with `f` and `l` at its end.
const MATHEMATICS: &str = "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 \
    expm1 fabs fdim finite floor fma fmax fmin fmod frexp hypot ilogb isinf isnan ldexp lgamma llrint llround log \
    log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round \
    roundeven scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc fpclassify isfinite isgreater \
    isgreaterequal isless islessequal islessgreater isnormal isunordered signbit";

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|word| word == name)
}

/// True if a parameter of that name may not compile: keywords, macros, and the names of types and constants.
pub(crate) fn is_odd(name: &str) -> bool {
    let is_constant = name == "I" || name.len() > 1 && !name.chars().any(|c| c.is_ascii_lowercase());
    has(KEYWORDS, name) || has(MACROS, name) || name.ends_with("_t") || is_constant
}

/// True if C or its library means something by a name, so that no function of a library can have it.
pub(crate) fn is_taken(name: &str) -> bool {
    let short = name.strip_suffix(['f', 'l']).unwrap_or(name);
    is_odd(name)
        || has(FUNCTIONS, name)
        || has(MATHEMATICS, name)
        || has(MATHEMATICS, short)
        || name.starts_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c() {
        for name in ["restrict", "template", "linux", "errno", "int32_t", "NAN", "I", "not"] {
            assert!(is_odd(name) && is_taken(name), "{name}");
        }
        for name in ["sinf", "malloc", "main", "expl", "memcpy", "y0", "__f", "free"] {
            assert!(is_taken(name), "{name}");
        }
        for name in ["loss", "model", "x", "sine", "f", "mainly", "N", "Q_len", "info"] {
            assert!(!is_odd(name) && !is_taken(name), "{name}");
        }
    }
}
