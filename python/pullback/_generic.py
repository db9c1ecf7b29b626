"""Generic functions and functions with interface parameters: each set of types gives a specialised function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from ._errors import CompileError

if TYPE_CHECKING:
    from ._function import Function
    from ._module import Module

Argument = Union[str, int, bool, type, Any]

# The Slang names of NumPy dtypes.
_NAMES = {
    "bool": "bool",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int",
    "uint32": "uint",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float16": "half",
    "float32": "float",
    "float64": "double",
}


class Generic:
    """A function that needs type arguments before it can be called.

    `m.add["float3"]` or `m["add<float3>"]` is the function for one type, `m.power["float", 3]` that for several generic
    arguments. The concrete type of an interface parameter is given by `_type` in the dict (or object) of a struct:
    `m.area({"_type": "Circle", "radius": 1.0})`.
    """

    def __init__(self, module: Module, name: str, generics: Sequence[str], params: Sequence[str], dynamic: Sequence[str]) -> None:
        self._module = module
        self.name = name
        self._generics = list(generics)
        self._params = list(params)
        self._dynamic = list(dynamic)

    def __getitem__(self, arguments: Union[Argument, tuple[Argument, ...]]) -> Any:
        """Return the function for these generic arguments: names of types, NumPy or Python types, and numbers."""
        if not self._generics:
            raise TypeError(f"`{self.name}` is not generic: {self._needs()}")
        given = [_written(a) for a in (arguments if isinstance(arguments, tuple) else (arguments,))]
        if len(given) > len(self._generics):
            raise TypeError(f"`{self.name}` has {len(self._generics)} generic parameters, not {len(given)}: {', '.join(self._generics)}")
        return self._module._function(self.name, tuple(given), ())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function for the types that the arguments name in `_type`."""
        return self._of(args, kwargs)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        from ._function import Function

        if name not in ("value_and_grad", "grad", "vjp", "jvp", "hvp", "jacobian", "hessian"):
            if hasattr(Function, name):
                raise TypeError(f"`{self.name}` has no `{name}` yet: {self._needs()}")
            raise AttributeError(name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._of(args, kwargs), name)(*args, **kwargs)

        return method

    def _partial(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._of(args, kwargs)._partial(args, kwargs)

    def _of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Function:
        given = [*zip(self._params, args), *kwargs.items()]
        types = tuple((name, found) for name, value in given if (found := type_of(name, value)) is not None)
        if not types:
            raise TypeError(f"`{self.name}` cannot be called yet: {self._needs()}")
        special: Union[Function, Generic]
        try:
            special = self._module._function(self.name, (), types)
        except CompileError as error:
            if [d.code for d in error.diagnostics] != ["E0705"]:
                raise
            raise TypeError(f"`{self.name}` cannot be called yet: {error.diagnostics[0].message}") from None
        if isinstance(special, Generic):
            raise TypeError(f"`{self.name}` cannot be called yet: {special._needs()}")
        return special

    def _needs(self) -> str:
        """Return a message about the missing types."""
        if self._generics:
            params = ", ".join(f"`{g}`" for g in self._generics)
            return f"it is generic in {params}: name the function of these, as `m[\"{self.name}<…>\"]` or `m.{self.name}[…]`"
        params = ", ".join(f"`{d}`" for d in self._dynamic)
        return f"{params} is of an interface: say by `_type` in its dict which type the value has"

    def __repr__(self) -> str:
        return f"<pullback.Generic {self.name}<{', '.join(self._generics)}>({', '.join(self._params)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_named, (self._module, self.name))


def type_of(name: str, value: Any) -> Optional[str]:
    """Return the type named by a value's `_type`, or None."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        found = {type_of(name, item) for item in value}
        if len(found) > 1:
            kinds = ", ".join(sorted(str(kind) for kind in found))
            raise TypeError(f"`{name}` has values of several types in one array ({kinds}): call the function once for each")
        return found.pop() if found else None
    kind = value.get("_type") if isinstance(value, Mapping) else getattr(value, "_type", None)
    if kind is not None and not isinstance(kind, str):
        raise TypeError(f"`_type` of `{name}` is the name of a type, not a `{type(kind).__name__}`")
    return kind


def split(name: str) -> tuple[str, tuple[str, ...]]:
    """Split a name from its generic arguments: `add<float, 3>` gives `("add", ("float", "3"))`."""
    if "<" not in name or not name.endswith(">"):
        return name, ()
    base, inner = name[:-1].split("<", 1)
    depth, parts = 0, [""]
    for c in inner:
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return base.strip(), tuple(part.strip() for part in parts)


def _written(argument: Argument) -> str:
    """Return a generic argument in Slang syntax. Raise `TypeError` if it is neither a type nor a number."""
    if isinstance(argument, str):
        return argument.strip()
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, int):
        return str(argument)
    python = {float: "float", int: "int", bool: "bool"}
    if isinstance(argument, type) and argument in python:
        return python[argument]
    import numpy as np

    try:
        return _NAMES[np.dtype(argument).name]
    except (TypeError, KeyError):
        raise TypeError(f"a generic argument is the name of a type or a number, not {argument!r}") from None


def _named(module: Module, name: str) -> Any:
    return module[name]
