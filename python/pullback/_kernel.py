"""Kernels: entry points, launched on arrays that are bound by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._memory import Memory, tensor_type

if TYPE_CHECKING:
    from ._module import Module

Size = Union[int, Sequence[int]]


class Kernel:
    """An entry point. Calling it with arrays and values by name returns a `Launch`.

    Names are those of global variables and parameters. A memory field is named `scene.light`, which is written
    `**{"scene.light": array}`, and the gradient of a tensor `x` is `x.grad`. Arrays are read and written in place.
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
    """A kernel with its bound memory."""

    def __init__(self, kernel: Kernel, memory: dict[str, Any]) -> None:
        self._kernel = kernel
        self._memory = memory

    def launch(self, groups: Size, block: Optional[Size] = None) -> None:
        """Run the given number of thread groups. `block` is the group size, if the kernel does not declare one.

        The kernel's printed output goes to the standard output when it has ended. No derivatives are recorded: a
        PyTorch tensor that requires a gradient raises `RuntimeError` (see `apply`).
        """
        self._has_no_history()
        self._run(self._kernel.name, groups, block)

    def apply(self, groups: Size, block: Optional[Size] = None) -> Any:
        """Launch the kernel as one operation that PyTorch can differentiate, and return the memory that it writes.

        The result is an array or tensor, a dict by name if there are several, or None. Tensors are written in place. If
        the kernel has a derivative, so do they, by all tensors that it reads and that require a gradient: `backward`
        runs `bwd` on the memory as it was before the launch. There are no second derivatives.
        """
        core = self._kernel._core_of(self._kernel.name, None if block is None else _triple(block, "block"))
        places = {place[0]: place for place in core.places}
        tensor = tensor_type()
        if tensor is not None and any(isinstance(value, tensor) for value in self._memory.values()):
            from . import _torch_memory

            _torch_memory.apply(self._kernel, self._memory, (groups, block), places)
        else:
            self._run(self._kernel.name, groups, block)
        written = {name: value for name, value in self._memory.items() if name in places and places[name][5]}
        return next(iter(written.values())) if len(written) == 1 else written or None

    def bwd(self, groups: Size, block: Optional[Size] = None) -> None:
        """Run the kernel's backward derivative. The gradients of tensors are bound as `x.grad`."""
        self._run(f"bwd_diff({self._kernel.name})", groups, block)

    def fwd(self, groups: Size, block: Optional[Size] = None) -> None:
        """Run the kernel's forward derivative."""
        self._run(f"fwd_diff({self._kernel.name})", groups, block)

    def _has_no_history(self) -> None:
        """Raise `RuntimeError` if a bound tensor requires a gradient, which would be lost."""
        tensor = tensor_type()
        if tensor is None or not sys.modules["torch"].is_grad_enabled():
            return
        for name, value in self._memory.items():
            if isinstance(value, tensor) and value.requires_grad:
                what = f"`{name}` requires a gradient, which `launch` of `{self._kernel.name}` does not give"
                raise RuntimeError(f"{what}: use `apply`, or `torch.no_grad()`")

    def _run(self, entry: str, groups: Size, block: Optional[Size]) -> None:
        core = self._kernel._core_of(entry, None if block is None else _triple(block, "block"))
        memory = Memory(core, self._memory)
        text = core.launch(memory.bound, _triple(groups, "groups"))
        memory.write_back()
        if text:
            print(text, end="")


def _triple(size: Size, what: str) -> tuple[int, int, int]:
    """Return a size of one to three dimensions as three lengths. Raise `ValueError` if it is invalid."""
    values = [size] if isinstance(size, int) else list(size)
    if not 1 <= len(values) <= 3 or not all(isinstance(n, int) and 0 <= n < 2**32 for n in values):
        raise ValueError(f"`{what}` is one to three sizes, not {size!r}")
    x, y, z = [*values, 1, 1][:3]
    return x, y, z
