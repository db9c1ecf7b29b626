"""Conversion between Python values and their representation in memory as NumPy stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _vectors
from ._memory_types import PointerType
from ._types import SCALARS, ArrayType, MatrixType, ScalarType, SlangType, StructType, VectorType


def converted(of: SlangType, value: Any) -> Any:
    """Convert a value to the NumPy value of a type. Raise ValueError or RuntimeError if it does not fit the type."""
    if hasattr(value, "get_this"):
        value = value.get_this()
    if isinstance(of, StructType):
        found = np.zeros((), of.dtype)
        if isinstance(value, Mapping):
            for name, part in value.items():
                if name == "_type":
                    continue
                if name not in of.fields:
                    raise ValueError(f"the type {of.full_name} has no field '{name}'")
                found[name] = converted(of.fields[name].type, part)
            return found
        if isinstance(value, (np.void, np.ndarray)) and value.dtype.names:
            for name in of.fields.keys():
                found[name] = value[name]
            return found
        raise RuntimeError(f"Expected dict for a value of the type {of.full_name}, not {value!r}")
    if isinstance(of, VectorType) and isinstance(value, Mapping):
        return np.array([value[name] for name in "xyzw"[: of.num_elements]], of.element_type.dtype)
    if isinstance(of, (ArrayType, VectorType)) and isinstance(value, (list, tuple)):
        if len(value) != of.num_elements:
            raise ValueError(f"{of.full_name} has {of.num_elements} elements, not {len(value)}")
        found = np.zeros((), np.dtype([("v", of.dtype)]))["v"]
        for k, part in enumerate(value):
            found[k] = converted(of.element_type, part)
        return found
    if isinstance(of, PointerType):
        return address_of(value)
    if isinstance(value, (_vectors.Vector, _vectors.Matrix)):
        value = value.to_numpy()
    if isinstance(value, _vectors.float16_t):
        value = float(value)
    shape = of.shape.as_tuple()
    if np.ndim(value) and np.size(value) != int(np.prod(shape)):
        raise ValueError(f"{of.full_name} has {int(np.prod(shape))} numbers, not {np.size(value)}")
    array = np.asarray(value)
    if isinstance(of, ScalarType) and not of.is_float and array.dtype.kind in "iu":
        # Accept signed numbers for unsigned types of the same size and vice versa, with the same bits.
        bits = 8 * of.dtype.itemsize
        if of.dtype.kind != "b" and not -(1 << (bits - 1)) <= int(array) < 1 << bits:
            raise ValueError(f"the type {of.full_name} does not have the number {int(array)}")
        wide = int(array) % (1 << (8 * of.dtype.itemsize)) if of.dtype.kind != "b" else bool(array)
        return np.array(wide, np.uint64).astype(of.dtype) if of.dtype.kind != "b" else wide
    return array.reshape(shape) if array.ndim else array


def address_of(value: Any) -> Any:
    """Return the address of a buffer or of a tensor's first element, and any other value unchanged."""
    storage = getattr(value, "storage", None)
    if storage is not None:
        return storage.device_address + value.offset * value.dtype.dtype.itemsize
    return getattr(value, "device_address", value)


def read(memory: Any, of: SlangType) -> Any:
    """Read the Python value of a type from memory."""
    if isinstance(of, StructType):
        return {name: read(memory[name], field.type) for name, field in of.fields.items()}
    if isinstance(of, ArrayType):
        return [read(memory[k], of.element_type) for k in range(of.num_elements)]
    if isinstance(of, VectorType):
        return _vectors.vector_type(_prefix(of.element_type), of.num_elements)(*memory.tolist())
    if isinstance(of, MatrixType):
        return _vectors.matrix_type(_prefix(of.inner_element_type), of.rows, of.cols)(memory)
    return memory.item() if hasattr(memory, "item") else memory


def _prefix(of: SlangType) -> str:
    """Return the prefix that a scalar type gives to the names of its vector types."""
    return SCALARS[of.scalar_name][2] if isinstance(of, ScalarType) else ""
