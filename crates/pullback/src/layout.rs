//! Layouts of memory: of a program's types, of Rust types, and their comparison.

use std::fmt;

use ir::{MatrixOrder, MemData, MemType, MemTypes};

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
}

impl Scalar {
    /// The size in memory. A `bool` has one byte.
    pub fn bytes(self) -> usize {
        self.of_ir().bytes() as usize
    }

    /// Returns true for floats.
    pub fn is_float(self) -> bool {
        self.of_ir().is_float()
    }

    /// The name in programs, such as `float`.
    pub fn name(self) -> &'static str {
        self.of_ir().word()
    }

    pub(crate) fn of_ir(self) -> ir::Scalar {
        match self {
            Scalar::Bool => ir::Scalar::Bool,
            Scalar::I8 => ir::Scalar::I8,
            Scalar::I16 => ir::Scalar::I16,
            Scalar::I32 => ir::Scalar::I32,
            Scalar::I64 => ir::Scalar::I64,
            Scalar::U8 => ir::Scalar::U8,
            Scalar::U16 => ir::Scalar::U16,
            Scalar::U32 => ir::Scalar::U32,
            Scalar::U64 => ir::Scalar::U64,
            Scalar::F16 => ir::Scalar::F16,
            Scalar::F32 => ir::Scalar::F32,
            Scalar::F64 => ir::Scalar::F64,
        }
    }
}

impl From<ir::Scalar> for Scalar {
    fn from(scalar: ir::Scalar) -> Scalar {
        match scalar {
            ir::Scalar::Bool => Scalar::Bool,
            ir::Scalar::I8 => Scalar::I8,
            ir::Scalar::I16 => Scalar::I16,
            ir::Scalar::I32 => Scalar::I32,
            ir::Scalar::I64 => Scalar::I64,
            ir::Scalar::U8 => Scalar::U8,
            ir::Scalar::U16 => Scalar::U16,
            ir::Scalar::U32 => Scalar::U32,
            ir::Scalar::U64 => Scalar::U64,
            ir::Scalar::F16 => Scalar::F16,
            ir::Scalar::F32 => Scalar::F32,
            ir::Scalar::F64 => Scalar::F64,
        }
    }
}

/// The structure of values in memory.
///
/// A program's memory has C layout: a vector is as aligned as its numbers (a `float3` has 12 bytes), a struct as its most
/// aligned field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// One number.
    Scalar(Scalar),
    /// A vector: so many numbers.
    Vector(Scalar, u32),
    /// A matrix: vectors one after the other, which are its rows or its columns.
    #[non_exhaustive]
    Matrix {
        /// The type of its numbers.
        scalar: Scalar,
        /// The number of vectors.
        vectors: u32,
        /// The number of numbers in each.
        length: u32,
        /// The vectors are columns rather than rows.
        in_columns: bool,
    },
    /// An array: so many values.
    Array(Box<Layout>, u32),
    /// A struct.
    #[non_exhaustive]
    Struct {
        /// Its name.
        name: String,
        /// Its fields, in order.
        fields: Vec<Field>,
        /// The number of bytes, with padding at the end.
        size: usize,
    },
    /// A pointer to memory that is bound by a name of its own.
    Pointer,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The number of bytes before it.
    pub offset: usize,
    /// Its layout.
    pub layout: Layout,
}

impl Field {
    /// A field; used by `#[derive(HostType)]`.
    pub fn new(name: impl Into<String>, offset: usize, layout: Layout) -> Field {
        Field { name: name.into(), offset, layout }
    }
}

impl Layout {
    /// The layout of a struct; used by `#[derive(HostType)]`.
    pub fn structure(name: impl Into<String>, size: usize, fields: Vec<Field>) -> Layout {
        Layout::Struct { name: name.into(), fields, size }
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        match self {
            Layout::Scalar(s) => s.bytes(),
            Layout::Vector(s, n) => s.bytes().saturating_mul(*n as usize),
            Layout::Matrix { scalar, vectors, length, .. } => {
                scalar.bytes().saturating_mul(*vectors as usize).saturating_mul(*length as usize)
            }
            Layout::Array(element, n) => element.size().saturating_mul(*n as usize),
            Layout::Struct { size, .. } => *size,
            Layout::Pointer => 8,
        }
    }

    /// The layout of a type of a program.
    pub(crate) fn of(mem: &MemTypes, ty: MemType) -> Layout {
        match &mem[ty] {
            MemData::Scalar(s) => Layout::Scalar((*s).into()),
            MemData::Vector(s, n) => Layout::Vector((*s).into(), *n),
            MemData::Array(element, n) => Layout::Array(Box::new(Layout::of(mem, *element)), *n),
            MemData::Matrix(s, vectors, length, order) => Layout::Matrix {
                scalar: (*s).into(),
                vectors: *vectors,
                length: *length,
                in_columns: *order == MatrixOrder::Columns,
            },
            MemData::Struct { name, fields, .. } => {
                let field = |(k, (name, field)): (usize, &(String, MemType))| {
                    Field::new(name.clone(), mem.field_offset(ty, k) as usize, Layout::of(mem, *field))
                };
                let fields = fields.iter().enumerate().map(field).collect();
                Layout::Struct { name: name.clone(), fields, size: mem.size(ty) as usize }
            }
            MemData::Handle(_) => Layout::Pointer,
        }
    }

    /// The type and number of the scalars, if all are of one type and nothing is between them.
    pub(crate) fn uniform(&self) -> Option<(Scalar, usize)> {
        match self {
            Layout::Scalar(s) => Some((*s, 1)),
            Layout::Vector(s, n) => Some((*s, *n as usize)),
            Layout::Matrix { scalar, vectors, length, .. } => {
                Some((*scalar, (*vectors as usize).checked_mul(*length as usize)?))
            }
            Layout::Array(element, n) => {
                let (s, each) = element.uniform()?;
                Some((s, each.checked_mul(*n as usize)?))
            }
            Layout::Struct { fields, size, .. } => {
                let parts: Option<Vec<_>> = fields.iter().map(|f| f.layout.uniform()).collect();
                let parts = parts?;
                let (s, _) = *parts.first()?;
                let n: usize = parts.iter().map(|part| part.1).sum();
                (parts.iter().all(|part| part.0 == s) && s.bytes().checked_mul(n) == Some(*size))
                    .then_some((s, n))
            }
            Layout::Pointer => None,
        }
    }

    /// Compares the layout of a Rust type with that of a program's type; an error says how they differ, with the names
    /// of both.
    pub(crate) fn fits(&self, program: &Layout) -> Result<(), String> {
        let mut host_path = String::new();
        let mut path = String::new();
        self.compare(program, &mut host_path, &mut path)
    }

    fn compare(&self, program: &Layout, mine: &mut String, other: &mut String) -> Result<(), String> {
        match (self, program) {
            (
                Layout::Struct { name, fields, size },
                Layout::Struct { name: theirs, fields: wanted, size: whole },
            ) => {
                if mine.is_empty() {
                    mine.push_str(name);
                    other.push_str(theirs);
                }
                for (field, want) in fields.iter().zip(wanted) {
                    let (a, b) = (mine.len(), other.len());
                    mine.extend([".", &field.name]);
                    other.extend([".", &want.name]);
                    if field.name != want.name {
                        return Err(format!(
                            "`{mine}` of Rust is in the place of `{other}` of the program: the order differs, or \
                             `#[pullback(name = \"{}\")]` is missing",
                            want.name
                        ));
                    }
                    field.layout.compare(&want.layout, mine, other)?;
                    if field.offset != want.offset {
                        return Err(format!(
                            "`{mine}` of Rust begins at byte {}, `{other}` of the program at byte {}",
                            field.offset, want.offset
                        ));
                    }
                    mine.truncate(a);
                    other.truncate(b);
                }
                if let Some(extra) = fields.get(wanted.len()) {
                    return Err(format!(
                        "`{mine}.{}` of Rust has no field in `{other}` of the program",
                        extra.name
                    ));
                }
                if let Some(extra) = wanted.get(fields.len()) {
                    return Err(format!(
                        "`{other}.{}` of the program has no field in `{mine}` of Rust",
                        extra.name
                    ));
                }
                match size == whole {
                    true => Ok(()),
                    false => Err(format!(
                        "`{mine}` of Rust has {size} bytes, `{other}` of the program has {whole}"
                    )),
                }
            }
            // A struct around one value, as of an atomic number, is that value.
            (_, Layout::Struct { fields, .. }) if fields.len() == 1 => {
                self.compare(&fields[0].layout, mine, other)
            }
            (Layout::Array(element, n), Layout::Array(want, m)) if n == m => {
                let (a, b) = (mine.len(), other.len());
                mine.push_str("[]");
                other.push_str("[]");
                element.compare(want, mine, other)?;
                mine.truncate(a);
                other.truncate(b);
                Ok(())
            }
            (_, Layout::Scalar(Scalar::Bool)) if *self == Layout::Scalar(Scalar::U8) => Ok(()),
            (_, Layout::Scalar(s)) if *self == Layout::Scalar(*s) => Ok(()),
            (Layout::Array(..) | Layout::Vector(..), Layout::Vector(..) | Layout::Matrix { .. })
                if self.uniform().is_some()
                    && self.uniform() == program.uniform()
                    && self.nests_as(program) =>
            {
                Ok(())
            }
            _ => {
                let of = |path: &str| if path.is_empty() { String::new() } else { format!("`{path}` is ") };
                Err(format!("{}`{self}` in Rust, {}`{program}` in the program", of(mine), of(other)))
            }
        }
    }

    /// Returns true if the arrays of a host's type are flat, or nested as the vectors of a matrix.
    fn nests_as(&self, program: &Layout) -> bool {
        let Layout::Array(element, n) = self else { return true };
        match (&**element, program) {
            (Layout::Scalar(_), _) => true,
            (Layout::Array(inner, length), Layout::Matrix { vectors, length: wanted, .. }) => {
                matches!(**inner, Layout::Scalar(_)) && n == vectors && length == wanted
            }
            _ => false,
        }
    }
}

impl fmt::Display for Layout {
    /// Types as programs write them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Scalar(s) => f.write_str(s.name()),
            Layout::Vector(s, n) => write!(f, "vector<{}, {n}>", s.name()),
            Layout::Matrix { scalar, vectors, length, in_columns } => {
                let (rows, columns) = if *in_columns { (length, vectors) } else { (vectors, length) };
                let order = if *in_columns { "column_major " } else { "" };
                write!(f, "{order}matrix<{}, {rows}, {columns}>", scalar.name())
            }
            Layout::Array(element, n) => write!(f, "Array<{element}, {n}>"),
            Layout::Struct { name, .. } => f.write_str(name),
            Layout::Pointer => f.write_str("pointer"),
        }
    }
}

/// A Rust type whose values have the bytes of a program's values: a number, an array of such types, or a struct with
/// `#[derive(HostType)]`.
///
/// The bytes are copied as they are, which [`bytemuck::Pod`] allows. A
/// [handle of a buffer](crate::Kernels::buffer) of such values is only made if the layout is that of the program's type,
/// field by field.
///
/// ```
/// use pullback::{Compiler, HostType};
///
/// #[derive(Clone, Copy, Debug, PartialEq, HostType, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Particle {
///     place: [f32; 3],
///     mass: f32,
/// }
///
/// let module = Compiler::new().text("fall.slang", "
///     struct Particle { float3 place; float mass; }
///     RWStructuredBuffer<Particle> particles;
///     [shader(\"compute\")] [numthreads(64, 1, 1)]
///     void fall(uint3 id : SV_DispatchThreadID)
///     {
///         if (id.x < particles.getCount()) particles[id.x].place.y -= particles[id.x].mass;
///     }")?;
/// let mut kernels = module.kernels()?;
/// let particles = kernels.buffer::<Particle>("particles")?;
/// let fall = kernels.kernel("fall")?;
/// kernels.write(particles, &[Particle { place: [1.0, 2.0, 3.0], mass: 0.5 }; 2])?;
/// kernels.dispatch(fall, fall.groups(2))?;
/// assert_eq!(kernels.read(particles)?[1].place, [1.0, 1.5, 3.0]);
///
/// // A type with another layout is refused, with the names of both.
/// #[derive(Clone, Copy, HostType, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Swapped {
///     mass: f32,
///     place: [f32; 3],
/// }
/// let why = kernels.buffer::<Swapped>("particles").unwrap_err().to_string();
/// assert!(why.contains("`Swapped.mass`") && why.contains("`Particle.place`"), "{why}");
/// # Ok::<(), pullback::Failure>(())
/// ```
pub trait HostType: bytemuck::Pod {
    /// The layout of the type.
    fn layout() -> Layout;
}

macro_rules! numbers {
    ($($ty:ty => $scalar:ident),*) => { $(
        impl HostType for $ty {
            fn layout() -> Layout {
                Layout::Scalar(Scalar::$scalar)
            }
        }
    )* };
}
numbers!(
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    half::f16 => F16, f32 => F32, f64 => F64
);

impl<T: HostType, const N: usize> HostType for [T; N]
where
    [T; N]: bytemuck::Pod,
{
    fn layout() -> Layout {
        Layout::Array(Box::new(T::layout()), u32::try_from(N).unwrap_or(u32::MAX))
    }
}
