"""Lookup of element types: given as a type, a struct, a name, a NumPy dtype or a vector class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import _vectors
from ._memory_types import StructuredBufferType
from ._types import NAME_OF_DTYPE, SCALARS, ArrayType, MatrixType, ScalarType, SlangType, TypeLayout, VectorType

if TYPE_CHECKING:
    from ._layout import SlangProgramLayout

_NAMES = {"float16_t": "half"}
_PYTHON = {float: "float", int: "int", bool: "bool"}


def resolve_program_layout(device: Any, element_type: Any = None, program_layout: Any = None) -> SlangProgramLayout:
    """Return the layout in which to look up a type: that of the type itself, or that of the slangpy library alone."""
    if program_layout is not None:
        return getattr(program_layout, "layout", program_layout)  # type: ignore[no-any-return]
    if isinstance(element_type, SlangType):
        return element_type.program
    if isinstance(element_type, TypeLayout):
        return element_type.slang_type.program
    struct = getattr(element_type, "struct", None)
    if isinstance(struct, SlangType):
        return struct.program
    return device.slang_session.load_module("slangpy").types  # type: ignore[no-any-return]


def text_of(value: Any) -> Optional[str]:
    """Return the Slang name of a Python type or NumPy dtype, or None if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, type) and issubclass(value, _vectors.Matrix):
        return f"matrix<{_NAMES.get(value.element_name, value.element_name)},{value.rows},{value.cols}>"
    if isinstance(value, type) and issubclass(value, _vectors.Vector):
        return f"vector<{_NAMES.get(value.element_name, value.element_name)},{value.n}>"
    if value is _vectors.float16_t:
        return "half"
    try:
        return NAME_OF_DTYPE.get(np.dtype(value))
    except TypeError:
        return None


def resolve_element_type(layout: SlangProgramLayout, element_type: Any) -> SlangType:
    """Return the element type that the argument denotes. Raise ValueError if it cannot be resolved."""
    found: Any = element_type
    if isinstance(found, TypeLayout):
        found = found.slang_type
    if not isinstance(found, SlangType) and isinstance(getattr(found, "struct", None), SlangType):
        found = found.struct
    if isinstance(found, SlangType):
        # A buffer type denotes the type of its elements.
        return found.element_type if isinstance(found, StructuredBufferType) else found
    marshall = getattr(found, "slang_type", None)
    if isinstance(marshall, SlangType):
        return marshall
    text = text_of(found)
    resolved = layout.find_type_by_name(text) if text is not None else None
    if resolved is None:
        raise ValueError(f"Element type '{element_type}' could not be resolved; it must be specified as a type")
    return resolved


def innermost_type(of: SlangType) -> SlangType:
    """Return the innermost element type of vectors, matrices and arrays: a scalar or struct."""
    found = of
    while isinstance(found, (ArrayType, VectorType, MatrixType)):
        found = found.inner_element_type if isinstance(found, MatrixType) else found.element_type
    return found


def slang_to_numpy(of: SlangType) -> Any:
    """Return the NumPy dtype of the scalars of a type, or None if they are not scalars."""
    inner = innermost_type(of)
    return np.dtype(inner.dtype_name) if isinstance(inner, ScalarType) else None


def numpy_to_slang(dtype: Any, device: Any = None, program_layout: Any = None) -> Optional[SlangType]:
    """Return the Slang scalar type of a NumPy dtype, or None if there is none."""
    name = NAME_OF_DTYPE.get(np.dtype(dtype))
    if name is None:
        return None
    return resolve_program_layout(device, None, program_layout).find_type_by_name(name)


__all__ = [
    "SCALARS",
    "innermost_type",
    "numpy_to_slang",
    "resolve_element_type",
    "resolve_program_layout",
    "slang_to_numpy",
    "text_of",
]
