"""Functions and what is derived from them as maps of arrays, for hosts that record calls to differentiate them later.

What a derivative leaves out has no derivative in the next one, for the least work: a gradient by `x` alone is a map whose
`y` is a constant. Where it turns out that it is not, the map is made again without that (`Map.whole`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np

from . import _core
from ._values import Leaf

# The leading dimensions of an output: None for those that the inputs have together. Over others it is summed.
Leads = tuple[Optional[tuple[int, ...]], ...]


def lead_of(x: Any, leaf: Leaf) -> tuple[int, ...]:
    """An array's dimensions before those of a value."""
    n = len(x.shape) - len(leaf.dims)
    if n < 0 or tuple(x.shape[n:]) != leaf.dims:
        dims = list(leaf.dims)
        raise ValueError(f"`{leaf.path}` needs an array whose last dimensions are {dims}, not one of shape {x.shape}")
    return tuple(x.shape[:n])


def zero(leaf: Leaf) -> Any:
    """A differential that is zero, which is broadcast."""
    return np.zeros(leaf.dims, leaf.dtype)


class Map:
    """A function of arrays, and which of its outputs are wanted. Maps are equal if they do the same."""

    def __init__(self, core: _core.Function, origin: Optional[tuple[Map, str, tuple[bool, ...]]] = None) -> None:
        self.core = core
        self.handle = core.register()
        self.inputs = [Leaf(*leaf) for leaf in core.inputs]
        self.outputs = [Leaf(*leaf) for leaf, _ in core.outputs]
        self.cotangent_of = [of for _, of in core.outputs]
        self.diff = [k for k, leaf in enumerate(self.outputs) if leaf.diff]
        self.wanted = tuple(range(len(self.outputs)))
        self.origin = origin
        # The inputs by which the whole map has derivatives.
        own = [leaf.diff for leaf in self.inputs]
        self.could: list[bool] = own if origin is None else [*origin[0].could, *own[len(origin[0].inputs) :]]
        self._derived: dict[object, Map] = {}

    def derive(self, step: str, mask: tuple[bool, ...]) -> Map:
        """By the inputs of the mask: tangents of its outputs ("jvp"), or cotangents of these inputs ("vjp")."""
        found = self._derived.get((step, mask))
        if found is None:
            found = self._derived[step, mask] = Map(self.core.derive([mask, (step, mask)]), (self, step, mask))
        return found

    def whole(self) -> Map:
        """The same, with derivatives by all inputs that have any."""
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
        """The same, of which these outputs are wanted."""
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
        """The shapes and types of all outputs for inputs of those."""
        own = [lead_of(x, leaf) for x, leaf in zip(xs, self.inputs)]
        try:
            shape = np.broadcast_shapes(*own)
        except ValueError:
            given = ", ".join(map(str, own))
            raise ValueError(f"the leading dimensions of the arguments do not fit: {given}") from None
        found = []
        for leaf, lead, of in zip(self.outputs, leads, self.cotangent_of):
            # A cotangent is of the type of what it belongs to.
            is_float = of is not None and np.dtype(xs[of].dtype).kind == "f"
            dtype = np.dtype(xs[of].dtype if of is not None and is_float else leaf.dtype)
            found.append(((*(shape if lead is None else lead), *leaf.dims), dtype))
        return found
