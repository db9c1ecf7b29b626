"""Kernels as Python calls them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Optional

Size = tuple[int, int, int]


def _checked(size: Any, name: str) -> Size:
    if not isinstance(size, tuple) or len(size) != 3 or not all(isinstance(n, int) for n in size):
        raise ValueError(f"`{name}` is a tuple of three integers, not {size!r}")
    return size


class LaunchableObject:
    """A kernel with its arguments, which waits to be launched."""

    def __init__(self, dispatch_fn: Callable[[Size, Size], Any], name: str, no_warnings: bool = False) -> None:
        self.dispatch_fn = dispatch_fn
        self.name = name
        self.no_warnings = no_warnings
        self.has_launched = False

    def launchRaw(self, blockSize: Size, gridSize: Size) -> Any:
        """Runs so many groups (`gridSize`) of so many threads (`blockSize`)."""
        block, grid = _checked(blockSize, "blockSize"), _checked(gridSize, "gridSize")
        self.has_launched = True
        return self.dispatch_fn(block, grid)

    def launchTotal(self, blockSize: Size, totalSize: Size) -> Any:
        """Not there, as in slangtorch: use `launchRaw`."""
        raise NotImplementedError("launchTotal is not there: use launchRaw(blockSize=…, gridSize=…)")

    def autoLaunch(self, totalSize: Size) -> Any:
        """Not there, as in slangtorch: use `launchRaw`."""
        raise NotImplementedError("autoLaunch is not there: use launchRaw(blockSize=…, gridSize=…)")

    def __del__(self) -> None:
        if not self.has_launched and not self.no_warnings:
            warnings.warn(f"`{self.name}` was called and never launched: use launchRaw(…)", RuntimeWarning, stacklevel=2)


class WrappedFunction:
    """A kernel. `argnames` are its parameters; of each, `argwrappers` has the type for it and what converts a value."""

    def __init__(
        self,
        fn_name: str,
        fn_handle: Callable[..., Any],
        argnames: Sequence[str],
        argwrappers: Sequence[tuple[Any, Callable[[Any], Any]]],
        fwd_wrapped_fn: Optional[WrappedFunction] = None,
        bwd_wrapped_fn: Optional[WrappedFunction] = None,
    ) -> None:
        self.fn_name = fn_name
        self.fn_handle = fn_handle
        self.argnames = argnames
        self.argwrappers = argwrappers
        self.fwd_wrapped_fn = fwd_wrapped_fn
        self.bwd_wrapped_fn = bwd_wrapped_fn

    def __call__(self, *args: Any, **kwargs: Any) -> LaunchableObject:
        """The kernel with arguments by name, to be launched."""
        known = ", ".join(self.argnames) or "none"
        if args:
            raise ValueError(f"`{self.fn_name}` takes its arguments by name: {known}")
        unknown = [name for name in kwargs if name not in self.argnames]
        if unknown:
            raise ValueError(f"`{self.fn_name}` has no parameter {', '.join(unknown)}; it has {known}")
        missing = [name for name in self.argnames if name not in kwargs]
        if missing:
            raise ValueError(f"`{self.fn_name}` needs {', '.join(missing)}; its parameters are {known}")
        values = [convert(kwargs[name]) for name, (_, convert) in zip(self.argnames, self.argwrappers)]
        return LaunchableObject(lambda block, grid: self.fn_handle(block, grid, *values), self.fn_name)

    def fwd(self, *args: Any, **kwargs: Any) -> LaunchableObject:
        """Its forward derivative, to be launched: tensors are pairs of values and tangents."""
        if self.fwd_wrapped_fn is None:
            raise ValueError(f"`{self.fn_name}` has no forward derivative: it is not [Differentiable]")
        return self.fwd_wrapped_fn(*args, **kwargs)

    def bwd(self, *args: Any, **kwargs: Any) -> LaunchableObject:
        """Its backward derivative, to be launched: tensors are pairs of values and gradients."""
        if self.bwd_wrapped_fn is None:
            raise ValueError(f"`{self.fn_name}` has no backward derivative: it is not [Differentiable]")
        return self.bwd_wrapped_fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<pullback.slangtorch.util.wrapper.WrappedFunction {self.fn_name}({', '.join(self.argnames)})>"
