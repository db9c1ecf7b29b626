"""Names that programs import from slangpy's internal modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Union

from ._bindings import Marshall
from ._call import CallContext, unpack_arg
from ._shape import Shape
from ._torch_calls import TorchPair as NativeTorchTensorDiffPair
from ._types import ArrayType, MatrixType, ScalarType, SlangType, VectorType

# The folder of slangpy's own modules; here `import slangpy` needs no file.
SLANG_PATH = Path(__file__).parent / "slang"
MAX_DISPATCH_THREAD_GROUPS_X = 65535
TShapeOrTuple = Union[Shape, tuple[int, ...]]


class SignatureBuilder:
    """A builder of the signature of a value."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, value: str) -> None:
        """Append a part."""
        self._parts.append(value)

    @property
    def str(self) -> str:
        """The signature as a string."""
        return "".join(self._parts)

    @property
    def bytes(self) -> bytes:
        """The signature as bytes."""
        return self.str.encode()


class NativeCallDataCache:
    """The cache that slangpy keeps by signature; here it computes signatures only."""

    def get_value_signature(self, builder: SignatureBuilder, value: Any) -> None:
        """Append the signature of a value, which values of different types do not share."""
        builder.add(f"{type(value).__module__}.{type(value).__qualname__}\n")
        own = getattr(value, "slangpy_signature", None)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(own, str):
            builder.add(own)
        elif shape is not None and dtype is not None:
            builder.add(f"[{len(shape)},{getattr(dtype, 'full_name', dtype)}]")


class NativeCallRuntimeOptions:
    """Options of a call besides its arguments."""

    def __init__(self) -> None:
        self.uniforms: list[Any] = []


def unpack_args(*args: Any) -> tuple[list[Any], bool]:
    """Return the unpacked arguments, and True if any of them has `get_this`."""
    found = [unpack_arg(a) for a in args]
    return found, any(a is not b for a, b in zip(args, found))


def unpack_kwargs(**kwargs: Any) -> tuple[dict[str, Any], bool]:
    """Return the unpacked keyword arguments, and True if any of them has `get_this`."""
    found = {name: unpack_arg(a) for name, a in kwargs.items()}
    return found, any(kwargs[name] is not found[name] for name in kwargs)


def is_nested_array(of: SlangType) -> bool:
    """Return True if a type is a scalar, vector or matrix, or a nested array of these."""
    while isinstance(of, ArrayType):
        of = of.element_type
    return isinstance(of, (ScalarType, VectorType, MatrixType))


def find_type_layout_for_buffer(layout: Any, name: Any) -> Any:
    """Return the buffer layout of a type, given by name or as a type."""
    if isinstance(name, str):
        return layout.require_type_by_name(name).buffer_layout
    return name.buffer_layout


class NativeMarshall(Marshall):
    """The base class of marshalls in slangpy."""


class NativeValueMarshall(Marshall):
    """The base class of value marshalls in slangpy."""


class BoundVariableRuntime:
    """A bound argument of a call."""


class CodeGenBlock:
    """A block of lines of a kernel."""


class CodeGen:
    """The code of a kernel."""


def parse_generic_signature(text: str) -> tuple[str, list[str]]:
    """Return the name and the arguments of `name<a, b>`."""
    name, bracket, rest = text.partition("<")
    if not bracket:
        return text, []
    args, depth, at = [""], 0, rest.rstrip()[:-1]
    for letter in at:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            args.append("")
        else:
            args[-1] += letter
    return name, [a.strip() for a in args]


__all__ = [
    "MAX_DISPATCH_THREAD_GROUPS_X",
    "SLANG_PATH",
    "BoundVariableRuntime",
    "CallContext",
    "CodeGen",
    "CodeGenBlock",
    "NativeCallDataCache",
    "NativeCallRuntimeOptions",
    "NativeMarshall",
    "NativeTorchTensorDiffPair",
    "NativeValueMarshall",
    "SignatureBuilder",
    "TShapeOrTuple",
    "find_type_layout_for_buffer",
    "is_nested_array",
    "parse_generic_signature",
    "unpack_args",
    "unpack_kwargs",
]
