"""Pullback: functions of the Slang language on arrays, and their derivatives.

    import pullback as pb
    m = pb.load("decay.slang")
    y = m.model(a=2.0, rate=[0.5, 0.25], time=3.0)
    y, gradient = m.model.value_and_grad(a=2.0, rate=0.5, time=3.0, wrt="rate")
"""

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
