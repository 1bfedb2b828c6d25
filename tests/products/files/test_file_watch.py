"""References are read as they come, counted once whoever reads, and what is in the way is told and gone round."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.kit.errors import BrokerUnreachableError, InvalidError, UnavailableError
from app.products.files.loops import cluster_files
from app.products.files.loops.cluster_files import MOST_BATCHES, MOST_MESSAGES
from app.products.files.loops.file_watch import FileWatch
from app.products.files.reading import LEFT_AFTER, WatchedPipeline
from tests.support.reference_topics import KeptFiles, PlayedTopic, PlayedTopics
from tests.support.written_files import message, reference

FLIGHTS = WatchedPipeline("flights", "test", "out")
AWAY = BrokerUnreachableError("127.0.0.1:9", "no answer", 5.0)


@dataclass
class Watched:
    """A topic with three references, its pipeline, and the watch; `passed_s` is what its pauses are measured by."""

    topics: PlayedTopics
    kept: KeptFiles
    watch: FileWatch
    passed_s: list[float] = field(default_factory=lambda: [0.0])

    @property
    def topic(self) -> PlayedTopic:
        return self.topics.topics["out"]

    def another(self) -> FileWatch:
        """That of another server."""
        return watch_of(self.topics, self.kept)

    def paths(self, pipeline: str = "flights") -> list[str]:
        return sorted(self.kept.files.get(pipeline, {}))


def watch_of(topics: PlayedTopics, kept: KeptFiles) -> FileWatch:
    clock = cast(Any, SimpleNamespace(now=lambda: kept.now))
    return FileWatch(unit_of_work=kept.unit_of_work, topics=topics, clock=clock)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    topic = PlayedTopic()
    topic.put(*(message(number) for number in range(3)))
    topics, kept = PlayedTopics(out=topic), KeptFiles(pipelines=[FLIGHTS])
    made = Watched(topics, kept, watch_of(topics, kept))
    monkeypatch.setattr(cluster_files, "time", SimpleNamespace(monotonic=lambda: made.passed_s[0]))
    return made


async def test_references_are_kept_once_however_often_it_looks(watched: Watched) -> None:
    for _ in range(3):
        await watched.watch.turn()
    assert len(watched.paths()) == watched.kept.totals["flights"].files == 3
    watched.topic.put(message(4))
    await watched.watch.turn()
    assert watched.kept.totals["flights"].records == 40
    assert watched.topics.opened == 1, "the connection is kept"


async def test_pipelines_of_records_are_not_asked_about(watched: Watched) -> None:
    watched.kept.pipelines = []
    await watched.watch.turn()
    assert (watched.kept.statements, watched.topics.opened) == (1, 0)


async def test_turn_is_bounded_and_the_next_one_goes_on(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_files, "MOST_MESSAGES", 2)
    watched.topic.put(*(message(number) for number in range(2 * MOST_BATCHES + 3)))
    await watched.watch.turn()
    assert len(watched.paths()) == 2 * MOST_BATCHES
    assert watched.kept.statements <= 4 + 10 * MOST_BATCHES
    await watched.watch.turn()
    assert len(watched.paths()) == 2 * MOST_BATCHES + 3
    assert MOST_MESSAGES == 1_000


async def test_two_servers_that_both_believe_to_have_the_lock_count_once(watched: Watched) -> None:
    """The second has asked how far it was read before the first has committed."""
    second = watched.another()
    read = watched.topics.read

    def interleaved(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        if stolen:
            watched.kept.readings["flights"] = stolen.pop()
        return found

    stolen: list[Any] = []
    await watched.watch.turn()
    first = list(watched.kept.readings["flights"])
    watched.kept.readings.clear()
    stolen.append(first)
    watched.topics.read = interleaved
    await second.turn()
    assert watched.kept.totals["flights"].files == 3
    await second.turn()
    assert watched.kept.totals["flights"].files == 3


async def test_dead_brokers_are_told_once_rested_from_and_come_back(watched: Watched) -> None:
    watched.topics.trouble = AWAY
    await watched.watch.turn()
    assert "no answer" in watched.kept.problems["flights"]
    before = watched.topics.opened
    watched.topics.trouble = None
    await watched.watch.turn()
    assert (watched.topics.opened, watched.paths()) == (before, []), "it rests first"
    watched.passed_s[0] += 1.1
    await watched.watch.turn()
    assert len(watched.paths()) == 3
    assert watched.kept.problems["flights"] == ""


async def test_connection_that_fails_is_let_go(watched: Watched) -> None:
    await watched.watch.turn()
    assert watched.topics.open_now == 1
    watched.topics.trouble = AWAY
    await watched.watch.turn()
    assert watched.topics.open_now == 0
    watched.topics.trouble = None
    watched.passed_s[0] += 1.1
    await watched.watch.turn()
    await watched.watch.close()
    assert watched.topics.open_now == 0


async def test_dead_postgres_loses_nothing_and_counts_nothing_twice(watched: Watched) -> None:
    watched.kept.trouble = UnavailableError("Postgres does not answer")
    with pytest.raises(UnavailableError, match="Postgres"):
        await watched.watch.turn()
    watched.watch.interrupted()
    watched.kept.trouble = None
    await watched.watch.turn()
    assert watched.kept.totals["flights"].files == 3
    assert watched.kept.problems == {"flights": ""}


async def test_topic_that_is_not_there_does_not_stop_the_others(watched: Watched) -> None:
    watched.kept.pipelines = [WatchedPipeline("absent", "test", "nowhere"), FLIGHTS]
    await watched.watch.turn()
    assert len(watched.paths()) == 3
    assert "no topic nowhere" in watched.kept.problems["absent"]
    assert watched.kept.problems["flights"] == ""


async def test_silent_partition_stays_told_until_it_answers(watched: Watched) -> None:
    watched.topics.silent["out"] = "the leader of out-0 does not answer"
    for _ in range(2):
        await watched.watch.turn()
        assert watched.kept.problems["flights"] == "the leader of out-0 does not answer"
    watched.topics.silent.clear()
    await watched.watch.turn()
    assert watched.kept.problems["flights"] == ""


async def test_what_cannot_be_kept_is_told_and_does_not_stop_the_others(watched: Watched) -> None:
    watched.kept.pipelines = [WatchedPipeline("broken", "test", "out"), FLIGHTS]
    watched.kept.refused["broken"] = InvalidError("a value cannot be stored")
    await watched.watch.turn()
    assert watched.kept.problems["broken"] == "a value cannot be stored"
    assert len(watched.paths()) == 3


async def test_bug_that_one_pipeline_brings_out_does_not_hide_the_others(watched: Watched) -> None:
    watched.kept.pipelines = [WatchedPipeline("broken", "test", "out"), FLIGHTS]
    watched.kept.refused["broken"] = cast(Any, ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await watched.watch.turn()
    assert len(watched.paths()) == 3


async def test_pipeline_that_is_deleted_while_it_is_read_is_passed_over(watched: Watched) -> None:
    read = watched.topics.read

    def deleted(*arguments: Any, **options: Any) -> Any:
        watched.kept.pipelines = []
        return read(*arguments, **options)

    watched.topics.read = deleted
    await watched.watch.turn()
    assert watched.paths() == []


async def test_topic_made_anew_is_read_from_its_beginning(watched: Watched) -> None:
    await watched.watch.turn()
    watched.topics.topics["out"] = anew = PlayedTopic(topic_id="id-2")
    anew.put(*(message(number, reference(100 + number)) for number in range(9)))
    await watched.watch.turn()
    assert len(watched.paths()) == 12
    (reading,) = watched.kept.readings["flights"]
    assert "recreated" in reading.begun_again


async def test_reading_again_from_the_beginning_counts_nothing_twice(watched: Watched) -> None:
    """The log ends before where it was read, and has some of the old references."""
    await watched.watch.turn()
    watched.topic.messages.pop(2)
    watched.topic.end = 2
    for _ in range(2):
        await watched.watch.turn()
    (reading,) = watched.kept.readings["flights"]
    assert "ends before the read offset 4" in reading.begun_again
    assert watched.kept.totals["flights"].files == 3
    assert all(not reception.repeated for _, reception in watched.kept.receptions)


async def test_file_that_is_named_twice_is_said(watched: Watched) -> None:
    watched.topic.put(message(3, reference(0)))
    await watched.watch.turn()
    (_, reception) = watched.kept.receptions[-1]
    assert reception.repeated == 1
    assert "out-0 at offset 3" in reception.repetition
    assert "out-0 at offset 0" in reception.repetition
    assert watched.kept.totals["flights"].files == 3


async def test_that_it_looked_is_written_now_and_then(watched: Watched) -> None:
    await watched.watch.turn()
    await watched.watch.turn()
    assert watched.kept.looks == ["flights"]
    watched.passed_s[0] += cluster_files.TELL_AGAIN_S
    await watched.watch.turn()
    assert watched.kept.looks == ["flights", "flights"]


async def test_former_sink_topic_is_read_on_and_then_left(watched: Watched) -> None:
    await watched.watch.turn()
    watched.topics.topics["new"] = PlayedTopic()
    watched.kept.pipelines = [FLIGHTS._replace(sink_topic="new")]
    watched.topic.put(message(9))
    await watched.watch.turn()
    assert len(watched.paths()) == 4
    watched.kept.now += LEFT_AFTER + timedelta(seconds=1)
    watched.topics.reads.clear()
    await watched.watch.turn()
    assert {topic for topic, _ in watched.topics.reads} == {"new"}


async def test_former_sink_topic_that_does_not_answer_is_told_and_one_that_is_gone_is_not(watched: Watched) -> None:
    """A task of the revision before may commit to it still: all that is committed is not read then."""
    await watched.watch.turn()
    watched.topics.topics["new"] = PlayedTopic()
    watched.kept.pipelines = [FLIGHTS._replace(sink_topic="new")]
    watched.topics.silent["out"] = "the leader of out-0 does not answer"
    await watched.watch.turn()
    assert watched.kept.problems["flights"] == "the leader of out-0 does not answer"
    watched.topics.silent.clear()
    del watched.topics.topics["out"]
    await watched.watch.turn()
    assert watched.kept.problems["flights"] == ""


async def test_another_cluster_at_the_address_is_refused(watched: Watched) -> None:
    watched.topics.kafka_cluster_id = "another"
    await watched.watch.turn()
    assert "another" in watched.kept.problems["flights"]
    assert watched.paths() == []
    assert watched.topics.open_now == 0


async def test_clusters_without_file_pipelines_are_let_go(watched: Watched) -> None:
    await watched.watch.turn()
    watched.kept.pipelines = []
    await watched.watch.turn()
    assert watched.topics.open_now == 0
