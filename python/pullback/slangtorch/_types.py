"""Types of parameters: their Python values, and the kernel memory that these are bound to."""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from .util.builtin_wrappers import DiffTensorView

#: A type as the core describes it, with its `kind`.
Type = dict[str, Any]
Convert = Callable[[Any], Any]

_DTYPES: dict[str, Any] = {
    "int8_t": np.int8,
    "int16_t": np.int16,
    "int": np.int32,
    "int64_t": np.int64,
    "uint8_t": np.uint8,
    "uint16_t": np.uint16,
    "uint": np.uint32,
    "uint64_t": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}


_TENSORS = {"TensorView": "tensor", "TorchTensor": "tensor", "DiffTensorView": "diff tensor"}
_MADE = ("scalar", "vector", "matrix", "array", "struct", "tuple", "void", *_TENSORS.values())


def described(node: dict[str, Any]) -> dict[str, Any]:
    """Return a type of the core with the names and kinds of slangtorch, and any other object as it is."""
    kind = node.get("kind")
    if kind in ("scalar", "enum"):
        node |= {"kind": "scalar", "name": node["scalar"]}
    elif kind == "struct":
        fields = [(field["name"], field["type"]) for field in node["fields"]]
        node |= {"name": node.get("exported") or node["base"], "fields": fields}
    elif kind == "opaque" and node["base"] in _TENSORS:
        element = node["args"][0] if node["args"] else {"kind": "scalar", "name": "float"}
        node |= {"kind": _TENSORS[node["base"]], "element": element, "host": node["base"] == "TorchTensor"}
    elif kind is not None and (kind not in _MADE or kind == "array" and not node["n"]):
        node["kind"] = "other"
    return node


def scalar(name: str, value: Any) -> Any:
    """Return a number converted to a scalar type, as Slang does."""
    if name == "bool":
        return bool(value)
    dtype = np.dtype(_DTYPES[name])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return float(dtype.type(value))
    number, bits = int(value), 8 * dtype.itemsize
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype.kind == "i" and number >> (bits - 1) else number


def name_of(ty: Type) -> str:
    """Return the type in Slang syntax."""
    kind = ty["kind"]
    if kind == "vector":
        return f"{name_of(ty['element'])}{ty['n']}"
    if kind == "matrix":
        return f"{name_of(ty['element'])}{ty['rows']}x{ty['columns']}"
    if kind == "array":
        return f"{name_of(ty['element'])}[{ty['n']}]"
    if kind in ("tensor", "diff tensor"):
        view = "DiffTensorView" if kind == "diff tensor" else "TorchTensor" if ty["host"] else "TensorView"
        return f"{view}<{name_of(ty['element'])}>"
    return str(ty.get("name", kind))


class Wrappers:
    """The named tuples for structs, and the functions that convert values to types."""

    def __init__(self) -> None:
        self.public: dict[str, Any] = {}

    def of(self, ty: Type) -> tuple[Any, Convert]:
        """Return the public Python type for values of a type, and the function that converts them."""
        kind = ty["kind"]
        if kind == "struct":
            return self._struct(ty)
        if kind == "diff tensor":
            self.public["DiffTensorView"] = DiffTensorView
            return DiffTensorView, _diff_tensor
        if kind == "tensor":
            return torch.Tensor, lambda value: _tensor(ty, value)
        if kind == "scalar":
            return _SCALARS.get(ty["name"], int), lambda value: _scalar(ty, value)
        if kind in ("vector", "array"):
            element = self.of(ty["element"])[1]
            return tuple, lambda value: _list(ty, ty["n"], element, value)
        if kind == "matrix":
            row = {"kind": "vector", "element": ty["element"], "n": ty["columns"]}
            return tuple, lambda value: _list(ty, ty["rows"], self.of(row)[1], value)
        return None, lambda value: _refused(ty)

    def _struct(self, ty: Type) -> tuple[Any, Convert]:
        fields = [name for name, _ in ty["fields"]]
        converts = [self.of(field)[1] for _, field in ty["fields"]]
        name = "".join(c if c.isalnum() else "_" for c in ty["name"]).strip("_")
        public: Any = self.public.get(name)
        if public is None or list(public._fields) != fields:
            public = self.public[name] = namedtuple(name, fields)

        def convert(value: Any) -> Any:
            try:
                if isinstance(value, dict):
                    made = public(**value)
                elif isinstance(value, (tuple, list)):
                    made = public(*value)
                else:
                    raise ValueError(f"`{ty['name']}` is a tuple, a dict or {name}(…), not a `{type(value).__name__}`")
            except TypeError:
                given = ", ".join(value) if isinstance(value, dict) else f"{len(value)} values"
                raise TypeError(f"`{ty['name']}` has the fields {', '.join(fields)}, and {given} were given") from None
            return public(*(convert(field) for convert, field in zip(converts, made)))

        return public, convert


_SCALARS: dict[str, type] = {"bool": bool, "half": float, "float": float, "double": float}


def _refused(ty: Type) -> Any:
    raise TypeError(f"a value of type `{name_of(ty)}` cannot come from Python")


def _diff_tensor(value: Any) -> DiffTensorView:
    if isinstance(value, torch.Tensor):
        return DiffTensorView(value)
    if isinstance(value, tuple):
        if not 1 <= len(value) <= 2:
            raise ValueError(f"a DiffTensorView is a tensor and its gradient, not a tuple of {len(value)}")
        return DiffTensorView(*value)
    raise ValueError(f"a DiffTensorView is a tensor, or a tuple of it and its gradient, not a `{type(value).__name__}`")


def _tensor(ty: Type, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"`{name_of(ty)}` is a tensor, not a `{type(value).__name__}`")
    return value


def _scalar(ty: Type, value: Any) -> Any:
    if ty["name"] == "bool":
        return bool(value)
    if ty["name"] in _SCALARS:
        return float(value)
    return operator.index(value.item() if isinstance(value, torch.Tensor) else value)


def _list(ty: Type, n: int, element: Convert, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if not isinstance(value, (tuple, list)):
        raise ValueError(f"`{name_of(ty)}` is a tuple or a list, not a `{type(value).__name__}`")
    if len(value) != n:
        raise ValueError(f"`{name_of(ty)}` is made of {n} values, not of {len(value)}")
    return [element(part) for part in value]


def holds_tensors(ty: Type) -> bool:
    """Return True if a value of that type is or contains a tensor."""
    if ty["kind"] == "struct":
        return any(holds_tensors(field) for _, field in ty["fields"])
    return holds_tensors(ty["element"]) if ty["kind"] == "array" else ty["kind"] in ("tensor", "diff tensor")


def places(ty: Type, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the memory that a converted value is bound to: names with tensors or plain values."""
    if ty["kind"] == "diff tensor":
        # Host code may pass a tensor by itself, without a gradient.
        pair = value if isinstance(value, tuple) else DiffTensorView(value)
        yield path, _tensor(ty, pair[0])
        if len(pair) > 1 and pair[1] is not None:
            yield f"{path}.grad", _tensor(ty, pair[1])
    elif not holds_tensors(ty):
        yield path, value
    elif ty["kind"] == "struct":
        for name, field in ty["fields"]:
            yield from places(field, getattr(value, name), f"{path}.{name}")
    elif ty["kind"] == "array":
        for k, part in enumerate(value):
            yield from places(ty["element"], part, f"{path}[{k}]")
    else:
        yield path, value
