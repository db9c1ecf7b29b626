"""Marshalls for NumPy arrays and buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._bindings import PYTHON_TYPES, BindContext, BoundVariable, Marshall, ReturnContext
from ._buffers import Buffer
from ._enums import BufferUsage
from ._generate import Writer
from ._lookup import innermost_type, slang_to_numpy
from ._memory_types import ByteAddressBufferType, PointerType, StructuredBufferType
from ._run import Run
from ._shape import Shape
from ._tensors import WRITES, Elements, TensorMarshall, elements_of_array, refuse_addresses
from ._types import NAME_OF_DTYPE, ScalarType, SlangType


class NumpyMarshall(TensorMarshall):
    """A NumPy array. One that is not contiguous, aligned and writable is copied, and copied back if it is written."""

    def elements(self, value: Any) -> Elements:
        return elements_of_array(value)

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        taken = value
        if not value.flags.c_contiguous or not value.flags.writeable or not value.flags.aligned:
            taken = np.array(value, order="C")
            run.copies[var.number] = taken
        super().bind(run, var, taken)

    def finish(self, run: Run, var: BoundVariable, value: Any) -> None:
        copy = run.copies.get(var.number)
        if copy is not None and var.access[0] in WRITES:
            value[...] = copy

    def create_output(self, context: Any, binding: Any) -> Any:
        of = binding.vector_type
        sizes = context.call_shape.as_tuple() + of.shape.as_tuple()
        return np.zeros(sizes, slang_to_numpy(of))


def array_of(layout: Any, value: Any) -> NumpyMarshall:
    """Return the marshall for a NumPy array or for a result in one. Raise `ValueError` for unsupported types."""
    if isinstance(value, ReturnContext):
        of = value.slang_type
        inner = innermost_type(of)
        if not isinstance(inner, ScalarType):
            raise ValueError(
                "Numpy values can only be automatically returned from scalar, vector, matrix, or "
                f"array-of-scalar/vector/matrix types. Got {of}"
            )
        return NumpyMarshall(layout, inner, value.bind_context.call_dimensionality + of.num_dims, True)
    if value.dtype.names is not None:
        raise ValueError(
            f"Structured numpy dtype {value.dtype} cannot be passed directly to a Slang function. "
            "Use Tensor.from_numpy(device, data, dtype=...) to create a typed tensor first."
        )
    name = NAME_OF_DTYPE.get(value.dtype)
    if name is None:
        raise ValueError(f"Unsupported numpy dtype {value.dtype}")
    place = ("numpy", value.ctypes.data)
    return NumpyMarshall(layout, layout.require_type_by_name(name), value.ndim, True, place=place)


class BufferMarshall(Marshall):
    """A buffer, for a parameter of a buffer type."""

    def __init__(self, layout: Any, usage: BufferUsage) -> None:
        super().__init__(layout)
        self.writable = bool(usage & BufferUsage.unordered_access)
        self.concrete_shape = Shape(())

    @property
    def is_writable(self) -> bool:
        return self.writable

    def signature(self, value: Any) -> Any:
        return ("buffer", self.writable)

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        """Return True: the kernel takes the buffer directly."""
        return True

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> Any:
        if isinstance(bound_type, (StructuredBufferType, ByteAddressBufferType)):
            if bound_type.writable and not self.writable:
                return None
            return None if bound_type.is_generic else [bound_type]
        if isinstance(bound_type, PointerType):
            return None if bound_type.is_generic else [bound_type]
        return None

    def resolve_dimensionality(self, context: BindContext, binding: BoundVariable, vector_target_type: Any) -> Any:
        return 0

    def load(self, w: Writer, var: BoundVariable, target: str) -> None:
        assert var.vector_type is not None
        refuse_addresses(var.vector_type)
        name = w.param(var.vector_type.full_name, f"p{var.number}")
        w.line(f"{target} = {name};")

    def bind(self, run: Run, var: BoundVariable, value: Any) -> None:
        of = var.vector_type
        step = 4
        if isinstance(of, StructuredBufferType):
            step = of.element_type.dtype.itemsize
        elif isinstance(of, PointerType):
            step = of.target_type.dtype.itemsize
        run.buffer(f"__p{var.number}", value.memory, step)

    def __repr__(self) -> str:
        return f"Buffer[rw={self.writable}]"


PYTHON_TYPES[np.ndarray] = array_of
PYTHON_TYPES[Buffer] = lambda layout, value: BufferMarshall(layout, value.usage)
