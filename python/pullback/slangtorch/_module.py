"""Modules: files with kernels and host functions as attributes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import torch

from .._kernel import Kernel
from .._module import Module as Program
from .._module import _options
from ._host import HostFunction
from ._types import Wrappers, described, places
from .util.wrapper import Size, WrappedFunction


class Module:
    """A file: its kernels bound to Python, its host functions, and a named tuple for each struct that they take."""

    def __init__(self, on: Callable[[str], Program], interface: Mapping[str, Any]) -> None:
        # The function that returns the program for a device.
        self._on = on
        self._kernels: dict[tuple[str, str], Kernel] = {}
        wrappers = Wrappers()
        for kernel in interface["kernels"]:
            setattr(self, kernel["name"], self._wrapped(kernel, wrappers))
        for host in interface["hosts"]:
            name = host["name"]
            made = HostFunction(name, host["function"], interface["functions"], self._launch, wrappers)
            setattr(self, name, made)
        for name, public in wrappers.public.items():
            if not hasattr(self, name):
                setattr(self, name, public)

    def _wrapped(self, kernel: Mapping[str, Any], wrappers: Wrappers) -> WrappedFunction:
        name, params = kernel["name"], kernel["params"]
        names = [param["name"] for param in params]
        argwrappers = [wrappers.of(param["type"]) for param in params]

        def handle(entry: str) -> Callable[..., None]:
            return lambda block, grid, *values: self._launch(entry, params, values, block, grid)

        def derived(op: str) -> Optional[WrappedFunction]:
            if not kernel[op]:
                return None
            return WrappedFunction(f"{name}.{op}", handle(f"{op}_diff({name})"), names, argwrappers)

        return WrappedFunction(name, handle(name), names, argwrappers, derived("fwd"), derived("bwd"))

    def _launch(
        self, entry: str, params: Sequence[Mapping[str, Any]], values: Sequence[Any], block: Size, grid: Size
    ) -> None:
        """Run an entry point, or its derivative as `bwd_diff(name)`, on converted arguments and their device."""
        name = entry.partition("(")[2].rstrip(")") or entry
        parts = [part for param, value in zip(params, values) for part in places(param["type"], value, param["name"])]
        device = "cuda" if any(isinstance(x, torch.Tensor) and x.device.type == "cuda" for _, x in parts) else "cpu"
        kernel = self._kernels.get((name, device))
        if kernel is None:
            kernel = self._kernels[name, device] = Kernel(self._on(device), name)
        used = {place[0]: place for place in kernel._core_of(entry, block).places}
        memory: dict[str, Any] = {}
        for path, part in parts:
            # Arguments that the kernel does not use are not checked.
            if path in used:
                is_tensor = isinstance(part, torch.Tensor)
                memory[path] = _array(path, part, used[path][2], device) if is_tensor else part
        kernel(**memory)._run(entry, grid, block)


def _array(name: str, tensor: torch.Tensor, dtype: Optional[str], device: str) -> Any:
    """Return a tensor's memory in place. Raise `RuntimeError` if a kernel on that device cannot use it."""
    if tensor.device.type != device:
        raise RuntimeError(f"`{name}`: the kernel runs on `{device}`, and the tensor is on `{tensor.device}`")
    if tensor.numel() and any(s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape)):
        raise RuntimeError(f"`{name}`: the tensor is broadcast, so that several of its elements are one: use .contiguous()")
    given = str(tensor.dtype).removeprefix("torch.")
    if dtype is None or given.replace("uint", "int") != dtype.replace("uint", "int"):
        raise RuntimeError(f"`{name}` needs a tensor of {dtype or 'other numbers'}, not of {given}")
    tensor = tensor.detach()
    if device == "cuda":
        return tensor if given == dtype else tensor.view(getattr(torch, dtype))
    array = tensor.numpy()
    return array if given == dtype else array.view(dtype)


def loadModule(
    fileName: str,
    skipSlang: Optional[bool] = None,
    verbose: bool = False,
    defines: Mapping[str, object] = {},
    includePaths: Sequence[str] = (),
    skipNinjaCheck: bool = False,
    slangGenLineInfo: bool = True,
    cudaFastMath: bool = True,
    cudaGenLineInfo: bool = True,
    extraSlangFlags: Sequence[str] = (),
    extraCudaFlags: Sequence[str] = (),
) -> Module:
    """Load and check a file, with its kernels as attributes. Raise `RuntimeError` if the file has errors.

    Every call reads the files again. Arguments for the CUDA compiler have no effect: results are as exact as without
    them. Of `extraSlangFlags`, only `-D` and `-I` are used.
    """
    if skipSlang is not None:
        print("slangtorch: skipSlang is deprecated, and changes nothing", file=sys.stderr)
    path = os.fspath(fileName)
    macros, folders = dict(defines or {}), [os.fspath(folder) for folder in includePaths or ()]
    flags = list(extraSlangFlags or ())
    while flags:
        flag = flags.pop(0)
        rest = flag[2:] or (flags.pop(0) if flag in ("-D", "-I") and flags else "")
        if flag.startswith("-D"):
            name, _, value = rest.partition("=")
            macros[name] = value or "1"
        elif flag.startswith("-I"):
            folders.append(rest)
    if verbose:
        print(f"slangtorch: loading {path}", file=sys.stderr)
    programs: dict[str, Program] = {}

    def on(device: str) -> Program:
        if device not in programs:
            options = {"defines": macros, "include": folders, "device": device}
            programs[device] = Program(path, None, _options(options))
        return programs[device]

    program = on("cpu")
    interface = program._program.interface()
    program._warn()
    return Module(on, json.loads(interface, object_hook=described))


def clearSessionShaderCache() -> None:
    """Do nothing: every load reads the files again, and compiled code is identified by its source."""


def clearPersistentShaderCache() -> None:
    """Do nothing: compiled kernels in the user's folder are identified by their source, and old ones are removed."""


def clearShaderCaches() -> None:
    """Do nothing: see `clearSessionShaderCache` and `clearPersistentShaderCache`."""
    clearSessionShaderCache()
    clearPersistentShaderCache()
