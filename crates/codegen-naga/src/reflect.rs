//! What a host must know to bind everything and to understand errors.

use ir::{Global, MatrixOrder, MemData, MemType, MemTypes};

use crate::Target;
use crate::layout::{self, Rule};

/// An entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name in the source and in the module.
    pub name: String,
    /// Threads of a group.
    pub group_size: [u32; 3],
    /// What of the bindings it uses, in order.
    pub uses: Vec<Use>,
    /// In a dispatch of several groups the first does nothing: it is to be dispatched alone, when the others have ended.
    pub first_group_last: bool,
}

/// A binding that an entry point uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Its place in [`Reflection::bindings`].
    pub binding: usize,
    /// Whether it may be written.
    pub written: bool,
}

/// What is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingKind {
    /// A uniform of one element.
    Uniform,
    /// A storage buffer that is written.
    Storage,
    /// A storage buffer that is only read.
    ReadOnlyStorage,
    /// The storage buffer that says what went wrong; zero at first.
    ErrorWord,
    /// The storage buffer of what is printed; zero at first. Its first word counts the words of all records. A record is the
    /// number of a [`Print`], from 0, the thread's place and the words of the arguments.
    PrintLog,
    /// The storage buffer of a variable that is too large for a thread's own memory: an element for each thread of the
    /// dispatch, in the order of groups, then of threads within the group. What it holds at first does not matter.
    Scratch,
}

impl BindingKind {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            BindingKind::Uniform => "uniform",
            BindingKind::Storage => "storage",
            BindingKind::ReadOnlyStorage => "read_only_storage",
            BindingKind::ErrorWord => "error_word",
            BindingKind::PrintLog => "print_log",
            BindingKind::Scratch => "scratch",
        }
    }
}

/// A number, vector, matrix, array or struct within an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The path of names.
    pub name: String,
    /// Its type as in the source.
    pub ty: String,
    /// Bytes from the element's begin.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Of an array, bytes from one element to the next; of a matrix, from one row to the next.
    pub stride: Option<u64>,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The descriptor set or bind group.
    pub set: u32,
    /// The number in it.
    pub binding: u32,
    /// The source's name.
    pub name: String,
    /// The name in the emitted text.
    pub text_name: String,
    /// The module's global.
    pub global: Option<Global>,
    /// What the global, a pointer, points to is bound.
    pub is_pointee: bool,
    /// What is bound.
    pub kind: BindingKind,
    /// How it is laid out.
    pub rule: Rule,
    /// An element's type.
    pub element: String,
    /// An element's type in the module.
    pub mem: Option<MemType>,
    /// Bytes from one element to the next.
    pub stride: u64,
    /// Bytes, if the host does not say how many elements there are.
    pub size: Option<u64>,
    /// An element's fields.
    pub fields: Vec<Field>,
}

/// A place where a run can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What went wrong.
    pub message: String,
    /// Where, in words.
    pub place: Option<String>,
    /// Where.
    pub span: ir::Span,
}

/// A `printf` of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    /// C's format.
    pub format: String,
    /// The kind of each argument in the log, and the kind that it is printed as.
    pub args: Vec<(ir::Scalar, ir::Scalar)>,
    /// Words of arguments in a record.
    pub words: u32,
}

/// All that a host must know. The error word holds the number of the first site that failed, from 1, and the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// For which language the module is.
    pub target: Target,
    /// Entry points.
    pub entries: Vec<EntryPoint>,
    /// Bindings by number.
    pub bindings: Vec<Binding>,
    /// What the numbers of the error word mean, from 1.
    pub sites: Vec<Site>,
    /// What the numbers of records in the log mean.
    pub prints: Vec<Print>,
}

/// The name of a memory type, as in the source.
pub fn type_name(mem: &MemTypes, ty: MemType) -> String {
    let scalar = |s: ir::Scalar| match s {
        ir::Scalar::Bool => "bool",
        ir::Scalar::I8 => "int8_t",
        ir::Scalar::I16 => "int16_t",
        ir::Scalar::I32 => "int",
        ir::Scalar::I64 => "int64_t",
        ir::Scalar::U8 => "uint8_t",
        ir::Scalar::U16 => "uint16_t",
        ir::Scalar::U32 => "uint",
        ir::Scalar::U64 => "uint64_t",
        ir::Scalar::F16 => "half",
        ir::Scalar::F32 => "float",
        ir::Scalar::F64 => "double",
    };
    match &mem[ty] {
        MemData::Scalar(s) => scalar(*s).to_string(),
        MemData::Vector(s, n) => format!("{}{n}", scalar(*s)),
        MemData::Matrix(s, r, c, MatrixOrder::Columns) => format!("column_major {}{c}x{r}", scalar(*s)),
        MemData::Matrix(s, r, c, MatrixOrder::Rows) => format!("{}{r}x{c}", scalar(*s)),
        MemData::Array(t, n) => format!("{}[{n}]", type_name(mem, *t)),
        MemData::Struct { name, .. } => name.clone(),
        MemData::Handle(t) => format!("{}*", type_name(mem, *t)),
    }
}

/// The fields of a type, structs taken apart; of an array, those of its first element.
pub fn fields(mem: &MemTypes, ty: MemType, rule: Rule) -> Vec<Field> {
    let mut out = Vec::new();
    collect(mem, ty, rule, 0, "", &mut out);
    out
}

fn collect(mem: &MemTypes, ty: MemType, rule: Rule, at: u64, path: &str, out: &mut Vec<Field>) {
    let MemData::Struct { fields, .. } = &mem[ty] else { return };
    for (idx, (name, field)) in fields.iter().enumerate() {
        let offset = at + layout::field_offset(mem, ty, idx, rule);
        let full = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let size = layout::size_align(mem, *field, rule).0;
        let stride = match mem[*field] {
            MemData::Array(t, _) => Some(layout::stride(mem, t, rule)),
            MemData::Matrix(s, _, columns, _) => Some(layout::row_stride(s, columns, rule)),
            _ => None,
        };
        out.push(Field { name: full.clone(), ty: type_name(mem, *field), offset, size, stride });
        let inner = match mem[*field] {
            MemData::Array(t, _) => (t, format!("{full}[0]")),
            _ => (*field, full),
        };
        collect(mem, inner.0, rule, offset, &inner.1, out);
    }
}
