"""The current device of each thread, and functions that create resources on it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._device import Device


class _Stack(threading.local):
    """A stack of devices for each thread; the last device is the current one."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_stack = _Stack()


def push_current_device(device: Device) -> None:
    """Make a device current."""
    _stack.devices.append(device)


def pop_current_device() -> Device:
    """Remove and return the current device; the previous one becomes current. Raise RuntimeError if there is none."""
    if not _stack.devices:
        raise RuntimeError("No device to pop: none is current in this thread")
    return _stack.devices.pop()


def current_device() -> Device:
    """Return the device that was made current last. Raise RuntimeError if there is none."""
    if not _stack.devices:
        raise RuntimeError("No current device in this thread: create one, or use `with device:`")
    return _stack.devices[-1]


def leave(device: Device) -> None:
    """Remove a device if it is current."""
    if _stack.devices and _stack.devices[-1] is device:
        _stack.devices.pop()


def create_buffer(*args: Any, **given: Any) -> Any:
    """Create a buffer on the current device."""
    return current_device().create_buffer(*args, **given)


def create_texture(*args: Any, **given: Any) -> Any:
    """Create a texture on the current device."""
    return current_device().create_texture(*args, **given)


def create_sampler(*args: Any, **given: Any) -> Any:
    """Create a sampler on the current device."""
    return current_device().create_sampler(*args, **given)


def create_fence(*args: Any, **given: Any) -> Any:
    """Create a fence on the current device."""
    return current_device().create_fence(*args, **given)


def create_command_encoder(*args: Any, **given: Any) -> Any:
    """Create a command encoder on the current device."""
    return current_device().create_command_encoder(*args, **given)


def load_program(module_name: str, entry_point_names: Sequence[str], *more: Any, **others: Any) -> Any:
    """Load the entry points of a module's file as a program for the current device."""
    return current_device().load_program(module_name, entry_point_names, *more, **others)
