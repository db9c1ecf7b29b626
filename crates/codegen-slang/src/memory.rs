//! Writes accesses to memory that the host sees: declarations of the globals in use, and the places in them.
//!
//! Globals and their structs keep their names, so the text can be bound like the program that it comes from.
//! A place of the IR (`buffer_load<1> spheres, k`) becomes a place of the source (`spheres[k].radius`); loads
//! of memory that is written are not moved, but assigned to variables. A matrix is an array of its rows, as
//! in the IR.

use ir::{
    AtomicOp, Global, InstData, MemData, MemType, Module, Op, Path, Space, Span, Step, Type, TypeData, Value,
};
use rustc_hash::FxHashMap;

use crate::expression::{Text, lane};
use crate::names::Names;
use crate::statement::Writer;
use crate::types::{scalar, vector};
use crate::unsupported::{Unsupported, pointer, refused, unsupported};

/// The names of globals and structs, and their declarations.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) globals: FxHashMap<Global, String>,
    structs: FxHashMap<MemType, String>,
    pub(crate) text: String,
}

impl Memory {
    /// Declares the globals that functions refer to, and the structs that these are made of, under unique
    /// names.
    pub(crate) fn declare(
        module: &Module,
        funcs: &[ir::Func],
        names: &mut Names,
    ) -> Result<Memory, Unsupported> {
        let mut memory = Memory::default();
        let mut used: Vec<(Global, Span)> = Vec::new();
        let mut parameters = Vec::new();
        for &func in funcs {
            let src = &module.funcs[func];
            for slot in &src.params {
                if let TypeData::Buffer(ty) = module.types[slot.ty] {
                    parameters.push((ty, src.span));
                }
            }
            src.walk(src.body(), &mut |inst| {
                if let Op::GlobalRef(global) = src.insts[inst].op {
                    used.push((global, src.insts[inst].span));
                }
            });
        }
        used.sort_by_key(|u| u.0);
        used.dedup_by_key(|u| u.0);
        for &(global, _) in &used {
            memory.globals.insert(global, names.fresh(&module.globals[global].name));
        }
        for (ty, span) in parameters {
            memory.type_name(module, ty, names, span)?;
        }
        for (global, span) in used {
            let data = &module.globals[global];
            let name = memory.globals[&global].clone();
            let (ty, after) = memory.type_name(module, data.ty, names, span)?;
            memory.text += &match data.space {
                Space::ReadWrite => format!("RWStructuredBuffer<{ty}{after}> {name};\n"),
                Space::ReadOnly => format!("StructuredBuffer<{ty}{after}> {name};\n"),
                Space::Uniform => format!("uniform {ty} {name}{after};\n"),
                Space::GroupShared => format!("groupshared {ty} {name}{after};\n"),
                Space::Private | Space::Arena => {
                    return Err(refused(span, format!("the variable `{}` of a thread", data.name)));
                }
            };
        }
        Ok(memory)
    }

    /// The name of a type and the suffix that follows the variable; structs are declared first.
    fn type_name(
        &mut self,
        module: &Module,
        ty: MemType,
        names: &mut Names,
        span: Span,
    ) -> Result<(String, String), Unsupported> {
        Ok(match &module.mem[ty] {
            MemData::Scalar(s) => (scalar(*s).into(), String::new()),
            MemData::Vector(s, n) => (vector(*s, *n), String::new()),
            MemData::Matrix(s, r, c, _) => (format!("matrix<{}, {r}, {c}>", scalar(*s)), String::new()),
            MemData::Array(element, n) => {
                let (name, after) = self.type_name(module, *element, names, span)?;
                (name, format!("[{n}]{after}"))
            }
            MemData::Struct { name, fields, .. } => {
                if let Some(known) = self.structs.get(&ty) {
                    return Ok((known.clone(), String::new()));
                }
                let mut body = String::new();
                for (field, ty) in fields {
                    let (name, after) = self.type_name(module, *ty, names, span)?;
                    body += &format!("    {name} {};\n", field_name(field) + &after);
                }
                let name = names.fresh(name);
                self.text += &format!("struct {name}\n{{\n{body}}}\n");
                self.structs.insert(ty, name.clone());
                (name, String::new())
            }
            MemData::Handle(_) => return Err(pointer(span)),
        })
    }

    /// The declaration of a buffer parameter.
    pub(crate) fn parameter(
        &self,
        module: &Module,
        ty: Type,
        name: &str,
        span: Span,
    ) -> Result<String, Unsupported> {
        let TypeData::Buffer(element) = module.types[ty] else { return Err(pointer(span)) };
        // All structs have their names at this point.
        let mut known = Memory { structs: self.structs.clone(), ..Memory::default() };
        let (element, after) = known.type_name(module, element, &mut Names::default(), span)?;
        Ok(format!("RWStructuredBuffer<{element}{after}> {name}"))
    }
}

/// A field's name as a legal identifier: parts of library types have names with dots.
fn field_name(field: &str) -> String {
    Names::default().fresh(field)
}

impl Writer<'_> {
    /// The place that a buffer, an index and a path with its dynamic operands lead to, and the number of rows
    /// if the place is a whole matrix.
    fn memory_place(&self, data: &InstData, path: &Path) -> Result<(String, Option<u32>), Unsupported> {
        let buffer = data.args[0];
        let TypeData::Buffer(element) = self.module.types[self.src.ty(buffer)] else {
            return Err(unsupported(&data.op, data.span));
        };
        let mut text = self.text(buffer).text;
        if !self.singles.contains(buffer) {
            text += &format!("[{}]", self.text(data.args[1]).text);
        }
        let mut dynamic = data.args[2..].iter();
        // `None` once a vector or a row of a matrix is reached.
        let mut ty = Some(element);
        for step in &path.0 {
            let index = match *step {
                Step::Static(k) => k.to_string(),
                Step::Dynamic => {
                    let v = dynamic.next().expect("a path has an operand for each dynamic step");
                    self.text(*v).text
                }
            };
            let here = ty.map(|t| &self.module.mem[t]);
            match (here, step) {
                (Some(MemData::Struct { fields, .. }), Step::Static(k)) => {
                    let (name, field) = &fields[*k as usize];
                    text += &format!(".{}", field_name(name));
                    ty = Some(*field);
                    continue;
                }
                (Some(MemData::Vector(..)), Step::Static(k)) if *k < 4 => text += &lane(*k, 4),
                _ => text += &format!("[{index}]"),
            }
            ty = match here {
                Some(MemData::Array(element, _)) => Some(*element),
                _ => None,
            };
        }
        match ty.map(|t| &self.module.mem[t]) {
            Some(MemData::Matrix(_, rows, ..)) => Ok((text, Some(*rows))),
            Some(MemData::Handle(_)) => Err(pointer(data.span)),
            Some(MemData::Array(element, _)) if !self.is_flat(*element) => {
                Err(refused(data.span, "an array of matrices in memory"))
            }
            _ => Ok((text, None)),
        }
    }

    /// Returns true if arrays of the type have the same form in memory and in variables.
    fn is_flat(&self, ty: MemType) -> bool {
        match &self.module.mem[ty] {
            MemData::Scalar(_) | MemData::Vector(..) => true,
            MemData::Array(element, _) => self.is_flat(*element),
            MemData::Matrix(..) | MemData::Struct { .. } | MemData::Handle(_) => false,
        }
    }

    /// Writes a load, as a variable unless the memory is never written.
    pub(crate) fn buffer_load(
        &mut self,
        data: &InstData,
        path: &Path,
        to: &mut crate::control::Place,
    ) -> Result<(), Unsupported> {
        let v = data.results[0];
        let (place, rows) = self.memory_place(data, path)?;
        if let Some(rows) = rows {
            let rows: Vec<String> = (0..rows).map(|k| format!("{place}[{k}]")).collect();
            return self.define(v, "m", &format!("{{ {} }}", rows.join(", ")));
        }
        self.variable_or_part(data, Text::atom(place), self.fixed.contains(data.args[0]), to)
    }

    pub(crate) fn buffer_store(&mut self, data: &InstData, path: &Path) -> Result<(), Unsupported> {
        let (place, rows) = self.memory_place(data, path)?;
        let value = self.text(*data.args.last().expect("a store has a value")).text;
        match rows {
            Some(rows) => (0..rows).for_each(|k| self.line(&format!("{place}[{k}] = {value}[{k}];"))),
            None => self.line(&format!("{place} = {value};")),
        }
        Ok(())
    }

    pub(crate) fn atomic(&mut self, data: &InstData, path: &Path, op: AtomicOp) -> Result<(), Unsupported> {
        let (place, _) = self.memory_place(data, path)?;
        let (function, n_values) = match op {
            AtomicOp::Add => ("InterlockedAdd", 1),
            AtomicOp::Min => ("InterlockedMin", 1),
            AtomicOp::Max => ("InterlockedMax", 1),
            AtomicOp::And => ("InterlockedAnd", 1),
            AtomicOp::Or => ("InterlockedOr", 1),
            AtomicOp::Xor => ("InterlockedXor", 1),
            AtomicOp::Exchange => ("InterlockedExchange", 1),
            AtomicOp::CompareExchange => ("InterlockedCompareExchange", 2),
        };
        let mut args = vec![place];
        args.extend(data.args[data.args.len() - n_values..].iter().map(|&v| self.text(v).text));
        let needs_old = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
        if needs_old || data.results.iter().any(|&v| self.is_used(v)) {
            args.push(self.declare(data.results[0], "old", None)?);
        }
        self.line(&format!("{function}({});", args.join(", ")));
        Ok(())
    }

    /// Writes the number of elements, which `GetDimensions` returns together with the size of an element.
    pub(crate) fn buffer_length(&mut self, data: &InstData) -> Result<(), Unsupported> {
        let buffer = self.text(data.args[0]).text;
        let count = self.declare(data.results[0], "count", None)?;
        let size = self.fresh_name("stride");
        self.line(&format!("uint {size};"));
        self.line(&format!("{buffer}.GetDimensions({count}, {size});"));
        Ok(())
    }

    /// Refers to a global by its name; uniforms and group-shared memory have only one element.
    pub(crate) fn global(&mut self, v: Value, global: Global) {
        self.name_global(v, global);
        match self.module.globals[global].space {
            Space::Uniform => {
                self.singles.insert(v);
                self.fixed.insert(v);
            }
            Space::GroupShared | Space::Private => {
                self.singles.insert(v);
            }
            Space::ReadOnly => {
                self.fixed.insert(v);
            }
            Space::ReadWrite | Space::Arena => {}
        }
    }
}
