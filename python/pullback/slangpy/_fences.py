"""Fences, and what a device tells of itself: heaps, and shaders that were loaded again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

# How memory is counted.
_PAGE = 4096


class FenceDesc:
    """How a fence is made."""

    def __init__(self, desc: Optional[Any] = None, initial_value: int = 0, shared: bool = False) -> None:
        given = vars(desc) if isinstance(desc, FenceDesc) else {"initial_value": initial_value, "shared": shared}
        values = {**given, **(desc if isinstance(desc, dict) else {})}
        self.initial_value: int = values["initial_value"]
        self.shared: bool = values["shared"]


class Fence:
    """A number that grows."""

    MAX_VALUE = (1 << 64) - 1

    def __init__(self, device: Any, desc: FenceDesc) -> None:
        if desc.shared:
            raise RuntimeError("fences that other programs share are not supported: functions run on the CPU")
        self.device = device
        self.desc = desc
        self.current_value = desc.initial_value
        self.signaled_value = desc.initial_value

    def signal(self, value: int = MAX_VALUE) -> int:
        """Raises the number to a value, or by one."""
        self.signaled_value = self.signaled_value + 1 if value == self.MAX_VALUE else value
        self.current_value = self.signaled_value
        return self.signaled_value

    def wait(self, value: int = MAX_VALUE, timeout_ns: int = MAX_VALUE) -> None:
        """Checks that the number has come to a value: what is submitted has run, so that nothing is to come."""
        wanted = self.signaled_value if value == self.MAX_VALUE else value
        if self.current_value < wanted:
            raise RuntimeError(f"the fence is at {self.current_value}, and nothing that runs brings it to {wanted}")


class HeapReport:
    """The memory that a device has given away."""

    def __init__(self, label: str, sizes: Iterable[int]) -> None:
        listed = list(sizes)
        self.label = label
        self.num_allocations = len(listed)
        self.num_pages = sum(-(-size // _PAGE) for size in listed)
        self.total_allocated = sum(listed)
        self.total_mem_usage = self.num_pages * _PAGE

    def __repr__(self) -> str:
        return f"HeapReport({self.label!r}, {self.num_allocations} allocations, {self.total_allocated} bytes)"


class ShaderHotReloadEvent:
    """Programs were read again."""
