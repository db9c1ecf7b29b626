"""Types of a program, as reflected by the compiler."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ._enums import TypeReflection
from ._shape import Shape

if TYPE_CHECKING:
    from ._layout import SlangProgramLayout

Kind = TypeReflection.Kind
ScalarType_ = TypeReflection.ScalarType

# Slang scalar types: the scalar kind, the NumPy dtype, and the prefix of vector type names.
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


class Attributed:
    """The base of declarations that may have user-defined attributes."""

    def _attributes(self) -> list[Any]:
        raise NotImplementedError

    def get_user_attribute_count(self) -> int:
        """Return the number of user-defined attributes."""
        return len(self._attributes())

    def get_user_attribute_by_index(self, index: int) -> Any:
        """Return the user-defined attribute at an index."""
        return self._attributes()[index]

    def find_user_attribute_by_name(self, name: str) -> Any:
        """Return the user-defined attribute with the given name, or None."""
        return next((found for found in self._attributes() if found.name == name), None)


class SlangType(Attributed):
    """A type. `full_name` is its name in Slang."""

    kind = Kind.none

    def __init__(self, program: SlangProgramLayout, told: Mapping[str, Any]) -> None:
        self.program = program
        self.told = told
        self.full_name: str = told["name"]

    @property
    def name(self) -> str:
        """The name without generic arguments and enclosing types."""
        self.program.require_valid()
        return self.full_name.partition("<")[0].rpartition(".")[2]

    @property
    def layout(self) -> Any:
        """The program layout of the type."""
        return self.program

    @property
    def type_reflection(self) -> Any:
        """The type itself: there is no lower-level reflection."""
        return self

    @property
    def struct(self) -> SlangType:
        """The type itself, so that types and structs of a module are interchangeable."""
        return self

    def _attributes(self) -> list[Any]:
        return self.program.attributes_of(self)

    @property
    def shape(self) -> Shape:
        """The shape of a value."""
        return Shape(())

    @property
    def num_dims(self) -> int:
        """The number of dimensions of a value."""
        return len(self.shape)

    @property
    def element_type(self) -> Optional[SlangType]:
        """The element type, or None if the type has no elements."""
        return None

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        """The fields by name."""
        return {}

    @property
    def differentiable(self) -> bool:
        """True if the type has a differential."""
        return self.told.get("differential") is not None

    @cached_property
    def derivative(self) -> Optional[SlangType]:
        """The differential type, or None if the type is not differentiable."""
        name = self.told.get("differential")
        return self.program.find_type_by_name(name) if name else None

    @property
    def is_generic(self) -> bool:
        """True if the type depends on a generic parameter."""
        return False

    @property
    def vector_type_name(self) -> str:
        """The name with generic arguments."""
        return self.full_name

    @cached_property
    def dtype(self) -> Any:
        """The NumPy dtype of a value, with fields laid out as in C. Raises ValueError if there is none."""
        raise ValueError(f"a value of the type {self.full_name} has no bytes of its own")

    @property
    def has_bytes(self) -> bool:
        """True if values have a fixed representation in bytes."""
        try:
            return bool(self.dtype.itemsize)
        except ValueError:
            return False

    @property
    def uniform_layout(self) -> TypeLayout:
        """The memory layout of the type."""
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
        """The signature that identifies the type."""
        return self.full_name


class TypeLayout:
    """The memory layout of a type."""

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
        """The size of a value in bytes."""
        return int(self.slang_type.dtype.itemsize)

    stride = size

    @property
    def fields(self) -> list[VariableLayout]:
        """The layouts of the fields of a struct."""
        return [VariableLayout(field, self.slang_type) for field in self.slang_type.fields.values()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeLayout) and other.slang_type == self.slang_type

    def __hash__(self) -> int:
        return hash(self.slang_type)

    @property
    def alignment(self) -> int:
        """The alignment of a value in bytes."""
        return int(self.slang_type.dtype.alignment)

    @property
    def kind(self) -> Any:
        """The kind of the type."""
        return self.slang_type.kind

    @property
    def name(self) -> str:
        """The full name of the type."""
        return self.slang_type.full_name

    @property
    def element_type_layout(self) -> Optional[TypeLayout]:
        """The layout of the element type, or None if the type has no elements."""
        element = self.slang_type.element_type
        return None if element is None else TypeLayout(element)

    def unwrap_array(self) -> TypeLayout:
        """Return the layout of the innermost element type of nested arrays."""
        found = self.slang_type
        while isinstance(found, ArrayType):
            found = found.element_type
        return TypeLayout(found)


class SlangField:
    """A field of a struct, or a global variable."""

    def __init__(self, name: str, of: SlangType, no_diff: bool) -> None:
        self.name = name
        self.type = of
        self.no_diff = no_diff
        self.modifiers: set[Any] = set()

    def has_modifier(self, modifier: Any) -> bool:
        """Return True if the field has the modifier."""
        return modifier in self.modifiers


class VariableLayout:
    """A field or global variable with its layout."""

    def __init__(self, variable: SlangField, of: SlangType) -> None:
        self.variable = variable
        self._of = of

    @property
    def name(self) -> str:
        """The name of the field or variable."""
        return self.variable.name

    @property
    def type_layout(self) -> TypeLayout:
        """The layout of its type."""
        return TypeLayout(self.variable.type)

    @property
    def offset(self) -> int:
        """The offset within the struct, in bytes."""
        return int(self._of.dtype.fields[self.name][1])


class VoidType(SlangType):
    """The type `void`."""

    kind = Kind.scalar
    slang_scalar_type = ScalarType_.void


class ScalarType(SlangType):
    """A scalar: a number or boolean."""

    kind = Kind.scalar

    def __init__(self, program: SlangProgramLayout, told: Mapping[str, Any]) -> None:
        super().__init__(program, told)
        self.slang_scalar_type, self.dtype_name, self.prefix = SCALARS[told["scalar"]]
        self.scalar_name: str = told["scalar"]

    @property
    def scalar_type(self) -> Any:
        """The kind of scalar."""
        return self.slang_scalar_type

    @cached_property
    def dtype(self) -> Any:
        return np.dtype(self.dtype_name)

    @property
    def is_float(self) -> bool:
        """True if the type is a floating-point type."""
        return self.scalar_name in ("half", "float", "double")


class EnumType(ScalarType):
    """An enumeration, represented by its underlying integer."""


class VectorType(SlangType):
    """A vector of scalars."""

    kind = Kind.vector

    @property
    def name(self) -> str:
        return "vector"

    @cached_property
    def element_type(self) -> SlangType:
        return self.program.made(self.told["element"])

    @property
    def scalar_type(self) -> Any:
        """The scalar type of the components."""
        return self.element_type

    @property
    def slang_scalar_type(self) -> Any:
        """The scalar kind of the components."""
        return getattr(self.element_type, "slang_scalar_type", ScalarType_.none)

    @property
    def num_elements(self) -> int:
        """The number of components; 0 if it is generic."""
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
    """A matrix; its elements are row vectors."""

    kind = Kind.matrix

    @property
    def name(self) -> str:
        return "matrix"

    @cached_property
    def inner_element_type(self) -> SlangType:
        """The scalar type of the components."""
        return self.program.made(self.told["element"])

    @property
    def scalar_type(self) -> SlangType:
        """The scalar type of the components."""
        return self.inner_element_type

    @property
    def slang_scalar_type(self) -> Any:
        """The scalar kind of the components."""
        return getattr(self.inner_element_type, "slang_scalar_type", ScalarType_.none)

    @property
    def rows(self) -> int:
        """The number of rows; 0 if it is generic."""
        return self.told["rows"] or 0

    @property
    def cols(self) -> int:
        """The number of columns; 0 if it is generic."""
        return self.told["columns"] or 0

    row_count = rows
    col_count = cols

    @cached_property
    def element_type(self) -> SlangType:
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
    """An array of elements of one type."""

    kind = Kind.array

    @property
    def name(self) -> str:
        return self.inner_element_type.name

    @cached_property
    def element_type(self) -> SlangType:
        return self.program.made(self.told["element"])

    @property
    def inner_element_type(self) -> SlangType:
        """The element type of the innermost array."""
        found = self.element_type
        while isinstance(found, ArrayType):
            found = found.element_type
        return found

    @property
    def num_elements(self) -> int:
        """The number of elements; 0 if it is generic."""
        return self.told["n"] or 0

    element_count = num_elements

    @property
    def array_shape(self) -> Shape:
        """The lengths of the nested arrays, without the dimensions of their innermost elements."""
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
    """A struct."""

    kind = Kind.struct

    @cached_property
    def fields(self) -> dict[str, SlangField]:
        made = self.program.made
        found = {f["name"]: SlangField(f["name"], made(f["type"]), f["no_diff"]) for f in self.told["fields"]}
        return self.program.fields_of(found)

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
    """A generic parameter, or a type that is not known."""

    @property
    def is_generic(self) -> bool:
        return True


class InterfaceType(SlangType):
    """An interface, in the place of any type that conforms to it."""

    kind = Kind.interface


class SamplerStateType(SlangType):
    """A sampler state."""

    kind = Kind.sampler_state


class DifferentialPairType(SlangType):
    """A value and its differential."""

    @property
    def name(self) -> str:
        return "DifferentialPair"

    @cached_property
    def primal(self) -> SlangType:
        """The type of the value."""
        return self.program.made(self.told["primal"])


class UnhandledType(SlangType):
    """A type without a class of its own."""


class TensorAccess(enum.Enum):
    """The access of a function to a tensor."""

    read = 0
    write = 1
    read_write = 2


class TensorType(enum.Enum):
    """The kind of a tensor: interface or not, with or without gradients."""

    tensor = 0
    itensor = 1
    diff_tensor = 2
    idiff_tensor = 3
    primal_tensor = 4


def is_unknown(of: Optional[SlangType]) -> bool:
    """Return True if a type is not known."""
    return isinstance(of, UnknownType)


def is_known(of: Optional[SlangType]) -> bool:
    """Return True if a type is known. Raise ValueError if it is None."""
    if of is None:
        raise ValueError("Type is None: there is none to ask of")
    return not is_unknown(of)


def is_known_or_none(of: Optional[SlangType]) -> bool:
    """Return True if a type is known or None."""
    return of is None or is_known(of)
