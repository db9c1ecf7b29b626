"""Functions as PyTorch modules: `pullback.nn.Module(m.model, rate=0.5)`. This module imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ._function import Function


class _Struct(torch.nn.Module):
    """The fields of a struct."""


def _fill(module: Any, values: Mapping[str, Any]) -> None:
    """Register floats as parameters, other numbers as buffers, and structs as submodules."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            part = _Struct()
            _fill(part, value)
            module.add_module(name, part)
            continue
        x = torch.as_tensor(value).detach().clone()
        if x.is_floating_point():
            module.register_parameter(name, torch.nn.Parameter(x))
        else:
            module.register_buffer(name, x)


class Module(torch.nn.Module):
    """A function with some arguments stored in the module; `forward` takes the others.

    Floats are parameters, integers and booleans are buffers, and a struct is a submodule with those of its fields.
    """

    def __init__(self, function: Function, **own: Any) -> None:
        super().__init__()
        for name in own:
            if name not in function._names:
                raise TypeError(f"`{function.name}` has no parameter `{name}`; it has {', '.join(function._names)}")
        self._function = function
        self._own = tuple(own)
        _fill(self, own)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's value. Positional arguments are those that the module does not store, in order."""
        free = [name for name in self._function._names if name not in self._own]
        if len(args) > len(free):
            raise TypeError(f"`{self._function.name}` takes {len(free)} more arguments, not {len(args)}")
        given = {**dict(zip(free, args)), **kwargs}
        if len(given) != len(args) + len(kwargs) or any(name in given for name in self._own):
            raise TypeError(f"`{self._function.name}` was given an argument twice")
        return self._function(**given, **{name: getattr(self, name) for name in self._own})

    def extra_repr(self) -> str:
        """Return the function's signature, for printing the module."""
        return self._function.signature
