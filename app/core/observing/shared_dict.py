"""A dict whose unchanging views cost as much as its changes since the last view, and not as much as its size.

A copy of a dict with 50,000 values touches all of them, and so does its end: several milliseconds in which no other
thread runs.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")

_PARTS = 256


class SharedDict(Generic[T]):
    """Belongs to one thread; any thread may read its views. Values must not change."""

    def __init__(self) -> None:
        self._parts: list[dict[str, T]] = [{} for _ in range(_PARTS)]
        # A part of a view is copied before its next change.
        self._is_viewed = [False] * _PARTS
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, name: str) -> bool:
        return name in self._parts[hash(name) % _PARTS]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def __setitem__(self, name: str, value: T) -> None:
        part = self._own(hash(name) % _PARTS)
        self._size += name not in part
        part[name] = value

    def discard(self, name: str) -> bool:
        """Remove a name; return False if it is not there."""
        at = hash(name) % _PARTS
        if name not in self._parts[at]:
            return False
        del self._own(at)[name]
        self._size -= 1
        return True

    def view(self) -> Mapping[str, T]:
        """Return the values as they are now."""
        self._is_viewed = [True] * _PARTS
        return _View(tuple(self._parts), self._size)

    def _own(self, at: int) -> dict[str, T]:
        if self._is_viewed[at]:
            self._parts[at] = self._parts[at].copy()
            self._is_viewed[at] = False
        return self._parts[at]


class _View(Mapping[str, T]):
    __slots__ = ("_parts", "_size")

    def __init__(self, parts: tuple[dict[str, T], ...], size: int) -> None:
        self._parts = parts
        self._size = size

    def __getitem__(self, name: str) -> T:
        return self._parts[hash(name) % _PARTS][name]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return self._size

    def values(self) -> ValuesView[T]:
        return _Values(self)

    def items(self) -> ItemsView[str, T]:
        return _Items(self)

    @property
    def parts(self) -> tuple[dict[str, T], ...]:
        return self._parts


class _Values(ValuesView[T]):
    """Iterates as fast as a dict's own view."""

    _mapping: _View[T]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(part.values() for part in self._mapping.parts)


class _Items(ItemsView[str, T]):
    _mapping: _View[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return chain.from_iterable(part.items() for part in self._mapping.parts)
