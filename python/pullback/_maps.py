"""Functions and their derivatives as maps of arrays, for frameworks that record calls and differentiate them later.

To save work, an input that a derivative leaves out is a constant in the next one: the gradient by `x` alone is a map in
which `y` is a constant. If `y` turns out to vary, the map is made again with derivatives by all inputs (`Map.whole`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np

from . import _core
from ._values import Leaf

# The leading dimensions of each output: None for the broadcast dimensions of the inputs. Others are summed over.
Leads = tuple[Optional[tuple[int, ...]], ...]


def lead_of(x: Any, leaf: Leaf) -> tuple[int, ...]:
    """Return an array's dimensions before those of a value. Raise `ValueError` if the last dimensions do not match."""
    n = len(x.shape) - len(leaf.dims)
    if n < 0 or tuple(x.shape[n:]) != leaf.dims:
        dims = list(leaf.dims)
        raise ValueError(f"`{leaf.path}` needs an array whose last dimensions are {dims}, not one of shape {x.shape}")
    return tuple(x.shape[:n])


def zero(leaf: Leaf) -> Any:
    """Return a zero differential, which is broadcast."""
    return np.zeros(leaf.dims, leaf.dtype)


class Map:
    """A function of arrays with the outputs that are wanted. Maps are equal if they compute the same outputs."""

    def __init__(self, core: _core.Function, origin: Optional[tuple[Map, str, tuple[bool, ...]]] = None) -> None:
        self.core = core
        self.handle = core.register()
        self.inputs = [Leaf(*leaf) for leaf in core.inputs]
        self.outputs = [Leaf(*leaf) for leaf, _ in core.outputs]
        self.cotangent_of = [of for _, of in core.outputs]
        self.diff = [k for k, leaf in enumerate(self.outputs) if leaf.diff]
        self.wanted = tuple(range(len(self.outputs)))
        self.origin = origin
        # The mask of inputs by which the whole map has derivatives.
        own = [leaf.diff for leaf in self.inputs]
        self.could: list[bool] = own if origin is None else [*origin[0].could, *own[len(origin[0].inputs) :]]
        self._derived: dict[object, Map] = {}

    def derive(self, step: str, mask: tuple[bool, ...]) -> Map:
        """Return the map of tangents of the outputs ("jvp") or cotangents of the mask's inputs ("vjp")."""
        found = self._derived.get((step, mask))
        if found is None:
            found = self._derived[step, mask] = Map(self.core.derive([mask, (step, mask)]), (self, step, mask))
        return found

    def whole(self) -> Map:
        """Return the same map with derivatives by all differentiable inputs."""
        if self.origin is None:
            return self
        made = self._derived.get("whole")
        if made is None:
            of, step, mask = self.origin
            made = self._derived["whole"] = Map(of.whole().core.derive([(step, mask)]))
            made.origin = (of.whole(), step, mask)
            made._derived["whole"] = made
        return made.only(self.wanted)

    def only(self, wanted: Iterable[int]) -> Map:
        """Return the same map with only these outputs wanted."""
        found = copy.copy(self)
        found.wanted = tuple(wanted)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and (self.handle, self.wanted) == (other.handle, other.wanted)

    def __hash__(self) -> int:
        return hash((self.handle, self.wanted))

    def __repr__(self) -> str:
        return self.handle

    def results(self, xs: Sequence[Any], leads: Leads) -> list[tuple[tuple[int, ...], Any]]:
        """Return the shape and dtype of each output. Raise `ValueError` if the inputs cannot be broadcast."""
        own = [lead_of(x, leaf) for x, leaf in zip(xs, self.inputs)]
        try:
            shape = np.broadcast_shapes(*own)
        except ValueError:
            given = ", ".join(map(str, own))
            raise ValueError(f"the leading dimensions of the arguments do not fit: {given}") from None
        found = []
        for leaf, lead, of in zip(self.outputs, leads, self.cotangent_of):
            # A cotangent has the dtype of its input.
            is_float = of is not None and np.dtype(xs[of].dtype).kind == "f"
            dtype = np.dtype(xs[of].dtype if of is not None and is_float else leaf.dtype)
            found.append(((*(shape if lead is None else lead), *leaf.dims), dtype))
        return found
