"""Rules that match the type of a value to that of a parameter, and so determine the dimensions that are mapped over.

Each rule returns the type as which the value is passed, or None if the rule does not apply. A typed value may be
mapped over (a vector over floats); only Python numbers, which have no size of their own, are converted.
"""

from __future__ import annotations

from typing import Any, Optional

from ._memory_types import PointerType, StructuredBufferType, ByteAddressBufferType
from ._types import ArrayType, InterfaceType, MatrixType, ScalarType, SlangType, StructType, UnknownType, VectorType

Found = Optional[SlangType]


def is_open(of: Any) -> bool:
    """Return True if the parameter type is generic or an interface."""
    return isinstance(of, (UnknownType, InterfaceType))


def scalar(own: Any, wanted: Any, convert: bool = False) -> Found:
    """Match a scalar to a scalar; `convert` allows another scalar type."""
    if not isinstance(own, ScalarType):
        return None
    if isinstance(wanted, ScalarType):
        return wanted if convert or own.slang_scalar_type == wanted.slang_scalar_type else None
    return own if is_open(wanted) else None


def vector(own: Any, wanted: Any) -> Found:
    """Match a vector to a vector, whose scalar type and length may be generic."""
    if not isinstance(own, VectorType) or not isinstance(wanted, VectorType):
        return None
    element = wanted.element_type
    if isinstance(element, ScalarType) and own.slang_scalar_type != element.slang_scalar_type:
        return None
    if wanted.num_elements and own.num_elements != wanted.num_elements:
        return None
    return own


def matrix(own: Any, wanted: Any) -> Found:
    """Match a matrix to a matrix, whose scalar type and sizes may be generic."""
    if not isinstance(own, MatrixType) or not isinstance(wanted, MatrixType):
        return None
    element = wanted.inner_element_type
    if isinstance(element, ScalarType) and own.slang_scalar_type != element.slang_scalar_type:
        return None
    if wanted.rows and own.rows != wanted.rows or wanted.cols and own.cols != wanted.cols:
        return None
    return own


def struct(own: Any, wanted: Any) -> Found:
    """Match a struct to a struct, which may be generic."""
    if not isinstance(own, StructType):
        return None
    if is_open(wanted):
        return own
    if isinstance(wanted, StructType):
        if own.full_name == wanted.full_name or wanted.is_generic and own.name == wanted.name:
            return own
    return None


def same_lengths(own: ArrayType, wanted: ArrayType) -> bool:
    """Return True if the lengths of two arrays agree where they are known."""
    a, b = own.array_shape, wanted.array_shape
    return len(a) == len(b) and all(n == m or not n or not m for n, m in zip(a, b))


def array(own: Any, wanted: Any, convert: bool = False) -> Found:
    """Match an array to an array; `convert` allows another scalar type."""
    if not isinstance(own, ArrayType) or not isinstance(wanted, ArrayType) or not same_lengths(own, wanted):
        return None
    inner, other = own.inner_element_type, wanted.inner_element_type
    if convert and isinstance(inner, ScalarType) and isinstance(other, ScalarType):
        return nested(own.program, other, own.array_shape.as_tuple())
    if isinstance(own.element_type, UnknownType) or isinstance(inner, UnknownType):
        return wanted if not wanted.is_generic else None
    if is_open(other) or inner.full_name == other.full_name:
        return own
    if vector(inner, other) is not None or matrix(inner, other) is not None or struct(inner, other) is not None:
        return own
    return None


def nested(program: Any, element: SlangType, sizes: tuple[int, ...]) -> Found:
    """Return the type of nested arrays of the given lengths, outermost first."""
    found = element
    for size in reversed(sizes):
        found = program.array_type(found, size)
    return found


def array_as_vector(own: Any, wanted: Any) -> Found:
    """Match a list of numbers to a vector."""
    if not isinstance(own, ArrayType) or not isinstance(wanted, VectorType):
        return None
    if not isinstance(own.element_type, ScalarType):
        return None
    if wanted.num_elements and own.num_elements != wanted.num_elements:
        return None
    element = wanted.element_type if isinstance(wanted.element_type, ScalarType) else own.element_type
    return own.program.vector_type(element.slang_scalar_type, own.num_elements)  # type: ignore[no-any-return]


def array_as_matrix(own: Any, wanted: Any) -> Found:
    """Match a list of lists of numbers to a matrix."""
    if not isinstance(own, ArrayType) or not isinstance(wanted, MatrixType) or wanted.is_generic:
        return None
    return wanted if own.array_shape.as_tuple() == (wanted.rows, wanted.cols) else None


def numbers_as(own: Any, wanted: Any) -> Found:
    """Match several elements of a container of scalars to a vector or matrix of known size."""
    if not isinstance(own, ScalarType):
        return None
    if isinstance(wanted, VectorType) and wanted.num_elements:
        element = wanted.element_type
        if isinstance(element, ScalarType) and element.slang_scalar_type != own.slang_scalar_type:
            return None
        return own.program.vector_type(own.slang_scalar_type, wanted.num_elements)  # type: ignore[no-any-return]
    if isinstance(wanted, MatrixType) and wanted.rows and wanted.cols:
        element = wanted.inner_element_type
        if isinstance(element, ScalarType) and element.slang_scalar_type != own.slang_scalar_type:
            return None
        return own.program.matrix_type(own.slang_scalar_type, wanted.rows, wanted.cols)  # type: ignore[no-any-return]
    return None


def elements_as_array(own: SlangType, wanted: Any, most: int) -> Found:
    """Match up to `most` dimensions of a container to an array of known lengths."""
    if not isinstance(wanted, ArrayType):
        return None
    inner: SlangType = own
    inside: tuple[int, ...] = ()
    if isinstance(own, ArrayType):
        inner, inside = own.inner_element_type, own.array_shape.as_tuple()
    sizes = wanted.array_shape.as_tuple()
    other = wanted.inner_element_type
    if inner.full_name != other.full_name:
        vectors = numbers_as(inner, other) if not inside else None
        if vectors is None or 0 in sizes:
            return None
        return nested(own.program, vectors, sizes)
    more = len(sizes) - len(inside)
    if not 0 <= more <= most or any(n and n != m for n, m in zip(sizes[more:], inside)):
        return None
    lengths = sizes[:more] + inside
    return None if 0 in lengths else nested(own.program, inner, lengths)


def elements_as_open_array(own: SlangType, wanted: Any) -> Optional[list[SlangType]]:
    """Return the types that match an array of generic elements: the element type itself, and arrays of it."""
    if not isinstance(wanted, ArrayType) or not isinstance(wanted.inner_element_type, UnknownType):
        return None
    sizes = wanted.array_shape.as_tuple()
    found = [own]
    if sizes[0]:
        made = nested(own.program, own, sizes[:1])
        found += [made] if made else []
    if len(sizes) > 1 and sizes[0] and sizes[1]:
        made = nested(own.program, own, sizes[:2])
        found += [made] if made else []
    return found


def container_as_buffer(own: SlangType, writable: bool, wanted: Any) -> Found:
    """Match a container to a structured or byte-address buffer."""
    if isinstance(wanted, StructuredBufferType):
        if wanted.writable and not writable:
            return None
        element = wanted.element_type
        if not isinstance(element, UnknownType) and element.full_name != own.full_name:
            return None
        return own.program.find_type_by_name(f"{wanted.full_name.partition('<')[0]}<{own.full_name}>")
    if isinstance(wanted, ByteAddressBufferType):
        return wanted if writable or not wanted.writable else None
    return None


def container_as_pointer(own: SlangType, wanted: Any) -> Found:
    """Match a container to a pointer to its elements; a container of addresses is mapped over."""
    if not isinstance(wanted, PointerType):
        return None
    if isinstance(own, ScalarType) and own.scalar_name == "uint64_t" and not wanted.is_generic:
        return wanted
    if wanted.is_generic or own.full_name == wanted.target_type.full_name:
        return own.program.find_type_by_name(f"Ptr<{own.full_name}>")
    return None
