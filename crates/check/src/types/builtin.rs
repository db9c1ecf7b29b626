//! Defines the types and interfaces that the language knows by name.
//!
//! Conformance of built-in types to the interfaces of `driver/core/prelude.slang` is decided by sets: each interface
//! has the set of kinds of built-in types that conform to it, a generic parameter has the intersection of the
//! sets of its constraints, and it conforms to an interface if its set is a subset of the interface's.

use syntax::ast::ExprKind;
use syntax::{DeclId, ExprId, Symbol};

use crate::facts::Magic;
use crate::program::Program;
use crate::types::{BufferKind, Comparison, Scalar, Ty, TyKind, Val};

/// A set of kinds of types.
pub(crate) type Kinds = u16;

pub(crate) const BOOL: Kinds = 1;
pub(crate) const SIGNED: Kinds = 2;
const UNSIGNED: Kinds = 4;
pub(crate) const INTEGERS: Kinds = SIGNED | UNSIGNED;
const FLOAT: Kinds = 8;
pub(crate) const ALL_SCALARS: Kinds = 15;
/// Vectors and matrices use the bits of their elements, shifted.
const SHIFT: u32 = 4;
pub(crate) const USER: Kinds = 256;
/// Floats that are stored and converted only, which are no numbers to any interface.
const STORED: Kinds = 512;
const ENUM: Kinds = 1024;
const NUMBERS: Kinds = SIGNED | UNSIGNED | FLOAT;
/// Floating-point scalars, vectors and matrices.
pub(crate) const FLOATS: Kinds = FLOAT | (FLOAT << SHIFT);

const fn shaped(scalars: Kinds) -> Kinds {
    scalars | (scalars << SHIFT)
}

/// The interfaces by name, with the kinds of types that conform to them.
const MAGIC: [(&str, Magic, Kinds); 22] = [
    ("IDifferentiable", Magic::Differentiable, FLOATS | USER),
    ("IDifferentiablePtrType", Magic::DifferentiablePtr, USER),
    ("IDefaultInitializable", Magic::DefaultInitializable, shaped(ALL_SCALARS) | USER),
    ("IOpaqueDescriptor", Magic::OpaqueDescriptor, USER),
    ("__EnumType", Magic::EnumType, ENUM),
    ("__Elementwise", Magic::Elementwise, shaped(ALL_SCALARS)),
    ("__NumericElementwise", Magic::NumericElementwise, shaped(NUMBERS)),
    ("__IntElementwise", Magic::IntElementwise, shaped(SIGNED | UNSIGNED)),
    ("__FloatElementwise", Magic::FloatElementwise, FLOATS),
    ("IComparable", Magic::Comparable, shaped(ALL_SCALARS) | USER),
    ("IRangedValue", Magic::Ranged, NUMBERS | USER),
    ("IArithmetic", Magic::Arithmetic, shaped(NUMBERS) | USER),
    ("ILogical", Magic::Logical, shaped(BOOL | SIGNED | UNSIGNED) | USER),
    ("IInteger", Magic::Integer, shaped(SIGNED | UNSIGNED) | USER),
    ("IFloat", Magic::Float, FLOATS | USER),
    ("__BuiltinType", Magic::BuiltinType, ALL_SCALARS),
    ("__BuiltinArithmeticType", Magic::BuiltinArithmetic, NUMBERS),
    ("__BuiltinLogicalType", Magic::BuiltinLogical, BOOL | SIGNED | UNSIGNED),
    ("__BuiltinSignedArithmeticType", Magic::BuiltinSignedArithmetic, SIGNED | FLOAT),
    ("__BuiltinIntegerType", Magic::BuiltinInteger, SIGNED | UNSIGNED),
    ("__BuiltinRealType", Magic::BuiltinReal, FLOAT),
    ("__BuiltinFloatingPointType", Magic::BuiltinFloat, FLOAT),
];

impl Magic {
    /// The interface of this name in the library.
    pub(crate) fn by_name(name: &str) -> Option<Magic> {
        MAGIC.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The kinds of types that conform to the interface.
    pub(crate) fn kinds(self) -> Kinds {
        MAGIC[self as usize].2
    }

    /// Returns true if operators work on values of a parameter with this constraint.
    fn has_operators(self) -> bool {
        !matches!(
            self,
            Magic::Differentiable
                | Magic::DifferentiablePtr
                | Magic::DefaultInitializable
                | Magic::OpaqueDescriptor
                | Magic::EnumType
                | Magic::Ranged
        )
    }
}

/// The scalar types: their names (the first one is used in messages), kinds and sizes in bytes.
const SCALARS: [(Scalar, &str, Kinds, u32); 15] = [
    (Scalar::Bool, "bool", BOOL, 1),
    (Scalar::Int8, "int8_t", SIGNED, 1),
    (Scalar::Int16, "int16_t short", SIGNED, 2),
    (Scalar::Int, "int int32_t", SIGNED, 4),
    (Scalar::Int64, "int64_t long intptr_t", SIGNED, 8),
    (Scalar::UInt8, "uint8_t", UNSIGNED, 1),
    (Scalar::UInt16, "uint16_t ushort", UNSIGNED, 2),
    (Scalar::UInt, "uint uint32_t dword", UNSIGNED, 4),
    (Scalar::UInt64, "uint64_t uint64 size_t uintptr_t ulong", UNSIGNED, 8),
    (Scalar::Half, "half float16_t", FLOAT, 2),
    (Scalar::Float, "float float32_t", FLOAT, 4),
    (Scalar::Double, "double float64_t", FLOAT, 8),
    (Scalar::BFloat16, "BFloat16", STORED, 2),
    (Scalar::FloatE4M3, "FloatE4M3", STORED, 1),
    (Scalar::FloatE5M2, "FloatE5M2", STORED, 1),
];

impl Scalar {
    /// All scalars, in order.
    pub(crate) fn all() -> impl Iterator<Item = Scalar> {
        SCALARS.into_iter().map(|row| row.0)
    }

    /// All names of the type in the language.
    fn names(self) -> impl Iterator<Item = &'static str> {
        SCALARS[self as usize].1.split(' ')
    }

    /// The name of the type in the language.
    pub fn name(self) -> &'static str {
        self.names().next().expect("a scalar has a name")
    }

    /// The scalar type of this name in the language.
    pub(crate) fn by_name(name: &str) -> Option<Scalar> {
        Scalar::all().find(|scalar| scalar.names().any(|own| own == name))
    }

    fn kinds(self) -> Kinds {
        SCALARS[self as usize].2
    }

    /// The size in bytes.
    pub fn size(self) -> u32 {
        SCALARS[self as usize].3
    }

    /// Returns true for floating-point types that can be calculated with.
    pub fn is_float(self) -> bool {
        self.kinds() == FLOAT
    }

    /// Returns true for floating-point types that are stored and converted only.
    pub fn is_stored(self) -> bool {
        self.kinds() == STORED
    }

    /// Returns true for floating-point types of both kinds.
    pub(crate) fn has_fraction(self) -> bool {
        self.is_float() || self.is_stored()
    }

    /// Returns true for integer types, except `bool`.
    pub fn is_int(self) -> bool {
        self.kinds() & (SIGNED | UNSIGNED) != 0
    }

    /// Returns true for signed integer types.
    pub fn is_signed(self) -> bool {
        self.kinds() == SIGNED
    }
}

/// Built-in types that take arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeGeneric {
    Vector,
    /// `CoopVec<T, N>`: a vector of any length.
    CoopVec,
    Matrix,
    Array,
    Pair,
    PtrPair,
    Tuple,
    Optional,
    Ptr,
    Buffer(BufferKind),
    /// `Ref<T>`: a place of type `T`, as the result of a function or as a parameter.
    Ref,
    /// A name that is known but not supported.
    Unsupported(Symbol),
}

impl NativeGeneric {
    /// The maximum number of arguments, if there is a limit.
    pub(crate) fn most_args(self) -> Option<usize> {
        match self {
            NativeGeneric::Pair | NativeGeneric::PtrPair | NativeGeneric::Optional => Some(1),
            NativeGeneric::Ref => Some(3),
            NativeGeneric::Vector | NativeGeneric::CoopVec | NativeGeneric::Array => Some(2),
            NativeGeneric::Buffer(_) => Some(2),
            NativeGeneric::Matrix | NativeGeneric::Ptr => Some(4),
            NativeGeneric::Tuple | NativeGeneric::Unsupported(_) => None,
        }
    }

    /// The name of the type in Slang.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NativeGeneric::Vector => "vector",
            NativeGeneric::CoopVec => "CoopVec",
            NativeGeneric::Matrix => "matrix",
            NativeGeneric::Array => "Array",
            NativeGeneric::Pair => "DifferentialPair",
            NativeGeneric::PtrPair => "DifferentialPtrPair",
            NativeGeneric::Tuple => "Tuple",
            NativeGeneric::Optional => "Optional",
            NativeGeneric::Ptr => "Ptr",
            NativeGeneric::Ref => "Ref",
            NativeGeneric::Buffer(kind) => kind.name(),
            NativeGeneric::Unsupported(_) => "this type",
        }
    }

    pub(crate) fn by_name(name: &str, symbol: Symbol) -> Option<NativeGeneric> {
        Some(match name {
            "vector" => NativeGeneric::Vector,
            "CoopVec" => NativeGeneric::CoopVec,
            "matrix" => NativeGeneric::Matrix,
            "Array" => NativeGeneric::Array,
            "DifferentialPair" => NativeGeneric::Pair,
            "DifferentialPtrPair" => NativeGeneric::PtrPair,
            "Tuple" => NativeGeneric::Tuple,
            "Optional" => NativeGeneric::Optional,
            "Ptr" => NativeGeneric::Ptr,
            "RWStructuredBuffer"
            | "RasterizerOrderedStructuredBuffer"
            | "RWBuffer"
            | "RasterizerOrderedBuffer" => NativeGeneric::Buffer(BufferKind::RWStructuredBuffer),
            "StructuredBuffer" | "Buffer" => NativeGeneric::Buffer(BufferKind::StructuredBuffer),
            "Ref" => NativeGeneric::Ref,
            "ConstantBuffer" | "TextureBuffer" => NativeGeneric::Buffer(BufferKind::ConstantBuffer),
            "ParameterBlock" => NativeGeneric::Buffer(BufferKind::ParameterBlock),
            "AppendStructuredBuffer" | "ConsumeStructuredBuffer" | "Result" => {
                NativeGeneric::Unsupported(symbol)
            }
            _ if is_texture(name) => NativeGeneric::Unsupported(symbol),
            _ => return None,
        })
    }
}

fn is_texture(name: &str) -> bool {
    let name = name.strip_prefix("RW").or_else(|| name.strip_prefix("RasterizerOrdered")).unwrap_or(name);
    let shape = name.strip_prefix("Texture").or_else(|| name.strip_prefix("Sampler"));
    let shape = shape.map(|shape| shape.strip_suffix("Shadow").unwrap_or(shape));
    let shape = shape.map(|shape| shape.strip_suffix("Array").unwrap_or(shape));
    matches!(shape, Some("1D" | "2D" | "3D" | "Cube" | "2DMS" | "Buffer"))
}

impl Program {
    /// A type that is known by its name alone: `float`, `float3`, `int2x2`, `void`.
    pub(crate) fn native_type(&mut self, name: &str) -> Option<Ty> {
        if let Some(scalar) = Scalar::by_name(name) {
            return Some(self.types.scalar(scalar));
        }
        match name {
            "void" => return Some(Ty::VOID),
            "String" | "NativeString" | "string" => return Some(Ty::STRING),
            "vector" => return self.native_default(NativeGeneric::Vector),
            "matrix" => return self.native_default(NativeGeneric::Matrix),
            _ => {}
        }
        let bytes = name.as_bytes();
        let digit = |b: u8| (b'1'..=b'4').contains(&b).then(|| i64::from(b - b'0'));
        let (&last, rest) = bytes.split_last()?;
        let last = digit(last)?;
        if let [head @ .., row, b'x'] = rest
            && let Some(rows) = digit(*row)
            && let Some(scalar) = std::str::from_utf8(head).ok().and_then(Scalar::by_name)
        {
            let element = self.types.scalar(scalar);
            return Some(self.types.matrix(element, Val::Int(rows), Val::Int(last)));
        }
        let scalar = Scalar::by_name(std::str::from_utf8(rest).ok()?)?;
        let element = self.types.scalar(scalar);
        Some(self.types.intern(TyKind::Vector(element, Val::Int(last), Comparison::Each)))
    }

    /// The type that the name of a built-in generic type denotes without arguments.
    pub(crate) fn native_default(&mut self, native: NativeGeneric) -> Option<Ty> {
        match native {
            NativeGeneric::Vector => {
                Some(self.types.intern(TyKind::Vector(Ty::FLOAT, Val::Int(4), Comparison::Each)))
            }
            NativeGeneric::Matrix => Some(self.types.matrix(Ty::FLOAT, Val::Int(4), Val::Int(4))),
            _ => None,
        }
    }

    /// The declaration of an interface.
    pub(crate) fn interface_decl(&self, ty: Ty) -> Option<DeclId> {
        match self.types[ty] {
            TyKind::Interface(decl, _) => Some(decl),
            _ => None,
        }
    }

    /// The declaration of the interface in the library.
    pub(crate) fn magic_decl(&self, magic: Magic) -> Option<DeclId> {
        self.magics.decls.iter().find(|m| m.0 == magic).map(|m| m.1)
    }

    /// The interface as a type.
    pub(crate) fn magic_type(&mut self, magic: Magic) -> Option<Ty> {
        let decl = self.magic_decl(magic)?;
        Some(self.types.intern(TyKind::Interface(decl, Vec::new())))
    }

    /// The kinds of built-in types that a type is or may turn out to be; 0 if it is none of them.
    pub(crate) fn kinds_of(&mut self, ty: Ty) -> Kinds {
        match self.types[ty] {
            TyKind::Scalar(scalar) => scalar.kinds(),
            TyKind::Vector(element, _, _) | TyKind::Matrix(element, ..) => {
                (self.kinds_of(element) & ALL_SCALARS) << SHIFT
            }
            TyKind::Enum(_) => USER | ENUM,
            TyKind::Struct(..) => USER,
            _ if self.types.is_abstract(ty) => {
                let all = shaped(ALL_SCALARS) | USER | ENUM;
                self.magics_of(ty).into_iter().fold(all, |kinds, magic| kinds & magic.kinds())
            }
            _ => 0,
        }
    }

    /// Returns true if a function of the library has one generic parameter, which stands for scalars and shapes of them.
    pub(crate) fn is_elementwise(&mut self, decl: DeclId) -> bool {
        let [param] = self.own_params(decl)[..] else { return false };
        if !self.is_core(decl) || self.is_value_param(param) || self.is_pack_param(param) {
            return false;
        }
        let ty = self.types.intern(TyKind::Param(param));
        let kinds = self.kinds_of(ty);
        kinds & shaped(ALL_SCALARS) & !ALL_SCALARS != 0 && kinds & USER == 0
    }

    /// Returns true if the built-in operators work on a value of this type as far as it is known: a scalar,
    /// vector, matrix, or a parameter that is constrained to numbers.
    pub(crate) fn has_operators(&mut self, ty: Ty) -> bool {
        match self.types[ty] {
            TyKind::Scalar(scalar) => !scalar.is_stored(),
            TyKind::Vector(element, _, _) | TyKind::Matrix(element, ..) => {
                !matches!(self.types[element], TyKind::Scalar(scalar) if scalar.is_stored())
            }
            _ => self.types.is_abstract(ty) && self.magics_of(ty).into_iter().any(Magic::has_operators),
        }
    }

    /// The interfaces of the library that a type is declared to conform to.
    fn magics_of(&mut self, ty: Ty) -> Vec<Magic> {
        let interfaces = self.interfaces_of(ty).into_iter();
        interfaces.filter_map(|interface| self.magic_of(self.interface_decl(interface)?)).collect()
    }

    /// The interface of the library that is declared here.
    pub(crate) fn magic_of(&self, decl: DeclId) -> Option<Magic> {
        self.magics.of.get(&decl).copied()
    }

    /// Returns true if every type that this may turn out to be is floating point, so that it is its own
    /// differential.
    pub(crate) fn is_float_kind(&mut self, ty: Ty) -> bool {
        let kinds = self.kinds_of(ty);
        kinds != 0 && kinds & !FLOATS == 0
    }

    /// Returns true if the type may turn out to be floating point.
    pub(crate) fn may_be_float(&mut self, ty: Ty) -> bool {
        self.kinds_of(ty) & FLOATS != 0
    }

    /// Returns true if a type other than a user's type conforms to an interface of the library.
    pub(crate) fn conforms_natively(&mut self, ty: Ty, magic: Magic) -> bool {
        let kinds = self.kinds_of(ty);
        if let (TyKind::Enum(_), Magic::EnumType) = (&self.types[ty], magic) {
            return true;
        }
        kinds != 0 && kinds & USER == 0 && kinds & !magic.kinds() == 0
    }

    /// The value of an integer literal, which may be negated.
    pub(crate) fn int_literal(&self, expr: ExprId) -> Option<i128> {
        match &self.ast.exprs[expr].kind {
            ExprKind::Int { value, .. } => Some(i128::from(*value)),
            ExprKind::Paren(inner) => self.int_literal(*inner),
            ExprKind::Unary(syntax::ast::UnaryOp::Neg, inner) => self.int_literal(*inner).map(|v| -v),
            ExprKind::Unary(syntax::ast::UnaryOp::Plus, inner) => self.int_literal(*inner),
            _ => None,
        }
    }
}
