"""Commands of the log that may have caused a loss without a recorded command."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from app.core.access.command import Command
from app.core.access.store.commands import CommandStore
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.cause import judge_case
from app.core.fencing.epoch_verdict import COMMAND_WINDOW_MS
from app.core.fencing.evidence import merged
from app.core.fencing.fencing_event import Case, Confidence, FencingCause, FencingEvent
from app.core.fencing.service.own_commands import OwnCommands
from app.kit.access import Role, Verb
from tests.core.fencing.coordinator import CLUSTER, ID, Coordinator
from tests.core.fencing.scenes import epoch_event, marker, marker_event
from tests.support.unit_of import UnitOf

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)
AT = NOW - timedelta(hours=1)
FENCE = Command(
    id=9,
    at=AT,
    who="olivia",
    role=Role.OPERATOR,
    verb=Verb.FENCE_TRANSACTION,
    target="cluster:c",
    why="its host is gone",
    details={"transactional_id": ID, "force": True},
    outcome="asked",
)
END = msgspec.structs.replace(
    FENCE,
    verb=Verb.END_TRANSACTION,
    details={"topic": "delayed", "partition": 0, "producer_id": 7, "producer_epoch": 0, "start_offset": 5},
)


class Log:
    """A command log, the registered clusters, and nothing else of a unit of work."""

    def __init__(self, *commands: Command) -> None:
        self._kept = commands
        self.asked = 0

    async def list_all(self) -> list[Cluster]:
        return [
            Cluster(name=name, kafka_cluster_id=of, bootstrap_servers="b", created_at=NOW, created_by="anna")
            for name, of in (("c", CLUSTER), ("elsewhere", "another"))
        ]

    async def since(self, moment: datetime, *, targets: Collection[str], verbs: Collection[str]) -> Sequence[Command]:
        self.asked += 1
        return [one for one in self._kept if one.at >= moment and one.target in targets and one.verb in verbs]

    def own_commands(self) -> OwnCommands:
        return OwnCommands(UnitOf({CommandStore: self, ClusterStore: self}), now=NOW)


def taken_over(*, is_in_use: bool = False) -> FencingEvent:
    coordinator = Coordinator(now_ms=int(AT.timestamp() * 1000))
    coordinator.begin()
    coordinator.init(after_ms=300)
    if is_in_use:
        coordinator.begin()
    return epoch_event(coordinator.live, 0)


async def with_commands(event: FencingEvent, log: Log) -> FencingEvent:
    words = await log.own_commands().words_for(event)
    found = judge_case(Case(event.key, merged(event.evidence, words)))
    assert found is not None
    return found


async def test_fence_without_an_answer_is_likely_the_operators() -> None:
    event = taken_over()
    assert event.verdict.cause is FencingCause.TAKEOVER
    verdict = (await with_commands(event, Log(FENCE))).verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.OPERATOR_FENCE, Confidence.LIKELY)
    assert verdict.alternatives == (FencingCause.TAKEOVER,)
    assert "olivia fenced" in verdict.sentence


@pytest.mark.parametrize(
    "command",
    [
        msgspec.structs.replace(FENCE, details={"transactional_id": "another", "force": True}),
        msgspec.structs.replace(FENCE, target="cluster:elsewhere"),
        msgspec.structs.replace(FENCE, at=AT - timedelta(milliseconds=COMMAND_WINDOW_MS + 1_000)),
        END,
    ],
    ids=["another id", "another cluster", "long before", "an end"],
)
async def test_other_commands_do_not_explain_a_takeover(command: Command) -> None:
    assert (await with_commands(taken_over(), Log(command))).verdict.cause is FencingCause.TAKEOVER


async def test_log_is_queried_once_and_only_for_possible_commands() -> None:
    log = Log(FENCE)
    commands = log.own_commands()
    assert await commands.words_for(taken_over(is_in_use=True)) == ()
    assert log.asked == 0
    event = taken_over()
    assert len(await commands.words_for(event)) == len(await commands.words_for(event)) == 1
    assert log.asked == 1
    # Once it has a command, the event needs no other.
    assert await commands.words_for(await with_commands(event, log)) == ()


@pytest.mark.parametrize(("partition", "by"), [(0, "olivia ended"), (1, "An unknown client ended")])
async def test_end_without_an_answer_is_found_by_its_marker(partition: int, by: str) -> None:
    event = marker_event(marker(at_ms=int(AT.timestamp() * 1000) + 200, partition=partition), None)
    assert event is not None
    assert (await with_commands(event, Log(END, FENCE))).verdict.sentence.startswith(by)
