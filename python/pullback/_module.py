"""Programs: files or texts, whose functions are attributes."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from . import _core
from ._errors import CompileError
from ._function import Function
from ._kernel import Kernel, Launch

Path = Union[str, "os.PathLike[str]"]


class Module:
    """A program. Its functions and kernels are attributes; members of types are items: `module["Ray.at"]`.

    A module keeps what it has read: a file that changes makes no difference until `reload`.
    """

    def __init__(self, path: str, text: Optional[str], options: dict[str, Any]) -> None:
        self._path = path
        self._text = text
        self._options = options
        self._functions: dict[str, Function] = {}
        self._kernels: dict[str, Kernel] = {}
        _find_llvm()
        self._program = _core.Program(path, text, **options)

    def __getitem__(self, name: str) -> Function:
        """The function of that name. Raises `CompileError` if there is none, or if it is wrong."""
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = Function(self, self._program.function(name))
            self._warn()
        return found

    def kernel(self, name: str, **memory: Any) -> Union[Kernel, Launch]:
        """The entry point of that name; with `memory`, what is to be launched."""
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = Kernel(self, name)
        return found(**memory) if memory else found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.kernel(name) if name in self._program.entries else self[name]
        except CompileError as error:
            if [d.code for d in error.diagnostics] == ["E0704"]:
                raise AttributeError(str(error)) from None
            raise

    def _warn(self) -> None:
        for text in self._program.take_warnings():
            warnings.warn(text, stacklevel=4)

    def reload(self) -> None:
        """Reads the files again. Functions that were taken from the module before stay what they were."""
        self._program = _core.Program(self._path, self._text, **self._options)
        self._functions = {}
        self._kernels = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (Module, (self._path, self._text, self._options))

    def __repr__(self) -> str:
        return f"<pullback.Module {self._path!r}>"


def load(path: Path, **options: Any) -> Module:
    """Reads a file and what it imports. Its functions are compiled when they are first used.

    Options: `defines`, a dict of macros; `include`, folders for imports; `backend`, one of "cranelift", "llvm", "tiers"
    (what is fast, the default) and "interp"; `level`, 0 to 2, of optimisation; `threads`, 0 for one for each core;
    `deterministic`, for the same bits in every run with any number of threads; `fast_math`; `cache`, of compiled
    kernels in the user's folder.
    """
    return Module(os.fspath(path), None, _options(options))


def load_source(text: str, name: str = "source.slang", **options: Any) -> Module:
    """A module of a text. `name` stands for it in messages; imports are looked for in the folder of that name."""
    return Module(name, text, _options(options))


_has_looked_for_llvm = False


def _find_llvm() -> None:
    """Lets the compiler use the LLVM of the package `pullback-llvm`, if that is installed."""
    global _has_looked_for_llvm
    if _has_looked_for_llvm:
        return
    _has_looked_for_llvm = True
    if importlib.util.find_spec("pullback_llvm") is not None:
        import pullback_llvm

        _core.llvm_found_at(pullback_llvm.library())


def _options(given: dict[str, Any]) -> dict[str, Any]:
    options = dict(given)
    defines: Mapping[str, object] = options.pop("defines", None) or {}
    include: Union[Path, Iterable[Path]] = options.pop("include", None) or ()
    folders = [include] if isinstance(include, (str, os.PathLike)) else include
    # A macro is text, and true or false as the language writes it.
    text = {True: "true", False: "false", None: ""}
    options["defines"] = [
        (key, text[value] if value is None or isinstance(value, bool) else str(value))
        for key, value in defines.items()
    ]
    options["include"] = [os.fspath(folder) for folder in folders]
    return options
