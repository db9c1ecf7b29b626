"""JAX: `pullback.jax.function(m.model)` is a JAX function, with all transforms in any order. This module imports jax.

A `Map` is a function or a derivative of one, and the primitive `pullback` calls maps. Its derivative along tangents
calls another map and is linear in the tangents; the transpose of that is a third map. So `jvp` and `grad` work to any
order. A compiled program calls maps through XLA's foreign function interface with its own buffers, without Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Optional

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from . import _core
from ._function import Function
from ._maps import Leads, Map, lead_of, zero
from ._values import Leaf

_TARGET = "pullback"


@dataclass(frozen=True)
class Linear:
    """The derivative that a call computes, which is linear in the inputs after those of `of`.

    These are tangents ("jvp") of the inputs of `of` in the mask, or cotangents ("vjp") of its outputs. The call returns
    tangents of the wanted outputs of `of`, or cotangents of its inputs.
    """

    step: Literal["jvp", "vjp"]
    of: Map
    mask: tuple[bool, ...]
    leads: Leads


def function(f: Function) -> Callable[..., Any]:
    """Return the function for JAX. Its arguments are those of `f`, and may be traced; structs are dicts.

    It can be differentiated in both modes and to any order. Raise `TypeError` if `f` is not a `Function`.
    """
    if not isinstance(f, Function):
        raise TypeError(f"a function of a program is needed, not a `{type(f).__name__}`")
    if f._jax is None:
        f._jax = _made(f)
    return f._jax


def _made(f: Function) -> Callable[..., Any]:
    _register()
    of = Map(f._core)
    leads: Leads = (None,) * len(of.outputs)

    def call(*args: Any, **kwargs: Any) -> Any:
        flat, _ = f._flat(args, kwargs)
        for leaf in of.outputs:
            if jax.dtypes.canonicalize_dtype(leaf.dtype) != leaf.dtype:
                what = f"numbers of type {leaf.dtype}, which JAX has only with `jax_enable_x64`"
                raise TypeError(f"`{f.name}` gives {what}")
        return f._values(_bind([_argument(x, leaf, f.name) for x, leaf in zip(flat, of.inputs)], of, leads))

    call.__name__ = call.__qualname__ = f.name
    call.__doc__ = f"`{f.signature}`, for JAX."
    return call


# ---- arguments


def _argument(x: Any, leaf: Leaf, name: str) -> Any:
    """Return an argument as an array for JAX. Raise `TypeError` or `ValueError` if it does not fit the leaf."""
    wanted = np.dtype(leaf.dtype)
    given = x if isinstance(x, jax.Array) else np.asarray(x)
    is_number = isinstance(x, (bool, int, float))
    dtype, what = given.dtype, f"a `{type(x).__name__}`" if is_number else f"an array of {given.dtype}"
    # Other dtypes are bfloat16 and PRNG keys.
    known = dtype.kind if isinstance(dtype, np.dtype) and dtype.itemsize <= 8 else ""
    if not known or known not in {"b": "b", "i": "biu", "u": "biu", "f": "biuf"}[wanted.kind]:
        raise TypeError(f"`{leaf.path}` of `{name}` needs numbers of type {wanted}, not {what}")
    if dtype.kind in "iu" and wanted.kind in "iu" and not np.can_cast(dtype, wanted):
        if isinstance(given, jax.Array):
            hint = f"of which not all have a place there: use `astype(\"{wanted}\")`"
            raise TypeError(f"`{leaf.path}` of `{name}` needs numbers of type {wanted}, not {what}, {hint}")
        limits = np.iinfo(wanted)
        for extreme in (given.min(), given.max()) if given.size else ():
            if not limits.min <= int(extreme) <= limits.max:
                raise ValueError(f"`{leaf.path}` is of type {wanted}, which does not have the number {extreme}")
        given = given.astype(wanted)
    elif is_number or (not isinstance(given, jax.Array) and jax.dtypes.canonicalize_dtype(dtype) != dtype):
        # Convert here, since JAX would first truncate integers.
        given = given.astype(wanted)
    lead_of(given, leaf)
    return given


# ---- the primitive


def _bind(
    xs: Sequence[Any], of: Map, leads: Leads, linear: Optional[Linear] = None
) -> list[Any]:
    """Return the wanted outputs of a map."""
    found: list[Any] = _call.bind(*_alike(xs), of=of, leads=leads, linear=linear)
    return found


def _arrays(xs: Sequence[Any]) -> list[Any]:
    """Return the inputs of a rule as arrays: JAX may pass Python numbers."""
    return [x if hasattr(x, "shape") else np.asarray(x, jax.typeof(x).dtype) for x in xs]


def _alike(xs: Sequence[Any]) -> Sequence[Any]:
    """Return arrays with one sharding: over the same mesh axes within a `shard_map`, else replicated on each device."""
    xs = [_whole(x) for x in xs]
    axes = [_axes(jax.typeof(x)) for x in xs]
    every = frozenset[Any]().union(*axes)
    return [x if own == every else _varying(x, tuple(every - own)) for x, own in zip(xs, axes)]


def _whole(x: Any) -> Any:
    """Return the array replicated on each device, if its JAX type is sharded."""
    sharding = getattr(jax.typeof(x), "sharding", None)
    if sharding is None or all(part is None for part in sharding.spec):
        return x
    reshard = getattr(jax, "reshard", None) or jax.sharding.reshard
    return reshard(x, _everywhere(sharding.mesh, x.ndim))


def _everywhere(mesh: Any, rank: int) -> Any:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*[None] * rank))


def _axes(aval: Any) -> frozenset[Any]:
    """Return the mesh axes that an array varies along, as far as JAX tracks them."""
    if hasattr(aval, "manual_axis_type"):
        found: frozenset[Any] = aval.manual_axis_type.varying
    else:
        found = getattr(aval, "vma", frozenset())
    return found


def _varying(x: Any, axes: tuple[Any, ...]) -> Any:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(x, axes, to="varying")
    return jax.lax.pvary(x, axes)


def _shaped(*avals: Any, of: Map, leads: Leads, linear: Any) -> list[Any]:
    found = of.results(avals, leads)
    made = [jax.core.ShapedArray(*found[k]) for k in of.wanted]
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not avals:
        return made
    own = next(name for name in ("manual_axis_type", "vma") if hasattr(avals[0], name))
    like = {own: getattr(avals[0], own)}
    return [aval.update(sharding=_everywhere(mesh, len(aval.shape)), **like) for aval in made]


def _by_ffi(*xs: Any, of: Map, leads: Leads, linear: Any) -> list[Any]:
    results = [jax.ShapeDtypeStruct(*shaped) for shaped in of.results(xs, leads)]
    found = jax.ffi.ffi_call(_TARGET, results)(*xs, function=of.handle)
    return [found[k] for k in of.wanted]


@functools.lru_cache(maxsize=1024)
def _jitted(of: Map, leads: Leads) -> Any:
    return jax.jit(functools.partial(_by_ffi, of=of, leads=leads, linear=None))


def _at_once(*xs: Any, of: Map, leads: Leads, linear: Any) -> list[Any]:
    found: list[Any] = _jitted(of, leads)(*xs)
    return found


def _jvp(
    xs: Sequence[Any], tangents: Sequence[Any], *, of: Map, leads: Leads, linear: Optional[Linear]
) -> tuple[list[Any], list[Any]]:
    xs = _arrays(xs)
    ys = _bind(xs, of, leads, linear)
    moving = [k for k, t in enumerate(tangents) if of.could[k] and not _is_zero(t)]
    if not all(of.inputs[k].diff for k in moving):
        of = of.whole()
        linear = None if linear is None else replace(linear, of=linear.of.whole())
    mask = tuple(leaf.diff and not _is_zero(t) for leaf, t in zip(of.inputs, tangents))
    given = [t for t, c in zip(tangents, mask) if c]
    diff = [k for k in of.wanted if of.outputs[k].diff]
    dys: list[Any] = []
    n_fixed = 0 if linear is None else len(linear.of.inputs)
    if not given or not diff:
        diff = []
    elif linear is not None and not any(mask[:n_fixed]):
        # A linear function is its own derivative.
        dys = _bind([*xs[:n_fixed], *map(_given, tangents[n_fixed:], of.inputs[n_fixed:])], of, leads, linear)
    else:
        derived = of.derive("jvp", mask).only(of.diff.index(k) for k in diff)
        dys = _bind([*xs, *given], derived, tuple(leads[k] for k in of.diff), Linear("jvp", of, mask, leads))
    rest = iter(dys)
    return ys, [next(rest) if k in diff else ad.Zero(jax.typeof(y).to_tangent_aval()) for k, y in zip(of.wanted, ys)]


def _is_zero(t: Any) -> bool:
    """Return True if a tangent is known to be zero. Those of integers are, in every representation."""
    return t is None or type(t) is ad.Zero or getattr(t, "dtype", None) == jax.dtypes.float0


def _given(x: Any, leaf: Leaf) -> Any:
    """Return a differential, or an array of zeros if it is known to be zero."""
    return zero(leaf) if _is_zero(x) else x


def _transpose(
    given: Sequence[Any], *args: Any, of: Map, leads: Leads, linear: Optional[Linear]
) -> list[Optional[Any]]:
    if linear is None:
        raise TypeError(f"`{of.core.name}` is not linear, and has no transpose")
    n = len(linear.of.inputs)
    xs, rest = args[:n], args[n:]
    if any(map(ad.is_undefined_primal, xs)):
        raise TypeError(f"`{of.core.name}` is not linear in its first {n} inputs, and has no transpose by them")
    asked = [ad.is_undefined_primal(x) for x in rest]
    if linear.step == "jvp":
        # There is a tangent for each input in the mask.
        places = iter(asked)
        mask = tuple(c and next(places) for c in linear.mask)
        derived = linear.of.derive("vjp", mask)
        wanted = dict(zip((k for k in linear.of.wanted if linear.of.outputs[k].diff), given))
        cotangents = [_given(wanted.get(k), linear.of.outputs[k]) for k in linear.of.diff]
        leaves = [leaf for leaf, c in zip(linear.of.inputs, linear.mask) if c]
        laid: Leads = tuple(lead_of(x.aval, leaf) for x, leaf, c in zip(rest, leaves, asked) if c)
        found = _bind([*xs, *cotangents], derived, laid, Linear("vjp", linear.of, mask, linear.leads))
    else:
        # There is a cotangent for each differentiable output.
        derived = linear.of.derive("jvp", linear.mask).only(j for j, c in enumerate(asked) if c)
        leaves = [leaf for leaf, c in zip(linear.of.inputs, linear.mask) if c]
        tangents = [_given(t, leaf) for t, leaf in zip(given, leaves)]
        own = [lead_of(x.aval, linear.of.outputs[k]) if c else None for x, k, c in zip(rest, linear.of.diff, asked)]
        inner = replace(linear, step="jvp", of=linear.of.only(k for k, c in zip(linear.of.diff, asked) if c))
        found = _bind([*xs, *tangents], derived, tuple(own), inner)
    parts = iter(found)
    return [None] * n + [next(parts) if c else None for c in asked]


def _batch(
    xs: Sequence[Any], dims: Sequence[Optional[int]], *, of: Map, leads: Leads, linear: Optional[Linear]
) -> tuple[list[Any], list[int]]:
    xs = _arrays(xs)
    size = next(x.shape[d] for x, d in zip(xs, dims) if d is not None)
    moved = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(xs, dims)]
    # The batch dimension precedes all leading dimensions, so arrays with fewer of these are padded with length 1.
    shapes = [x.shape if d is None else x.shape[1:] for x, d in zip(moved, dims)]
    rank = max(len(shape) - len(leaf.dims) for shape, leaf in zip(shapes, of.inputs))

    def wide(lead: tuple[int, ...]) -> tuple[int, ...]:
        return (size, *(1,) * (rank - len(lead)), *lead)

    def all_wide(leads: Leads) -> Leads:
        return tuple(None if lead is None else wide(lead) for lead in leads)

    laid = []
    for x, d, shape, leaf in zip(moved, dims, shapes, of.inputs):
        n = len(shape) - len(leaf.dims)
        laid.append(x if d is None else x.reshape((*wide(shape[:n]), *shape[n:])))
    if linear is not None:
        linear = replace(linear, leads=all_wide(linear.leads))
    found = _bind(laid, of, all_wide(leads), linear)
    out = []
    for y, k in zip(found, of.wanted):
        lead = leads[k]
        out.append(y if lead is None else y.reshape((size, *lead, *of.outputs[k].dims)))
    return out, [0] * len(out)


_call: Any = jax.extend.core.Primitive("pullback")
_call.multiple_results = True
_call.def_abstract_eval(_shaped)
_call.def_impl(_at_once)
ad.primitive_jvps[_call] = _jvp
ad.primitive_transposes[_call] = _transpose
batching.primitive_batchers[_call] = _batch
mlir.register_lowering(_call, mlir.lower_fun(_by_ffi, multiple_results=True), platform="cpu")


@functools.cache
def _register() -> None:
    """Register the handler with XLA."""
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(ctypes.c_void_p(_core.xla_handler())), platform="cpu")
