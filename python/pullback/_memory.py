"""Memory that kernels and functions use: arrays that are bound where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from . import _core


class Memory:
    """Arrays and values by name, as the core takes them, and what is to be written back to arrays that had to be copied."""

    def __init__(self, owner: Union[_core.Kernel, _core.Function], given: Mapping[str, Any]) -> None:
        import numpy as np

        self._owner = owner.name
        self._copies: list[tuple[str, Any, Any]] = []
        self.bound: dict[str, Any] = {}
        places = {name: (role, writable) for name, role, _, _, _, writable in owner.places}
        for name, value in given.items():
            role, writable = places.get(name, ("", False))
            if isinstance(value, np.ndarray):
                value = self._array(name, role, writable, value)
            elif writable and role != "texture":
                kind = type(value).__name__
                raise TypeError(f"`{name}` is written by `{self._owner}`: it needs an array, not a `{kind}`")
            self.bound[name] = value

    def _array(self, name: str, role: str, writable: bool, value: Any) -> Any:
        """The array itself, or a copy that lies as the core needs it."""
        import numpy as np

        if role not in ("buffer", "uniform", "tensor", "gradient"):
            return value
        if role in ("tensor", "gradient"):
            fits = all(stride >= 0 for stride in value.strides)
        else:
            fits = value.flags.c_contiguous
        # What could be written and is only read may be read-only.
        if fits and value.flags.aligned and (value.flags.writeable or not writable):
            return value
        copy = np.array(value, order="C")
        if writable:
            self._copies.append((name, value, copy))
        return copy

    def write_back(self) -> None:
        """Writes copies back. A read-only array that was written is an error."""
        for name, value, copy in self._copies:
            if value.flags.writeable:
                value[...] = copy
            elif copy.tobytes() != value.tobytes():
                raise ValueError(f"`{name}` was written by `{self._owner}`, and the array is read-only")
