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
from ._generic import Generic, split
from ._kernel import Kernel, Launch
from ._reload import files_as_read, have_changed
from ._show import module_as_html

Path = Union[str, "os.PathLike[str]"]
# A function's name, generic arguments, and types of parameters.
_Key = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]


class Module:
    """A program. Its functions and kernels are attributes; members of types are items: `module["Ray.at"]`.

    A module keeps what it has read: a file that changes makes no difference until `reload`, unless the module was loaded
    with `reload=True`. Then files are looked at whenever a function or kernel is taken from the module; functions that were
    taken before stay what they were, as with `reload`. While the new text is wrong, taking one raises `CompileError`.
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
        """The function of that name; `add<float3>` of one that is generic. Raises `CompileError` if there is none, or if it
        is wrong."""
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
        """The entry point of that name; with `memory`, what is to be launched."""
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
        """Reads the files again. Functions that were taken from the module before stay what they were; so does the module if
        the files cannot be read."""
        self._program = _core.Program(self._path, self._text, **self._options)
        self._files = files_as_read(self._program.files) if self._reloads else {}
        self._functions = {}
        self._kernels = {}

    def _look(self) -> None:
        """Reads the files again if one has changed, where that is wanted."""
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
        """Writes a library of C functions, as `pullback build`: by the path's ending an object file (.o), an archive (.a) or
        a shared library (.so, .dylib), of which the last two need the system's `ar` and `cc`.

        A function `f` becomes `f`, `f_fwd` and `f_bwd`; without names, all that are differentiable and all kernels are built.
        The C header is written beside the library, or to the path of `header`. `native` makes code for this machine only;
        `exclusive` promises that no two calls of kernels on the same buffers run at a time.
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
        """The declarations of functions and kernels."""
        return [declared for _, declared in self._program.signatures()]

    def _main_text(self) -> str:
        return next((text for path, text in self._program.files if os.path.basename(path) == os.path.basename(self._path)), "")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Module, (self._path, self._text, self._options, self._reloads))

    def __repr__(self) -> str:
        return f"<pullback.Module {self._path!r}>"


def load(path: Path, *, reload: bool = False, **options: Any) -> Module:
    """Reads a file and what it imports. Its functions are compiled when they are first used. With `reload`, files that have
    changed are read again when a function is taken from the module.

    Options: `defines`, a dict of macros; `include`, folders for imports; `device`, "cpu", "vulkan" or "cuda" (of which a
    machine without one makes a RuntimeError); `backend` for the CPU, one of "cranelift", "llvm", "tiers"
    (what is fast, the default) and "interp"; `level`, 0 to 2, of optimisation; `threads`, 0 for one for each core;
    `deterministic`, for the same bits in every run with any number of threads; `fast_math`; `cache`, of compiled
    kernels in the user's folder.
    """
    return Module(os.fspath(path), None, _options(options), reload)


def load_source(text: str, name: str = "source.slang", *, reload: bool = False, **options: Any) -> Module:
    """A module of a text. `name` stands for it in messages; imports are looked for in the folder of that name."""
    return Module(name, text, _options(options), reload)


# What runs programs on devices other than the CPU.
_BACKENDS = {"vulkan": "wgpu", "cuda": "cuda"}

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
    device = options.pop("device", "cpu")
    if device != "cpu":
        if device not in _BACKENDS:
            raise ValueError(f"there is no device {device!r}: it is one of 'cpu', {', '.join(map(repr, _BACKENDS))}")
        if options.get("backend") is not None:
            raise ValueError(f"`backend` says how code for the CPU is made, not for {device!r}")
        options["backend"] = _BACKENDS[device]
    return options
