//! Describes the interface that a host needs to bind all resources and to report errors.

use ir::pipeline::{Stage, Varying};
use ir::{Global, MemData, MemType, MemTypes};

use crate::Target;
use crate::layout::{self, Rule};

/// An entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name in the source and in the module.
    pub name: String,
    /// The number of threads of a group in each dimension.
    pub group_size: [u32; 3],
    /// For a stage of a graphics pipeline, what it takes and gives.
    pub pipeline: Option<StageInterface>,
    /// The bindings that the entry point uses, in order.
    pub uses: Vec<Use>,
    /// In a dispatch of several groups the first group does nothing: the host must dispatch it again, alone,
    /// after the others have ended.
    pub first_group_last: bool,
}

/// The inputs and outputs of a stage of a graphics pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageInterface {
    /// The stage.
    pub stage: Stage,
    /// Its inputs.
    pub inputs: Vec<StageValue>,
    /// Its outputs.
    pub outputs: Vec<StageValue>,
}

/// An input or output of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageValue {
    /// The name in the source.
    pub name: String,
    /// The type, as in the source.
    pub ty: String,
    /// The place in the pipeline.
    pub place: Varying,
}

/// A binding that an entry point uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The index into [`Reflection::bindings`].
    pub binding: usize,
    /// The entry point may write the binding.
    pub written: bool,
}

/// The kind of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingKind {
    /// A uniform of one element.
    Uniform,
    /// A storage buffer that is written.
    Storage,
    /// A storage buffer that is only read.
    ReadOnlyStorage,
    /// The storage buffer that records the first error; initially zero.
    ErrorWord,
    /// The storage buffer of printed records; initially zero. Its first word counts the words of all records.
    /// A record consists of the number of a [`Print`], from 0, the thread's ID and the words of the
    /// arguments.
    PrintLog,
    /// The storage buffer of a variable that is too large for a thread's private memory: one element for each
    /// thread of the dispatch, in the order of groups, then of threads within the group. Its initial contents
    /// do not matter.
    Scratch,
    /// The storage buffer of what threads keep: a part for each thread of the dispatch, in the same order, as large
    /// as the arena's state says, the first word of each part, then the second of each, and so on. The initial
    /// contents do not matter.
    Arena,
    /// The storage buffer of the arena's state. `short` is zero at first, and not zero if the part of a thread
    /// was too small: then the host has to restore what the dispatch has written, and to repeat it with a larger
    /// arena. The host sets the other fields to the number of bytes of a thread's part, a multiple of four, and
    /// to the numbers of groups of the dispatch along x and y, and of its threads.
    ArenaState,
}

impl BindingKind {
    /// The kind's name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            BindingKind::Uniform => "uniform",
            BindingKind::Storage => "storage",
            BindingKind::ReadOnlyStorage => "read_only_storage",
            BindingKind::ErrorWord => "error_word",
            BindingKind::PrintLog => "print_log",
            BindingKind::Scratch => "scratch",
            BindingKind::Arena => "arena",
            BindingKind::ArenaState => "arena_state",
        }
    }
}

/// A number, vector, matrix, array or struct within an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The path of field names.
    pub name: String,
    /// The type, as in the source.
    pub ty: String,
    /// The offset in bytes from the beginning of the element.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// For an array, the number of bytes from one element to the next; for a matrix, from one row to the
    /// next.
    pub stride: Option<u64>,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The descriptor set or bind group.
    pub set: u32,
    /// The number within the set.
    pub binding: u32,
    /// The name in the source.
    pub name: String,
    /// The name in the emitted text.
    pub text_name: String,
    /// The global of the IR module.
    pub global: Option<Global>,
    /// The global is a pointer, and its pointee is bound.
    pub is_pointee: bool,
    /// The kind of the binding.
    pub kind: BindingKind,
    /// The layout rules.
    pub rule: Rule,
    /// The name of the element type.
    pub element: String,
    /// The element type in the IR module.
    pub mem: Option<MemType>,
    /// The number of bytes from one element to the next.
    pub stride: u64,
    /// The size in bytes, unless the host determines the number of elements.
    pub size: Option<u64>,
    /// The fields of an element.
    pub fields: Vec<Field>,
}

/// A location where a run can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The error message.
    pub message: String,
    /// The source location as text.
    pub place: Option<String>,
    /// The source location.
    pub span: ir::Span,
}

/// A `printf` of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    /// The format string, in C's syntax.
    pub format: String,
    /// For each argument, the kind of number in the log and the kind that it is printed as.
    pub args: Vec<(ir::Scalar, ir::Scalar)>,
    /// The number of words that the arguments of a record take.
    pub words: u32,
}

/// The interface that a host needs. The error word holds the number of the first site that failed, from 1,
/// and the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// The language that the module was built for.
    pub target: Target,
    /// Entry points.
    pub entries: Vec<EntryPoint>,
    /// Bindings by index.
    pub bindings: Vec<Binding>,
    /// The sites that the numbers of the error word refer to, from 1.
    pub sites: Vec<Site>,
    /// The `printf`s that the numbers of log records refer to.
    pub prints: Vec<Print>,
}

/// The inputs and outputs of an entry point, if it is a stage.
pub(crate) fn stage_interface(module: &ir::Module, entry: &ir::Entry) -> Option<StageInterface> {
    let pipeline = entry.pipeline.as_ref()?;
    let function = &module.funcs[entry.func];
    let values = |places: &[Varying], slots: &[ir::Slot]| {
        let value = |(&place, slot): (&Varying, &ir::Slot)| StageValue {
            name: slot.name.as_deref().unwrap_or_default().to_string(),
            ty: match module.types[slot.ty] {
                ir::TypeData::Vector(s, n) => format!("{}{n}", s.word()),
                _ => module.types.scalar_of(slot.ty).unwrap_or(ir::Scalar::F32).word().to_string(),
            },
            place,
        };
        places.iter().zip(slots).map(value).collect()
    };
    Some(StageInterface {
        stage: pipeline.stage,
        inputs: values(&pipeline.inputs, &function.params),
        outputs: values(&pipeline.outputs, &function.results),
    })
}

/// The fields of a type, with nested structs flattened; for an array, those of its first element.
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
        out.push(Field { name: full.clone(), ty: mem.type_name(*field), offset, size, stride });
        let inner = match mem[*field] {
            MemData::Array(t, _) => (t, format!("{full}[0]")),
            _ => (*field, full),
        };
        collect(mem, inner.0, rule, offset, &inner.1, out);
    }
}
