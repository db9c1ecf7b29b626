//! Launches kernels in their original form: memory is bound by name, and the caller gives the number of
//! thread groups.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use driver::around::MEMORY;
use driver::bind::{self, BindValue};
use driver::launch::{Execution, Foreign, Runner, fork};
use ir::analysis::Cycles;
use ir::{Func, Global, Module, Op, Scalar, walk};
use rustc_hash::FxHashSet;
use syntax::Sources;

use crate::array::Array;
use crate::error::Error;
use crate::program::Program;
use crate::written::written;

/// The kinds of memory that a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Any number of contiguous elements.
    Buffer,
    /// One value.
    Uniform,
    /// An array with a shape and strides.
    Tensor,
    /// The gradient of a tensor; if it is not bound, temporary zeros that the caller does not see.
    Gradient,
    /// A texture, bound to an array whose last dimension holds the channels.
    Texture,
}

/// Memory that a kernel uses.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name: `scene.light` for a field that is memory itself, `x.grad` for a gradient.
    pub name: String,
    /// How the memory is bound.
    pub role: Role,
    /// The kind of the numbers, if all of them have the same kind.
    pub kind: Option<Scalar>,
    /// The number of numbers in an element.
    pub numbers: usize,
    /// The size of an element in bytes.
    pub bytes: usize,
    /// The kernel may write the memory.
    pub is_writable: bool,
    global: Global,
}

/// An argument to bind to a kernel's memory.
#[derive(Clone, Debug)]
pub enum Argument {
    /// Numbers, used in place.
    Array(Array),
    /// Elements of any type as bytes, used in place.
    Bytes(Foreign),
    /// The texels of a texture, used in place, with its width, height, depth or number of layers, and number
    /// of levels.
    Texels(Foreign, [u32; 4]),
    /// A value, which is copied.
    Value(BindValue),
}

/// A compiled entry point.
pub struct Kernel {
    program: Arc<Program>,
    /// Its name.
    pub name: String,
    sources: Sources,
    /// The size of a thread group.
    pub group: [u32; 3],
    /// The memory that the kernel uses.
    pub places: Vec<Place>,
    runner: Runner,
}

impl Kernel {
    pub(crate) fn new(
        program: Arc<Program>,
        name: &str,
        module: Module,
        sources: Sources,
    ) -> Result<Kernel, Error> {
        let _work = fork::at_work();
        let group = module.entries.first().map_or([1; 3], |entry| entry.group_size);
        let Execution { backend, code, .. } = &program.options.execution;
        let written = written(&module);
        let runner =
            Runner::with_options(module, *backend, code).map_err(|failure| Error::of(&sources, failure))?;
        let places = places(&runner, &written);
        Ok(Kernel { program, name: name.to_string(), sources, group, places, runner })
    }

    /// Returns true if the duration of a launch is not bounded by the number of its threads.
    pub fn may_be_long(&self) -> bool {
        let module = self.runner.module();
        module.entries.first().is_some_and(|entry| may_be_long(module, entry.func))
    }

    /// Finds a place of the kernel's memory by name.
    pub fn place(&self, name: &str) -> Result<&Place, Error> {
        place(&self.places, name, &self.name)
    }

    /// Runs `groups` thread groups with arguments bound by name and returns the text that the kernel printed.
    /// Once `stop` is set, the launch ends with an error as soon as possible.
    pub fn launch(
        &self,
        arguments: &[(&Place, Argument)],
        groups: [u32; 3],
        stop: Option<&Arc<AtomicBool>>,
    ) -> Result<String, Error> {
        // A fork of the runner, which no other launch uses and which keeps none of the caller's memory
        // afterwards.
        let mut runner = self.runner.fork();
        are_apart(arguments, &[])?;
        for (place, argument) in arguments {
            bind(&self.program, &mut runner, place, argument)?;
        }
        runner.bind_gradients().map_err(input)?;
        if let Some(global) = runner.unbound() {
            return Err(not_given(&self.name, &runner, global));
        }
        let threads = self.program.options.execution.threads;
        runner.set_stop(stop.cloned());
        let done = runner.dispatch_entry(0, groups, threads, None);
        done.map(|output| output.stdout).map_err(|error| Error::of(&self.sources, error.into()))
    }
}

/// Returns true if the work of a function is not bounded by its text: it contains loops or recursion.
pub(crate) fn may_be_long(module: &Module, func: Func) -> bool {
    let mut cycles = Cycles::default();
    walk::reaches(module, func, |op| matches!(op, Op::Loop(_)))
        || walk::reachable(module, &[func]).into_iter().any(|func| cycles.is_recursive(module, func))
}

/// The memory of a runner's module that belongs to the user. A parameter that became a global has its own
/// name.
pub(crate) fn places(runner: &Runner, written: &FxHashSet<Global>) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    for (global, _) in runner.globals() {
        let element = runner.element_of(global);
        let leaves = bind::scalars(runner.mem(), element);
        let first = leaves.first().map(|leaf| leaf.1);
        let role = match runner.tensor(global) {
            Some(tensor) if tensor.data != global => continue,
            Some(tensor) if tensor.texture.is_some() => Role::Texture,
            Some(tensor) if tensor.is_grad => Role::Gradient,
            Some(_) => Role::Tensor,
            None if runner.is_single(global) => Role::Uniform,
            None => Role::Buffer,
        };
        found.push(Place {
            name: runner.name(global).to_string().replacen(MEMORY, "", 1),
            role,
            kind: first.filter(|&kind| leaves.iter().all(|leaf| leaf.1 == kind)),
            numbers: leaves.len(),
            bytes: runner.mem().size(element) as usize,
            is_writable: written.contains(&global),
            global,
        });
    }
    found
}

pub(crate) fn bind(
    program: &Program,
    runner: &mut Runner,
    place: &Place,
    argument: &Argument,
) -> Result<(), Error> {
    let name = &place.name;
    match argument {
        Argument::Array(array) => program.reaches(name, array.memory())?,
        Argument::Bytes(memory) | Argument::Texels(memory, _) => program.reaches(name, *memory)?,
        Argument::Value(_) => {}
    }
    match argument {
        Argument::Value(value) => {
            let bound = runner.bind_value(place.global, value);
            bound.map_err(|why| Error::Value(format!("`{name}`: {why}")))?;
        }
        Argument::Bytes(memory) => {
            fills(place, memory.len())?;
            runner.bind_foreign(place.global, *memory);
        }
        Argument::Texels(memory, size) => {
            let own = runner.name(place.global).to_string();
            runner.bind_foreign_texture(&own, *memory, *size).map_err(input)?;
        }
        Argument::Array(array) => bind_array(runner, place, array)?,
    }
    Ok(())
}

/// Returns an error if memory that may be written is shared with another argument: generated code relies on
/// its being separate.
pub(crate) fn are_apart(arguments: &[(&Place, Argument)], arrays: &[&[Array]]) -> Result<(), Error> {
    let range = |argument: &Argument| match argument {
        Argument::Array(array) => array.memory().addresses(),
        Argument::Bytes(memory) | Argument::Texels(memory, _) => memory.addresses(),
        Argument::Value(_) => 0..0,
    };
    let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    for (k, (place, argument)) in arguments.iter().enumerate().filter(|(_, a)| a.0.is_writable) {
        let own = range(argument);
        let other = arguments.iter().enumerate().find(|(n, a)| *n != k && meet(&own, &range(&a.1)));
        if let Some((_, (other, _))) = other {
            return Err(Error::Value(format!(
                "`{}` and `{}` share memory that may be written: give one of them a copy",
                place.name, other.name
            )));
        }
        if arrays.iter().copied().flatten().any(|array| meet(&own, &array.memory().addresses())) {
            let name = &place.name;
            return Err(Error::Value(format!(
                "`{name}`, which may be written, shares memory with another argument: give it a copy"
            )));
        }
    }
    Ok(())
}

/// The error for memory that is used but not bound.
pub(crate) fn not_given(of: &str, runner: &Runner, global: Global) -> Error {
    let name = runner.name(global).replacen(MEMORY, "", 1);
    Error::Kind(format!("`{of}` needs `{name}`, which was not given"))
}

/// Finds a place of a kernel or function by name.
pub(crate) fn place<'a>(places: &'a [Place], name: &str, of: &str) -> Result<&'a Place, Error> {
    places.iter().find(|place| place.name == name).ok_or_else(|| {
        let names: Vec<&str> = places.iter().map(|place| &place.name[..]).collect();
        let known = if names.is_empty() { "nothing".to_string() } else { names.join(", ") };
        Error::Kind(format!("`{of}` uses no `{name}`; it uses {known}"))
    })
}

/// Converts a driver error about an input.
fn input(error: driver::Error) -> Error {
    Error::Value(error.to_string())
}

/// Returns an error if the memory ends within an element.
fn fills(place: &Place, bytes: usize) -> Result<(), Error> {
    let (name, size) = (&place.name, place.bytes.max(1));
    match bytes.is_multiple_of(size) && (place.role != Role::Uniform || bytes == size) {
        true => Ok(()),
        false => {
            Err(Error::Value(format!("`{name}` has elements of {size} bytes, which {bytes} do not fill")))
        }
    }
}

fn bind_array(runner: &mut Runner, place: &Place, array: &Array) -> Result<(), Error> {
    let name = &place.name;
    let is_bool = place.kind == Some(Scalar::Bool) && array.kind() == Scalar::U8;
    if place.kind != Some(array.kind()) && !is_bool {
        let wanted = place.kind.map_or("a struct of several kinds of number", Scalar::name);
        return Err(Error::Kind(format!(
            "`{name}` needs numbers of type {wanted}, not {}",
            array.kind().name()
        )));
    }
    let size = array.kind().bytes() as isize;
    let strides: Option<Vec<usize>> =
        array.strides().iter().map(|stride| usize::try_from(stride / size).ok()).collect();
    match place.role {
        Role::Tensor | Role::Gradient => {
            let strides = strides.ok_or_else(|| {
                Error::Value(format!(
                    "`{name}`: a tensor's strides are not negative, these are {:?}",
                    array.strides()
                ))
            })?;
            let own = runner.name(place.global).to_string();
            runner.bind_foreign_tensor(&own, array.memory(), array.shape(), &strides).map_err(input)?;
        }
        Role::Buffer | Role::Uniform if array.is_dense() => {
            fills(place, array.memory().len())?;
            runner.bind_foreign(place.global, array.memory());
        }
        Role::Buffer | Role::Uniform => {
            return Err(Error::Value(format!(
                "`{name}` needs an array whose numbers lie one after the other, not strides of {:?}",
                array.strides()
            )));
        }
        Role::Texture => {
            return Err(Error::Kind(format!("`{name}` is a texture, which is bound by a value")));
        }
    }
    Ok(())
}
