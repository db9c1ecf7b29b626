"""The interface of slangtorch: Slang kernels on PyTorch tensors.

    import pullback.slangtorch as slangtorch

    m = slangtorch.loadModule("square.slang")
    m.square(input=x, output=y).launchRaw(blockSize=(32, 1, 1), gridSize=(4, 1, 1))
    m.square.bwd(input=(x, dx), output=(y, dy)).launchRaw(blockSize=(32, 1, 1), gridSize=(4, 1, 1))

Programs written for slangtorch run unchanged with `python -m pullback.slangtorch program.py`.
"""

import os

from . import util
from ._device import install, read_cuda_as_cpu
from ._module import (
    Module,
    clearPersistentShaderCache,
    clearSessionShaderCache,
    clearShaderCaches,
    loadModule,
)

__all__ = [
    "Module",
    "clearPersistentShaderCache",
    "clearSessionShaderCache",
    "clearShaderCaches",
    "install",
    "loadModule",
    "read_cuda_as_cpu",
    "util",
]

if os.environ.get("PULLBACK_TORCH_DEVICE") == "cpu":
    read_cuda_as_cpu()
