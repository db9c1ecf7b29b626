//! The keys and signatures of the functions of the module, as data.

use std::rc::Rc;

use check::tables::{Callable, FuncRef};
use check::types::Ty;
use check::{Applied, Direction};
use ir::{Func, Slot};
use syntax::{DeclId, Span};

use crate::layout::DiffMap;
use crate::request::Step;

/// Identifies a function of the module by the item that it is built from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A function of the source, or a derivative operator as a function with the operator's signature.
    Callable(Callable),
    /// A function that is made from one of the source.
    Variant(FuncRef, Variant),
    /// A function requested by the host: the result of applying these steps in order.
    Derived(Callable, Vec<Step>),
    /// The wrapper of an entry point.
    Entry(DeclId),
}

impl Key {
    /// The function of the source whose body it has.
    pub(crate) fn source(&self) -> Option<&FuncRef> {
        match self {
            Key::Callable(Callable::Func(f)) | Key::Variant(f, Variant::Plain(_)) => Some(f),
            Key::Callable(_) | Key::Variant(..) | Key::Derived(..) | Key::Entry(_) => None,
        }
    }
}

/// A function that is made from one of the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Variant {
    /// `(params…, tangents…) -> (results…, tangents…)`, in terms of the user's forward derivative of the
    /// function; zeros if there is none.
    Jvp(Option<FuncRef>),
    /// `(params…, cotangents…) -> (cotangents…)`, in terms of the user's backward derivative of the function;
    /// zeros if there is none.
    Vjp(Option<FuncRef>),
    /// `(params…, tangents…) -> (results…)` of a function of pointers (see [`crate::twins`]).
    Twin,
    /// The function as called under `no_diff`: it has no derivative, so no backward derivatives in it are
    /// run.
    Quiet,
    /// `(params…) -> (results…, params…)`: called by reverse mode in place of a function of pointers.
    Moved(Moves),
    /// `(x) -> (x.use(), x)`, and its derivatives (see [`crate::uses`]).
    Use(Ty),
    UseJvp(Ty),
    UseVjp(Ty),
    /// `(params…) -> (results…, context…)`, in terms of the user's `__apply`.
    Apply(Applied),
    /// `(context…, cotangents…) -> (cotangents…)`, in terms of the call operator of the context.
    Propagate(Applied),
    /// The function as code without derivatives calls it. An `out` array begins with the elements of its argument, so
    /// those that the function does not write stay; in a derivative, they would be inputs that a signature lacks. And these
    /// parameters (`None` is `this`) are places of group-shared memory: other threads write there meanwhile.
    Plain(Rc<[Option<DeclId>]>),
    /// Computes the initial value of a thread-local global.
    GlobalInit,
}

/// How a function with a backward derivative moves pointers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Moves {
    /// It returns no pointers.
    Not,
    /// As this forward derivative does.
    By(FuncRef),
    /// The function itself maps both the pointers and their differentials.
    Both,
}

/// The linear half of a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// In reverse, by `__apply`.
    Pullback,
    /// Forward, by `__linearize`.
    Pushforward,
}

/// A parameter of a function; the receiver is one, too.
#[derive(Clone, Debug)]
pub(crate) struct FlatParam {
    pub(crate) name: String,
    pub(crate) decl: Option<DeclId>,
    pub(crate) ty: Ty,
    pub(crate) dir: Direction,
    /// The map of its tangents, if it is declared differentiable.
    pub(crate) diff: Option<Rc<DiffMap>>,
    /// The parameter is an element of the pack that `decl` declares.
    pub(crate) in_pack: bool,
    /// The parameter is a pointer to the place of its argument: a `groupshared` reference in the source, updated by atomic
    /// operations, or in group-shared memory.
    pub(crate) is_reference: bool,
}

impl FlatParam {
    /// A parameter without a declaration and a differential.
    pub(crate) fn new(name: &str, ty: Ty, dir: Direction) -> FlatParam {
        FlatParam {
            name: name.to_owned(),
            decl: None,
            ty,
            dir,
            diff: None,
            in_pack: false,
            is_reference: false,
        }
    }

    /// Returns true if its leaves are parameters of the IR function.
    pub(crate) fn is_input(&self) -> bool {
        self.dir != Direction::Out
    }

    /// Returns true if its leaves are results of the IR function.
    pub(crate) fn is_output(&self) -> bool {
        self.dir.is_written()
    }
}

/// The signature of a function with flat parameters. The receiver is the first parameter.
#[derive(Clone, Debug)]
pub(crate) struct FlatSig {
    pub(crate) params: Vec<FlatParam>,
    pub(crate) has_this: bool,
    /// The first parameter is a value of existential type that determines which static member is called.
    pub(crate) has_object: bool,
    pub(crate) ret: Ty,
    pub(crate) ret_diff: Option<Rc<DiffMap>>,
    /// The optional error of a function that throws, and the map of its tangents.
    pub(crate) error: Option<(Ty, Option<Rc<DiffMap>>)>,
}

/// The meaning of a group of results of the IR function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Returned,
    /// The value that the parameter of this index is set to.
    Param(usize),
    Error,
}

impl Role {
    pub(crate) fn param(self) -> Option<usize> {
        match self {
            Role::Param(k) => Some(k),
            Role::Returned | Role::Error => None,
        }
    }

    /// The same, for a function with `n` more parameters in front.
    pub(crate) fn behind(self, n: usize) -> Role {
        match self {
            Role::Param(k) => Role::Param(k + n),
            Role::Returned | Role::Error => self,
        }
    }
}

/// A group of results of the IR function.
pub(crate) struct Output {
    pub(crate) role: Role,
    pub(crate) ty: Ty,
    pub(crate) diff: Option<Rc<DiffMap>>,
}

impl FlatSig {
    /// The signature of a function without parameters.
    pub(crate) fn returning(ret: Ty) -> FlatSig {
        FlatSig { params: Vec::new(), has_this: false, has_object: false, ret, ret_diff: None, error: None }
    }

    /// The groups of results, in order.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        let ret = Output { role: Role::Returned, ty: self.ret, diff: self.ret_diff.clone() };
        let written = self.params.iter().enumerate().filter(|p| p.1.is_output());
        std::iter::once(ret)
            .chain(written.map(|(k, p)| Output { role: Role::Param(k), ty: p.ty, diff: p.diff.clone() }))
            .chain(self.error.clone().map(|(ty, diff)| Output { role: Role::Error, ty, diff }))
            .collect()
    }
}

/// A declared function.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) func: Func,
    pub(crate) sig: FlatSig,
    pub(crate) params: Vec<Slot>,
    pub(crate) results: Vec<Slot>,
    pub(crate) span: Span,
}

/// The arguments that a call writes, and whether it writes the receiver.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) args: Vec<bool>,
    pub(crate) base: bool,
}
