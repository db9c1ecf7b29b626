"""LLVM's shared library for Pullback."""

from pathlib import Path


def library() -> str:
    """The library's file."""
    return str(Path(__file__).with_name("libLLVM.so.19.1"))
