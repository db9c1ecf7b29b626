"""Calls with tensors of PyTorch's: they are read and written where they are, and take part in autograd."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


class TorchPair:
    """A tensor of PyTorch's and its gradient, for a call of a derivative."""

    def __init__(self, primal: Any, grad: Any, index: int = -1, is_input: bool = True) -> None:
        self.primal = primal
        self.grad = grad
        self.index = index
        self.is_input = is_input


def diff_pair(primal: Any, grad: Any) -> TorchPair:
    """A tensor of PyTorch's and its gradient, for a call of a derivative."""
    return TorchPair(primal, grad)


def has_tensors(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether any argument is a tensor of PyTorch's, or has one in it."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return kind is not None and any(_has(value, kind) for value in [*args, *kwargs.values()])


def _has(value: Any, kind: Any) -> bool:
    if isinstance(value, (kind, TorchPair)):
        return True
    if isinstance(value, Mapping):
        return any(_has(part, kind) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has(part, kind) for part in value)
    return hasattr(value, "get_this") and _has(value.get_this(), kind)


def replaced(value: Any, kind: Any, by: Callable[[Any], Any]) -> Any:
    """A value with other tensors in it, in the same order each time."""
    if isinstance(value, kind):
        return by(value)
    if isinstance(value, dict):
        return {name: replaced(part, kind, by) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([replaced(part, kind, by) for part in value])
    return value


def call(node: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Calls a function; results are tensors of PyTorch's."""
    from . import _torch

    return _torch.call(node, args, dict(kwargs))
