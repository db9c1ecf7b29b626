"""Functions: calls with arrays, and derivatives."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._generic import split
from ._memory import Memory, tensor_type
from ._show import DerivativeSource
from ._sparse import sparse as _sparse
from ._values import Choice, Leaf, Parameter, number

if TYPE_CHECKING:
    from . import _torch
    from ._module import Module

Wrt = Union[None, str, Sequence[str]]
# Differentiation steps in the order of application: `vjp`, `jvp`, `value_and_vjp`.
Steps = tuple[str, ...]


class Function:
    """A function of a program, mapped over arrays.

    The trailing dimensions of an argument are those of its parameter (none for a `float`, 3 for a `float3`). The
    function is mapped over the leading dimensions, which are broadcast as in NumPy. Arrays are read in place.

    Memory parameters (buffers, tensors, textures) are not mapped: each takes one array. Global variables and gradients
    of tensors (`**{"x.grad": array}`) are passed by name.

    A struct is a dict, or an object with an attribute for each field. An array of structs is a list of these, or a
    single one whose fields are arrays.
    """

    def __init__(self, module: Module, core: _core.Function, types: tuple[tuple[str, str], ...] = ()) -> None:
        self._module = module
        self._core = core
        # The concrete types of interface parameters, as pairs of parameter and type.
        self._types = types
        self._params = [Parameter(*info) for info in core.params]
        self._inputs = [p for p in self._params if p.is_input]
        self._names = [p.name for p in self._inputs]
        # The names of arguments in order, including memory parameters.
        given_back = {p.name for p in self._params if not p.is_input}
        self._order = [name for name in core.order if name not in given_back]
        self._has_memory = bool(core.places)
        result = Parameter(*core.result)
        self._outputs = [p for p in [result, *self._params] if p.is_output and p.leaves]
        # If every parameter is a single array, arguments need no flattening.
        self._plain = all(p.is_plain for p in self._inputs)
        self._in_order = self._plain and self._names == self._order
        self._n_outputs = len(core.outputs)
        self._one_plain = len(self._outputs) == 1 and self._outputs[0].is_plain
        self._choices: dict[object, Choice] = {}
        self._cotangent: Optional[list[Any]] = None
        self._derived: dict[object, _core.Function] = {}
        self._maps: dict[object, _torch.Map] = {}
        # The function itself on tensors, set on first use.
        self._tensors: Optional[Callable[[Sequence[Any]], Sequence[Any]]] = None
        self._jax: Optional[Callable[..., Any]] = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self._core.name

    @property
    def signature(self) -> str:
        """The function's declaration in Slang."""
        named = {p.name: p.declaration for p in self._params}
        params = ", ".join(named.get(name, name) for name in self._core.order)
        return f"{self._core.result[1]} {self.name}({params})"

    def __repr__(self) -> str:
        return f"<pullback.Function {self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_named, (self._module, self.name, self._types))

    def __deepcopy__(self, memo: object) -> Function:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's value for each index of the arguments' leading dimensions.

        If an argument is a PyTorch tensor, so is the value, and autograd can differentiate it.
        """
        flat, memory = self._flat(args, kwargs)
        return self._values(self._run((), flat, memory))

    def value_and_grad(self, *args: Any, wrt: Wrt = None, **kwargs: Any) -> tuple[Any, Any]:
        """Return the values, and the gradient of their sum with respect to `wrt`.

        `wrt` is a parameter's name, several names for a dict of gradients, or None for all differentiable parameters. A
        gradient has the shape of its argument: broadcast dimensions are summed over.
        """
        by = self._chosen(wrt)
        flat, memory = self._flat(args, kwargs)
        found = self._run(("value_and_vjp",), [*flat, *self._ones()], memory, by.leaves)
        n = self._n_outputs
        return self._values(found[:n]), by.pack(found[n:])

    def grad(self, *args: Any, wrt: Wrt = None, **kwargs: Any) -> Any:
        """Return the gradient of `value_and_grad`."""
        return self.value_and_grad(*args, wrt=wrt, **kwargs)[1]

    def vjp(self, *args: Any, wrt: Wrt = None, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Return the values, and a function that maps their cotangents to those of `wrt`.

        Arguments must not change until that function has been called.
        """
        by = self._chosen(wrt)
        flat, memory = self._flat(args, kwargs)

        def pull(cotangents: Any) -> Any:
            outputs = [p for p in self._outputs if any(leaf.diff for leaf in p.leaves)]
            given = [cotangents] if len(outputs) == 1 else [cotangents[p.key] for p in outputs]
            leaves = [x for p, value in zip(outputs, given) for x in p.differential(value)]
            return by.pack(self._run(("vjp",), [*flat, *leaves], memory, by.leaves))

        return self._values(self._run((), flat, memory)), pull

    def jvp(self, *args: Any, tangents: Mapping[str, Any], **kwargs: Any) -> tuple[Any, Any]:
        """Return the values, and their derivative along `tangents`, a dict from parameter names to tangents."""
        by = self._chosen(tuple(tangents))
        flat, memory = self._flat(args, kwargs)
        found = self._run(("jvp",), [*flat, *self._tangents(tangents)], memory, by.leaves)
        n = self._n_outputs
        outputs = [(p, leaf) for p in self._outputs for leaf in p.leaves if leaf.diff]
        moved = {(p.key, leaf.path): number(x) for (p, leaf), x in zip(outputs, found[n:])}
        values = {p.key: p.pack_differential(moved) for p in self._outputs if any(x.diff for x in p.leaves)}
        return self._values(found[:n]), next(iter(values.values())) if len(values) == 1 else values

    def hvp(self, *args: Any, along: Mapping[str, Any], **kwargs: Any) -> Any:
        """Return the Hessian-vector product: the derivative along `along` of the gradient by its parameters."""
        by = self._chosen(next(iter(along)) if len(along) == 1 else tuple(along))
        flat, memory = self._flat(args, kwargs)
        given = [*flat, *self._ones(), *self._tangents(along)]
        return by.pack(self._run(("vjp", "jvp"), given, memory, by.leaves)[by.n :])

    def jacobian(self, *args: Any, wrt: Wrt = None, sparse: bool = False, **kwargs: Any) -> Any:
        """Return the derivative of each component of the value by each component of `wrt`, for each call.

        The shape is that of the call, then that of a value, then that of the parameter.

        If `sparse`, return a `scipy.sparse.csr_array`, or without SciPy its data, indices, indptr and shape: a row for
        each number of all outputs, a column for each number of `wrt`, in order. The arguments are those of one call. The
        pattern is found from the program, and kept for the next call (docs/jacobians.md).
        """
        if sparse:
            return _sparse(self, args, kwargs, wrt, None)
        leaf = self._single_output()
        by = self._chosen(wrt)
        xp, flat, shape, memory = self._broadcast(args, kwargs)
        n = math.prod(leaf.dims)
        units = xp.eye(n, dtype=getattr(xp, leaf.dtype)).reshape((n, *(1,) * len(shape), *leaf.dims))
        found = self._run(("vjp",), [*self._in_front(xp, flat, by.leaves, n, shape), units], memory, by.leaves)
        rank = len(shape)
        moved = [_moved(x, rank).reshape((*shape, *leaf.dims, *x.shape[1 + rank :])) for x in found]
        return by.pack(moved)

    def hessian(
        self, *args: Any, wrt: Wrt = None, sparse: bool = False, substitution: bool = False, **kwargs: Any
    ) -> Any:
        """Return the second derivatives with respect to `wrt`, for each call; for several parameters, a dict of dicts.

        The shape is that of the call, then twice that of the parameter. If `sparse`, it is one matrix as for `jacobian`,
        with a row and a column for each number of `wrt`; with `substitution`, some of its numbers may follow from others
        by subtraction, which may take fewer products and is less accurate.
        """
        if substitution and not sparse:
            raise ValueError("`substitution` is about sparse matrices")
        if sparse:
            return _sparse(self, args, kwargs, wrt, substitution)
        by = self._chosen(wrt)
        xp, flat, shape, memory = self._broadcast(args, kwargs)
        wanted = [x for x, c in zip(self._leaves(), by.leaves) if c]
        sizes = [math.prod(x.dims) for x in wanted]
        n, rank = sum(sizes), len(shape)
        starts = [0, *itertools.accumulate(sizes)]
        along = [
            xp.eye(n, dtype=getattr(xp, x.dtype))[:, a:b].reshape((n, *(1,) * rank, *x.dims))
            for x, a, b in zip(wanted, starts, starts[1:])
        ]
        given = [*self._in_front(xp, flat, by.leaves, n, shape), *self._ones(), *along]
        found = self._run(("vjp", "jvp"), given, memory, by.leaves)[by.n :]
        rows = []
        for x, a, b in zip(wanted, starts, starts[1:]):
            row = [_moved(y[a:b], rank).reshape((*shape, *x.dims, *y.shape[1 + rank :])) for y in found]
            rows.append(by.pack(row))
        return by.pack(rows)

    def explain(self) -> str:
        """Return the function after each differentiation pass, as `pullback explain` prints it."""
        return self._core.explain()

    def derivative_source(self, mode: str = "backward") -> DerivativeSource:
        """Return the derivative as readable source.

        `mode` is "forward", "backward", or "apply": the value with the context for the backward pass, and that pass.
        """
        return DerivativeSource(self._core.derivative_source(mode))

    def __getitem__(self, arguments: Any) -> Function:
        raise TypeError(f"`{self.name}` is not generic: it is called as it is")

    # ---- parts

    def _partial(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Function, dict[str, Any], dict[str, Any]]:
        """Return the function, and the arguments of a possibly incomplete call: those of inputs and those of memory."""
        if len(args) > len(self._order):
            raise TypeError(f"`{self.name}` takes {len(self._order)} arguments, not {len(args)}")
        given = dict(zip(self._order, args))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"`{self.name}` was given `{name}` twice")
            given[name] = value
        inputs = {name: given.pop(name) for name in self._names if name in given}
        places = {place[0] for place in self._core.places}
        for name in given:
            if name not in places:
                raise TypeError(f"`{self.name}` has no parameter `{name}`; it has {', '.join(self._order) or 'none'}")
        return self, inputs, given

    def _run(
        self, steps: Steps, flat: Sequence[Any], memory: dict[str, Any], chosen: Sequence[bool] = ()
    ) -> Sequence[Any]:
        """Return the outputs of the function, derived by these steps in the chosen inputs: tensors if one is given."""
        tensor = tensor_type()
        if tensor is not None and any([isinstance(x, tensor) for x in ([*flat, *memory.values()] if memory else flat)]):
            return self._on_tensors(steps, flat, memory, chosen)
        core = self._derive(steps, chosen) if steps else self._core
        if not memory:
            try:
                return core(*flat)
            except Exception:
                _refuse_traced(core, flat)
                raise
        held = Memory(core, memory)
        found = core(*flat, memory=held.bound)
        held.write_back()
        return found

    def _on_tensors(
        self, steps: Steps, flat: Sequence[Any], memory: dict[str, Any], chosen: Sequence[bool]
    ) -> Sequence[Any]:
        if not steps and not memory and self._tensors is not None:
            return self._tensors(flat)
        from . import _torch

        if steps:
            return _torch.run_derived(self, steps, chosen, flat, memory)
        of = _torch.map_of(self, names=tuple(memory))
        if not memory:
            self._tensors = functools.partial(_torch.run, of)
        return _torch.run(of, [*flat, *memory.values()] if memory else flat)

    def _derive(self, steps: Steps, chosen: Sequence[bool]) -> _core.Function:
        key = (steps, tuple(chosen))
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = self._core.derive([x for step in steps for x in (chosen, step)])
            self._module._warn()
        return found

    def _flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arrays of all inputs, and memory by name."""
        names = self._order
        if self._in_order and not kwargs and len(args) == len(names):
            return args, {}
        if len(args) > len(names):
            raise TypeError(f"`{self.name}` takes {len(names)} arguments, not {len(args)}")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"`{self.name}` was given `{name}` twice")
            given[name] = value
        if len(given) < len(names) or (len(given) > len(names) and not self._has_memory):
            self._missing(given)
        try:
            values = [given.pop(name) for name in self._names]
        except KeyError:
            self._missing(given)
            raise
        if not self._plain:
            values = [leaf for param, value in zip(self._inputs, values) for leaf in param.flatten(value)]
        return values, given

    def _missing(self, given: Mapping[str, Any]) -> None:
        """Raise `TypeError` if arguments are unknown or missing."""
        names = self._order
        for name in given:
            if name not in names and not self._has_memory:
                raise TypeError(f"`{self.name}` has no parameter `{name}`; it has {', '.join(names) or 'none'}")
        missing = [p.declaration for p in self._inputs if p.name not in given]
        missing += [name for name in names if name not in self._names and name not in given]
        if missing:
            raise TypeError(f"`{self.name}` needs {', '.join(f'`{m}`' for m in missing)}")

    def _values(self, found: Sequence[Any]) -> Any:
        """Return the function's outputs for the caller: the value, a dict if there are several, or None."""
        if self._one_plain:
            return number(found[0])
        values, at = {}, 0
        for p in self._outputs:
            n = len(p.leaves)
            values[p.key] = p.pack([number(x) for x in found[at : at + n]])
            at += n
        if len(values) == 1:
            return next(iter(values.values()))
        return values or None

    def _chosen(self, wrt: Wrt) -> Choice:
        """Return the parameters to differentiate by."""
        key = wrt if wrt is None or isinstance(wrt, str) else tuple(wrt)
        found = self._choices.get(key)
        if found is None:
            found = self._choices[key] = Choice(self.name, self._inputs, key)
        return found

    def _single_output(self) -> Any:
        leaves = [leaf for p in self._outputs for leaf in p.leaves if leaf.diff]
        if len(leaves) != 1:
            raise ValueError(f"`{self.name}` gives {len(leaves)} values that have derivatives, not one: use `vjp`")
        return leaves[0]

    def _ones(self) -> list[Any]:
        """Return the unit cotangent of a scalar value. Raise `ValueError` for other values."""
        if self._cotangent is None:
            leaf = self._single_output()
            if leaf.dims:
                n = "×".join(map(str, leaf.dims))
                raise ValueError(f"`{self.name}` gives {n} numbers, which have no gradient: use `vjp` or `jacobian`")
            self._cotangent = [1.0]
        return self._cotangent

    def _tangents(self, given: Mapping[str, Any]) -> list[Any]:
        return [x for p in self._inputs if p.name in given for x in p.differential(given[p.name])]

    def _leaves(self) -> list[Leaf]:
        return [x for p in self._inputs for x in p.leaves]

    def _broadcast(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, list[Any], tuple[int, ...], dict[str, Any]]:
        """Return NumPy or PyTorch, its arrays of all inputs, the shape of the call, and memory by name."""
        import numpy as np

        found, memory = self._flat(args, kwargs)
        tensor = tensor_type()
        xp: Any = np
        if tensor is not None and any(isinstance(x, tensor) for x in [*found, *memory.values()]):
            xp = sys.modules["torch"]
            flat = [x if isinstance(x, tensor) else xp.from_numpy(np.array(x)) for x in found]
        else:
            flat = [np.asarray(x) for x in found]
        leads = [x.shape[: x.ndim - len(leaf.dims)] for x, leaf in zip(flat, self._leaves())]
        return xp, flat, tuple(xp.broadcast_shapes(*leads)), memory

    def _in_front(
        self, xp: Any, flat: list[Any], chosen: Sequence[bool], n: int, shape: tuple[int, ...]
    ) -> list[Any]:
        """Return the inputs, the chosen ones with a leading dimension of length `n`: one differential per index."""
        return [
            xp.broadcast_to(x, (n, *shape, *leaf.dims)) if c else x
            for x, leaf, c in zip(flat, self._leaves(), chosen)
        ]


def _moved(x: Any, to: int) -> Any:
    """Return the array with its first dimension moved to position `to`."""
    if hasattr(x, "movedim"):
        return x.movedim(0, to)
    import numpy as np

    return np.moveaxis(x, 0, to)


def _refuse_traced(core: _core.Function, flat: Sequence[Any]) -> None:
    """Raise `TypeError` if JAX traces an argument: such calls need `pullback.jax.function`."""
    jax: Any = sys.modules.get("jax")
    if jax is not None and any(isinstance(x, jax.core.Tracer) for x in flat):
        raise TypeError(f"`{core.name}` is called with what JAX traces: `pullback.jax.function` makes a function for that")


def _named(module: Module, name: str, types: tuple[tuple[str, str], ...]) -> Any:
    return module._function(*split(name), types)
