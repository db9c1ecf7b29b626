"""Arguments that functions write, and arguments that differ for each thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from ._enums import PrimType
from ._shape import Shape


class ValueRef:
    """A reference to a value that a function may write."""

    def __init__(self, init_value: Any) -> None:
        self.value = init_value


def intRef(init_value: int = 0) -> ValueRef:
    """Create a reference to an integer."""
    return ValueRef(int(init_value))


def floatRef(init_value: float = 0.0) -> ValueRef:
    """Create a reference to a float."""
    return ValueRef(float(init_value))


class DiffPair:
    """A value and its derivative."""

    def __init__(self, p: Optional[Any], d: Optional[Any], needs_grad: bool = True) -> None:
        self.primal: Any = p if p is not None else 0.0
        self.grad: Any = d if d is not None else type(self.primal)()
        self.needs_grad = needs_grad

    @property
    def slangpy_signature(self) -> str:
        """The signature that identifies the types of the pair."""
        parts = [*(type(part).__name__ for part in (self.primal, self.grad)), str(self.needs_grad)]
        return f"[{','.join(parts)}]"

    def get(self, type: PrimType) -> Any:
        """Return the primal value or the derivative."""
        return self.primal if type == PrimType.primal else self.grad

    def set(self, type: PrimType, value: Any) -> None:
        """Set the primal value or the derivative."""
        if type == PrimType.primal:
            self.primal = value
        else:
            self.grad = value


def diffPair(p: Optional[Any] = None, d: Optional[Any] = None, needs_grad: bool = True) -> DiffPair:
    """Create a pair of a value and its derivative."""
    return DiffPair(p, d, needs_grad)


def floatDiffPair(p: float = 0.0, d: float = 1.0, needs_grad: bool = True) -> DiffPair:
    """Create a pair of a float and its derivative."""
    return DiffPair(p, d, needs_grad)


class ThreadIdArg:
    """An argument that passes the thread index."""

    def __init__(self, dims: int = -1) -> None:
        self.dims = dims


def thread_id(dims: int = -1) -> ThreadIdArg:
    """Return an argument that passes the thread index, as a scalar or a vector of length `dims`."""
    return ThreadIdArg(dims)


class CallIdArg:
    """An argument that passes the index of the thread within the call shape."""

    def __init__(self, dims: int = -1) -> None:
        if isinstance(dims, tuple):
            raise ValueError("a call id takes a number of dimensions: `grid` takes a shape")
        self.dims = dims


def call_id(dims: Any = -1) -> Any:
    """Return an argument that passes the index within the call shape; a tuple gives the `grid` of that shape."""
    return grid(dims) if isinstance(dims, tuple) else CallIdArg(dims)


class GridArg:
    """An argument that passes the points of a grid and determines the call shape."""

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
    """Return the grid of points `offset + index * stride`. Other arguments fix lengths of -1, or of an int shape."""
    return GridArg(shape, offset, stride)


def calc_wang_hash_numpy(seed: Any) -> Any:
    """Return the Wang hash of an array of unsigned integers."""
    with np.errstate(over="ignore"):
        seed = (seed ^ 61) ^ (seed >> 16)
        seed = seed * 9
        seed = seed ^ (seed >> 4)
        seed = seed * 0x27D4EB2D
        return seed ^ (seed >> 15)


def calc_wang_hash(seed: int) -> int:
    """Return the Wang hash of a 32-bit unsigned integer."""
    return int(calc_wang_hash_numpy(np.array([seed], np.uint32))[0])


class WangHashArg:
    """An argument that passes a hash of the thread index."""

    def __init__(self, dims: int = -1, seed: int = 0, warmup: int = 0, hash_seed: bool = True) -> None:
        self.dims = dims
        self.seed = seed
        self.warmup = int(warmup)
        self.hash_seed = bool(hash_seed)


def wang_hash(dim: int = -1, seed: int = 2640457667, warmup: int = 0, hash_seed: bool = True) -> WangHashArg:
    """Return an argument that passes a hash of the thread index, after `warmup` rounds of hashing."""
    return WangHashArg(dim, seed, warmup, hash_seed)


class RandFloatArg:
    """An argument that passes a random float, hashed from the thread index."""

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
    """Return an argument that passes each thread a random float from `min` to `max`, reproducible for a given seed."""
    return RandFloatArg(min, max, dim, seed, warmup, hash_seed)
