"""Fences, and reports and events of a device: heap reports and shader reloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

# The page size in bytes.
_PAGE = 4096


class FenceDesc:
    """The descriptor of a fence."""

    def __init__(self, desc: Optional[Any] = None, initial_value: int = 0, shared: bool = False) -> None:
        given = vars(desc) if isinstance(desc, FenceDesc) else {"initial_value": initial_value, "shared": shared}
        values = {**given, **(desc if isinstance(desc, dict) else {})}
        self.initial_value: int = values["initial_value"]
        self.shared: bool = values["shared"]


class Fence:
    """A counter that is signalled and waited for."""

    MAX_VALUE = (1 << 64) - 1

    def __init__(self, device: Any, desc: FenceDesc) -> None:
        if desc.shared:
            raise RuntimeError("fences that other programs share are not supported: functions run on the CPU")
        self.device = device
        self.desc = desc
        self.current_value = desc.initial_value
        self.signaled_value = desc.initial_value

    def signal(self, value: int = MAX_VALUE) -> int:
        """Set the counter to a value, or increment it if none is given, and return it."""
        self.signaled_value = self.signaled_value + 1 if value == self.MAX_VALUE else value
        self.current_value = self.signaled_value
        return self.signaled_value

    def wait(self, value: int = MAX_VALUE, timeout_ns: int = MAX_VALUE) -> None:
        """Raise RuntimeError if the counter is below a value: all submitted commands have already run."""
        wanted = self.signaled_value if value == self.MAX_VALUE else value
        if self.current_value < wanted:
            raise RuntimeError(f"the fence is at {self.current_value}, and nothing that runs brings it to {wanted}")


class HeapReport:
    """The memory that a device has allocated, in bytes and pages."""

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
    """The event that all programs were reloaded."""
