"""Sparse Jacobians and Hessians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._function import Function, Wrt
    from ._values import Leaf


def sparse(
    function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], wrt: Wrt, second: Optional[bool]
) -> Any:
    """Return a matrix in compressed rows, over the numbers of the value and of the parameters `wrt`.

    If `second` is None, it has the first derivatives, else the second ones; it is true if some may follow from others.
    It is a `scipy.sparse.csr_array` where SciPy is installed, and else a tuple of `data`, `indices`, `indptr` and the
    shape, from which such an array can be made.
    """
    import numpy as np

    by = function._chosen(wrt)
    flat, memory = function._flat(args, kwargs)
    parts: list[Any] = []
    chosen: list[Any] = []
    for leaf, part, is_chosen in zip(function._leaves(), flat, by.leaves):
        x = np.asarray(part)
        if x.shape != leaf.dims:
            raise ValueError(f"a sparse matrix is of one call: `{function.name}` takes shape {list(leaf.dims)}, not {x.shape}")
        parts.append(_fitting(leaf, x).ravel())
        if leaf.diff:
            chosen.append(np.full(x.size, is_chosen))
    # A double has every number of these types, but not of the integers with 64 bits.
    is_short = all(x.dtype.kind in "fb" or x.dtype.itemsize <= 4 for x in parts)
    doubles = np.concatenate(parts).astype(np.float64).tobytes() if is_short else None
    point = [n for x in parts for n in x.tolist()] if doubles is None else doubles
    try:
        indptr, indices, data, n = function._core.sparse(point, dict(memory), second)
    finally:
        function._module._warn()
    is_kept = np.concatenate(chosen) if chosen else np.zeros(0, bool)
    assert len(is_kept) == n
    m = len(indptr) - 1
    if not is_kept.all():
        rows = np.repeat(np.arange(m), np.diff(indptr))
        keep = is_kept[indices]
        if second is not None:
            # Rows and columns are both those of the parameters.
            keep &= is_kept[rows]
            rows, m = (np.cumsum(is_kept) - 1)[rows], int(is_kept.sum())
        rows, indices, data = rows[keep], (np.cumsum(is_kept) - 1)[indices[keep]].astype(np.int32), data[keep]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=m))]).astype(indptr.dtype)
    shape = (m, int(is_kept.sum()))
    try:
        from scipy.sparse import csr_array
    except ImportError:
        return data, indices, indptr, shape
    return csr_array((data, indices, indptr), shape=shape)


def _fitting(leaf: Leaf, x: Any) -> Any:
    """Return an array in the type of a parameter. Raise the errors of other calls if it does not fit."""
    import numpy as np

    wanted = np.dtype(leaf.dtype)
    given, integers = x.dtype.kind, "iu"
    if not (given == "b" or given in "iuf" and wanted.kind == "f" or given in integers and wanted.kind in integers):
        raise TypeError(f"`{leaf.path}` needs numbers of type {leaf.dtype}, not an array of {x.dtype}")
    if given in integers and wanted.kind in integers and x.size:
        most = np.iinfo(wanted)
        for number in (int(x.min()), int(x.max())):
            if not most.min <= number <= most.max:
                raise ValueError(f"`{leaf.path}` is of type {leaf.dtype}, which does not have the number {number}")
    return x.astype(wanted)
