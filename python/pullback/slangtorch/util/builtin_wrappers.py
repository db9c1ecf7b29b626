"""Values of types that the language knows."""

from __future__ import annotations

from typing import Any, NamedTuple


class DiffTensorView(NamedTuple):
    """A tensor and its gradient."""

    value: Any
    grad: Any = None
