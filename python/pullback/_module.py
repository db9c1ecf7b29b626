"""Modules: programs from files or source text, with functions as attributes."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from . import _core
from ._errors import CompileError
from ._function import Function
from ._generic import Generic, split
from ._kernel import Kernel, Launch
from ._reload import files_as_read, have_changed
from ._show import module_as_html

Path = Union[str, "os.PathLike[str]"]
# A function's name, its generic arguments, and the concrete types of its interface parameters.
_Key = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]


class Module:
    """A program. Its functions and kernels are attributes; members of types are items: `module["Ray.at"]`.

    A module keeps the source that it has read: changes of a file have no effect until `reload`, unless the module was
    loaded with `reload=True`. Then files are checked whenever a function or kernel is looked up. Functions that were
    looked up before stay unchanged, as with `reload`. While the new source is invalid, a lookup raises `CompileError`.
    """

    def __init__(self, path: str, text: Optional[str], options: dict[str, Any], reload: bool = False) -> None:
        self._path = path
        self._text = text
        self._options = options
        self._reloads = reload
        self._functions: dict[_Key, Union[Function, Generic]] = {}
        self._kernels: dict[str, Kernel] = {}
        _find_llvm()
        self._program = _core.Program(path, text, **options)
        self._files = files_as_read(self._program.files) if reload else {}

    def __getitem__(self, name: str) -> Any:
        """Return the function of that name, such as `add<float3>` for a generic one.

        Raise `CompileError` if it does not exist or is invalid.
        """
        return self._function(*split(name), ())

    def _function(self, name: str, generics: tuple[str, ...], types: tuple[tuple[str, str], ...]) -> Any:
        self._look()
        key = (name, generics, types)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = self._made(*key)
            self._warn()
        return found

    def _made(
        self, name: str, generics: tuple[str, ...], types: tuple[tuple[str, str], ...]
    ) -> Union[Function, Generic]:
        try:
            core = self._program.function(name, generics, types)
        except CompileError as error:
            if generics or types or [d.code for d in error.diagnostics] != ["E0705"]:
                raise
            declared = self._program.generics_of(name)
            if declared is None or not declared[0] and not declared[2]:
                raise
            return Generic(self, name, *declared)
        if core.dynamic:
            return Generic(self, name, [], core.order, core.dynamic)
        return Function(self, core, types)

    def kernel(self, name: str, **memory: Any) -> Union[Kernel, Launch]:
        """Return the entry point of that name, or with `memory` its `Launch`."""
        self._look()
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = Kernel(self, name)
        return found(**memory) if memory else found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._look()
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
        """Read the files again.

        Functions that were looked up before stay unchanged, and so does the module if the files cannot be read.
        """
        self._program = _core.Program(self._path, self._text, **self._options)
        self._files = files_as_read(self._program.files) if self._reloads else {}
        self._functions = {}
        self._kernels = {}

    def _look(self) -> None:
        """Read the files again if one has changed and the module was loaded with `reload=True`."""
        if self._reloads and have_changed(self._files):
            self.reload()

    def build(
        self,
        path: Path,
        *,
        functions: Iterable[str] = (),
        kernels: Iterable[str] = (),
        header: Union[None, bool, Path] = True,
        native: bool = False,
        exclusive: bool = False,
    ) -> None:
        """Write a library of C functions, as `pullback build` does.

        The path's suffix selects an object file (.o), an archive (.a) or a shared library (.so, .dylib). The last two
        need the system's `ar` and `cc`. A function `f` becomes `f`, `f_fwd` and `f_bwd`; without names, all
        differentiable functions and all kernels are built. The C header is written beside the library, or to the path
        `header`. `native` makes code for this machine only; `exclusive` promises that kernels never run concurrently on
        the same buffers.
        """
        name = os.fspath(path)
        if header is True:
            header = os.path.splitext(name)[0] + ".h"
        there = None if header is None or header is False else os.fspath(header)
        self._look()
        self._program.build(name, there, list(functions), list(kernels), native, exclusive)
        self._warn()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._program.entries, *(name for name, _ in self._program.signatures())})

    def _repr_html_(self) -> str:
        return module_as_html(self._path, self._signatures(), self._text or self._main_text())

    def _repr_markdown_(self) -> str:
        listed = "\n".join(f"- `{line}`" for line in self._signatures())
        return f"**Pullback module** `{self._path}`\n\n{listed}\n"

    def _signatures(self) -> list[str]:
        """Return the declarations of functions and kernels."""
        return [declared for _, declared in self._program.signatures()]

    def _main_text(self) -> str:
        return next((text for path, text in self._program.files if os.path.basename(path) == os.path.basename(self._path)), "")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Module, (self._path, self._text, self._options, self._reloads))

    def __repr__(self) -> str:
        return f"<pullback.Module {self._path!r}>"


def load(path: Path, *, reload: bool = False, **options: Any) -> Module:
    """Load a file and its imports. Functions are compiled on first use. With `reload`, changed files are read again
    when a function is looked up.

    Options: `defines`, a dict of macros; `include`, folders for imports; `lengths`, a dict with the number of resources
    in each array of textures or buffers that is declared without a length; `device`, "cpu", "vulkan" or "cuda" (a
    `RuntimeError` on a machine that lacks it); `backend` for the CPU, one of "cranelift", "llvm", "tiers" (the fast
    default) and "interp"; `level`, the optimisation level from 0 to 2; `threads`, 0 for one per core; `deterministic`,
    for bitwise equal results in every run with any number of threads; `fast_math`; `fp_contract`, which
    fuses products with sums; `matrix_units`, by which an NVIDIA device from sm_80 on multiplies cooperative matrices in
    matrix units, whose sums of floats differ in the last digits (`device="cuda"`; others ignore it); `cache`, which keeps compiled kernels in the user's folder.
    """
    return Module(os.fspath(path), None, _options(options), reload)


def load_source(text: str, name: str = "source.slang", *, reload: bool = False, **options: Any) -> Module:
    """Return the module for source text. Messages show `name` as its path, whose folder is searched for imports."""
    return Module(name, text, _options(options), reload)


# The backends of devices other than the CPU.
_BACKENDS = {"vulkan": "wgpu", "cuda": "cuda"}

_has_looked_for_llvm = False


def _find_llvm() -> None:
    """Make the compiler use the LLVM library of the package `pullback-llvm` if it is installed."""
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
    # The value of a macro is text; booleans are spelled as in Slang.
    text = {True: "true", False: "false", None: ""}
    options["defines"] = [
        (key, text[value] if value is None or isinstance(value, bool) else str(value))
        for key, value in defines.items()
    ]
    lengths: Mapping[str, int] = options.pop("lengths", None) or {}
    options["lengths"] = list(lengths.items())
    options["include"] = [os.fspath(folder) for folder in folders]
    device = options.pop("device", "cpu")
    if device != "cpu":
        if device not in _BACKENDS:
            raise ValueError(f"there is no device {device!r}: it is one of 'cpu', {', '.join(map(repr, _BACKENDS))}")
        if options.get("backend") is not None:
            raise ValueError(f"`backend` says how code for the CPU is made, not for {device!r}")
        options["backend"] = _BACKENDS[device]
    return options
