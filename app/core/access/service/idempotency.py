"""A command that is sent twice with one key is carried out once, with the same answer both times."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from app.core.access.store.access import AccessStore, StoredAnswer
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError

_KEY = re.compile(r"[\x21-\x7e]{1,200}")


async def recall(
    uow: UnitOfWork, *, key: str, by: Principal, request_sha256: str, now: datetime
) -> StoredAnswer | None:
    """Return None if the key is free: carry the command out and `remember` its answer in the same unit of work.

    Else return the first answer. This waits while another request with the key is carried out. If that one fails its
    key is free again. request_sha256 is over method, path and body.
    Raises InvalidError if the key was used for a different request, or is malformed.
    """
    if not _KEY.fullmatch(key):
        raise InvalidError(
            "an Idempotency-Key has 1 to 200 printable characters without spaces", field="Idempotency-Key"
        )
    stored = await uow.of(AccessStore).claim_key(principal=by.name, key=key, request_sha256=request_sha256, now=now)
    if stored is not None and stored.request_sha256 != request_sha256:
        raise InvalidError(
            f"the Idempotency-Key {key} was used for a different request before: send this one with a new key",
            field="Idempotency-Key",
        )
    return stored


async def remember(uow: UnitOfWork, *, key: str, by: Principal, status: int, body: Any) -> None:
    """Store the answer beside the key, in the unit of work that carries the command out. `body` is JSON data."""
    await uow.of(AccessStore).store_answer(principal=by.name, key=key, status=status, body=body)
