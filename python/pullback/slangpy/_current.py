"""The current device of a thread, and what is made with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._device import Device


class _Stack(threading.local):
    """Devices of which the last one is current, for each thread."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_stack = _Stack()


def push_current_device(device: Device) -> None:
    """Makes a device current."""
    _stack.devices.append(device)


def pop_current_device() -> Device:
    """Takes the current device away: the one before it is current again."""
    if not _stack.devices:
        raise RuntimeError("No device to pop: none is current in this thread")
    return _stack.devices.pop()


def current_device() -> Device:
    """The device that was made current last."""
    if not _stack.devices:
        raise RuntimeError("No current device in this thread: create one, or use `with device:`")
    return _stack.devices[-1]


def leave(device: Device) -> None:
    """Takes a device away if it is current."""
    if _stack.devices and _stack.devices[-1] is device:
        _stack.devices.pop()


def create_buffer(*args: Any, **given: Any) -> Any:
    """A buffer of the current device."""
    return current_device().create_buffer(*args, **given)


def create_texture(*args: Any, **given: Any) -> Any:
    """A texture of the current device."""
    return current_device().create_texture(*args, **given)


def create_sampler(*args: Any, **given: Any) -> Any:
    """A sampler of the current device."""
    return current_device().create_sampler(*args, **given)


def create_fence(*args: Any, **given: Any) -> Any:
    """A fence of the current device."""
    return current_device().create_fence(*args, **given)


def create_command_encoder(*args: Any, **given: Any) -> Any:
    """A command encoder of the current device."""
    return current_device().create_command_encoder(*args, **given)


def load_program(module_name: str, entry_point_names: Sequence[str], *more: Any, **others: Any) -> Any:
    """Entry points of a file, for the current device."""
    return current_device().load_program(module_name, entry_point_names, *more, **others)
