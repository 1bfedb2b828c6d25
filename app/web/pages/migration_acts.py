"""What a person does with a migration: pause, resume, turn round, abort, and fence an id that nobody takes over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.domain.access import Principal, Verb
from app.domain.errors import FencelineError
from app.domain.migrations.migration import Migration
from app.domain.migrations.mode import Mode
from app.ports.unit_of_work import UnitOfWork
from app.services.migrating import asking, looking
from app.web.dependencies import Uow, Wiring, WiringDep, may
from app.web.pages.frame import screen
from app.web.pages.frame.errors import PageRoute
from app.web.pages.migrations import Why, looking_at_one

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/migrations/{migration_id}/pause")
async def pause(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.PAUSE_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()
    return await _act(
        request,
        wiring,
        uow,
        by,
        migration_id,
        lambda: asking.pause_migration(uow, migration_id, by=by, why=why or None, now=now),
        said="migration-paused",
    )


@router.post("/migrations/{migration_id}/resume")
async def resume(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.RESUME_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()
    return await _act(
        request,
        wiring,
        uow,
        by,
        migration_id,
        lambda: asking.resume_migration(uow, migration_id, by=by, why=why or None, now=now),
        said="migration-resumed",
    )


@router.post("/migrations/{migration_id}/rollback")
async def roll_back(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.ROLL_BACK_MIGRATION)],
    migration_id: str,
    to: Annotated[Mode, Form()],
    why: Why = "",
) -> Response:
    now = wiring.clock.now()

    async def act() -> Migration:
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.roll_back(uow, migration_id, look, to=to, by=by, why=why or None, now=now)

    return await _act(request, wiring, uow, by, migration_id, act, said="migration-turned")


@router.post("/migrations/{migration_id}/abort")
async def abort(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.ABORT_MIGRATION)],
    migration_id: str,
    why: Why = "",
) -> Response:
    now = wiring.clock.now()

    async def act() -> Migration:
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.abort_migration(uow, migration_id, look, by=by, why=why or None, now=now)

    return await _act(request, wiring, uow, by, migration_id, act, said="migration-aborted")


@router.post("/migrations/{migration_id}/fence")
async def fence(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.FENCE_TRANSACTION)],
    migration_id: str,
    transactional_id: Annotated[str, Form(min_length=1, max_length=1000)],
    why: Why = "",
) -> Response:
    now = wiring.clock.now()

    async def act() -> Migration:
        look = await looking.look_now(uow, wiring.observations, migration_id, now=now)
        return await asking.fence_id(
            uow, migration_id, look, transactional_id=transactional_id, by=by, why=why or None, now=now
        )

    return await _act(request, wiring, uow, by, migration_id, act, said="migration-fence")


async def _act(
    request: Request,
    wiring: Wiring,
    uow: UnitOfWork,
    by: Principal,
    migration_id: str,
    act: Callable[[], Awaitable[Migration]],
    *,
    said: str,
) -> Response:
    try:
        await act()
        await uow.commit()
    except FencelineError as error:
        look = looking_at_one(migration_id, wiring)
        return await screen.page(request, wiring, by, look, refused=error, at=("migrations", migration_id))
    return screen.see("migrations", migration_id, said=said)
