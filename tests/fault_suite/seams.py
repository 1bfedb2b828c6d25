"""Changes methods of the loop from outside, in processes that have `at_start` in their path: there a `sitecustomize`
calls `install`. No module, no hook and no variable of the product has to be there for a test.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

_LAST_IMPORTED = "workers.loop.task"


class Seam(NamedTuple):
    """An attribute of a class or a module by its name, and its replacement."""

    owner: type | ModuleType
    name: str
    value: Any


Make = Callable[[], list[Seam]]
"""Called when the loop has been imported. Raises AttributeError where something is not there any more."""


def _nothing() -> None:
    """On this side of the call."""


def around(
    owner: type, name: str, *, before: Callable[[], None] = _nothing, after: Callable[[], None] = _nothing
) -> Seam:
    """The method with something before and after it."""
    original: Callable[..., Any] = getattr(owner, name)

    @wraps(original)
    def method(*arguments: Any, **named: Any) -> Any:
        before()
        result = original(*arguments, **named)
        after()
        return result

    return Seam(owner, name, method)


def install(makers: Sequence[Make]) -> None:
    """Put these in once the loop has been imported, from wherever Spark has put it."""
    if makers:
        sys.meta_path.insert(0, _AfterImport(makers))


class _AfterExecution(Loader):
    """Loads a module as `loader` does, then does something more.

    Not by another method of that loader: the modules of a zip, as Spark hands them on, have one for all of them.
    """

    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then()


class _AfterImport(MetaPathFinder):
    def __init__(self, makers: Sequence[Make]) -> None:
        self._makers = makers

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _LAST_IMPORTED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _AfterExecution(spec.loader, self._put_in)
        return spec

    def _put_in(self) -> None:
        for make in self._makers:
            for seam in make():
                setattr(seam.owner, seam.name, seam.value)
