"""Types of a program, as the compiler describes them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import _vectors
from ._enums import TextureUsage, TypeReflection
from ._shape import Shape

if TYPE_CHECKING:
    from ._layout import SlangProgramLayout

Kind = TypeReflection.Kind
ScalarType_ = TypeReflection.ScalarType

# The language's name, NumPy's, and the prefix of vectors.
SCALARS: dict[str, tuple[Any, str, str]] = {
    "void": (ScalarType_.void, "uint8", ""),
    "bool": (ScalarType_.bool, "bool", "bool"),
    "int": (ScalarType_.int32, "int32", "int"),
    "uint": (ScalarType_.uint32, "uint32", "uint"),
    "int64_t": (ScalarType_.int64, "int64", "int64_t"),
    "uint64_t": (ScalarType_.uint64, "uint64", "uint64_t"),
    "half": (ScalarType_.float16, "float16", "float16_t"),
    "float": (ScalarType_.float32, "float32", "float"),
    "double": (ScalarType_.float64, "float64", "double"),
    "int8_t": (ScalarType_.int8, "int8", "int8_t"),
    "uint8_t": (ScalarType_.uint8, "uint8", "uint8_t"),
    "int16_t": (ScalarType_.int16, "int16", "int16_t"),
    "uint16_t": (ScalarType_.uint16, "uint16", "uint16_t"),
}
NAME_OF_SCALAR = {scalar: name for name, (scalar, _, _) in SCALARS.items()}
NAME_OF_DTYPE = {np.dtype(dtype): name for name, (_, dtype, _) in SCALARS.items() if name != "void"}


class SlangType:
    """A type. `full_name` is how the language writes it."""

    kind = Kind.none

    def __init__(self, program: SlangProgramLayout, told: Mapping[str, Any]) -> None:
        self.program = program
        self.told = told
        self.full_name: str = told["name"]

    @property
    def name(self) -> str:
        """The name without arguments."""
        return self.full_name.split("<")[0]

    @property
    def layout(self) -> Any:
        """The program that it belongs to."""
        return self.program

    @property
    def type_reflection(self) -> Any:
        """The type itself: there is no lower level."""
        return self

    @property
    def shape(self) -> Shape:
        """Lengths of the dimensions of a value."""
        return Shape(())

    @property
    def num_dims(self) -> int:
        """The number of dimensions of a value."""
        return len(self.shape)

    @property
    def element_type(self) -> Optional[SlangType]:
        """What an element is."""
        return None

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        """Fields by name."""
        return {}

    @property
    def differentiable(self) -> bool:
        """Whether there is a differential."""
        return self.told.get("differential") is not None

    @cached_property
    def derivative(self) -> Optional[SlangType]:
        """The type of its differential."""
        name = self.told.get("differential")
        return self.program.find_type_by_name(name) if name else None

    @property
    def is_generic(self) -> bool:
        """Whether it depends on a generic parameter."""
        return False

    @property
    def vector_type_name(self) -> str:
        """Its name."""
        return self.full_name

    @cached_property
    def dtype(self) -> Any:
        """How NumPy has a value in memory: fields lie as in C."""
        raise ValueError(f"a value of the type {self.full_name} has no bytes of its own")

    @property
    def has_bytes(self) -> bool:
        """Whether a value is numbers alone."""
        try:
            return bool(self.dtype.itemsize)
        except ValueError:
            return False

    @property
    def uniform_layout(self) -> TypeLayout:
        """Where its parts lie."""
        return TypeLayout(self)

    buffer_layout = uniform_layout

    def __repr__(self) -> str:
        return f"refl::Type(full_name={self.full_name!r}, shape={self.shape})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlangType) and other.full_name == self.full_name

    def __hash__(self) -> int:
        return hash(self.full_name)

    @property
    def slangpy_signature(self) -> str:
        """What tells it from others."""
        return self.full_name


class TypeLayout:
    """Where the parts of a type lie."""

    def __init__(self, of: SlangType) -> None:
        self.slang_type = of

    @property
    def reflection(self) -> TypeLayout:
        """The layout itself."""
        return self

    @property
    def type(self) -> SlangType:
        """The type."""
        return self.slang_type

    @property
    def size(self) -> int:
        """Bytes of a value."""
        return int(self.slang_type.dtype.itemsize)

    stride = size

    @property
    def alignment(self) -> int:
        """Where a value may begin."""
        return int(self.slang_type.dtype.alignment)

    @property
    def kind(self) -> Any:
        """The kind of the type."""
        return self.slang_type.kind

    @property
    def name(self) -> str:
        """The type's name."""
        return self.slang_type.full_name

    @property
    def element_type_layout(self) -> TypeLayout:
        """That of an element."""
        element = self.slang_type.element_type
        return TypeLayout(element if element is not None else self.slang_type)

    def unwrap_array(self) -> TypeLayout:
        """That of the innermost element of arrays."""
        found = self.slang_type
        while isinstance(found, ArrayType):
            found = found.element_type
        return TypeLayout(found)


class SlangField:
    """A field of a struct."""

    def __init__(self, name: str, of: SlangType, no_diff: bool) -> None:
        self.name = name
        self.type = of
        self.no_diff = no_diff
        self.modifiers: set[Any] = set()


class VoidType(SlangType):
    """No value."""

    kind = Kind.scalar
    slang_scalar_type = ScalarType_.void


class ScalarType(SlangType):
    """A number."""

    kind = Kind.scalar

    def __init__(self, program: SlangProgramLayout, told: Mapping[str, Any]) -> None:
        super().__init__(program, told)
        self.slang_scalar_type, self.dtype_name, self.prefix = SCALARS[told["scalar"]]
        self.scalar_name: str = told["scalar"]

    @property
    def scalar_type(self) -> Any:
        """The kind of number."""
        return self.slang_scalar_type

    @cached_property
    def dtype(self) -> Any:
        return np.dtype(self.dtype_name)

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.scalar_name in ("half", "float", "double")


class EnumType(ScalarType):
    """An enumeration: a number in memory."""


class VectorType(SlangType):
    """Numbers."""

    kind = Kind.vector

    @property
    def name(self) -> str:
        return "vector"

    @cached_property
    def element_type(self) -> SlangType:  # type: ignore[override]
        return self.program.made(self.told["element"])

    @property
    def scalar_type(self) -> Any:
        """The type of its numbers."""
        return self.element_type

    @property
    def slang_scalar_type(self) -> Any:
        """The kind of its numbers."""
        return getattr(self.element_type, "slang_scalar_type", ScalarType_.none)

    @property
    def num_elements(self) -> int:
        """How many; 0 if that is generic."""
        return self.told["n"] or 0

    col_count = num_elements

    @property
    def shape(self) -> Shape:
        return Shape((self.num_elements,))

    @property
    def is_generic(self) -> bool:
        return self.num_elements == 0 or not isinstance(self.element_type, ScalarType)

    @cached_property
    def dtype(self) -> Any:
        return np.dtype((self.element_type.dtype, (self.num_elements,)))

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        names = "xyzw"[: self.num_elements]
        return {name: SlangField(name, self.element_type, False) for name in names}


class MatrixType(SlangType):
    """Rows of numbers."""

    kind = Kind.matrix

    @property
    def name(self) -> str:
        return "matrix"

    @cached_property
    def inner_element_type(self) -> SlangType:
        """The type of its numbers."""
        return self.program.made(self.told["element"])

    @property
    def scalar_type(self) -> SlangType:
        """The type of its numbers."""
        return self.inner_element_type

    @property
    def slang_scalar_type(self) -> Any:
        """The kind of its numbers."""
        return getattr(self.inner_element_type, "slang_scalar_type", ScalarType_.none)

    @property
    def rows(self) -> int:
        """0 if that is generic."""
        return self.told["rows"] or 0

    @property
    def cols(self) -> int:
        """0 if that is generic."""
        return self.told["columns"] or 0

    row_count = rows
    col_count = cols

    @cached_property
    def element_type(self) -> SlangType:  # type: ignore[override]
        return self.program.require_type_by_name(f"vector<{self.inner_element_type.full_name},{self.cols}>")

    @property
    def shape(self) -> Shape:
        return Shape((self.rows, self.cols))

    @property
    def is_generic(self) -> bool:
        return self.rows == 0 or self.cols == 0 or not isinstance(self.inner_element_type, ScalarType)

    @cached_property
    def dtype(self) -> Any:
        return np.dtype((self.inner_element_type.dtype, (self.rows, self.cols)))


class ArrayType(SlangType):
    """Elements of a type."""

    kind = Kind.array

    @property
    def name(self) -> str:
        return self.inner_element_type.name

    @cached_property
    def element_type(self) -> SlangType:  # type: ignore[override]
        return self.program.made(self.told["element"])

    @property
    def inner_element_type(self) -> SlangType:
        """The element of the innermost array."""
        found = self.element_type
        while isinstance(found, ArrayType):
            found = found.element_type
        return found

    @property
    def num_elements(self) -> int:
        """How many; 0 if that is generic."""
        return self.told["n"] or 0

    @property
    def array_shape(self) -> Shape:
        """Lengths of this array and those inside, without what their elements are."""
        inner = self.element_type
        rest = inner.array_shape if isinstance(inner, ArrayType) else Shape(())
        return Shape((self.num_elements,)) + rest

    @property
    def shape(self) -> Shape:
        return Shape((self.num_elements,)) + self.element_type.shape

    @property
    def is_generic(self) -> bool:
        return self.num_elements == 0 or self.element_type.is_generic

    @cached_property
    def dtype(self) -> Any:
        element = self.element_type.dtype
        return np.dtype((element, (self.num_elements,)))


class StructType(SlangType):
    """Fields."""

    kind = Kind.struct

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        made = self.program.made
        return {f["name"]: SlangField(f["name"], made(f["type"]), f["no_diff"]) for f in self.told["fields"]}

    @property
    def is_generic(self) -> bool:
        return any(_mentions_parameter(arg) for arg in self.told["args"])

    @cached_property
    def dtype(self) -> Any:
        if not self.fields:
            return np.dtype([("", "uint8")])
        return np.dtype([(name, field.type.dtype) for name, field in self.fields.items()], align=True)


def _mentions_parameter(told: Any) -> bool:
    if not isinstance(told, Mapping):
        return told is None
    if told["kind"] == "generic":
        return True
    parts = [told.get(key) for key in ("element", "primal") if key in told]
    numbers = [told[key] for key in ("n", "rows", "columns") if key in told]
    return any(_mentions_parameter(part) for part in [*parts, *told.get("args", [])]) or None in numbers


class UnknownType(SlangType):
    """A generic parameter, or what is not known."""

    @property
    def is_generic(self) -> bool:
        return True


class InterfaceType(SlangType):
    """A value of any type that conforms."""

    kind = Kind.interface


class PointerType(SlangType):
    """An address."""

    kind = Kind.pointer

    @property
    def name(self) -> str:
        return "Ptr"

    @cached_property
    def target_type(self) -> SlangType:
        """What it points to."""
        return self.program.find_type_by_name(self.told["to"]) or self.program.unknown

    @property
    def slang_scalar_type(self) -> Any:
        """An address is a number of 64 bits."""
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
        """Whether it can be written."""
        return self.name.startswith(("RW", "RasterizerOrdered"))

    @property
    def resource_access(self) -> Any:
        """What a program does with it."""
        access = TypeReflection.ResourceAccess
        return access.read_write if self.writable else access.read

    @property
    def resource_shape(self) -> Any:
        """What kind of buffer or texture it is."""
        words = {"1D": "_1d", "2D": "_2d", "3D": "_3d", "Cube": "_cube"}
        name = self.name.removeprefix("RW")
        if not name.startswith("Texture"):
            kind = "structured_buffer" if "Structured" in name else "byte_address_buffer"
            return TypeReflection.ResourceShape[kind]
        own = next((text for word, text in words.items() if word in name), "")
        return TypeReflection.ResourceShape["texture" + own + ("_array" if "Array" in name else "")]


class StructuredBufferType(ResourceType):
    """Elements in a buffer."""

    @cached_property
    def element_type(self) -> SlangType:  # type: ignore[override]
        return self.program.made(self.told["element"])

    @property
    def is_generic(self) -> bool:
        return self.element_type.is_generic


class ByteAddressBufferType(ResourceType):
    """Bytes in a buffer."""

    @property
    def element_type(self) -> SlangType:
        return self.program.require_type_by_name("uint8_t")


class TextureType(ResourceType):
    """Texels."""

    @cached_property
    def element_type(self) -> SlangType:  # type: ignore[override]
        args = [arg for arg in self.told["args"] if isinstance(arg, Mapping)]
        return self.program.made(args[0]) if args else self.program.require_type_by_name("float4")

    @property
    def texture_dims(self) -> int:
        """The dimensions of an index, that of the slice among them."""
        base = self.name
        n = next((n for n in (1, 2, 3) if f"{n}D" in base), 3)
        return n + ("Array" in base)

    @property
    def shape(self) -> Shape:
        return Shape((-1,) * self.texture_dims) + self.element_type.shape

    @property
    def usage(self) -> TextureUsage:
        """What a texture has to be for."""
        return TextureUsage.unordered_access if self.writable else TextureUsage.shader_resource


class SamplerStateType(SlangType):
    """How a texture is read."""

    kind = Kind.sampler_state


class DifferentialPairType(SlangType):
    """A value and its differential."""

    @property
    def name(self) -> str:
        return "DifferentialPair"

    @cached_property
    def primal(self) -> SlangType:
        """The value."""
        return self.program.made(self.told["primal"])


class UnhandledType(SlangType):
    """Another type."""


# The module's tensors: whether a program reads and writes them, and whether they carry gradients.
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
    """A tensor that a function takes as a whole."""

    kind = Kind.struct

    def __init__(self, program: SlangProgramLayout, told: Mapping[str, Any]) -> None:
        super().__init__(program, told)
        self.base: str = told["base"]
        self.readable, self.writable, self.has_grads = TENSORS[self.base]

    @cached_property
    def element_type(self) -> SlangType:  # type: ignore[override]
        return self.program.made(self.told["args"][0])

    @property
    def dtype(self) -> Any:
        return self.element_type

    @property
    def dims(self) -> int:
        """The number of dimensions; 0 if that is generic."""
        return self.told["args"][1] or 0

    @property
    def is_generic(self) -> bool:
        return self.dims == 0 or self.element_type.is_generic

    @property
    def shape(self) -> Shape:
        return Shape((-1,) * self.dims) + self.element_type.shape

    @property
    def is_interface(self) -> bool:
        """Whether it stands for all tensors that conform."""
        return self.base.startswith("I") and self.told["kind"] == "interface"

    @property
    def has_grad_in(self) -> bool:
        """Whether gradients are read."""
        return self.has_grads and self.writable

    @property
    def has_grad_out(self) -> bool:
        """Whether gradients are written."""
        return self.has_grads and self.readable

    @property
    def has_bytes(self) -> bool:
        return False


class TensorViewType(SlangType):
    """A tensor without its number of dimensions."""

    @cached_property
    def dtype(self) -> Any:
        return self.program.made(self.told["args"][0]) if self.told["args"] else self.program.unknown

    @property
    def has_bytes(self) -> bool:
        return False


class DiffTensorViewType(TensorViewType):
    """A tensor with its gradient, without its number of dimensions."""


def class_of(told: Mapping[str, Any]) -> type[SlangType]:
    """The class of a described type."""
    kind = told["kind"]
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


class TensorAccess(enum.Enum):
    """What a function does with a tensor."""

    read = 0
    write = 1
    read_write = 2


class TensorType(enum.Enum):
    """What a tensor carries."""

    tensor = 0
    itensor = 1
    diff_tensor = 2
    idiff_tensor = 3
    primal_tensor = 4


def is_unknown(of: Optional[SlangType]) -> bool:
    """Whether a type is not known."""
    return isinstance(of, UnknownType)


def is_known(of: Optional[SlangType]) -> bool:
    """Whether a type is known."""
    if of is None:
        raise ValueError("there is no type")
    return not is_unknown(of)


def is_known_or_none(of: Optional[SlangType]) -> bool:
    """Whether a type is known, or there is none."""
    return of is None or is_known(of)


# ---- values in memory


def converted(of: SlangType, value: Any) -> Any:
    """A value as NumPy takes it for the type."""
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
            for name in of.fields:
                found[name] = value[name]
            return found
        raise TypeError(f"a value of the type {of.full_name} is a dict, not {value!r}")
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
        return getattr(value, "device_address", value)
    if isinstance(value, (_vectors.Vector, _vectors.Matrix)):
        value = value.to_numpy()
    if isinstance(value, _vectors.float16_t):
        value = float(value)
    shape = of.shape.as_tuple()
    if np.ndim(value) and np.size(value) != int(np.prod(shape)):
        raise ValueError(f"{of.full_name} has {int(np.prod(shape))} numbers, not {np.size(value)}")
    array = np.asarray(value)
    if isinstance(of, ScalarType) and not of.is_float and array.dtype.kind in "iu":
        # As a cast in the language: modulo the range.
        wide = int(array) % (1 << (8 * of.dtype.itemsize)) if of.dtype.kind != "b" else bool(array)
        return np.array(wide, np.uint64).astype(of.dtype) if of.dtype.kind != "b" else wide
    return array.reshape(shape) if array.ndim else array


def read(memory: Any, of: SlangType) -> Any:
    """The Python value in memory."""
    if isinstance(of, StructType):
        return {name: read(memory[name], field.type) for name, field in of.fields.items()}
    if isinstance(of, ArrayType):
        return [read(memory[k], of.element_type) for k in range(of.num_elements)]
    if isinstance(of, VectorType):
        return _vectors.vector_type(SCALARS[of.element_type.scalar_name][2], of.num_elements)(*memory.tolist())  # type: ignore[attr-defined]
    if isinstance(of, MatrixType):
        prefix = SCALARS[of.inner_element_type.scalar_name][2]  # type: ignore[attr-defined]
        return _vectors.matrix_type(prefix, of.rows, of.cols)(memory)
    return memory.item() if hasattr(memory, "item") else memory
