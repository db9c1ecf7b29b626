"""Memory of kernels and functions: arrays that are bound in place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from ._dlpack import as_array

if TYPE_CHECKING:
    from . import _core


def tensor_type() -> Optional[Any]:
    """Return the type of PyTorch tensors, or None if torch has not been imported (completely)."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


class Memory:
    """Arrays and values by name, in the form that the core takes, and the copies to write back to their arrays."""

    def __init__(self, owner: Union[_core.Kernel, _core.Function], given: Mapping[str, Any]) -> None:
        import numpy as np

        self._owner = owner.name
        self._copies: list[tuple[str, Any, Any]] = []
        self.bound: dict[str, Any] = {}
        places = {name: (role, dtype, writable) for name, role, dtype, _, _, writable in owner.places}
        tensor = tensor_type()
        for name, value in given.items():
            role, dtype, writable = places.get(name, ("", None, False))
            if tensor is not None and isinstance(value, tensor):
                value = self._of_tensor(name, dtype, writable, value)
            elif hasattr(value, "__cuda_array_interface__"):
                pass
            elif hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
                value = as_array(name, value)
            if hasattr(value, "__cuda_array_interface__"):
                pass
            elif isinstance(value, np.ndarray):
                value = self._array(name, role, writable, value)
            elif writable and role != "texture":
                kind = type(value).__name__
                raise TypeError(f"`{name}` is written by `{self._owner}`: it needs an array, not a `{kind}`")
            self.bound[name] = value

    def _of_tensor(self, name: str, dtype: Optional[str], writable: bool, tensor: Any) -> Any:
        """Return the array with a tensor's memory, or the tensor itself on a CUDA device.

        A write counts as a change in place, like those of torch's own operations.
        """
        from ._torch import as_array

        array = as_array(self._owner, name, dtype, tensor)
        if writable:
            torch: Any = sys.modules["torch"]
            if tensor.requires_grad and torch.is_grad_enabled():
                what = f"`{name}` is written by `{self._owner}`, and requires a gradient"
                raise RuntimeError(f"{what}: use `torch.no_grad()`, or pass `{name}.detach()`")
            if any(n > 1 and stride == 0 for n, stride in zip(tensor.shape, tensor.stride())) or tensor.is_neg():
                what = f"`{name}` is written by `{self._owner}`, and several elements of the tensor are one"
                raise ValueError(f"{what}: use `.contiguous()`")
            if not tensor.is_inference():
                torch.autograd.graph.increment_version(tensor)
        return array

    def _array(self, name: str, role: str, writable: bool, value: Any) -> Any:
        """Return the array itself, or a copy in a layout that the core accepts."""
        import numpy as np

        if role not in ("buffer", "uniform", "tensor", "gradient"):
            return value
        if role in ("tensor", "gradient"):
            fits = all(stride >= 0 for stride in value.strides)
        else:
            fits = value.flags.c_contiguous
        # The array may be read-only if the memory is only read.
        if fits and value.flags.aligned and (value.flags.writeable or not writable):
            return value
        copy = np.array(value, order="C")
        if writable:
            self._copies.append((name, value, copy))
        return copy

    def write_back(self) -> None:
        """Write copies back. Raise `ValueError` if a read-only array was written."""
        for name, value, copy in self._copies:
            if value.flags.writeable:
                value[...] = copy
            elif copy.tobytes() != value.tobytes():
                raise ValueError(f"`{name}` was written by `{self._owner}`, and the array is read-only")
