"""What watches outlives a server or a database that is away for a minute: the one place where that is decided."""

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
"""Too busy, its database is away, or a proxy before it says that it is away."""


def is_away(error: CommandError) -> bool:
    """Whether it says that nobody could answer now; everything else is an answer."""
    return error.code is ExitCode.UNREACHABLE or error.status in _AWAY


@contextlib.contextmanager
def watching(*, deadline_s: float = float("inf")) -> Generator[None, None, None]:
    """Within it, a question that changes nothing is asked again while nobody answers; at `deadline_s` no more."""
    before = _patience.set(Patience(deadline_s=deadline_s))
    try:
        yield
    finally:
        _patience.reset(before)


def outlast(ask: Callable[[], T]) -> T:
    """What `ask` returns; within `watching` it is asked again while it raises that nobody is there."""
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
