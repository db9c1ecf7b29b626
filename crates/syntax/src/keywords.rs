//! Defines the words of the grammar as symbol constants.
//!
//! Slang has no reserved words: each word is an identifier that has a meaning in certain positions. All of
//! them are interned first in every [`Symbols`](crate::ast::Symbols), so the parser can compare numbers.

macro_rules! words {
    ($($constant:ident = $text:literal),* $(,)?) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "only used for the numbers")]
        #[repr(u32)]
        enum Number { $($constant),* }

        /// All words, by symbol number.
        pub(crate) const NAMES: &[&str] = &[$($text),*];

        $(#[doc = concat!("`", $text, "`")] pub const $constant: crate::ast::Symbol = crate::ast::Symbol::new(Number::$constant as u32);)*
    };
}

words! {
    EMPTY = "",
    // Statements.
    IF = "if", ELSE = "else", FOR = "for", WHILE = "while", DO = "do", SWITCH = "switch", CASE = "case",
    DEFAULT = "default", BREAK = "break", CONTINUE = "continue", RETURN = "return", DISCARD = "discard",
    DEFER = "defer", THROW = "throw", CATCH = "catch", TRY = "try", STATIC_ASSERT = "static_assert",
    TARGET_SWITCH = "__target_switch", STAGE_SWITCH = "__stage_switch", INTRINSIC_ASM = "__intrinsic_asm",
    GPU_FOREACH = "__GPU_FOREACH", REQUIRE_PRELUDE = "__requirePrelude", THROWS = "throws",
    // Declarations.
    STRUCT = "struct", CLASS = "class", INTERFACE = "interface", EXTENSION = "extension", ENUM = "enum",
    TYPEDEF = "typedef", TYPEALIAS = "typealias", ASSOCIATEDTYPE = "associatedtype", NAMESPACE = "namespace",
    CBUFFER = "cbuffer", TBUFFER = "tbuffer", IMPORT = "import", IMPORT_OLD = "__import", EXTENSION_OLD = "__extension", CONSTRAINT = "__constraint", INCLUDE_DECL = "__include", MODULE = "module",
    IMPLEMENTING = "implementing", USING = "using", PROPERTY = "property", SUBSCRIPT = "__subscript",
    INIT = "__init", FUNC = "func", LET = "let", VAR = "var", FUNC_EXTENSION = "__func_extension",
    GENERIC = "__generic", OPERATOR = "operator", WHERE = "where", TYPENAME = "typename", TYPE = "type",
    OPTIONAL = "optional", GET = "get", SET = "set", REF_ACCESSOR = "ref", NEW_VALUE = "newValue",
    UNION = "union", ATTRIBUTE_SYNTAX = "attribute_syntax", SYNTAX = "syntax", TYPE_PARAM = "type_param",
    FILE_DECL = "__file_decl", IGNORED_BLOCK = "__ignored_block", TRANSPARENT_BLOCK = "__transparent_block",
    LAYOUT = "layout", REQUIRE_CAPABILITY = "__require_capability",
    // Modifiers.
    IN = "in", OUT = "out", INOUT = "inout", CONST = "const", STATIC = "static", UNIFORM = "uniform",
    GROUPSHARED = "groupshared", NO_DIFF = "no_diff", PUBLIC = "public", INTERNAL = "internal",
    PRIVATE = "private", EXTERN = "extern", EXPORT = "export", OVERRIDE = "override", ROW_MAJOR = "row_major",
    COLUMN_MAJOR = "column_major", CONSTREF = "__constref", REF = "__ref", DYN = "dyn",
    INLINE = "inline", EXTERN_EXPORTED = "__exported", PRECISE = "precise", VOLATILE = "volatile",
    GLOBALLYCOHERENT = "globallycoherent", NOINTERPOLATION = "nointerpolation",
    NOPERSPECTIVE = "noperspective", LINEAR = "linear", SAMPLE = "sample", CENTROID = "centroid",
    POINT = "point", LINE_PRIMITIVE = "line", TRIANGLE = "triangle", VERTICES = "vertices",
    INDICES = "indices", PRIMITIVES = "primitives", PAYLOAD = "payload", PARAM = "param", UNORM = "unorm",
    SNORM = "snorm", SHARED = "shared", RESTRICT = "restrict", READONLY = "readonly", WRITEONLY = "writeonly",
    COHERENT = "coherent", HIGHP = "highp", MEDIUMP = "mediump", LOWP = "lowp", FLAT = "flat", SMOOTH = "smooth",
    BUFFER = "buffer", RESULT = "result", PRECISION = "precision",
    EXTERN_CPP = "__extern_cpp", CONSTEXPR = "constexpr", GLOBAL = "__global",
    PERVERTEX = "pervertex", LINEADJ = "lineadj", TRIANGLEADJ = "triangleadj", DYNAMIC_UNIFORM = "dynamic_uniform", DESCRIPTOR_HANDLE = "DescriptorHandle", DYNAMIC_RESOURCE = "__DynamicResource", HANDLE = "Handle", SOME = "some", MUTATING = "mutating", NONMUTATING = "nonmutating",
    // Words of the core library before declarations that become attributes.
    BUILTIN_TYPE = "__builtin_type", INTRINSIC_OP = "__intrinsic_op", MAGIC_TYPE = "__magic_type",
    INTRINSIC_TYPE = "__intrinsic_type", BUILTIN_REQUIREMENT = "__builtin_requirement",
    TARGET_INTRINSIC = "__target_intrinsic", SPECIALIZED_FOR_TARGET = "__specialized_for_target",
    GLSL_EXTENSION = "__glsl_extension", GLSL_VERSION = "__glsl_version", SPIRV_VERSION = "__spirv_version",
    WGSL_EXTENSION = "__wgsl_extension", CUDA_SM_VERSION = "__cuda_sm_version",
    IMPLICIT_CONVERSION = "__implicit_conversion", IMPLICIT = "__implicit", IMPLICIT_WORD = "implicit",
    ATTRIBUTE_TARGET = "__attributeTarget", BUILTIN = "__builtin", PREFIX = "__prefix", POSTFIX = "__postfix",
    UNSAFE_FORCE_INLINE_EARLY = "__unsafeForceInlineEarly", READ_NONE = "__readNone",
    // Expressions.
    TRUE = "true", FALSE = "false", NONE = "none", NULLPTR = "nullptr", THIS = "this", THIS_TYPE = "This",
    FWD_DIFF = "fwd_diff", FWD_DIFF_OLD = "__fwd_diff", BWD_DIFF = "bwd_diff", BWD_DIFF_OLD = "__bwd_diff",
    APPLY = "__apply", LINEARIZE = "__linearize", DECISIONS = "__decisions", SIZEOF = "sizeof", GET_ADDRESS = "__getAddress", ALIGNOF = "alignof", COUNTOF = "countof", EXPAND = "expand",
    FIRST_OF_PACK = "__first", LAST_OF_PACK = "__last", TRIM_FIRST = "__trimFirst", TRIM_LAST = "__trimLast",
    PACK_BRANCH = "__packBranch", NEEDS_CAPABILITY = "__requireCapability",
    SHAPE_PERMUTE = "__shapePermute", SHAPE_REDUCE = "__shapeReduce", SHAPE_CONCAT = "__shapeConcat",
    SHAPE_SWAP = "__shapeSwap",
    EACH = "each", IS = "is", AS = "as", SPIRV_ASM = "spirv_asm", FUNCTYPE = "functype", NEW = "new",
    // Types that are recognised in a cast without a lookup.
    VOID = "void", BOOL = "bool", INT = "int", UINT = "uint", FLOAT = "float", HALF = "half",
    DOUBLE = "double", VECTOR = "vector", MATRIX = "matrix", UNSIGNED = "unsigned",
    // The preprocessor.
    DEFINE = "define", UNDEF = "undef", IFDEF = "ifdef", IFNDEF = "ifndef", ELIF = "elif", ENDIF = "endif",
    INCLUDE = "include", ERROR = "error", WARNING = "warning", PRAGMA = "pragma",
    ONCE = "once", DEFINED = "defined", VERSION = "version", LANGUAGE = "language", LANG = "lang", VA_ARGS = "__VA_ARGS__", FILE = "__FILE__",
    READ = "read", WRITE = "write", RANGE = "Range",
    LINE = "__LINE__", SLANG_MACRO = "__SLANG__", SLANG_COMPILER = "__SLANG_COMPILER__", HLSL_MACRO = "__HLSL__", HLSL_VERSION = "__HLSL_VERSION",
    // Suffixes of numbers.
    U = "u", L = "l", UL = "ul", LL = "ll", ULL = "ull", Z = "z", UZ = "uz",
    F = "f", H = "h", LF = "lf",
    // Names with a meaning for the checker; `$init` is the name under which constructors are found.
    DIFFERENTIAL = "Differential", CONSTRUCTOR = "$init", CALL_OPERATOR = "operator()",
    FORWARD_DERIVATIVE_OF = "ForwardDerivativeOf", BACKWARD_DERIVATIVE_OF = "BackwardDerivativeOf",
    PRIMAL_SUBSTITUTE_OF = "PrimalSubstituteOf",
}
