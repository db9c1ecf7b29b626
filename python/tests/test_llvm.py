"""LLVM's library from the package `pullback-llvm`."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import pullback as pb

m = pb.load_source("float f(float x) { return x * x; }", backend="llvm", cache=False)
assert m.f(3.0) == 9.0
print([line.split()[-1] for line in open("/proc/self/maps") if "libLLVM.so.19" in line][0])
"""


def _system() -> str:
    """The file of the system's LLVM 19."""
    try:
        ctypes.CDLL("libLLVM.so.19.1")
    except OSError:
        pytest.skip("LLVM 19 is not on this machine")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "libLLVM.so.19" in line)


def _run(folder: Path) -> str:
    """The file that a new process opens LLVM from, where the folder has packages."""
    environment = {k: v for k, v in os.environ.items() if k != "PULLBACK_LIBLLVM"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path(__file__).parents[1])])
    found = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_the_library_of_the_package_goes_first(tmp_path: Path) -> None:
    system = _system()
    package = tmp_path / "pullback_llvm"
    shutil.copytree(Path(__file__).parents[1] / "llvm" / "pullback_llvm", package)
    assert _run(tmp_path / "no-such-folder") == system
    shutil.copy(system, package / "libLLVM.so.19.1")
    assert _run(tmp_path) == str(package / "libLLVM.so.19.1")


def test_the_system_serves_where_the_package_lacks_its_library(tmp_path: Path) -> None:
    system = _system()
    shutil.copytree(Path(__file__).parents[1] / "llvm" / "pullback_llvm", tmp_path / "pullback_llvm")
    assert _run(tmp_path) == system
