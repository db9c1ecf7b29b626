from collections.abc import Sequence
from typing import Any, Optional, Union

__version__: str

_Leaf = tuple[str, str, list[int], bool]
_Parameter = tuple[str, str, bool, bool, list[_Leaf]]

class Program:
    def __init__(
        self,
        path: str,
        text: Optional[str] = None,
        *,
        defines: Sequence[tuple[str, str]] = ...,
        include: Sequence[str] = ...,
        backend: Optional[str] = None,
        level: Optional[int] = None,
        threads: int = 0,
        deterministic: bool = False,
        fast_math: bool = False,
        cache: bool = True,
    ) -> None: ...
    def function(self, name: str) -> Function: ...
    def take_warnings(self) -> list[str]: ...

class Function:
    @property
    def name(self) -> str: ...
    @property
    def params(self) -> list[_Parameter]: ...
    @property
    def result(self) -> _Parameter: ...
    @property
    def inputs(self) -> list[_Leaf]: ...
    @property
    def outputs(self) -> list[tuple[_Leaf, Optional[int]]]: ...
    def derive(self, steps: Sequence[Union[str, Sequence[bool]]]) -> Function: ...
    def __call__(self, *args: Any) -> tuple[Any, ...]: ...
