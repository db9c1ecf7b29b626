"""Shapes: dimension lengths, outermost first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union


class Shape:
    """Dimension lengths; -1 is an unknown length. `Shape(None)` is invalid: it stands for no shape."""

    __slots__ = ("_sizes",)

    def __init__(self, *sizes: Any) -> None:
        self._sizes: Optional[tuple[int, ...]]
        if len(sizes) == 1 and (sizes[0] is None or isinstance(sizes[0], Shape)):
            self._sizes = None if sizes[0] is None else sizes[0]._sizes
        elif len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
            self._sizes = tuple(int(n) for n in sizes[0])
        else:
            self._sizes = tuple(int(n) for n in sizes)

    @property
    def valid(self) -> bool:
        """True if the shape is valid."""
        return self._sizes is not None

    @property
    def concrete(self) -> bool:
        """True if all lengths are known."""
        return self._sizes is not None and -1 not in self._sizes

    def as_tuple(self) -> tuple[int, ...]:
        """Return the lengths as a tuple. Raise RuntimeError if the shape is invalid."""
        if self._sizes is None:
            raise RuntimeError("Shape is invalid")
        return self._sizes

    def as_list(self) -> list[int]:
        """Return the lengths as a list. Raise RuntimeError if the shape is invalid."""
        return list(self.as_tuple())

    def calc_contiguous_strides(self) -> Shape:
        """Return the strides of a contiguous array of this shape, in elements."""
        return Shape(contiguous(self.as_tuple()))

    def __len__(self) -> int:
        return len(self._sizes or ())

    def __getitem__(self, index: Any) -> Any:
        return self.as_tuple()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.as_tuple())

    def __add__(self, other: Union[Shape, Sequence[int]]) -> Shape:
        return Shape(self.as_tuple() + tuple(other))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape):
            return self._sizes == other._sizes
        if isinstance(other, (tuple, list)):
            return self._sizes == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._sizes)

    def __repr__(self) -> str:
        return "[invalid]" if self._sizes is None else f"[{', '.join(map(str, self._sizes))}]"


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous array."""
    steps: list[int] = []
    step = 1
    for size in reversed(sizes):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))
