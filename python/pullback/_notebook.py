"""Notebook support: `%load_ext pullback`, then cells that begin with `%%slang`."""

from __future__ import annotations

import ast
from typing import Any

from ._module import load_source


def load_ipython_extension(shell: Any) -> None:
    """Register the cell magic `%%slang`."""
    shell.register_magic_function(_Cell(shell), "cell", "slang")


class _Cell:
    """`%%slang [NAME] [OPTION=VALUE …]`: load the cell as a module.

    The module is assigned to the variable NAME (`m` by default) and displayed. Options are those of `pullback.load`.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.__doc__ = type(self).__doc__
        self.__name__ = "slang"

    def __call__(self, line: str, cell: str) -> Any:
        name, options = "m", {}
        for k, word in enumerate(line.split()):
            if "=" in word:
                key, value = word.split("=", 1)
                options[key] = _value(value)
            elif k == 0 and word.isidentifier():
                name = word
            else:
                raise ValueError(f"`%%slang` takes a variable's name and options, not `{word}`")
        # Make line numbers in messages those of the cell.
        module = load_source("\n" + cell, name=f"{name}.slang", **options)
        self._shell.user_ns[name] = module
        return module


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
