"""What programs use of slangtorch besides its public functions."""

from . import builtin_wrappers, wrapper

__all__ = ["builtin_wrappers", "wrapper"]
