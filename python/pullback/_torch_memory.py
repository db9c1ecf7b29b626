"""PyTorch: tensors as memory of functions and kernels.

Memory is not mapped: all calls share one tensor, and the derived code adds to its gradient, which is a tensor too. A
function that only reads memory is a map like others, with memory as its last inputs. A function that writes memory is
an in-place operation like torch's own: it increments the tensors' versions, and they have its history from then on.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch._C import _are_functorch_transforms_active as _is_transformed
from torch.autograd import forward_ad

from . import _core
from ._memory import Memory
from ._torch import TENSORS, Map, Tensor
from ._values import Leaf


class MemoryMap(Map):
    """A map whose inputs after the leaves are the memory `names`. Its last outputs are the gradients of `gradients`."""

    def __init__(
        self, core: _core.Function, names: tuple[str, ...], order: int = 0, gradients: tuple[str, ...] = ()
    ) -> None:
        super().__init__(core)
        self.names, self.order, self.gradients = names, order, gradients
        self.places = {place[0]: place for place in core.places}
        leaves = [_leaf(name, self.places, names) for name in names]
        self.outputs += [Leaf(f"{name}.grad", leaves[names.index(name)].dtype, (), True) for name in gradients]
        self.cotangent_of += [len(self.inputs) + names.index(name) for name in gradients]
        self.inputs += leaves
        self.diff += tuple(leaf.diff for leaf in leaves)
        self.written = tuple(name for name in names if _is_written(name, self.places))

    def _made(self, step: str, mask: tuple[bool, ...]) -> Map:
        chosen, of_memory = mask[: self.n_leaves], mask[self.n_leaves :]
        gradients = tuple(name for name, c in zip(self.names, of_memory) if c)
        return MemoryMap(self.core.derive([chosen, step]), self.names, self.order + 1, gradients)

    def run(self, xs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values at tensors, arrays and numbers, without recording derivatives."""
        memory = dict(zip(self.names, xs[self.n_leaves :]))
        gradients = {f"{name}.grad": _zeros(name, memory[name], self.places) for name in self.gradients}
        held = Memory(self.core, {**memory, **gradients})
        found = self.core(*xs[: self.n_leaves], memory=held.bound, tensors=TENSORS)
        held.write_back()
        as_given = [gradients[f"{name}.grad"].to(memory[name].dtype) for name in self.gradients]
        return (*found, *as_given)

    def pull(self, xs: Sequence[Any], mask: tuple[bool, ...], given: Sequence[Optional[Any]]) -> list[Optional[Any]]:
        """Return the cotangents of the inputs, None for those that are not in the mask."""
        n, n_outputs = self.n_leaves, len(self.outputs) - len(self.gradients)
        if any(g is not None for g in given[n_outputs:]):
            raise _no_second(self.core.name, self.gradients[0])
        if self.order and any(mask[n:]):
            if _is_transformed():
                raise _no_second(self.core.name, self.names[mask[n:].index(True)])
            # Differentiation by these raises in `_Once`.
            rest = [torch.zeros_like(x) if c else None for x, c in zip(xs[n:], mask[n:])]
            of_leaves = super().pull(xs, (*mask[:n], *(False,) * len(rest)), given[:n_outputs])[:n]
            return [*of_leaves, *rest]
        if torch.is_grad_enabled() and not _is_transformed() and not self.order:
            memory = zip(self.names, xs[n:], mask[n:])
            once = [_Once.apply(_no_second(self.core.name, of), x) if c else x for of, x, c in memory]
            xs = [*xs[:n], *once]
        return super().pull(xs, mask, given[:n_outputs])

    def fixed(self, xs: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs, with copies of those that could change before derivatives are taken."""
        return [*super().fixed(xs[: self.n_leaves]), *_fixed(xs[self.n_leaves :], self.names, self.written)]

    def extended(self, xs: Sequence[Any], differentials: Sequence[Any]) -> list[Any]:
        """Return the inputs together with the differentials that a step adds."""
        return [*xs[: self.n_leaves], *differentials, *xs[self.n_leaves :]]

    def is_mapped(self, mask: Sequence[bool]) -> None:
        """Raise `NotImplementedError` if one of these inputs is not mapped."""
        names = [name for name, c in zip(self.names, mask[self.n_leaves :]) if c] or list(self.gradients)
        if names:
            what = "which `vmap` and forward mode do not go through: there is one for all calls"
            raise NotImplementedError(f"`{names[0]}` is memory of `{self.core.name}`, {what}")


def _leaf(name: str, places: dict[str, Any], names: Sequence[str]) -> Leaf:
    """Return memory as an input. It is differentiable if the code has a gradient that the caller does not bind."""
    place = places.get(name)
    gradient = f"{name}.grad"
    has_gradient = gradient in places and places[gradient][1] == "gradient" and gradient not in names
    return Leaf(name, (place and place[2]) or "", (), has_gradient)


def _is_written(name: str, places: dict[str, Any]) -> bool:
    return name in places and bool(places[name][5])


def _zeros(name: str, x: Any, places: dict[str, Any]) -> Any:
    dtype = getattr(torch, places[f"{name}.grad"][2])
    return torch.zeros(x.shape, dtype=dtype, device=x.device if isinstance(x, Tensor) else None)


def _no_second(owner: str, name: str) -> Exception:
    return NotImplementedError(f"`{owner}` has no second derivatives by its memory `{name}`: pass `{name}.detach()`")


class _Once(torch.autograd.Function):
    """A tensor that raises on differentiation by itself or by the tensors that it was made of."""

    @staticmethod
    def forward(ctx: Any, error: Exception, x: Any, *made_of: Any) -> Any:
        ctx.error = error
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        raise ctx.error


# ---- functions and kernels that write memory


class _Task:
    """A function's map or a kernel, with its backward derivative."""

    def __init__(self, of: Optional[Map], kernel: Any, sizes: Any, names: tuple[str, ...], places: Any) -> None:
        self.of, self.kernel, self.sizes, self.names, self.places = of, kernel, sizes, names, places
        self.n_leaves = of.n_leaves if of is not None else 0
        self.n_outputs = len(of.outputs) if of is not None else 0
        self.written = tuple(name for name in names if _is_written(name, places))
        memory = [_leaf(name, places, names).diff for name in names]
        self.diff = (*(of.diff[: self.n_leaves] if of is not None else ()), *memory)

    @property
    def name(self) -> str:
        """The name of the function or kernel."""
        found: str = self.of.core.name if self.of is not None else self.kernel.name
        return found

    def run(self, xs: Sequence[Any]) -> tuple[Any, ...]:
        """Write the memory, and return the function's values."""
        if self.of is not None:
            return self.of.run(xs)
        self._launch(self.kernel.name, dict(zip(self.names, xs)))
        return ()

    def pull(
        self, xs: Sequence[Any], mask: Sequence[bool], given: Sequence[Any], dirty: Sequence[str]
    ) -> list[Optional[Any]]:
        """Return the cotangents of the inputs in the mask, from those of the values and of written memory (`dirty`)."""
        n, places = self.n_leaves, self.places
        # Copy written memory: the derivative writes it as well, and may run twice.
        memory = {name: _copy(x) if name in self.written else x for name, x in zip(self.names, xs[n:])}
        for name, g in zip(dirty, given[self.n_outputs :]):
            zeros = _zeros(name, memory[name], places)
            memory[f"{name}.grad"] = zeros if g is None else zeros.copy_(g)
        for name, c in zip(self.names, mask[n:]):
            if c:
                memory[f"{name}.grad"] = _zeros(name, memory[name], places)
        leaves = iter(self._back(xs, mask, given, memory))
        of_leaves = [next(leaves) if c else None for c in mask[:n]]
        of_memory = zip(self.names, mask[n:])
        return [*of_leaves, *(memory[f"{name}.grad"].to(memory[name].dtype) if c else None for name, c in of_memory)]

    def _back(
        self, xs: Sequence[Any], mask: Sequence[bool], given: Sequence[Any], memory: dict[str, Any]
    ) -> Sequence[Any]:
        """Return the cotangents of the leaves in the mask. Those of memory are added to the gradients in `memory`."""
        if self.of is None:
            self._launch(f"bwd_diff({self.kernel.name})", memory)
            return []
        core = self.of.derive("vjp", (*mask[: self.n_leaves], *(False,) * len(self.names))).core
        held = Memory(core, memory)
        cotangents = self.of.cotangents(given[: self.n_outputs])
        found = core(*xs[: self.n_leaves], *cotangents, memory=held.bound, tensors=TENSORS)
        held.write_back()
        return found

    def _launch(self, entry: str, memory: dict[str, Any]) -> None:
        self.kernel(**memory)._run(entry, *self.sizes)

    def check(self, xs: Sequence[Any]) -> None:
        """Raise `RuntimeError` if a tensor that is written requires a gradient."""
        for name, x in zip(self.names, xs[self.n_leaves :]):
            if name in self.written and isinstance(x, Tensor) and x.requires_grad:
                what = f"`{name}` is written by `{self.name}`, and requires a gradient"
                raise RuntimeError(f"{what}: pass a tensor that does not, as `{name}.detach().clone()`")


class _Writing(torch.autograd.Function):
    """A call that writes memory, in reverse mode. Its derivative runs it again, on the memory as it was before."""

    @staticmethod
    def forward(ctx: Any, task: _Task, *xs: Any) -> tuple[Any, ...]:
        n = task.n_leaves
        ctx.task = task
        ctx.mask = tuple(c and needed for c, needed in zip(task.diff, ctx.needs_input_grad[1:]))
        ctx.set_materialize_grads(False)
        is_written = [False] * n + [name in task.written for name in task.names]
        found_dirty = [x for x, w, diff in zip(xs, is_written, task.diff) if w and diff and isinstance(x, Tensor)]
        if any(ctx.mask):
            ctx.others = [_copy(x) if w else None if isinstance(x, Tensor) else x for x, w in zip(xs, is_written)]
            ctx.save_for_backward(*(x for x, w in zip(xs, is_written) if isinstance(x, Tensor) and not w))
        found = task.run(xs)
        if not any(ctx.mask):
            ctx.mark_non_differentiable(*found)
            return found
        ctx.dirty = [name for name, w, diff in zip(task.names, is_written[n:], task.diff[n:]) if w and diff]
        ctx.mark_dirty(*found_dirty)
        if task.of is not None:
            leaves = task.of.outputs
            ctx.mark_non_differentiable(*(x for x, leaf in zip(found, leaves) if not leaf.diff))
        return (*found, *found_dirty)

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        if not any(ctx.mask):
            return (None,) * (1 + len(ctx.mask))
        tensors = iter(ctx.saved_tensors)
        xs = [next(tensors) if x is None else x for x in ctx.others]
        with torch.no_grad():
            found = ctx.task.pull(xs, ctx.mask, given, ctx.dirty)
        made_of = [x for x in (*xs, *given) if isinstance(x, Tensor) and x.requires_grad]
        if torch.is_grad_enabled() and made_of:
            error = NotImplementedError(f"`{ctx.task.name}`, which writes memory, has no second derivatives")
            found = [None if x is None else _Once.apply(error, x, *made_of) for x in found]
        return (None, *found)


def _copy(x: Any) -> Any:
    return x.clone() if isinstance(x, Tensor) else copy.deepcopy(x)


def _fixed(memory: Sequence[Any], names: Sequence[str], written: Sequence[str]) -> list[Any]:
    """Return the memory, with copies of values that could change unnoticed: those neither written nor tensors."""
    return [x if name in written or isinstance(x, Tensor) else copy.deepcopy(x) for name, x in zip(names, memory)]


def run(of: Map, xs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of a map that writes memory."""
    if of.order:
        if any(isinstance(x, Tensor) and x.requires_grad for x in xs):
            what = f"a derivative of `{of.core.name}` that writes memory (`{of.written[0]}`) has no derivatives"
            raise NotImplementedError(f"{what}: call it under `torch.no_grad()`")
        return of.run(xs)
    task = _Task(of, None, None, of.names, of.places)  # type: ignore[attr-defined]
    task.check(xs)
    found: tuple[Any, ...] = _Writing.apply(task, *of.fixed(xs))
    return found[: task.n_outputs]


@torch.compiler.disable
def apply(kernel: Any, memory: dict[str, Any], sizes: Any, places: dict[str, Any]) -> None:
    """Launch a kernel as one autograd operation."""
    if _is_transformed() or forward_ad._current_level >= 0:
        raise NotImplementedError(f"kernel `{kernel.name}` cannot be applied under transforms and forward mode")
    names = tuple(memory)
    task = _Task(None, kernel, sizes, names, places)
    if torch.is_grad_enabled():
        task.check([*memory.values()])
    xs = _fixed([*memory.values()], names, task.written)
    wants = any(c and isinstance(x, Tensor) and x.requires_grad for x, c in zip(xs, task.diff))
    if wants and torch.is_grad_enabled():
        _Writing.apply(task, *xs)
    else:
        task.run(xs)

