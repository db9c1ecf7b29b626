"""Values that functions write and that functions get for each thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from ._enums import PrimType
from ._shape import Shape


class ValueRef:
    """Holds a value that a function may write."""

    def __init__(self, init_value: Any) -> None:
        self.value = init_value


def intRef(init_value: int = 0) -> ValueRef:
    """Holds an integer."""
    return ValueRef(int(init_value))


def floatRef(init_value: float = 0.0) -> ValueRef:
    """Holds a float."""
    return ValueRef(float(init_value))


class DiffPair:
    """A value and its derivative."""

    def __init__(self, p: Optional[Any], d: Optional[Any], needs_grad: bool = True) -> None:
        self.primal: Any = p if p is not None else 0.0
        self.grad: Any = d if d is not None else type(self.primal)()
        self.needs_grad = needs_grad

    @property
    def slangpy_signature(self) -> str:
        """What tells it from others."""
        parts = [*(type(part).__name__ for part in (self.primal, self.grad)), str(self.needs_grad)]
        return f"[{','.join(parts)}]"

    def get(self, type: PrimType) -> Any:
        """One of the two."""
        return self.primal if type == PrimType.primal else self.grad

    def set(self, type: PrimType, value: Any) -> None:
        """Replaces one of the two."""
        if type == PrimType.primal:
            self.primal = value
        else:
            self.grad = value


def diffPair(p: Optional[Any] = None, d: Optional[Any] = None, needs_grad: bool = True) -> DiffPair:
    """A value and its derivative."""
    return DiffPair(p, d, needs_grad)


def floatDiffPair(p: float = 0.0, d: float = 1.0, needs_grad: bool = True) -> DiffPair:
    """A float and its derivative."""
    return DiffPair(p, d, needs_grad)


class ThreadIdArg:
    """The number of the thread."""

    def __init__(self, dims: int = -1) -> None:
        self.dims = dims


def thread_id(dims: int = -1) -> ThreadIdArg:
    """The number of the thread, as a scalar or a vector of `dims` numbers."""
    return ThreadIdArg(dims)


class CallIdArg:
    """The place of the call among all of a call's."""

    def __init__(self, dims: int = -1) -> None:
        if isinstance(dims, tuple):
            raise ValueError("a call id takes a number of dimensions: `grid` takes a shape")
        self.dims = dims


def call_id(dims: Any = -1) -> Any:
    """The place among all calls; with a shape, as `grid`."""
    return grid(dims) if isinstance(dims, tuple) else CallIdArg(dims)


class GridArg:
    """The places of a grid: the call has its shape."""

    def __init__(self, shape: Any, offset: Any = None, stride: Any = None) -> None:
        sizes = (-1,) * shape if isinstance(shape, int) else tuple(shape)
        self.shape = Shape(sizes)
        self.offset = tuple(offset) if offset is not None else (0,) * len(sizes)
        self.stride = tuple(stride) if stride is not None else (1,) * len(sizes)
        if len(self.offset) != len(sizes) or len(self.stride) != len(sizes):
            raise ValueError("the shape, offset and stride of a grid have the same number of dimensions")

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


def grid(shape: Union[int, Shape, Sequence[int]], offset: Any = None, stride: Any = None) -> GridArg:
    """The places of a grid, `offset + place * stride`. A length of -1, or a number of dimensions, is left to the others."""
    return GridArg(shape, offset, stride)


def calc_wang_hash_numpy(seed: Any) -> Any:
    """The hash of numbers."""
    with np.errstate(over="ignore"):
        seed = (seed ^ 61) ^ (seed >> 16)
        seed = seed * 9
        seed = seed ^ (seed >> 4)
        seed = seed * 0x27D4EB2D
        return seed ^ (seed >> 15)


def calc_wang_hash(seed: int) -> int:
    """The hash of a number."""
    return int(calc_wang_hash_numpy(np.array([seed], np.uint32))[0])


class WangHashArg:
    """A hash of the thread's number."""

    def __init__(self, dims: int = -1, seed: int = 0, warmup: int = 0, hash_seed: bool = True) -> None:
        self.dims = dims
        self.seed = seed
        self.warmup = int(warmup)
        self.hash_seed = bool(hash_seed)


def wang_hash(dim: int = -1, seed: int = 2640457667, warmup: int = 0, hash_seed: bool = True) -> WangHashArg:
    """A hash of the thread's number, hashed `warmup` times before."""
    return WangHashArg(dim, seed, warmup, hash_seed)


class RandFloatArg:
    """A float between two others, by a hash of the thread's number."""

    def __init__(
        self, min: float, max: float, dim: int = -1, seed: int = 0, warmup: int = 0, hash_seed: bool = True
    ) -> None:
        self.min = float(min)
        self.max = float(max)
        self.dims = int(dim)
        self.seed = seed
        self.warmup = int(warmup)
        self.hash_seed = bool(hash_seed)


def rand_float(
    min: float = 0,
    max: float = 1,
    dim: int = -1,
    seed: int = 2640457667,
    warmup: int = 0,
    hash_seed: bool = True,
) -> RandFloatArg:
    """A float from `min` to `max` for each thread, always the same for a seed."""
    return RandFloatArg(min, max, dim, seed, warmup, hash_seed)
