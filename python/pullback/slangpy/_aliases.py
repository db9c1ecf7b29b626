"""Modules under slangpy's names, for programs that import them."""

from __future__ import annotations

import sys
from types import ModuleType

# The modules of this package that supply the names in each of slangpy's modules.
_MODULES = {
    "types": "_values _tensor",
    "types.tensor": "_tensor",
    "types.diffpair": "_values",
    "types.randfloatarg": "_values",
    "types.threadidarg": "_values",
    "types.callidarg": "_values",
    "types.valueref": "_values",
    "types.wanghasharg": "_values",
    "types.buffer": "_tensor",
    "experimental": "_values",
    "experimental.gridarg": "_values",
    "experimental.diffinstancelist": "_instances",
    "core": "",
    "core.function": "_function",
    "core.module": "_module",
    "core.struct": "_module",
    "core.instance": "_instances",
    "core.packedarg": "_instances",
    "core.native": "_shape _enums _call _run _names",
    "core.enums": "_enums",
    "core.shapes": "_shape _names",
    "core.calldata": "_call _resolve _names",
    "core.callsignature": "_resolve _bindings",
    "core.utils": "_lookup _names",
    "core.generator": "_generate _names",
    "bindings": "_bindings _enums _shape _call",
    "bindings.typeregistry": "_bindings",
    "bindings.marshall": "_bindings",
    "bindings.boundvariable": "_bindings",
    "bindings.boundvariableruntime": "_bindings _names",
    "bindings.codegen": "_names",
    "builtin": "",
    "builtin.valueref": "_holders _marshalls",
    "builtin.value": "_marshalls",
    "builtin.tensor": "_tensors _names",
    "builtin.texture": "_textures _texture_calls",
    "builtin.numpy": "_array_calls",
    "reflection": "_enums _layout _types _memory_types",
    "reflection.lookup": "_lookup",
    "reflection.typeresolution": "_resolve",
    "reflection.reflectiontypes": "_enums _layout _types _memory_types",
    "slangpy": "_shape _enums _names _textures",
    "native_func": "_tensor _module",
    "native_refl": "_types",
    "math": "_vectors",
    "torchintegration": "_torch_calls",
    "torchintegration.torchtensormarshall": "_torch_calls",
}


def install() -> None:
    """Make `import slangpy` import this package from now on, and likewise imports of slangpy's submodules."""
    package = __name__.rpartition(".")[0]
    root = sys.modules[package]
    sys.modules["slangpy"] = root
    for name, parts in _MODULES.items():
        made = ModuleType(f"slangpy.{name}", f"What slangpy has in {name}.")
        made.__path__ = []
        for part in parts.split():
            __import__(f"{package}.{part}")
            source = vars(sys.modules[f"{package}.{part}"])
            vars(made).update({key: value for key, value in source.items() if not key.startswith("__")})
        sys.modules[f"slangpy.{name}"] = made
        at: object = root
        *front, last = name.split(".")
        for word in front:
            at = getattr(at, word)
        setattr(at, last, made)
