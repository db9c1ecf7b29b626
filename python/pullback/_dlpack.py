"""Arrays of other libraries, read where they are by the protocol DLPack."""

from __future__ import annotations

import sys
from typing import Any, Optional

# The protocol's devices that are not this machine's memory.
_DEVICES = {
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    12: "an extension's",
    13: "cuda (managed)",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
}


def as_array(name: str, value: Any, owner: str = "", dtype: Optional[str] = None) -> Any:
    """The array of a value that has `__dlpack__`, without a copy. It is for a parameter of the owner's, and of that type."""
    import numpy as np

    if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
        from ._torch import as_array as of_tensor

        return of_tensor(owner, name, dtype, value)
    place = getattr(value, "__dlpack_device__", None)
    if place is not None:
        kind, number = place()
        device = _DEVICES.get(int(kind))
        if device is not None:
            raise TypeError(f"`{name}` is on the device {device}:{number}: only arrays in the machine's memory are read")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"`{name}` cannot be read from a `{type(value).__name__}`: {error}") from error
