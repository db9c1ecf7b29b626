"""Kernels: entry points as they are, launched on arrays that are bound by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core

if TYPE_CHECKING:
    from ._module import Module

Size = Union[int, Sequence[int]]


class Kernel:
    """An entry point. Calling it with arrays and values by name gives what is to be launched.

    Names are those of global variables and of parameters; a field that is memory itself is `scene.light`, written
    `**{"scene.light": array}`, and the gradient of a tensor `x` is `x.grad`. Arrays are read and written where they are.
    """

    def __init__(self, module: Module, name: str) -> None:
        self._module = module
        self.name = name
        self._compiled: dict[tuple[str, Optional[tuple[int, int, int]]], _core.Kernel] = {}

    def __call__(self, **memory: Any) -> Launch:
        return Launch(self, memory)

    def __repr__(self) -> str:
        return f"<pullback.Kernel {self.name}>"

    def _core_of(self, entry: str, block: Optional[tuple[int, int, int]]) -> _core.Kernel:
        found = self._compiled.get((entry, block))
        if found is None:
            found = self._compiled[entry, block] = self._module._program.kernel(entry, block)
            self._module._warn()
        return found


class Launch:
    """A kernel with its memory."""

    def __init__(self, kernel: Kernel, memory: dict[str, Any]) -> None:
        self._kernel = kernel
        self._memory = memory

    def launch(self, groups: Size, block: Optional[Size] = None) -> None:
        """Runs so many thread groups of the kernel. `block` is the size of a group, where the kernel does not say it.

        What the kernel prints goes to the standard output when it has ended.
        """
        self._run(self._kernel.name, groups, block)

    def bwd(self, groups: Size, block: Optional[Size] = None) -> None:
        """Runs the kernel's backward derivative, whose tensors carry their gradients (`x.grad`)."""
        self._run(f"bwd_diff({self._kernel.name})", groups, block)

    def fwd(self, groups: Size, block: Optional[Size] = None) -> None:
        """Runs the kernel's forward derivative."""
        self._run(f"fwd_diff({self._kernel.name})", groups, block)

    def _run(self, entry: str, groups: Size, block: Optional[Size]) -> None:
        import numpy as np

        core = self._kernel._core_of(entry, None if block is None else _triple(block, "block"))
        places = {name: (role, writable) for name, role, _, _, _, writable in core.places}
        bound: dict[str, Any] = {}
        copies: list[tuple[str, Any, Any]] = []
        for name, value in self._memory.items():
            role, writable = places.get(name, ("", False))
            if writable and role != "texture" and not isinstance(value, np.ndarray):
                raise TypeError(f"`{name}` is written by `{self._kernel.name}`: it needs an array, not a `{type(value).__name__}`")
            if isinstance(value, np.ndarray) and role in ("buffer", "uniform", "tensor", "gradient"):
                fits = value.flags.aligned and (
                    all(s >= 0 for s in value.strides) if role in ("tensor", "gradient") else value.flags.c_contiguous
                )
                # A kernel may have memory that it could write, and only reads.
                if not fits or writable and not value.flags.writeable:
                    copy = np.array(value, order="C")
                    if writable:
                        copies.append((name, value, copy))
                    value = copy
            bound[name] = value
        text = core.launch(bound, _triple(groups, "groups"))
        for name, value, copy in copies:
            if value.flags.writeable:
                value[...] = copy
            elif copy.tobytes() != value.tobytes():
                raise ValueError(f"`{name}` was written by `{self._kernel.name}`, and the array is read-only")
        if text:
            print(text, end="")


def _triple(size: Size, what: str) -> tuple[int, int, int]:
    """A size of one to three dimensions."""
    values = [size] if isinstance(size, int) else list(size)
    if not 1 <= len(values) <= 3 or not all(isinstance(n, int) and 0 <= n < 2**32 for n in values):
        raise ValueError(f"`{what}` is one to three sizes, not {size!r}")
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
