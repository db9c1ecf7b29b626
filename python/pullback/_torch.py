"""PyTorch: calls with tensors, in eager mode, under transforms of `torch.func` and in compiled graphs.

A `Map` from arrays to arrays is a function or a derivative of one; its derivatives are maps again. So one rule for each
transform gives derivatives of any order. Tensors are passed to maps in place, as arrays. This module imports torch, and
is itself imported when a tensor is first passed to a function.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import torch
from torch._C import _are_functorch_transforms_active as _is_transformed
from torch._C import _functorch
from torch._functorch.utils import unwrap_dead_wrappers
from torch.autograd import forward_ad

from . import _core
from ._maps import zero
from ._values import Leaf

Tensor = torch.Tensor


class Map:
    """A function of arrays. Its inputs are leaves.

    For each output, `cotangent_of` is the index of the input whose cotangent it is, with its shape and dtype, or None.
    """

    def __init__(self, core: _core.Function) -> None:
        self.core = core
        self.inputs = [Leaf(*leaf) for leaf in core.inputs]
        self.n_leaves = len(self.inputs)
        self.outputs = [Leaf(*leaf) for leaf, _ in core.outputs]
        self.cotangent_of = [of for _, of in core.outputs]
        self.all_diff = all(leaf.diff for leaf in self.outputs)
        self.diff = tuple(leaf.diff for leaf in self.inputs)
        self.handle = ""
        # The names of the memory inputs, the names of those that are written, and the order of the derivative.
        self.names: tuple[str, ...] = ()
        self.written: tuple[str, ...] = ()
        self.order = 0
        self._derived: dict[object, Map] = {}
        self.plans: dict[tuple[bool, ...], _Plan] = {}

    def derive(self, step: str, mask: tuple[bool, ...]) -> Map:
        """Return the map that a step derives, by the inputs in the mask."""
        found = self._derived.get((step, mask))
        if found is None:
            found = self._derived[step, mask] = self._made(step, mask)
            if self.handle:
                operator(found, f"{self.handle}.{step}{''.join('01'[c] for c in mask)}")
        return found

    def _made(self, step: str, mask: tuple[bool, ...]) -> Map:
        return Map(self.core.derive([mask, step]))

    def run(self, xs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values at tensors, arrays and numbers, without recording derivatives."""
        return self.core(*xs, tensors=TENSORS)

    def cotangents(self, given: Sequence[Optional[Any]]) -> list[Any]:
        """Return the cotangents of the differentiable outputs, with zeros for those that are None."""
        pairs = zip(self.outputs, given)
        return [zero(leaf) if g is None else g for leaf, g in pairs if leaf.diff]

    def pull(self, xs: Sequence[Any], mask: tuple[bool, ...], given: Sequence[Optional[Any]]) -> list[Optional[Any]]:
        """Return the cotangents of the inputs, None for those that are not in the mask."""
        if not any(mask) or all([g is None for g in given]):
            return [None] * len(mask)
        found = iter(run(self.derive("vjp", mask), self.extended(xs, self.cotangents(given))))
        return [next(found) if c else None for c in mask]

    def fixed(self, xs: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs, with copies of those that could change before derivatives are taken."""
        if all([isinstance(x, _CONSTANT) for x in xs]):
            return xs
        return [x if isinstance(x, _CONSTANT) else np.array(x) for x in xs]

    def extended(self, xs: Sequence[Any], differentials: Sequence[Any]) -> list[Any]:
        """Return the inputs together with the differentials that a step adds."""
        return [*xs, *differentials]

    def is_mapped(self, mask: Sequence[bool]) -> None:
        """Raise `NotImplementedError` if one of these inputs is not mapped."""

    def constants(self, outputs: Sequence[Any], mask: tuple[bool, ...]) -> list[Any]:
        """Return the outputs that do not depend on the inputs in the mask."""
        if self.all_diff and any(mask):
            return []
        return [x for x, leaf in zip(outputs, self.outputs) if not leaf.diff or not any(mask)]


def as_array(owner: str, name: str, dtype: Optional[str], x: Any) -> Any:
    """Return a tensor as an array, or itself on a CUDA device. Raise `TypeError` if the tensor is not supported."""
    if not isinstance(x, Tensor):
        return x
    x = unwrap_dead_wrappers((x,))[0]
    kind = str(x.dtype).removeprefix("torch.")
    if _functorch.is_functorch_wrapped_tensor(x):
        refused = "a tensor of a transform of `torch.func`, which goes through functions that are mapped only"
    elif _functorch.is_legacy_batchedtensor(x):
        refused = "a tensor of `is_grads_batched` or another old `vmap`: use `torch.func.vmap`"
    elif x.device.type not in ("cpu", "cuda"):
        refused = f"a tensor on `{x.device}`: only tensors on the CPU and on CUDA's devices are supported"
    elif x.layout != torch.strided:
        refused = f"a tensor of layout {str(x.layout).removeprefix('torch.')}"
    elif x.is_quantized or x.dtype in _REFUSED:
        refused = f"a tensor of {kind}, which NumPy does not have"
    else:
        x = x.detach().resolve_conj().resolve_neg()
        return x if x.device.type == "cuda" else x.numpy()
    raise TypeError(f"`{name}` of `{owner}` needs numbers of type {dtype or 'its own'}, not {refused}")


def empty(dtype: str, shape: list[int], zeros: bool) -> Any:
    """Return a new tensor, zeroed if `zeros` is true, on the CUDA device that programs run on."""
    return (torch.zeros if zeros else torch.empty)(shape, dtype=getattr(torch, dtype), device="cuda:0")


# The functions with which the core makes tensors.
TENSORS = (torch.from_numpy, empty)

# Types that need no copy: numbers are immutable, and autograd detects changes of tensors.
_CONSTANT = (Tensor, float, int, np.generic)

_REFUSED = (torch.bfloat16, *(getattr(torch, name) for name in dir(torch) if name.startswith(("float8", "float4"))))


def run(of: Map, xs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the map's values at tensors, arrays and numbers; record derivatives by all tensors that require them."""
    if torch.is_autocast_enabled("cpu"):
        xs = [_cast(x, leaf) for x, leaf in zip(xs, of.inputs)]
    if torch.compiler.is_compiling():
        return _in_graph(of, xs)
    if _is_transformed() or forward_ad._current_level >= 0:
        mask = tuple(diff and _is_active(x) for diff, x in zip(of.diff, xs))
        if of.written:
            raise NotImplementedError(f"`{of.written[0]}` is written by `{of.core.name}`: transforms cannot see that")
        found: tuple[Any, ...] = _Transformed.apply(of, mask, *of.fixed(xs))
    elif torch.is_grad_enabled() and any([isinstance(x, Tensor) and x.requires_grad for x in xs]):
        found = _Eager.apply(of, *of.fixed(xs)) if not of.written else _torch_memory.run(of, xs)
    else:
        found = of.run(xs)
    return found


def _cast(x: Any, leaf: Leaf) -> Any:
    """Convert a tensor, under autocast, from a dtype that kernels do not support to that of the parameter."""
    if isinstance(x, Tensor) and x.dtype in _REFUSED and leaf.dtype.startswith("float"):
        return x.to(getattr(torch, leaf.dtype))
    return x


@torch.compiler.assume_constant_result
def map_of(
    function: Any, steps: tuple[str, ...] = (), chosen: tuple[bool, ...] = (), names: tuple[str, ...] = ()
) -> Map:
    """Return the function's map, derived by steps in the chosen inputs, with memory of these names.

    The map is made once, and registered with the handle by which operators find it.
    """
    found: Optional[Map] = function._maps.get((steps, chosen, names))
    if found is None:
        found = function._maps.get(((), (), names))
        if found is None:
            found = _torch_memory.MemoryMap(function._core, names) if names else Map(function._core)
            operator(found, f"{found.core.name}({','.join(names)})" if names else found.core.name)
            function._maps[(), (), names] = found
        for step in steps:
            # Do not differentiate by memory, or by inputs that a step adds.
            found = found.derive(step, chosen + (False,) * (len(found.diff) - len(chosen)))
        function._maps[steps, chosen, names] = found
    return found


def run_derived(
    function: Any, steps: tuple[str, ...], chosen: Sequence[bool], flat: Sequence[Any], memory: dict[str, Any]
) -> list[Any]:
    """Return the outputs of the function's derivative in the chosen inputs.

    An input that a derivative leaves out is a constant in the next one. So the derivative is taken by all inputs that
    autograd may differentiate by, and the outputs that are not wanted are dropped.
    """
    leaves = function._leaves()
    active = [leaf.diff and _is_active(x) for leaf, x in zip(leaves, flat)]
    wide = tuple([c or a for c, a in zip(chosen, active)])
    given = list(flat)
    if steps[-1] == "jvp":
        n = len(given) - sum(chosen)
        tangents = iter(given[n:])
        along = [(leaf, c) for leaf, c, w in zip(leaves, chosen, wide) if w]
        given = given[:n] + [next(tangents) if c else zero(leaf) for leaf, c in along]
    found = list(run(map_of(function, steps, wide, tuple(memory)), [*given, *memory.values()]))
    if steps == ("jvp",):
        return found
    n = function._n_outputs if steps == ("value_and_vjp",) else 0
    wanted = [c for c, w in zip(chosen, wide) if w] * len(steps)
    return found[:n] + [x for x, c in zip(found[n:], wanted) if c]


def _in_graph(of: Map, xs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the map's values in a graph that torch is recording."""
    if forward_ad._current_level >= 0 or _is_transformed():
        what = "transforms of `torch.func` inside `torch.compile` are not supported for functions of Slang"
        raise NotImplementedError(what)
    if of.written:
        what = f"`{of.core.name}` writes memory, which is not supported inside `torch.compile`"
        raise NotImplementedError(what)
    tensors = []
    for x, leaf in zip(xs, of.inputs):
        tensors.append(x if isinstance(x, Tensor) else torch.as_tensor(x, dtype=getattr(torch, leaf.dtype)))
    return tuple(torch.ops.pullback.call(tensors, of.handle))


def _is_active(x: Any) -> bool:
    """Return True if a transform around the call may differentiate by the tensor."""
    if not isinstance(x, Tensor):
        return False
    if torch.compiler.is_compiling():
        return bool(x.requires_grad)
    while _functorch.is_batchedtensor(x):
        x = _functorch.get_unwrapped(x)
    if x.requires_grad or _functorch.is_gradtrackingtensor(x):
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def _save(ctx: Any, of: Map, mask: tuple[bool, ...], xs: Sequence[Any]) -> None:
    """Save the inputs that derivatives need. Tensors are saved through torch, so that it detects changes of them."""
    ctx.of, ctx.mask = of, mask
    ctx.others = [None if isinstance(x, Tensor) else x for x in xs]
    tensors = [x for x in xs if isinstance(x, Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _saved(ctx: Any) -> list[Any]:
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if x is None else x for x in ctx.others]


class _Plan:
    """Reverse mode for inputs of which those in the mask require a gradient."""

    def __init__(self, of: Map, mask: tuple[bool, ...]) -> None:
        self.of, self.mask = of, mask
        active = any(mask)
        self.constants = [k for k, leaf in enumerate(of.outputs) if not leaf.diff or not active]
        # There is no memory, and all outputs are differentiable.
        self.is_plain = active and not of.names and all(leaf.diff for leaf in of.outputs)
        self.all = all(mask)
        self.derived: Optional[Map] = None

    def pull(self, xs: Sequence[Any], given: Sequence[Optional[Any]]) -> Sequence[Optional[Any]]:
        """As `Map.pull`, at less cost if no derivatives of the result are wanted."""
        if not self.is_plain or torch.is_grad_enabled() or _is_transformed() or any([g is None for g in given]):
            return self.of.pull(xs, self.mask, given)
        if self.derived is None:
            self.derived = self.of.derive("vjp", self.mask)
        found = self.derived.run([*xs, *given])
        if self.all:
            return found
        each = iter(found)
        return [next(each) if c else None for c in self.mask]


class _Eager(torch.autograd.Function):
    """Reverse mode, at the least cost per call."""

    @staticmethod
    def forward(ctx: Any, of: Map, *xs: Any) -> tuple[Any, ...]:
        needed = ctx.needs_input_grad
        plan = of.plans.get(needed)
        if plan is None:
            plan = of.plans[needed] = _Plan(of, tuple([d and n for d, n in zip(of.diff, needed[1:])]))
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        if all([isinstance(x, Tensor) for x in xs]):
            ctx.others = None
            ctx.save_for_backward(*xs)
        else:
            ctx.others = [None if isinstance(x, Tensor) else x for x in xs]
            ctx.save_for_backward(*[x for x in xs if isinstance(x, Tensor)])
        found = of.run(xs)
        if plan.constants:
            ctx.mark_non_differentiable(*[found[k] for k in plan.constants])
        return found

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        xs = ctx.saved_tensors if ctx.others is None else _saved(ctx)
        return (None, *ctx.plan.pull(xs, given))


class _Transformed(torch.autograd.Function):
    """Forward mode, reverse mode and `vmap`, in any order.

    The mask has the inputs that any level may differentiate by, since an input that the derivative of one level leaves
    out is a constant in the next.
    """

    @staticmethod
    def forward(of: Map, mask: tuple[bool, ...], *xs: Any) -> tuple[Any, ...]:
        return of.run(xs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        of, mask, *xs = inputs
        _save(ctx, of, mask, xs)
        ctx.save_for_forward(*(x for x in xs if isinstance(x, Tensor)))
        ctx.mark_non_differentiable(*of.constants(output, mask))

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        return (None, None, *ctx.of.pull(_saved(ctx), ctx.mask, given))

    @staticmethod
    def jvp(ctx: Any, of_: None, mask_: None, *given: Any) -> tuple[Any, ...]:
        of, mask = ctx.of, ctx.mask
        if not any(mask) or not any(leaf.diff for leaf in of.outputs):
            return (None,) * len(of.outputs)
        of.is_mapped(mask)
        pairs = [(leaf, g) for leaf, g, c in zip(of.inputs, given, mask) if c]
        tangents = [zero(leaf) if g is None else g for leaf, g in pairs]
        found = iter(run(of.derive("jvp", mask), of.extended(_saved(ctx), tangents))[len(of.outputs) :])
        return tuple(next(found) if leaf.diff else None for leaf in of.outputs)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], of: Map, mask: Any, *xs: Any) -> tuple[Any, Any]:
        n, dims = info.batch_size, in_dims[2:]
        of.is_mapped([d is not None for d in dims])
        moved = [x if d is None else x.movedim(d, 0) for x, d in zip(xs, dims)]
        # The batch dimension precedes all leading dimensions, so arrays with fewer of these are padded with length 1.
        shapes = [np.shape(x)[0 if d is None else 1 :] for x, d in zip(moved, dims)]
        rank = max(len(shape) - len(leaf.dims) for shape, leaf in zip(shapes[: of.n_leaves], of.inputs))
        summed = {k for k in of.cotangent_of if k is not None}
        laid = []
        for k, (x, d, shape, leaf) in enumerate(zip(moved, dims, shapes, of.inputs)):
            wide = (n, *(1,) * (rank - len(shape) + len(leaf.dims)), *shape)
            if d is not None:
                x = x.reshape(wide)
            elif k in summed:
                # Each batch element has its own sum.
                x = x.expand(wide) if isinstance(x, Tensor) else np.broadcast_to(x, wide)
            laid.append(x)
        found = run(of, [*laid[: of.n_leaves], *moved[of.n_leaves :]])
        out = [y if k is None else y.reshape((n, *shapes[k])) for y, k in zip(found, of.cotangent_of)]
        return tuple(out), (0,) * len(out)


# ---- operators, for graphs

_maps: dict[str, Map] = {}
_library = torch.library.Library("pullback", "DEF")
_library.define("call(Tensor[] xs, str of) -> Tensor[]")


def operator(of: Map, name: str) -> str:
    """Register the map for the operator `pullback::call`, and return its handle.

    The handle is derived from the map's inputs and outputs, so that it matches graphs that torch has stored in another
    process.
    """
    if not of.handle:
        text = repr((name, of.core.inputs, of.core.outputs))
        of.handle = name = f"{name}#{zlib.crc32(text.encode()):08x}"
        while _maps.setdefault(of.handle, of) is not of:
            of.handle += "'"
    return of.handle


@torch.library.impl(_library, "call", "CompositeExplicitAutograd")
def _call(xs: list[Any], of: str) -> list[Any]:
    return list(_maps[of].run(xs))


@torch.library.register_fake("pullback::call", lib=_library)
def _fake(xs: list[Any], of: str) -> list[Any]:
    made = _maps[of]
    leads = [x.shape[: x.ndim - len(leaf.dims)] for x, leaf in zip(xs[: made.n_leaves], made.inputs)]
    shape = torch.broadcast_shapes(*leads)
    device = next((x.device for x in xs if x.device.type == "cuda"), None)
    out = []
    for leaf, k in zip(made.outputs, made.cotangent_of):
        dtype = getattr(torch, leaf.dtype)
        if k is None:
            out.append(torch.empty((*shape, *leaf.dims), dtype=dtype, device=device))
        else:
            own = xs[k].dtype if xs[k].is_floating_point() else dtype
            out.append(torch.empty(xs[k].shape, dtype=own, device=device))
    return out


def _setup_call(ctx: Any, inputs: tuple[Any, ...], output: list[Any]) -> None:
    xs, name = inputs
    of = _maps[name]
    # Under transforms, other levels may differentiate by any input.
    ctx.mask = tuple(c and (_is_transformed() or x.requires_grad) for c, x in zip(of.diff, xs))
    ctx.of = of
    ctx.save_for_backward(*xs)
    ctx.mark_non_differentiable(*of.constants(output, ctx.mask))


def _pull_call(ctx: Any, given: list[Any]) -> tuple[Any, None]:
    of, mask = ctx.of, ctx.mask
    if not any(mask):
        return [None] * len(mask), None
    cotangents = [
        torch.zeros(leaf.dims, dtype=getattr(torch, leaf.dtype)) if g is None else g
        for leaf, g in zip(of.outputs, given)
        if leaf.diff
    ]
    derived = of.derive("vjp", mask)
    found = iter(torch.ops.pullback.call(of.extended(ctx.saved_tensors, cotangents), derived.handle))
    return [next(found) if c else None for c in mask], None


torch.library.register_autograd("pullback::call", _pull_call, setup_context=_setup_call, lib=_library)

from . import _torch_memory  # noqa: E402
