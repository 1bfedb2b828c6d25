"""The part of the logs around a wrong record: of a pipeline that failed, as brokers wrote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fault_suite.decided import Writer
from tests.fault_suite.first_wrong import Cut, cut
from tests.fault_suite.judging import Verdict, Where
from tests.fault_suite.lines_around import lines_around, time_of
from tests.fault_suite.recorded_run import logs, records, topics, verdict

TOPICS = topics()


@pytest.fixture(scope="module")
def judged() -> Verdict:
    return verdict()


@pytest.fixture(scope="module")
def doubled(judged: Verdict) -> Cut:
    assert judged.duplicated.first is not None
    return cut(judged.duplicated.first, logs, TOPICS)


def marked(cut: Cut, topic: str) -> list[str]:
    return [line for name, lines in cut.lines.items() if name.startswith(topic) for line in lines if line[0] == ">"]


def test_the_recorded_pipeline_has_duplicated_its_records(judged: Verdict) -> None:
    assert (judged.expected, judged.duplicated.count) == (220, 200)


def test_both_copies_of_a_record_are_there_with_the_ends_of_their_transactions(judged: Verdict, doubled: Cut) -> None:
    assert judged.duplicated.first is not None
    sink = judged.duplicated.first.sink
    assert sink is not None
    copies = [line for line in marked(doubled, TOPICS.sink) if " transactional " in line]
    ranges = [tuple(map(int, line.split()[1].split(".."))) for line in copies]
    assert len(ranges) == 2
    assert [begin <= sink[1] <= end for begin, end in ranges] == [False, True]
    assert len([line for line in marked(doubled, TOPICS.sink) if " COMMIT " in line]) == 2


def test_its_input_and_the_offsets_that_passed_it_are_there(doubled: Cut) -> None:
    (source,) = marked(doubled, TOPICS.source)
    assert " plain " in source
    passed = [line for line in marked(doubled, "__consumer_offsets") if " transactional " in line]
    assert [line.rpartition(": {")[2] for line in passed] == ["0: 220}"] * 2


def test_the_coordinators_records_of_both_producers_are_included(doubled: Cut) -> None:
    said = [line for name, lines in doubled.lines.items() if name.startswith("__transaction_state") for line in lines]
    committed = {found[1] for line in said if (found := re.search(r"CompleteCommit, producer (\d+)", line))}
    writers = {
        found[1] for line in marked(doubled, TOPICS.sink) if (found := re.search(r"producer (\d+)", line)) is not None
    }
    assert len(writers) == 2
    assert committed == writers


def test_batches_far_away_are_not_included() -> None:
    first, last = Where(source=(0, 0)), Where(source=(0, 219))
    assert cut(first, logs, TOPICS).lines != cut(last, logs, TOPICS).lines
    shown = [line for line in cut(first, logs, TOPICS).lines[f"{TOPICS.sink}-0"] if line[0] == ">"]
    whole = [batch for _, batch in logs(TOPICS.sink)]
    assert len(shown) < len(whole)


def test_of_outputs_of_which_only_the_producer_is_known_its_first_are_shown() -> None:
    batch = next(batch for _, batch in logs(TOPICS.sink) if records(batch))
    found = cut(Where(writer=Writer(batch.producer_id, batch.producer_epoch)), logs, TOPICS)
    assert marked(found, TOPICS.sink)[0].split()[1] == f"{batch.base_offset}..{batch.last_offset}"


@pytest.mark.parametrize(
    "line",
    [
        "%4|1795334907.772|GETPID|fenceline#producer-3| Failed to acquire",
        "1970-01-01 00:00:01,500 INFO workers: x",
        "[2026-11-22 08:08:19,354] INFO Registered",
        "26/11/22 08:23:29 WARN NativeCodeLoader: Unable",
    ],
)
def test_every_kind_of_line_says_when_it_was_written(line: str) -> None:
    assert time_of(line) is not None


def test_lines_about_then_are_kept_with_their_tracebacks_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "workers" / "task-0").mkdir(parents=True)
    (tmp_path / "workers" / "task-0" / "stderr.log").write_text(
        "%4|100.000|LONG|before\n%4|200.500|FAIL|then\n  File x, line 1\n%4|300.000|LONG|after\n"
    )
    (tmp_path / "server.log").write_text("nothing with a time\n")
    assert list(lines_around(tmp_path, {201_000})) == [
        "## workers/task-0/stderr.log",
        "%4|200.500|FAIL|then",
        "  File x, line 1",
    ]
