"""Pullback: functions of the Slang language on arrays, and their derivatives.

    import pullback as pb
    m = pb.load("decay.slang")
    y = m.model(a=2.0, rate=[0.5, 0.25], time=3.0)
    y, gradient = m.model.value_and_grad(a=2.0, rate=0.5, time=3.0, wrt="rate")
"""

from typing import Any

from ._core import __version__
from ._errors import CompileError, Diagnostic, Error, StoppedError
from ._function import Function
from ._kernel import Kernel, Launch
from ._module import Module, load, load_source

__all__ = [
    "CompileError",
    "Diagnostic",
    "Error",
    "Function",
    "Kernel",
    "Launch",
    "Module",
    "StoppedError",
    "__version__",
    "load",
    "load_source",
]


def __getattr__(name: str) -> Any:
    # It imports jax, which not everybody has.
    if name == "jax":
        import importlib

        return importlib.import_module(".jax", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
