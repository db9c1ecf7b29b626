"""`python -m pullback.slangtorch program.py …`: run a program with this package in place of slangtorch."""

import os
import runpy
import sys

import torch

from . import install, read_cuda_as_cpu


def main() -> None:
    """Run the program named on the command line."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m pullback.slangtorch program.py …")
    install()
    if not torch.cuda.is_available():
        read_cuda_as_cpu()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
