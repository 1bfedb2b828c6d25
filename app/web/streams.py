"""Event streams end when the right to see them ends, and when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from app.domain import access
from app.domain.access import Verb
from app.domain.errors import UnavailableError
from app.web.dependencies import Credential, Wiring, principal_of

T = TypeVar("T")
RECHECK_S = 2.0
"""A revoked session sees at most this much more."""


async def until_revoked(
    frames: AsyncIterator[T], *, wiring: Wiring, credential: Credential, verb: Verb = Verb.VIEW
) -> AsyncIterator[T]:
    """The frames, until the credential no longer allows `verb` (asked every RECHECK_S) or the server stops.

    While Postgres does not answer, the stream stays open: nothing new can be read then anyway.
    """
    stopping = asyncio.ensure_future(wiring.stopping.wait())
    pending: asyncio.Task[T] | None = None
    loop = asyncio.get_running_loop()
    check_at_s = loop.time() + RECHECK_S
    try:
        while not wiring.stopping.is_set():
            if pending is None:
                pending = asyncio.ensure_future(_next(frames))
            await asyncio.wait(
                {pending, stopping},
                timeout=max(0.0, check_at_s - loop.time()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if loop.time() >= check_at_s:
                if not await _still_allows(wiring, credential, verb):
                    return
                check_at_s = loop.time() + RECHECK_S
            if pending.done():
                finished, pending = pending, None
                try:
                    frame = finished.result()
                except StopAsyncIteration:
                    return
                yield frame
    finally:
        stopping.cancel()
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})


async def _next(frames: AsyncIterator[T]) -> T:
    return await anext(frames)


async def _still_allows(wiring: Wiring, credential: Credential, verb: Verb) -> bool:
    try:
        principal = await principal_of(wiring, credential)
    except UnavailableError:
        return True
    return principal is not None and access.allows(principal.role, verb)
