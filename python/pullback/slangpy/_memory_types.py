"""Types that refer to memory (pointers, buffers, textures and tensors), and the class for each type description."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ._enums import TextureUsage, TypeReflection
from ._shape import Shape
from ._types import (
    ArrayType,
    DifferentialPairType,
    EnumType,
    InterfaceType,
    Kind,
    MatrixType,
    SamplerStateType,
    ScalarType,
    ScalarType_,
    SlangType,
    StructType,
    UnhandledType,
    UnknownType,
    VectorType,
    VoidType,
)

if TYPE_CHECKING:
    from ._layout import SlangProgramLayout


class PointerType(SlangType):
    """A pointer."""

    kind = Kind.pointer

    @property
    def name(self) -> str:
        return "Ptr"

    @cached_property
    def target_type(self) -> SlangType:
        """The type that the pointer points to; the unknown type if it cannot be found."""
        return self.program.find_type_by_name(self.told["to"]) or self.program.unknown

    @property
    def slang_scalar_type(self) -> Any:
        """The scalar type of an address, which has 64 bits."""
        return ScalarType_.uint64

    @property
    def is_generic(self) -> bool:
        return isinstance(self.target_type, UnknownType)

    @cached_property
    def dtype(self) -> Any:
        return np.dtype("uint64")


class ResourceType(SlangType):
    """A buffer or texture."""

    kind = Kind.resource

    @property
    def writable(self) -> bool:
        """True if the resource is writable."""
        return self.name.startswith(("RW", "RasterizerOrdered"))

    @property
    def resource_access(self) -> Any:
        """The access of a program to the resource."""
        access = TypeReflection.ResourceAccess
        return access.read_write if self.writable else access.read

    @property
    def resource_shape(self) -> Any:
        """The kind of buffer or texture."""
        words = {"1D": "_1d", "2D": "_2d", "3D": "_3d", "Cube": "_cube"}
        name = self.name.removeprefix("RW")
        if not name.startswith("Texture"):
            kind = "structured_buffer" if "Structured" in name else "byte_address_buffer"
            return TypeReflection.ResourceShape[kind]
        own = next((text for word, text in words.items() if word in name), "")
        return TypeReflection.ResourceShape["texture" + own + ("_array" if "Array" in name else "")]


class StructuredBufferType(ResourceType):
    """A buffer of elements of one type."""

    @cached_property
    def element_type(self) -> SlangType:
        return self.program.made(self.told["element"])

    @property
    def is_generic(self) -> bool:
        return self.element_type.is_generic


class ByteAddressBufferType(ResourceType):
    """A buffer of raw bytes."""

    @property
    def element_type(self) -> SlangType:
        return self.program.require_type_by_name("uint8_t")


class TextureType(ResourceType):
    """A texture."""

    @cached_property
    def element_type(self) -> SlangType:
        args = [arg for arg in self.told["args"] if isinstance(arg, Mapping)]
        return self.program.made(args[0]) if args else self.program.require_type_by_name("float4")

    @property
    def texture_dims(self) -> int:
        """The number of coordinates of a texel index, including the array slice."""
        base = self.name
        n = next((n for n in (1, 2, 3) if f"{n}D" in base), 3)
        return n + ("Array" in base)

    @property
    def shape(self) -> Shape:
        return Shape((-1,) * self.texture_dims) + self.element_type.shape

    @property
    def usage(self) -> TextureUsage:
        """The usage that a bound texture must have."""
        return TextureUsage.unordered_access if self.writable else TextureUsage.shader_resource


# Tensor types by name: whether they are readable, whether they are writable, and whether they carry gradients.
TENSORS: dict[str, tuple[bool, bool, bool]] = {
    "ITensor": (True, False, False),
    "IWTensor": (False, True, False),
    "IRWTensor": (True, True, False),
    "Tensor": (True, False, False),
    "WTensor": (False, True, False),
    "RWTensor": (True, True, False),
    "AtomicTensor": (True, True, False),
    "IDiffTensor": (True, False, True),
    "IWDiffTensor": (False, True, True),
    "IRWDiffTensor": (True, True, True),
    "DiffTensor": (True, False, True),
    "WDiffTensor": (False, True, True),
    "RWDiffTensor": (True, True, True),
    "PrimalTensor": (True, False, True),
    "WPrimalTensor": (False, True, True),
    "RWPrimalTensor": (True, True, True),
}


class ITensorType(SlangType):
    """A tensor parameter, which takes a tensor as a whole."""

    kind = Kind.struct

    def __init__(self, program: SlangProgramLayout, told: Mapping[str, Any]) -> None:
        super().__init__(program, told)
        self.base: str = told["base"]
        self.readable, self.writable, self.has_grads = TENSORS[self.base]

    @cached_property
    def element_type(self) -> SlangType:
        return self.program.made(self.told["args"][0])

    @property
    def dtype(self) -> Any:
        return self.element_type

    @property
    def dims(self) -> int:
        """The number of dimensions; 0 if it is generic."""
        return self.told["args"][1] or 0

    @property
    def is_generic(self) -> bool:
        return self.dims == 0 or self.element_type.is_generic

    @property
    def shape(self) -> Shape:
        return Shape((-1,) * self.dims) + self.element_type.shape

    @property
    def is_interface(self) -> bool:
        """True if the type is an interface of tensors."""
        return self.base.startswith("I") and self.told["kind"] == "interface"

    @property
    def has_grad_in(self) -> bool:
        """True if the tensor has an input gradient, which the derivative reads."""
        return self.has_grads and self.writable

    @property
    def has_grad_out(self) -> bool:
        """True if the tensor has an output gradient, which the derivative writes."""
        return self.has_grads and self.readable

    @property
    def has_bytes(self) -> bool:
        return False


class TensorViewType(SlangType):
    """A tensor whose number of dimensions is not part of its type."""

    @cached_property
    def dtype(self) -> Any:
        return self.program.made(self.told["args"][0]) if self.told["args"] else self.program.unknown

    @property
    def has_bytes(self) -> bool:
        return False


class DiffTensorViewType(TensorViewType):
    """A tensor with its gradient, whose number of dimensions is not part of its type."""


class InterfaceParameterType(UnknownType, InterfaceType):
    """A parameter of type `some I`: each call determines the conforming type."""

    kind = Kind.interface


def class_of(told: Mapping[str, Any]) -> type[SlangType]:
    """Return the class for a type description."""
    kind = told["kind"]
    if kind == "generic" and told.get("parameter", "").startswith("some "):
        return InterfaceParameterType
    if kind in ("struct", "interface", "opaque"):
        base = told.get("base", "")
        if base in TENSORS and len(told.get("args", ())) == 2:
            return ITensorType
        if base == "TensorView":
            return TensorViewType
        if base == "DiffTensorView":
            return DiffTensorViewType
        if base.endswith("ByteAddressBuffer"):
            return ByteAddressBufferType
        if "Texture" in base and kind == "opaque":
            return TextureType
        if base.startswith("Sampler"):
            return SamplerStateType
    return {
        "void": VoidType,
        "scalar": ScalarType,
        "enum": EnumType,
        "vector": VectorType,
        "matrix": MatrixType,
        "array": ArrayType,
        "struct": StructType,
        "interface": InterfaceType,
        "generic": UnknownType,
        "pointer": PointerType,
        "buffer": StructuredBufferType,
        "pair": DifferentialPairType,
    }.get(kind, UnhandledType)
