"""Vectors and matrices as in Slang: `float3(1, 2, 3)`, `float4x4.identity()`."""

from __future__ import annotations

import math as _math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_LETTERS = "xyzw"
_COLOURS = "rgba"

# Slang scalar types with their NumPy dtypes and Python types.
NUMBERS: dict[str, tuple[str, type]] = {
    "bool": ("bool", bool),
    "int": ("int32", int),
    "uint": ("uint32", int),
    "float": ("float32", float),
    "float16_t": ("float16", float),
    "double": ("float64", float),
    "int64_t": ("int64", int),
    "uint64_t": ("uint64", int),
    "int16_t": ("int16", int),
    "uint16_t": ("uint16", int),
    "int8_t": ("int8", int),
    "uint8_t": ("uint8", int),
}


def _numbers(values: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple, Vector, np.ndarray)):
            found.extend(_numbers(tuple(value)))
        else:
            found.append(value)
    return found


class _Ordered:
    """Lexicographic comparison of values of the same type."""

    __slots__ = ()

    def _listed(self) -> list[Any]:
        raise NotImplementedError

    def __lt__(self, other: Any) -> Any:
        return self._listed() < other._listed() if type(other) is type(self) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return self._listed() <= other._listed() if type(other) is type(self) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return self._listed() > other._listed() if type(other) is type(self) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self._listed() >= other._listed() if type(other) is type(self) else NotImplemented


def _text(number: Any) -> str:
    """Format a number as slangpy does: whole floats without a point, booleans in lower case."""
    return str(number).lower().removesuffix(".0")


class Vector(_Ordered):
    """A vector with the components `x`, `y`, `z` and `w`, also accessible by index."""

    __slots__ = ("_data",)
    element_name = ""
    n = 0

    def __init__(self, *values: Any) -> None:
        numbers = _numbers(values)
        if not numbers:
            numbers = [0] * self.n
        elif len(numbers) == 1:
            numbers = numbers * self.n
        if len(numbers) != self.n:
            raise ValueError(f"{type(self).__name__} has {self.n} numbers, not {len(numbers)}")
        self._data = np.array(numbers).astype(NUMBERS[self.element_name][0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape: one dimension, the number of components."""
        return (self.n,)

    @property
    def element_type(self) -> Any:
        """The Python type of a component."""
        return NUMBERS[self.element_name][1]

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        return iter(self._data.tolist())

    def __getitem__(self, index: Any) -> Any:
        found = self._data[index]
        return found.item() if np.ndim(found) == 0 else found.tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data[index] = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._data.astype(dtype) if dtype is not None else self._data.copy()

    def to_numpy(self) -> Any:
        """Return a copy of the components as a NumPy array."""
        return self._data.copy()

    def copy_from_numpy(self, data: Any) -> Any:
        """Return a new vector with the elements or bytes of an array."""
        flat = np.ascontiguousarray(data).view(self._data.dtype).reshape(-1)
        return type(self)(*flat[: self.n].tolist())

    def _with(self, other: Any, op: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        if not isinstance(other, (Vector, int, float, np.number, list, tuple)):
            return NotImplemented
        right = np.asarray(list(other) if isinstance(other, Vector) else other)
        if isinstance(other, Vector):
            right = other._data
        else:
            right = right.astype(self._data.dtype) if right.dtype.kind != "b" else right
        with np.errstate(all="ignore"):
            found = op(right, self._data) if swapped else op(self._data, right)
        return vector_type(_name_of(found.dtype), self.n)(*found.tolist())

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b, True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b, True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a * b, True)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, _quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, _quotient, True)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, np.fmod)

    def __neg__(self) -> Any:
        return type(self)(*(-self._data).tolist())

    def __pos__(self) -> Any:
        return type(self)(*self._data.tolist())

    def _listed(self) -> list[Any]:
        return list(self)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Vector):
            return type(self) is type(other) and bool(np.all(self._data == other._data))
        if isinstance(other, (list, tuple)) and len(other) == self.n:
            return bool(np.all(self._data == np.asarray(other)))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self)))

    def __reduce__(self) -> Any:
        return (_rebuilt, (self.element_name, self.n, tuple(self)))

    def __repr__(self) -> str:
        return f"{{{', '.join(map(_text, self._data))}}}"


def _rebuilt(element: str, n: int, numbers: tuple[Any, ...]) -> Any:
    return vector_type(element, n)(*numbers)


def _quotient(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return a / b
    # As in Slang, integer division truncates towards zero.
    return np.trunc(a / b).astype(a.dtype)


def _name_of(dtype: Any) -> str:
    return next(name for name, (own, _) in NUMBERS.items() if np.dtype(own) == dtype)


def _component(index: int) -> property:
    def read(self: Any) -> Any:
        return self._data[index].item()

    def write(self: Any, value: Any) -> None:
        self._data[index] = value

    return property(read, write)


class Matrix(_Ordered):
    """A matrix; its elements are row vectors."""

    __slots__ = ("_data",)
    element_name = ""
    rows = 0
    cols = 0

    def __init__(self, *values: Any) -> None:
        if len(values) == 1 and isinstance(values[0], (Matrix, np.ndarray, list, tuple)):
            numbers = np.asarray(values[0]).reshape(-1)
        elif values:
            numbers = np.asarray(_numbers(values))
        else:
            numbers = np.eye(self.rows, self.cols).reshape(-1)
        if numbers.size != self.rows * self.cols:
            raise ValueError(f"{type(self).__name__} has {self.rows * self.cols} numbers, not {numbers.size}")
        self._data = numbers.astype(NUMBERS[self.element_name][0]).reshape(self.rows, self.cols)

    @classmethod
    def identity(cls) -> Any:
        """Create an identity matrix."""
        return cls(np.eye(cls.rows, cls.cols))

    @classmethod
    def zeros(cls) -> Any:
        """Create a matrix of zeros."""
        return cls(np.zeros((cls.rows, cls.cols)))

    @classmethod
    def from_numpy(cls, data: Any) -> Any:
        """Create a matrix from the elements of an array."""
        return cls(data)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and of columns."""
        return (self.rows, self.cols)

    @property
    def element_type(self) -> Any:
        """The Python type of a component."""
        return NUMBERS[self.element_name][1]

    def _listed(self) -> list[Any]:
        found: list[Any] = self._data.reshape(-1).tolist()
        return found

    def to_numpy(self) -> Any:
        """Return a copy of the components as a NumPy array."""
        return self._data.copy()

    def get_row(self, row: int) -> Any:
        """Return a row as a vector."""
        return vector_type(self.element_name, self.cols)(*self._data[row].tolist())

    def get_col(self, column: int) -> Any:
        """Return a column as a vector."""
        return vector_type(self.element_name, self.rows)(*self._data[:, column].tolist())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._data.astype(dtype) if dtype is not None else self._data.copy()

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: Any) -> Any:
        found = self._data[index]
        return self.get_row(index) if np.ndim(found) == 1 else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data[index] = np.asarray(value)

    def __matmul__(self, other: Any) -> Any:
        return mul(self, other)

    def __mul__(self, other: Any) -> Any:
        return type(self)(self._data * other) if isinstance(other, (int, float)) else NotImplemented

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Matrix):
            return NotImplemented
        return type(self) is type(other) and bool(np.all(self._data == other._data))

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._data.tobytes()))

    def __reduce__(self) -> Any:
        return (_rebuilt_matrix, (self.element_name, self.rows, self.cols, self._data))

    def __repr__(self) -> str:
        return f"{{{', '.join('{' + ', '.join(map(_text, row)) + '}' for row in self._data)}}}"


def _rebuilt_matrix(element: str, rows: int, cols: int, data: Any) -> Any:
    return matrix_type(element, rows, cols)(data)


class quatf(Vector):
    """A quaternion: `x`, `y`, `z`, and the real part `w`."""

    __slots__ = ()
    element_name = "float"
    n = 4
    x, y, z, w = (_component(k) for k in range(4))

    def __init__(self, *values: Any) -> None:
        super().__init__(*(values or (0, 0, 0, 1)))


class float16_t:
    """A 16-bit floating-point number."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = float(np.float16(value))

    def __float__(self) -> float:
        return self.value

    def __eq__(self, other: object) -> bool:
        return float(self) == float(other) if isinstance(other, (int, float, float16_t)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


_VECTORS: dict[tuple[str, int], type[Vector]] = {}
_MATRICES: dict[tuple[str, int, int], type[Matrix]] = {}


def vector_type(element: str, n: int) -> Any:
    """Return the type of vectors of `n` components."""
    found = _VECTORS.get((element, n))
    if found is None:
        members: dict[str, Any] = {"__slots__": (), "element_name": element, "n": n}
        for k in range(min(n, 4)):
            members[_LETTERS[k]] = members[_COLOURS[k]] = _component(k)
        found = _VECTORS[element, n] = type(f"{element}{n}", (Vector,), members)
    return found


def matrix_type(element: str, rows: int, cols: int) -> Any:
    """Return the type of matrices of the given size."""
    found = _MATRICES.get((element, rows, cols))
    if found is None:
        members = {"__slots__": (), "element_name": element, "rows": rows, "cols": cols}
        found = _MATRICES[element, rows, cols] = type(f"{element}{rows}x{cols}", (Matrix,), members)
    return found


def all_types() -> dict[str, Any]:
    """Return the vector and matrix types by name: `float3`, `uint2`, `float4x4`."""
    found: dict[str, Any] = {}
    for element in ("bool", "int", "uint", "float", "float16_t", "double", "int64_t", "uint64_t"):
        for n in range(1, 5):
            found[f"{element}{n}"] = vector_type(element, n)
    for element in ("bool", "int", "uint", "float", "float16_t"):
        for rows in range(2, 5):
            for cols in range(2, 5):
                found[f"{element}{rows}x{cols}"] = matrix_type(element, rows, cols)
    return found


globals().update(all_types())


# ---- vector and matrix functions


def dot(a: Any, b: Any) -> Any:
    """Return the dot product."""
    return float(np.dot(np.asarray(a), np.asarray(b)))


def cross(a: Any, b: Any) -> Any:
    """Return the cross product of two vectors."""
    return type(a)(*np.cross(np.asarray(a), np.asarray(b)).tolist())


def length(a: Any) -> float:
    """Return the Euclidean norm."""
    return _math.sqrt(dot(a, a))


def normalize(a: Any) -> Any:
    """Return the vector divided by its norm."""
    return a / length(a)


def mul(a: Any, b: Any) -> Any:
    """Return the product of matrices and vectors."""
    found = np.asarray(a) @ np.asarray(b)
    of: Any = a if isinstance(a, (Matrix, Vector)) else b
    if found.ndim == 2:
        return matrix_type(of.element_name, *found.shape)(found)
    return vector_type(of.element_name, len(found))(*found.tolist())


def transpose(a: Matrix) -> Any:
    """Return the transpose."""
    return matrix_type(a.element_name, a.cols, a.rows)(a._data.T)


def inverse(a: Matrix) -> Any:
    """Return the inverse."""
    return type(a)(np.linalg.inv(a._data))


def determinant(a: Matrix) -> float:
    """Return the determinant."""
    return float(np.linalg.det(a._data))


def _compared(op: Callable[[Any, Any], Any]) -> Callable[[Vector, Vector], Any]:
    """Return a componentwise comparison, whose result is a vector of booleans."""

    def compare(a: Vector, b: Vector) -> Any:
        if type(a) is not type(b):
            raise TypeError(f"{type(a).__name__} and {type(b).__name__} are not compared number by number")
        return vector_type("bool", a.n)(*op(a._data, b._data).tolist())

    return compare


eq = _compared(np.equal)
ne = _compared(np.not_equal)
lt = _compared(np.less)
le = _compared(np.less_equal)
gt = _compared(np.greater)
ge = _compared(np.greater_equal)


def select(condition: Any, a: Any, b: Any) -> Any:
    """Return the components of `a` where the condition holds, and those of `b` elsewhere."""
    if isinstance(condition, bool):
        return a if condition else b
    if type(a) is not type(b) or condition.n != a.n:
        raise TypeError(f"there is no choice between {type(a).__name__} and {type(b).__name__} by {condition!r}")
    return type(a)(*np.where(condition._data, a._data, b._data).tolist())
