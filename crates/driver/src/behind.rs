//! Makes pointers in bound memory accessible to the host: each becomes a global of its own, named by its path
//! (`network.layer.weights`).
//!
//! In memory a pointer is the number of a buffer, which is written there once everything is bound. The number
//! of elements that hold pointers is derived from the names that the host binds (`layers[2].weights`): it is
//! one if no name has an index. This applies to processors only: devices have no pointers in memory.

use ir::{Global, GlobalData, MemData, MemType, MemTypes, Module, Space};
use syntax::Diagnostic;

use crate::bind::Bind;
use crate::error::{Failure, source_span};
use crate::launch::Backend;

/// The maximum number of pointers of a program that are bound one by one.
const MOST: usize = 256;

/// A pointer stored in a global's memory.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// The memory that holds the pointer.
    pub(crate) holder: Global,
    /// The offset of the pointer in that memory.
    pub(crate) at: usize,
    /// The memory that it points to.
    pub(crate) pointer: Global,
}

/// Adds a global for each pointer in the memory of bound globals, and transitively for pointers in the memory
/// of the added globals. On a device all of them are null, and binding one is an error.
pub(crate) fn name_pointers(
    module: &mut Module,
    binds: &[Bind],
    backend: Backend,
) -> Result<Vec<Behind>, Failure> {
    let mut found = Vec::new();
    let mut next = 0;
    while let Some((holder, data)) = module.globals.iter().nth(next).map(|(g, data)| (g, data.clone())) {
        next += 1;
        if !matches!(data.space, Space::ReadWrite | Space::ReadOnly | Space::Uniform) {
            continue;
        }
        let (element, is_list) = match data.pointee(&module.mem) {
            Some(element) => (element, true),
            None => (data.ty, data.space != Space::Uniform),
        };
        let mut pointers = Vec::new();
        match module.mem[element] {
            MemData::Struct { .. } | MemData::Array(..) | MemData::Handle(_) if is_list => {
                let indexed = elements(&data.name, binds);
                let is_struct = matches!(module.mem[element], MemData::Struct { .. });
                let size = module.mem.size(element) as usize;
                for k in 0..indexed.unwrap_or(1).min(MOST + 1) {
                    let name = match indexed {
                        None if is_struct => data.name.clone(),
                        _ => format!("{}[{k}]", data.name),
                    };
                    collect(&module.mem, element, k * size, &name, &mut pointers);
                }
            }
            MemData::Struct { .. } | MemData::Array(..) => {
                collect(&module.mem, element, 0, &data.name, &mut pointers);
            }
            MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) | MemData::Handle(_) => {}
        }
        if found.len() + pointers.len() > MOST {
            break;
        }
        for (at, name, ty) in pointers {
            if backend.is_device() {
                if binds.iter().any(|bind| bind.name == name) {
                    let message = format!("{} has no pointers in memory: `{name}` is one", backend.name());
                    let error = Diagnostic::error("E0930", source_span(data.span), message);
                    return Err(Failure::Program(vec![error]));
                }
                continue;
            }
            let pointer = GlobalData { name, space: Space::Uniform, ty, init: None, span: data.span };
            found.push(Behind { holder, at, pointer: module.globals.push(pointer) });
        }
    }
    Ok(found)
}

/// The number of elements of a global that the bound names distinguish; `None` if no name has an index.
fn elements(global: &str, binds: &[Bind]) -> Option<usize> {
    let indices = binds.iter().filter_map(|bind| {
        let (index, _) = bind.name.strip_prefix(global)?.strip_prefix('[')?.split_once(']')?;
        index.parse::<usize>().ok()?.checked_add(1)
    });
    indices.max()
}

/// The offsets of the pointers in an element.
pub(crate) fn pointers(mem: &MemTypes, element: MemType) -> Vec<usize> {
    let mut found = Vec::new();
    collect(mem, element, 0, "", &mut found);
    found.into_iter().map(|pointer| pointer.0).collect()
}

/// Collects the offset, path and type of each pointer in an element.
fn collect(mem: &MemTypes, ty: MemType, at: usize, name: &str, out: &mut Vec<(usize, String, MemType)>) {
    match &mem[ty] {
        MemData::Handle(_) => out.push((at, name.to_owned(), ty)),
        MemData::Struct { fields, .. } => {
            for (idx, (field, field_ty)) in fields.iter().enumerate() {
                let offset = mem.field_offset(ty, idx) as usize;
                collect(mem, *field_ty, at + offset, &format!("{name}.{field}"), out);
            }
        }
        MemData::Array(element, n) => {
            for k in 0..(*n as usize).min(MOST + 1) {
                let offset = k * mem.size(*element) as usize;
                collect(mem, *element, at + offset, &format!("{name}[{k}]"), out);
            }
        }
        MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) => {}
    }
}
