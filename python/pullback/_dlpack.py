"""Arrays of other libraries, read in place through the DLPack protocol."""

from __future__ import annotations

import sys
from typing import Any, Optional

# DLPack device types whose memory is not host memory.
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
    """Return a value that has `__dlpack__` as a NumPy array without a copy, or a CUDA tensor unchanged.

    `owner`, `name` and `dtype` describe the parameter. Raise `TypeError` if the value cannot be read.
    """
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
