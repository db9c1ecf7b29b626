"""Calls with tensors of PyTorch's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def has_tensors(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether any argument is a tensor of PyTorch's, or has one in it."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return kind is not None and any(_has(value, kind) for value in [*args, *kwargs.values()])


def _has(value: Any, kind: Any) -> bool:
    if isinstance(value, kind):
        return True
    if isinstance(value, Mapping):
        return any(_has(part, kind) for part in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has(part, kind) for part in value)
    return False


def call(node: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Refused."""
    raise RuntimeError("tensors of PyTorch are not supported yet: use Tensor.from_torch and Tensor.to_torch")
