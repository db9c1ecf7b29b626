"""Pullback: call Slang functions on arrays, and differentiate them.

    import pullback as pb
    m = pb.load("decay.slang")
    y = m.model(a=2.0, rate=[0.5, 0.25], time=3.0)
    y, gradient = m.model.value_and_grad(a=2.0, rate=0.5, time=3.0, wrt="rate")
"""

import os as _os
from typing import Any

from . import _core
from ._core import __version__
from ._errors import CompileError, Diagnostic, Error, StoppedError
from ._function import Function
from ._generic import Generic
from ._gradients import Derivative, GradientError, GradientReport, check_gradients
from ._kernel import Kernel, Launch
from ._module import Module, load, load_source
from ._notebook import load_ipython_extension
from ._show import DerivativeSource, image

if hasattr(_os, "register_at_fork"):
    # Suspend compilation during a fork: a lock that it holds would never be released in the child process.
    _os.register_at_fork(
        before=_core.before_fork, after_in_parent=_core.after_fork, after_in_child=_core.after_fork
    )

__all__ = [
    "CompileError",
    "Derivative",
    "DerivativeSource",
    "Diagnostic",
    "Error",
    "Function",
    "Generic",
    "GradientError",
    "GradientReport",
    "Kernel",
    "Launch",
    "Module",
    "StoppedError",
    "__version__",
    "check_gradients",
    "image",
    "load",
    "load_ipython_extension",
    "load_source",
]


def __getattr__(name: str) -> Any:
    # Import on demand: JAX is an optional dependency.
    if name == "jax":
        import importlib

        return importlib.import_module(".jax", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
