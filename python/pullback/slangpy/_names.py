"""Names that programs for slangpy take from its inner modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Union

from ._bindings import Marshall
from ._call import CallContext, unpack_arg
from ._shape import Shape
from ._torch_calls import TorchPair as NativeTorchTensorDiffPair
from ._types import ArrayType, MatrixType, ScalarType, SlangType, VectorType

# Where slangpy has its modules; here `import slangpy` needs no file.
SLANG_PATH = Path(__file__).parent / "slang"
MAX_DISPATCH_THREAD_GROUPS_X = 65535
TShapeOrTuple = Union[Shape, tuple[int, ...]]


class SignatureBuilder:
    """Collects what tells values apart."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, value: str) -> None:
        """Adds a part."""
        self._parts.append(value)

    @property
    def str(self) -> str:
        """All parts."""
        return "".join(self._parts)

    @property
    def bytes(self) -> bytes:
        """All parts."""
        return self.str.encode()


class NativeCallDataCache:
    """Tells values apart."""

    def get_value_signature(self, builder: SignatureBuilder, value: Any) -> None:
        """Adds what tells a value from those of other types."""
        builder.add(f"{type(value).__module__}.{type(value).__qualname__}\n")
        own = getattr(value, "slangpy_signature", None)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(own, str):
            builder.add(own)
        elif shape is not None and dtype is not None:
            builder.add(f"[{len(shape)},{getattr(dtype, 'full_name', dtype)}]")


class NativeCallRuntimeOptions:
    """What a run is told beside its arguments."""

    def __init__(self) -> None:
        self.uniforms: list[Any] = []


def unpack_args(*args: Any) -> tuple[list[Any], bool]:
    """Arguments as they are passed, and whether any has `get_this`."""
    found = [unpack_arg(a) for a in args]
    return found, any(a is not b for a, b in zip(args, found))


def unpack_kwargs(**kwargs: Any) -> tuple[dict[str, Any], bool]:
    """Arguments by name as they are passed, and whether any has `get_this`."""
    found = {name: unpack_arg(a) for name, a in kwargs.items()}
    return found, any(kwargs[name] is not found[name] for name in kwargs)


def is_nested_array(of: SlangType) -> bool:
    """Whether a type is numbers, vectors or matrices, or arrays of these."""
    while isinstance(of, ArrayType):
        of = of.element_type
    return isinstance(of, (ScalarType, VectorType, MatrixType))


def find_type_layout_for_buffer(layout: Any, name: Any) -> Any:
    """Where the parts of a type lie in a buffer."""
    if isinstance(name, str):
        return layout.require_type_by_name(name).buffer_layout
    return name.buffer_layout


class NativeMarshall(Marshall):
    """How values of a type are passed."""


class NativeValueMarshall(Marshall):
    """How values of a type are passed."""


class BoundVariableRuntime:
    """An argument of a run."""


class CodeGenBlock:
    """Lines of a kernel."""


class CodeGen:
    """A kernel."""


def parse_generic_signature(text: str) -> tuple[str, list[str]]:
    """The name and the arguments of `name<a, b>`."""
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
