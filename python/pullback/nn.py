"""Functions as modules of PyTorch: `pullback.nn.Module(m.model, rate=0.5)`. It imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ._function import Function


class _Struct(torch.nn.Module):
    """The fields of a struct."""


def _fill(module: Any, values: Mapping[str, Any]) -> None:
    """Makes parameters of numbers that are floats, buffers of others, and modules of structs."""
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
    """A function of which some arguments are the module's own; `forward` takes the others.

    Floats are parameters, integers and truth are buffers, and a struct is a module with those of its fields.
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
        """The function's value; positions are those of the arguments that the module lacks."""
        free = [name for name in self._function._names if name not in self._own]
        if len(args) > len(free):
            raise TypeError(f"`{self._function.name}` takes {len(free)} more arguments, not {len(args)}")
        given = {**dict(zip(free, args)), **kwargs}
        if len(given) != len(args) + len(kwargs) or any(name in given for name in self._own):
            raise TypeError(f"`{self._function.name}` was given an argument twice")
        return self._function(**given, **{name: getattr(self, name) for name in self._own})

    def extra_repr(self) -> str:
        """The function, where the module is printed."""
        return self._function.signature
