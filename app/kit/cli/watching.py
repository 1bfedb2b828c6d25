"""The retries of watching commands: they survive a server or database that does not answer for a minute."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TypeVar

from app.kit.cli.errors import CommandError, ExitCode
from app.kit.patience import ASK_AGAIN_AFTER_S, Patience

T = TypeVar("T")
_patience: ContextVar[Patience | None] = ContextVar("patience", default=None)
_AWAY = frozenset({429, 502, 503, 504})
"""Overloaded, without its database, or behind a proxy that reports it as down."""


def is_away(error: CommandError) -> bool:
    """Return whether it means that no server could answer now; any other answer counts."""
    return error.code is ExitCode.UNREACHABLE or error.status in _AWAY


@contextlib.contextmanager
def watching(*, deadline_s: float = float("inf")) -> Generator[None, None, None]:
    """Within it, a read-only request is repeated while no server answers, until `deadline_s` at most."""
    before = _patience.set(Patience(deadline_s=deadline_s))
    try:
        yield
    finally:
        _patience.reset(before)


def outlast(ask: Callable[[], T]) -> T:
    """Return the result of `ask`; within `watching` it is repeated while no server answers."""
    while True:
        patience = _patience.get()
        try:
            answer = ask()
        except CommandError as error:
            if patience is None or not is_away(error) or not patience.lasts():
                raise
            time.sleep(ASK_AGAIN_AFTER_S)
            continue
        if patience is not None:
            patience.answered()
        return answer
