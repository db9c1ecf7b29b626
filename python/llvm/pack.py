"""Puts the LLVM of this machine into the wheel: the file that `PULLBACK_LIBLLVM` names, or else the system's."""

import ctypes
import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "libLLVM.so.19.1"


class Pack(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][_library()] = f"pullback_llvm/{NAME}"


def _library() -> str:
    """The path of LLVM 19's shared library."""
    named = os.environ.get("PULLBACK_LIBLLVM")
    try:
        library = ctypes.CDLL(named or NAME)
    except OSError as error:
        install = "apt-get install libllvm19, or name the library by PULLBACK_LIBLLVM"
        raise RuntimeError(f"LLVM 19 is not on this machine ({error}): {install}") from None
    numbers = [ctypes.c_uint() for _ in range(3)]
    library.LLVMGetVersion(*map(ctypes.byref, numbers))
    if numbers[0].value != 19:
        raise RuntimeError(f"{named} is LLVM {numbers[0].value}, not 19")
    return os.path.realpath(named or _opened())


def _opened() -> str:
    """The file of the library that this process has opened."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip().partition("/")[2]
            if os.path.basename(path).startswith(("libLLVM.so.19", "libLLVM-19")):
                return f"/{path}"
    raise RuntimeError("the system's LLVM cannot be found: name it by PULLBACK_LIBLLVM")
