"""Marshalls for numbers, vectors, matrices, lists and dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from . import _vectorize as rules
from . import _vectors
from ._bindings import (
    PYTHON_TYPES,
    BindContext,
    BoundVariable,
    Marshall,
    get_or_create_type,
    has_memory,
)
from ._buffers import Buffer
from ._enums import AccessType
from ._generate import Writer
from ._lookup import text_of
from ._run import Run
from ._shape import Shape
from ._memory_types import ITensorType, PointerType, StructuredBufferType
from ._types import ArrayType, MatrixType, ScalarType, SlangType, StructType, UnknownType, VectorType

READS = (AccessType.read, AccessType.readwrite)


class ValueMarshall(Marshall):
    """A value that is copied to the kernel. A vector, matrix or array may be mapped over."""

    def __init__(self, layout: Any, slang_type: SlangType) -> None:
        super().__init__(layout)
        self.slang_type = slang_type
        self.concrete_shape = slang_type.shape

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        """Return True: the kernel takes the value directly."""
        return True

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        of = var.vector_type
        assert of is not None
        n = len(var.vector_mapping)
        if n == 0:
            w.line(f"{target} = {w.field(var, of)};")
            return
        place = w.field(var, self.slang_type)
        for k, dim in enumerate(var.vector_mapping):
            place += "[0]" if self.concrete_shape[k] == 1 else f"[{w.id(dim)}]"
        w.line(f"{target} = {place};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        if var.access[0] in READS and not var.is_list:
            run.write(var, value)

    def __repr__(self) -> str:
        return f"Value[dtype={self.slang_type.full_name}]"


class ScalarMarshall(ValueMarshall):
    """A Python number, which converts to any scalar type."""

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        if dimensions:
            raise ValueError("Cannot reduce scalar type")
        return self.slang_type

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        if isinstance(bound_type, VectorType):
            # Slang converts a scalar to a vector.
            return None if bound_type.is_generic else [bound_type.element_type]
        if isinstance(bound_type, PointerType):
            is_address = getattr(self.slang_type, "scalar_name", "") in ("int", "uint", "int64_t", "uint64_t")
            return [bound_type] if is_address and not bound_type.is_generic else None
        return [rules.scalar(self.slang_type, bound_type, convert=True)]

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return 0 - vector_target_type.num_dims

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        if isinstance(var.vector_type, PointerType):
            w.line(f"{target} = {w.param(var.vector_type.full_name, f'p{var.number}')};")
        else:
            super().load(w, var, target)

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        if isinstance(var.vector_type, PointerType):
            buffer, offset = Buffer.at(int(value))
            run.buffer(f"__p{var.number}", buffer.memory[offset:], var.vector_type.target_type.dtype.itemsize)
        else:
            super().bind(run, var, value)


class NoneMarshall(ValueMarshall):
    """None, in the place of a result that is not allocated yet."""

    is_none = True

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        return None

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        raise NotImplementedError("None has no type")

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return None

    def get_shape(self, value: Any) -> Shape:
        return Shape(None)


class VectorMarshall(ValueMarshall):
    """A vector, whose components may be mapped over."""

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        if dimensions > 1:
            raise ValueError("Cannot reduce vector type by more than one dimension")
        return self.slang_type.element_type if dimensions else self.slang_type

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        own = self.slang_type
        if rules.is_open(bound_type):
            return [own, own.element_type]
        return [rules.vector(own, bound_type) or rules.scalar(own.element_type, bound_type)]


class MatrixMarshall(ValueMarshall):
    """A matrix, whose rows or components may be mapped over."""

    slang_type: MatrixType

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        own = self.slang_type
        return [own, own.element_type, own.inner_element_type][dimensions]

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        own = self.slang_type
        if rules.is_open(bound_type):
            return [own, own.element_type]
        found = rules.matrix(own, bound_type) or rules.vector(own.element_type, bound_type)
        return [found or rules.scalar(own.inner_element_type, bound_type)]


class ArrayMarshall(ValueMarshall):
    """A list, passed as an array or mapped over."""

    slang_type: ArrayType

    def reduce_type(self, context: BindContext, dimensions: int) -> Any:
        if dimensions > 1:
            raise ValueError("Cannot reduce array type by more than one dimension")
        return self.slang_type.element_type if dimensions else self.slang_type

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        own, element = self.slang_type, self.slang_type.element_type
        if rules.is_open(bound_type):
            return [own, element]
        if element.full_name == bound_type.full_name:
            return [element]
        whole = rules.array(own, bound_type, convert=True) or self._of_vectors(bound_type)
        if whole is None:
            whole = rules.array_as_vector(own, bound_type) or rules.array_as_matrix(own, bound_type)
        if whole is not None:
            return [whole]
        if isinstance(element, UnknownType) and not bound_type.is_generic:
            if isinstance(bound_type, (StructType, ITensorType, StructuredBufferType)):
                return [bound_type]
        part = rules.struct(element, bound_type) or rules.matrix(element, bound_type)
        part = part or rules.vector(element, bound_type) or rules.scalar(element, bound_type, convert=True)
        return [part or rules.array(element, bound_type, convert=True)]

    def _of_vectors(self, wanted: SlangType) -> Any:
        """Return an array of vectors for a list of lists of numbers, or None if the types do not match."""
        own = self.slang_type
        if not isinstance(wanted, ArrayType) or not isinstance(wanted.element_type, VectorType):
            return None
        if wanted.num_elements and wanted.num_elements != own.num_elements:
            return None
        inner = rules.array_as_vector(own.element_type, wanted.element_type)
        return None if inner is None else own.program.array_type(inner, own.num_elements)

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        if binding.is_list:
            inner = [child.call_dimensionality or 0 for child in (binding.children or {}).values()]
            return max(inner, default=0) + binding.is_chosen
        if isinstance(self.slang_type.inner_element_type, UnknownType):
            return 0 if isinstance(vector_target_type, ArrayType) else 1
        return super().resolve_dimensionality(context, binding, vector_target_type)

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        # A list of numbers that is mapped over is converted to the scalar type of the parameter.
        n = len(var.vector_mapping)
        of = var.vector_type
        if n and of is not None and of.has_bytes:
            own = self.slang_type
            sizes = own.array_shape.as_tuple()[:n]
            made = rules.nested(own.program, of, sizes)
            if made is not None:
                place = w.field(var, made)
                for k, dim in enumerate(var.vector_mapping):
                    place += "[0]" if sizes[k] == 1 else f"[{w.id(dim)}]"
                w.line(f"{target} = {place};")
                return
        super().load(w, var, target)


def array_of(layout: Any, value: Any) -> ArrayMarshall:
    """Return the marshall of a list, with the element type of its first element."""
    if has_memory(value):
        return _array_of_parts(layout, value)
    sizes = [len(value)]
    first = value
    while True:
        if not len(first):
            element: SlangType = layout.require_type_by_name("int")
            break
        first = first[0]
        struct = getattr(first, "_struct", None)
        if struct is not None and hasattr(first, "get_this"):
            element = struct.struct
            break
        if hasattr(first, "get_this"):
            first = first.get_this()
        if not isinstance(first, (list, tuple)):
            element = get_or_create_type(layout, type(first), first).slang_type
            break
        inner = len(first)
        _check_lengths(value, len(sizes), inner)
        sizes.append(inner)
    found = rules.nested(layout, element, tuple(sizes))
    if found is None:
        raise ValueError(f"there are no arrays of {element.full_name}")
    return ArrayMarshall(layout, found)


def _array_of_parts(layout: Any, value: Any) -> ArrayMarshall:
    """Return the marshall of a list whose elements are passed one by one."""
    first = value[0].get_this() if hasattr(value[0], "get_this") else value[0]
    struct = getattr(value[0], "_struct", None)
    of: SlangType = layout.unknown
    if struct is not None:
        of = struct.struct
    elif isinstance(first, Mapping):
        of = struct_of(layout, first).slang_type
    elif isinstance(first, (list, tuple)):
        of = array_of(layout, first).slang_type
    found = ArrayMarshall(layout, layout.array_type(of, len(value)))
    found.concrete_shape = Shape((len(value),))
    return found


def _check_lengths(value: Any, depth: int, n: int) -> None:
    if depth == 0:
        if len(value) != n:
            raise ValueError("Elements of nested array must all have equal lengths")
        return
    for part in value:
        _check_lengths(part, depth - 1, n)


class StructMarshall(ValueMarshall):
    """A dict of fields, passed as a struct."""

    def __init__(self, layout: Any, slang_type: SlangType) -> None:
        super().__init__(layout, slang_type)
        self.concrete_shape = Shape(())

    @property
    def has_derivative(self) -> bool:
        return True

    @property
    def is_writable(self) -> bool:
        return True

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        own = self.slang_type
        if isinstance(own, UnknownType):
            return None if rules.is_open(bound_type) or bound_type.is_generic else [bound_type]
        if rules.is_open(bound_type):
            return [own]
        if isinstance(own, StructType):
            return [rules.struct(own, bound_type)]
        return [rules.vector(own, bound_type) or (own if own == bound_type else None)]

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return max((child.call_dimensionality or 0 for child in (binding.children or {}).values()), default=0)

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        return True

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        if not var.children:
            w.line(f"{target} = {{}};")


def struct_of(layout: Any, value: Any) -> StructMarshall:
    """Return the marshall of a dict, with the type that its `_type` names. Raise ValueError if there is none."""
    name = value.get("_type") if isinstance(value, Mapping) else None
    if name is None:
        return StructMarshall(layout, layout.unknown)
    found = getattr(name, "struct", name)
    of = found if isinstance(found, SlangType) else layout.find_type_by_name(str(found))
    if of is None:
        raise ValueError(f"Could not find Slang type for '{name}'")
    return StructMarshall(layout, of)


def named(text: str, kind: type[ValueMarshall]) -> Any:
    """Return a factory of marshalls of the given class for the type named `text`."""
    return lambda layout, value: kind(layout, layout.require_type_by_name(text))


def _numpy_number(layout: Any, value: Any) -> ValueMarshall:
    text = text_of(value.dtype if isinstance(value, np.generic) else value)
    if text is None:
        raise ValueError(f"Unsupported type {type(value)}")
    return ScalarMarshall(layout, layout.require_type_by_name(text))


PYTHON_TYPES[type(None)] = named("void", NoneMarshall)
PYTHON_TYPES[bool] = named("bool", ScalarMarshall)
PYTHON_TYPES[int] = named("int", ScalarMarshall)
PYTHON_TYPES[float] = named("float", ScalarMarshall)
PYTHON_TYPES[_vectors.float16_t] = named("half", ScalarMarshall)
PYTHON_TYPES[np.generic] = _numpy_number
PYTHON_TYPES[list] = array_of
PYTHON_TYPES[tuple] = array_of
PYTHON_TYPES[dict] = struct_of
for _type in [*_vectors.all_types().values(), _vectors.quatf]:
    _kind = MatrixMarshall if issubclass(_type, _vectors.Matrix) else VectorMarshall
    PYTHON_TYPES[_type] = named(str(text_of(_type)), _kind)


class SlangTypeMarshall:
    """A factory of marshalls for a type without a value."""

    def __new__(cls, layout: Any, of: SlangType) -> Any:
        """Return a marshall for values of the type."""
        kinds: list[tuple[type, type[ValueMarshall]]] = [
            (ScalarType, ScalarMarshall),
            (VectorType, VectorMarshall),
            (MatrixType, MatrixMarshall),
            (ArrayType, ArrayMarshall),
            (StructType, StructMarshall),
        ]
        kind: Optional[type[ValueMarshall]] = next((k for t, k in kinds if isinstance(of, t)), None)
        return (kind or ValueMarshall)(layout, of)
