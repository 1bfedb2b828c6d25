"""Commands that may be sent twice: a repetition with the same Idempotency-Key gets the first answer again."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from app.core.access.service import idempotency
from app.core.access.signed_in import CurrentPrincipal
from app.core.access.store.access import StoredAnswer
from app.core.wiring import WiringDep
from app.kit.web.dependencies import Uow

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A text of your choice (a UUID). The same request with the same key is carried out once.",
    ),
]


class Once:
    """Carries out the command of one request; a repetition gets the stored answer.

    Key, effect and answer are one transaction, which the route commits: after a crash either all of them exist or none.
    A refusal is not stored, since it changed nothing.
    """

    def __init__(
        self, request: Request, uow: Uow, wiring: WiringDep, principal: CurrentPrincipal, key: Key = None
    ) -> None:
        self._request = request
        self._uow = uow
        self._now = wiring.clock.now()
        self._principal = principal
        self._key = key

    async def do(
        self,
        act: Callable[[], Awaitable[object]],
        *,
        status: int = 200,
        prepare: Callable[[], Awaitable[object]] | None = None,
    ) -> Response:
        """Run `act` unless it was done already, without a commit; return the answer as JSON in `response_model`.

        prepare: slow work before `act`, without effects. The unit's transaction ends before it.
        """
        known = await self._recall()
        if prepare is not None and (known is None or known.status is None):
            # The key is claimed again afterwards: another request may have carried out the command meanwhile.
            await self._uow.rollback()
            await prepare()
            known = await self._recall()
        if self._key is None:
            return _json(self._encoded(await act()), status)
        if known is not None and known.status is not None:
            response = _json(msgspec.json.encode(known.body), known.status)
            response.headers["Idempotency-Replayed"] = "true"
            return response
        body = self._encoded(await act())
        await idempotency.remember(
            self._uow,
            key=self._key,
            by=self._principal,
            status=status,
            body=msgspec.json.decode(body),
        )
        return _json(body, status)

    async def _recall(self) -> StoredAnswer | None:
        if self._key is None:
            return None
        return await idempotency.recall(
            self._uow,
            key=self._key,
            by=self._principal,
            request_sha256=await self._fingerprint(),
            now=self._now,
        )

    def _encoded(self, answer: object) -> bytes:
        route: APIRoute = self._request.scope["route"]
        adapter = _adapter(route.response_model)
        return adapter.dump_json(adapter.validate_python(answer, from_attributes=True), by_alias=True)

    async def _fingerprint(self) -> str:
        """Return the SHA-256 of method, address and body, which identify a request."""
        url = self._request.url
        head = f"{self._request.method} {url.path}?{url.query}\n".encode()
        return hashlib.sha256(head + await self._request.body()).hexdigest()


@cache
def _adapter(response_model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(response_model)


def _json(body: bytes, status: int) -> Response:
    return Response(body, status_code=status, media_type="application/json")


OnceDep = Annotated[Once, Depends()]
