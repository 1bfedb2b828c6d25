"""The actions on a migration's page: pause, resume, roll back, abort, and fence an id that no task takes over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response

from app.core.access.signed_in import may
from app.core.runs.mode import Mode
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.errors import FencelineError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.products.migrations.look import MigrationLook
from app.products.migrations.migration import Migration
from app.products.migrations.pages.migrations import Why, looking_at_one
from app.products.migrations.service import asking, looking

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class MigrationAct:
    """The common part of all actions. A refusal is shown on the migration's page."""

    request: Request
    wiring: WiringDep
    uow: Uow
    migration_id: str
    why: Why = ""

    @property
    def reason(self) -> str | None:
        return self.why or None

    @property
    def now(self) -> datetime:
        return self.wiring.clock.now()

    async def look(self) -> MigrationLook:
        return await looking.look_now(self.uow, self.wiring.observations, self.migration_id, now=self.now)

    async def answered(self, by: Principal, act: Callable[[], Awaitable[Migration]], *, said: str) -> Response:
        at = ("migrations", self.migration_id)
        try:
            await act()
            await self.uow.commit()
        except FencelineError as error:
            look = looking_at_one(self.migration_id, self.wiring)
            return await screen.page(self.request, self.wiring, by, look, refused=error, at=at)
        return screen.see(*at, said=said)


ActDep = Annotated[MigrationAct, Depends()]


@router.post("/migrations/{migration_id}/pause")
async def pause(given: ActDep, by: Annotated[Principal, may(Verb.PAUSE_MIGRATION)]) -> Response:
    async def act() -> Migration:
        return await asking.pause_migration(given.uow, given.migration_id, by=by, why=given.reason, now=given.now)

    return await given.answered(by, act, said="migration-paused")


@router.post("/migrations/{migration_id}/resume")
async def resume(given: ActDep, by: Annotated[Principal, may(Verb.RESUME_MIGRATION)]) -> Response:
    async def act() -> Migration:
        return await asking.resume_migration(given.uow, given.migration_id, by=by, why=given.reason, now=given.now)

    return await given.answered(by, act, said="migration-resumed")


@router.post("/migrations/{migration_id}/rollback")
async def roll_back(
    given: ActDep, by: Annotated[Principal, may(Verb.ROLL_BACK_MIGRATION)], to: Annotated[Mode, Form()]
) -> Response:
    async def act() -> Migration:
        look = await given.look()
        return await asking.roll_back(
            given.uow, given.migration_id, look, to=to, by=by, why=given.reason, now=given.now
        )

    return await given.answered(by, act, said="migration-turned")


@router.post("/migrations/{migration_id}/abort")
async def abort(given: ActDep, by: Annotated[Principal, may(Verb.ABORT_MIGRATION)]) -> Response:
    async def act() -> Migration:
        look = await given.look()
        return await asking.abort_migration(given.uow, given.migration_id, look, by=by, why=given.reason, now=given.now)

    return await given.answered(by, act, said="migration-aborted")


@router.post("/migrations/{migration_id}/fence")
async def fence(
    given: ActDep,
    by: Annotated[Principal, may(Verb.FENCE_TRANSACTION)],
    transactional_id: Annotated[str, Form(min_length=1, max_length=1000)],
) -> Response:
    async def act() -> Migration:
        look = await given.look()
        return await asking.fence_id(
            given.uow,
            given.migration_id,
            look,
            transactional_id=transactional_id,
            by=by,
            why=given.reason,
            now=given.now,
        )

    return await given.answered(by, act, said="migration-fence")
