"""Calls with PyTorch tensors, which are read and written in place and take part in autograd."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


class TorchPair:
    """A PyTorch tensor and its gradient, for a call of a derivative."""

    def __init__(self, primal: Any, grad: Any, index: int = -1, is_input: bool = True) -> None:
        self.primal = primal
        self.grad = grad
        self.index = index
        self.is_input = is_input

    def clear_tensors(self) -> None:
        """Release both tensors."""
        self.primal = self.grad = None

    def __repr__(self) -> str:
        names = [type(part).__name__ if part is not None else "None" for part in (self.primal, self.grad)]
        return f"NativeTorchTensorDiffPair(primal={names[0]}, grad={names[1]}, is_input={self.is_input})"


def diff_pair(primal: Any, grad: Any) -> TorchPair:
    """Return a pair of a PyTorch tensor and its gradient, for a call of a derivative."""
    return TorchPair(primal, grad)


def create_torch_tensor_marshall(layout: Any, value: Any) -> Any:
    """Return the marshall of a tensor, or of a pair with its gradient."""
    from . import _torch

    return _torch.marshall_of(layout, value)


def copy_torch_tensor_to_buffer(tensor: Any, buffer: Any) -> None:
    """Copy the elements of a tensor to a buffer."""
    buffer.copy_from_numpy(tensor.detach().cpu().contiguous().numpy())


def copy_buffer_to_torch_tensor(buffer: Any, tensor: Any) -> None:
    """Copy the elements of a buffer to a tensor. Raise RuntimeError if the buffer is smaller than the tensor."""
    import torch

    size = tensor.numel() * tensor.element_size()
    if size > buffer.size:
        raise RuntimeError(f"the tensor has {size} bytes, and the buffer {buffer.size}")
    flat = torch.from_numpy(buffer.memory[:size].copy()).view(tensor.dtype)
    with torch.no_grad():
        tensor.copy_(flat.reshape(tensor.shape))


def has_tensors(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return True if any argument is, or contains, a PyTorch tensor."""
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
    """Return a value with the instances of `kind` in it replaced, always visited in the same order."""
    if isinstance(value, kind):
        return by(value)
    if isinstance(value, dict):
        return {name: replaced(part, kind, by) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([replaced(part, kind, by) for part in value])
    return value


def call(node: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that returns PyTorch tensors."""
    from . import _torch

    return _torch.call(node, args, dict(kwargs))
