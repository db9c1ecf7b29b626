"""The meaning of `cuda` on machines without such a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import torch
from torch.overrides import TorchFunctionMode


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return str(value.type) == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class _CudaIsCpu(TorchFunctionMode):
    """A mode in which PyTorch functions take `cuda` to mean the CPU."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Optional[Mapping[str, Any]] = None,
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        cpu = torch.device("cpu")
        given = [cpu if _is_cuda(value) else value for value in args]
        named = {name: cpu if _is_cuda(value) else value for name, value in (kwargs or {}).items()}
        return func(*given, **named)


def _for_programs(function: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for all callers but PyTorch itself, which would try to use the missing device."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        return (real if caller.partition(".")[0] == "torch" else function)(*args, **kwargs)

    return chosen


_mode: Optional[_CudaIsCpu] = None


def device() -> str:
    """Return the device of tensors that host code allocates."""
    return "cuda" if _mode is None and torch.cuda.is_available() else "cpu"


def read_cuda_as_cpu() -> None:
    """Make `.cuda()`, `.to("cuda")` and `device="cuda"` mean the CPU, from now on in the calling thread.

    This changes PyTorch itself, so it happens automatically only with `PULLBACK_TORCH_DEVICE=cpu` in the environment of
    a program that imports `pullback.slangtorch`, and with `python -m pullback.slangtorch` on a machine without CUDA.
    """
    global _mode
    if _mode is not None:
        return
    _mode = _CudaIsCpu()
    _mode.__enter__()
    instead: dict[str, Callable[..., Any]] = {
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "empty_cache": lambda: None,
        "is_available": lambda: True,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
    }
    for name, function in instead.items():
        setattr(torch.cuda, name, _for_programs(function, getattr(torch.cuda, name)))


def install() -> None:
    """Make `import slangtorch` import this package from now on."""
    here = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name == here or name.startswith(here + ".util"):
            sys.modules["slangtorch" + name[len(here) :]] = module
