"""Offset logs as they may stand, with every kind of contradiction: the address of the page that shows each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from app.core.observing.service.observations import Observations
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.wire.offset_events import Event, Teller
from app.products.offset_log.check import PipelineCheck, check
from app.products.offset_log.heard import ReportedOffsets
from app.products.offset_log.store import OffsetLogStore
from tests.support.control_plane import ControlPlane
from tests.support.longest_names import LONG_HOST, LONG_TOPIC, long_pipeline
from tests.support.offset_tellers import Tasks, assigned, at, committed, given_up

LONGEST = long_pipeline("told-")
_READ_TO_10 = (assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3))
_BY_KIND: Mapping[str, Sequence[Sequence[Event]]] = {
    "gap": (_READ_TO_10, (assigned(0, 2), at(1, 15), committed(2, 15, 20))),
    "overlap": (_READ_TO_10, (assigned(0, 2), at(1, 8), committed(2, 8, 20))),
    "without_ownership": ((assigned(0, 1), at(1, 0), given_up(2), committed(3, 0, 10)),),
    "rewound": (_READ_TO_10, (assigned(0, 2), at(1, 5))),
}


async def add_offset_logs(plane: ControlPlane, observations: Observations) -> Mapping[str, str]:
    """Pipelines of which nothing, nothing wrong, or much was told; and what a check says of one."""
    await plane.pipeline("told-nothing")
    await plane.pipeline("not-recorded", processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    found = {"offset log with nothing": "told-nothing", "offset log, not recorded": "not-recorded"}
    for name, what in (
        ("told-well", "offset log, consistent"),
        ("told-in-doubt", "offset log, cannot be verified"),
        ("told-wrong", "offset log, contradicted"),
        (LONGEST, "offset log, long names"),
    ):
        await plane.pipeline(name)
        found[what] = name
    await _keep(plane, "told-well", _checked(plane, [_READ_TO_10, (assigned(0, 2), at(1, 10), committed(2, 10, 20))]))
    await _keep(plane, "told-in-doubt", _checked(plane, _BY_KIND["gap"], is_over=False))
    for number, tellings in enumerate(_BY_KIND.values()):
        await _keep(plane, "told-wrong", _checked(plane, tellings, partition=number))
        await _keep(plane, LONGEST, _checked(plane, tellings, topic=LONG_TOPIC, partition=number, host=LONG_HOST))
        plane.pass_time(1)
    run = await plane.running("flights", tasks_per_instance=2)
    await Tasks(plane, run, observations).handed_over(began=15)
    addresses = {what: f"/pipelines/{name}/offsets" for what, name in found.items()}
    return {
        **addresses,
        "offset log, a check of the last hour": "/pipelines/flights/offsets?hours=1",
        "offset log, a check of nothing": "/pipelines/told-nothing/offsets?hours=24",
    }


async def _keep(plane: ControlPlane, pipeline: str, found: PipelineCheck) -> None:
    async with plane.uow() as uow:
        await uow.of(OffsetLogStore).note_check(pipeline, found)
        await uow.of(OffsetLogStore).add_findings(pipeline, found.findings, now=plane.now)
        await uow.commit()


def _checked(
    plane: ControlPlane,
    tellings: Sequence[Sequence[Event]],
    *,
    topic: str = "in",
    partition: int = 0,
    host: str = "w1",
    is_over: bool = True,
) -> PipelineCheck:
    """A check of the reports of attempts about one partition, each of another task."""
    heard = [
        ReportedOffsets(
            group="g",
            topic=topic,
            partition=partition,
            teller=Teller(run=0, ordinal=ordinal, task=0, lease=1, attempt=2),
            run_id=f"0000000{ordinal}-0000-0000-0000-000000000000",
            host=host,
            events=tuple(events),
            recorded=len(events),
            is_open=False,
            is_over=is_over,
            complete_at=None,
            newest_at=plane.now,
        )
        for ordinal, events in enumerate(tellings)
    ]
    return check(heard, unheard=(), since=plane.now - timedelta(hours=1), until=plane.now)
