"""The recorded offsets of a run's tasks, checked for contradictions at its end.

It is the server's own check, over the reports that processes have written in place of sending them, or made by the
server itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from app.core.wire.offset_events import Assigned, Event, Positioned, Teller
from app.products.offset_log.check import PipelineCheck, check
from app.products.offset_log.heard import ReportedOffsets
from app.products.offset_log.silence import Attempted
from tests.support.tasks import Report

_SHOWN = 5
Offsets = Mapping[tuple[str, int], int]


class Asked(NamedTuple):
    """contradictions: None where nothing was recorded. `said`: the first of them, as sentences."""

    contradictions: int | None
    said: tuple[str, ...] = ()

    @property
    def failure(self) -> str | None:
        return (
            f"the offset log: {self.contradictions} contradictions, such as {'; '.join(self.said)}"
            if self.said
            else None
        )

    @classmethod
    def of_check(cls, found: PipelineCheck) -> Self:
        if found.standing is None:
            return cls(None)
        said = [f"{one.topic}-{one.partition}: {one.kind}: {one.message}" for one in found.findings]
        return cls(found.contradictions, tuple(said[:_SHOWN]))

    @classmethod
    def of_server(cls, now: Mapping[str, Any], kept: Iterable[Mapping[str, Any]]) -> Self:
        """now: what a check of all that is kept answers. kept: contradictions that were found live, and are marked."""
        if now["standing"] is None:
            return cls(None)
        findings = [finding for partition in now["partitions"] for finding in partition["findings"]]
        found = {_place(one): f"{one['topic']}-{one['partition']}: {one['message']}" for one in findings}
        marked = {_place(one): f"{one['topic']}-{one['partition']}: found live: {one['message']}" for one in kept}
        live_only = [said for place, said in marked.items() if place not in found]
        total = sum(int(partition["contradictions"]) for partition in now["partitions"]) + len(live_only)
        return cls(total, tuple([*found.values(), *live_only][:_SHOWN]))


class Written(NamedTuple):
    """The report of one attempt's process. It is complete only for one that came to its own end.

    life: how often the group's offsets had been deleted when it was started.
    """

    task: int
    attempt: int
    reports: tuple[Report, ...]
    life: int = 0

    @property
    def teller(self) -> Teller:
        return Teller(run=0, ordinal=0, task=self.task, lease=1, attempt=self.attempt)

    @property
    def is_over(self) -> bool:
        return any(report.result is not None or report.error is not None for report in self.reports)

    @property
    def has_begun(self) -> bool:
        """An attempt reports its state before it joins the group: one without a report has committed nothing."""
        return bool(self.reports)


def checked(attempts: Iterable[Written], *, group: str, resumed: Sequence[Offsets] = ()) -> Asked:
    """The reports of all attempts of a run, which are all over.

    resumed: the offsets set after each deletion of the group's offsets, at which the next life must begin. The replay
    compares within a life only: generations begin again with the new group.
    """
    now = datetime.now(UTC)
    begun = [one for one in attempts if one.has_begun]
    heard = [partition for one in begun for partition in _heard(one, group=group, now=now)]
    found = Asked.of_check(
        check(heard, unheard=(), attempted=[_attempted(one) for one in begun], since=None, until=now)
    )
    elsewhere = [
        said
        for life, offsets in enumerate(resumed, start=1)
        for said in _elsewhere([one for one in heard if one.life == life], offsets)
    ]
    return (
        Asked((found.contradictions or 0) + len(elsewhere), (*found.said, *elsewhere)[:_SHOWN]) if elsewhere else found
    )


def _elsewhere(heard: Sequence[ReportedOffsets], resumed: Offsets) -> Iterator[str]:
    """A sentence for each partition in which a life did not begin at the offset that was set.

    Behind it, only where all of that life have reported everything: a killed attempt may have begun there.
    """
    for (topic, partition), offset in sorted(resumed.items()):
        began = min(
            (
                event.offset
                for one in heard
                if (one.topic, one.partition) == (topic, partition)
                for event in one.events
                if isinstance(event, Positioned)
            ),
            default=offset,
        )
        if began < offset:
            yield f"{topic}-{partition}: offsets {began} to {offset - 1} were read again after a resume at {offset}"
        elif began > offset and all(one.is_over for one in heard):
            yield f"{topic}-{partition}: offsets {offset} to {began - 1} were skipped after a resume at {offset}"


def written_in(folder: Path) -> list[Written]:
    """By all attempts that have a folder `task-N-attempt-M` in this one."""
    found: list[Written] = []
    for path in sorted(folder.glob("task-*-attempt-*/reports.jsonl")):
        _, task, _, attempt = path.parent.name.split("-")
        # A line that was not written to its end was never reported.
        lines = path.read_bytes().split(b"\n")[:-1]
        reports = tuple(msgspec.json.decode(line, type=Report) for line in lines)
        found.append(Written(int(task), int(attempt), reports))
    return found


def _heard(written: Written, *, group: str, now: datetime) -> list[ReportedOffsets]:
    told = [partition for report in written.reports for partition in report.offsets]
    found: list[ReportedOffsets] = []
    # Sorting keeps the order of one partition's reports.
    for (topic, number), of_one in groupby(sorted(told, key=lambda one: (one.topic, one.partition)), key=_at):
        entries = list(of_one)
        # A checkpoint is reported again, under its number, when it has grown.
        events: dict[int, Event] = {event.index: event for entry in entries for event in entry.events}
        found.append(
            ReportedOffsets(
                group=group,
                topic=topic,
                partition=number,
                teller=written.teller,
                run_id="run",
                host=None,
                events=tuple(events.values()),
                recorded=entries[-1].recorded,
                # A killed attempt may have committed since its last report.
                is_open=not written.is_over,
                is_over=written.is_over,
                complete_at=None,
                newest_at=now,
                life=written.life,
            )
        )
    return found


def _at(told: Any) -> tuple[str, int]:
    return told.topic, told.partition


def _attempted(written: Written) -> Attempted:
    told = [event for report in written.reports for one in report.offsets for event in one.events]
    generations = [event.generation for event in told if isinstance(event, Assigned) and event.generation is not None]
    return Attempted(
        teller=written.teller,
        is_over=written.is_over,
        complete_at=None,
        first=min(generations, default=None),
        last=max(generations, default=None),
        life=written.life,
    )


def _place(finding: Mapping[str, Any]) -> tuple[str, int, str, int]:
    return finding["topic"], finding["partition"], finding["kind"], finding["start"]
