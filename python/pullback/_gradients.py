"""Gradient checking: forward mode, reverse mode and finite differences must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    import random

    from ._function import Function
    from ._values import Leaf

# The maximum number of rows that a table shows.
MOST_ROWS = 40


class Derivative(NamedTuple):
    """The derivative of one component of the output by one of the input, at one point, in double precision.

    `verdict` is "agrees", "differs", "unclear" (finite differences are too inaccurate, or there is no value) or "cut":
    the program cuts the derivative at `cut`, for example by `detach`, so that finite differences do not apply.
    """

    point: int
    output: str
    input: str
    forward: float
    reverse: float
    differences: float
    error: float
    verdict: str
    dual: Optional[float] = None
    cut: Optional[str] = None


class GradientReport:
    """The result of `check_gradients`, which prints as a table."""

    def __init__(self, function: str, points: Sequence[str], derivatives: Sequence[Derivative]) -> None:
        self.function = function
        self.points = list(points)
        self.derivatives = list(derivatives)

    @property
    def agrees(self) -> bool:
        """True if no derivative differs."""
        return all(d.verdict != "differs" for d in self.derivatives)

    @property
    def largest_error(self) -> float:
        """The largest relative error of the derivatives that are not "unclear". NaN counts as the largest."""
        errors = [d.error for d in self.derivatives if d.verdict != "unclear"]
        return max(errors, key=lambda e: float("inf") if e != e else e, default=0.0)

    def __bool__(self) -> bool:
        return self.agrees

    def __str__(self) -> str:
        rank = {"differs": 0}
        rows = self.derivatives
        if len(rows) > MOST_ROWS:
            rows = sorted(rows, key=lambda d: (rank.get(d.verdict, 1), -d.error if d.error == d.error else 0.0))
        cells = [["point", "output", "input", "forward", "reverse", "differences", "error", ""]]
        for d in rows[:MOST_ROWS]:
            numbers = [f"{x:.9f}" for x in (d.forward, d.reverse, d.differences)]
            verdict = "DIFFERS" if d.verdict == "differs" else d.verdict
            cells.append([str(d.point), d.output, d.input, *numbers, f"{d.error:.1e}", verdict])
        widths = [max(len(row[k]) for row in cells) for k in range(8)]
        lines = []
        for row in cells:
            parts = [x.rjust(w) if 3 <= k < 7 else x.ljust(w) for k, (x, w) in enumerate(zip(row, widths))]
            lines.append("  ".join(parts).rstrip())
        if len(rows) > MOST_ROWS:
            lines.append(f"… and {len(rows) - MOST_ROWS} more that agree better")
        counts = Counter(d.verdict for d in self.derivatives)
        kinds = [("agree", "agrees"), ("cut", "cut"), ("unclear", "unclear"), ("differ", "differs")]
        told = ", ".join(f"{counts[v]} {word}" for word, v in kinds if counts[v] or v != "cut")
        n = len(self.points)
        lines += ["", f"{self.function}: {len(rows)} derivative{'s' * (len(rows) != 1)} at {n} point{'s' * (n != 1)}: {told}"]
        lines[-1] += f"; largest relative error {self.largest_error:.1e}"
        failed = dict.fromkeys(d.point for d in self.derivatives if d.verdict == "differs")
        lines += [f"point {k}: {self.points[k]}" for k in list(failed)[:3]]
        for place, d in {d.cut: d for d in reversed(self.derivatives) if d.cut}.items():
            lines.append(f"d {d.output}/d {d.input} is cut at {place}: differences do not apply")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<pullback.GradientReport\n{self}>"


class GradientError(AssertionError):
    """Derivatives do not agree. `report` holds all of them."""

    def __init__(self, report: GradientReport) -> None:
        super().__init__(f"derivatives of `{report.function}` do not agree\n{report}")
        self.report = report


def check_gradients(
    function: Function,
    *args: Any,
    points: int = 5,
    between: tuple[float, float] = (-2.0, 2.0),
    seed: int = 0,
    tolerance: float = 1e-5,
    raises: bool = True,
    **kwargs: Any,
) -> GradientReport:
    """Compare forward mode, reverse mode and finite differences in double precision, and return a report.

    Arguments are those of a call; each index of their leading dimensions is a point. Missing arguments are random:
    floats in the range `between`, and small integers, at `points` points if no argument has leading dimensions. Raise
    `GradientError` if derivatives differ by more than `tolerance`, relative to their size, unless `raises` is false.
    """
    import numpy as np

    if points < 1:
        raise ValueError(f"`points` is at least 1, not {points}")
    low, high = between
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"`between` is two finite numbers in order, not {between}")
    if not tolerance > 0 or not np.isfinite(tolerance):
        raise ValueError(f"`tolerance` is a positive number, not {tolerance}")
    function, given, memory = function._partial(args, kwargs)
    if not any(leaf.diff for p in function._inputs for leaf in p.leaves) or not any(
        leaf.diff for p in function._outputs for leaf in p.leaves
    ):
        raise ValueError(f"`{function.name}` has no differentiable input and output")
    arrays: list[tuple[str, Leaf, Any]] = []
    for param in function._inputs:
        parts = param.flatten(given[param.name]) if param.name in given else [None] * len(param.leaves)
        for leaf, part in zip(param.leaves, parts):
            path = param.name + leaf.path
            arrays.append((path, leaf, None if part is None else _checked(path, leaf, part)))
    leads = [x.shape[: x.ndim - len(leaf.dims)] for _, leaf, x in arrays if x is not None]
    shape = np.broadcast_shapes(*leads)
    is_random = any(x is None for _, _, x in arrays)
    n = int(np.prod(shape, dtype=int)) if shape or not is_random else points
    if n == 0:
        raise ValueError("the arguments have no places: there is no point to check")
    import json
    import random

    draw = random.Random(seed)
    columns = []
    for _, leaf, x in arrays:
        size = int(np.prod(leaf.dims, dtype=int))
        if x is None:
            columns.append([[_random(draw, leaf, low, high) for _ in range(size)] for _ in range(n)])
        else:
            whole = np.broadcast_to(x, (*(shape or (n,)), *leaf.dims))
            columns.append(whole.reshape(n, size).tolist())
    numbers = [[x for column in columns for x in column[k]] for k in range(n)]
    told = [
        ", ".join(f"{path} = {column[k] if leaf.dims else column[k][0]}" for (path, leaf, _), column in zip(arrays, columns))
        for k in range(n)
    ]
    found = json.loads(function._core.check(numbers, tolerance, memory))
    function._module._warn()
    entries = [Derivative(**{k: _float(k, v) for k, v in entry.items()}) for entry in found["entries"]]
    report = GradientReport(function.name, told, entries)
    if raises and not report.agrees:
        raise GradientError(report)
    return report


def _checked(path: str, leaf: Leaf, given: Any) -> Any:
    """Return the array for a leaf. Raise `TypeError` or `ValueError` if its dtype, shape or values do not fit."""
    import numpy as np

    x = np.asarray(given)
    wanted = np.dtype(leaf.dtype)
    fits = wanted.kind == "f" if x.dtype.kind == "f" else x.dtype.kind == "b" or x.dtype.kind in "iu" and wanted.kind != "b"
    if not fits:
        raise TypeError(f"`{path}` needs numbers of type {leaf.dtype}, not {x.dtype}")
    if x.shape[max(x.ndim - len(leaf.dims), 0) :] != leaf.dims:
        raise ValueError(f"`{path}` needs an array whose last dimensions are {list(leaf.dims)}, not one of shape {x.shape}")
    if wanted.kind in "iu" and x.size and x.dtype.kind in "iu":
        limits = np.iinfo(wanted)
        if int(x.min()) < limits.min or int(x.max()) > limits.max:
            raise ValueError(f"`{path}` is of type {leaf.dtype}, which does not have all of these numbers")
    # Round to the program's dtype; derivatives are then taken in double precision.
    return x.astype(wanted)


def _float(field: str, value: Any) -> Any:
    """Return the value of a JSON field, in which infinities and NaN are strings."""
    is_number = field in ("forward", "reverse", "differences", "error", "dual")
    return float(value) if is_number and value is not None else value


def _random(draw: random.Random, leaf: Leaf, low: float, high: float) -> float:
    if leaf.dtype == "bool":
        return draw.randrange(2)
    return draw.uniform(low, high) if leaf.dtype.startswith("float") else draw.randrange(4)
