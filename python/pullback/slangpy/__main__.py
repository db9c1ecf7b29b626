"""`python -m pullback.slangpy program.py …`: run a program that imports slangpy with this package in its place."""

import os
import runpy
import sys

from ._aliases import install


def main() -> None:
    """Run the program named on the command line."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m pullback.slangpy program.py …")
    install()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
