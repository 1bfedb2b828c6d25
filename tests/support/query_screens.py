"""The content of core's pages about a query: its group, and the check of its blocked consumers."""

from __future__ import annotations

from typing import Any

import msgspec

from app.core.blocked import pages as stuck
from app.core.blocked.facts import GroupFacts, GroupPosition, TaskOwner
from app.core.blocked.group_diagnosis import diagnose_group
from app.core.blocked.stretch import LogStretch
from app.core.journals.group_records import ClassicGroup
from app.core.journals.group_values.classic import ClassicMember
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.observing.group_list import members_of
from app.core.observing.pages.groups import offset_rows, row_of
from app.core.observing.pages.reading import reading_of
from app.core.observing.snapshot import ReadingPhase
from tests.core.blocked.answers import NOW_MS, asked, held, known, read_through
from tests.support.observing import cluster
from tests.support.page_samples import NOW


def group() -> dict[str, Any]:
    """The group of a query of two writers, the second of which has a transaction open."""
    now_ms = int(NOW.timestamp() * 1000)
    made = cluster()
    made.enter(made.groups.topic, ReadingPhase.LIVE, now_ms=now_ms)
    snapshot = made.snapshot(now_ms=now_ms)
    plan = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

    def marker(batch: int, producer_id: int) -> CommittedOffset:
        metadata = f"fenceline/1 5b0c6f6e-2f0f-4a5e-9a59-6a6f0b1f7e11 {batch} 2 {plan} -"
        return CommittedOffset(OffsetCommit(batch + 1, metadata=metadata, commit_ms=now_ms - 900), 7, producer_id, 3)

    offsets = {("flights", number): CommittedOffset(OffsetCommit(90_000 + number), 6, 70, 3) for number in (0, 1)}
    markers = {("delay-per-carrier", number): marker(41, 70 + number) for number in (0, 1)}
    member = ClassicMember("flights-driver-5b0c6f6e", "flights-driver", "fenceline-flights-0-0-l1-a0", "/10.0.0.7")
    live = LiveGroup(
        "delay-per-carrier",
        classic=ClassicGroup("consumer", 4, members=(member,)),
        offsets=offsets | markers,
        pending={("delay-per-carrier", 1, 71): marker(42, 71)},
        partition=3,
    )
    rows = offset_rows(live, {70: "fl.t.flights.0.0", 71: "fl.t.flights.0.1"})
    return {
        "cluster": "demo",
        "name": live.group,
        "reading": reading_of(snapshot, snapshot.group_journal, now=NOW),
        "row": row_of(live),
        "lag": None,
        "sampling": "",
        "not_decoded": live.not_decoded,
        "protocol": "range",
        "leader": member.member_id,
        "members": members_of(live),
        "offsets": rows,
        "overlaps": [],
        "overlap_counts": {},
        "is_query": True,
        "rebalances": [],
        "offsets_aborted": 0,
        "is_from_journal": True,
        "fencings": [],
        "timeline": None,
    }


def stuck_group() -> dict[str, Any]:
    """The group of a query that is behind in one source partition; a writer of it blocks consumers of another one."""
    holder = msgspec.structs.replace(known(timeout_ms=60_000), transactional_id="fl.t.flights.0.0")
    owner = TaskOwner(name="writer 0 of the query flights on w3 (running)", heartbeat_ms=NOW_MS - 900)
    behind = GroupPosition(partition=read_through(held(None)), committed=4, ahead=LogStretch(4, 14, records=10))
    positions = (behind, GroupPosition(partition=held(holder), committed=10))
    facts = GroupFacts(
        group="delay-per-carrier",
        state="Stable",
        members=1,
        described_at_ms=NOW_MS,
        offsets_at_ms=NOW_MS,
        positions=positions,
        is_query=True,
    )
    found = diagnose_group(facts, asked(owners={holder.transactional_id: owner}))
    return {
        "clusters": ["demo"],
        "cluster": "demo",
        "target": facts.group,
        "kind": "group",
        "problem": None,
        "found": stuck._shown(found),  # pyright: ignore[reportPrivateUsage] - the context of a view
    }
