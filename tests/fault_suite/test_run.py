"""The entry of a run, after every kind of end: no broker, no pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import msgspec
import pytest

from tests.fault_suite import run
from tests.fault_suite.first_wrong import Cut
from tests.fault_suite.freeze_points import Point
from tests.fault_suite.freezes import Outlasted
from tests.fault_suite.judging import Verdict, Where, Wrong
from tests.fault_suite.ledger import Entry, KindFigures
from tests.fault_suite.offset_log import Asked
from tests.fault_suite.plan import Fault, Kind, NotDoneError, faults
from tests.fault_suite.run import SILENCE, CutOffError, Run, finish, run_on
from tests.fault_suite.standstill import Standstills
from tests.fault_suite.trail import Trail


def test_a_run_that_did_not_come_to_its_end_is_entered_and_leaves_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "7-1"
    folder.mkdir()
    made = Run(7, folder)
    made.failed(TimeoutError("not at rest"))
    entry = made.entry("nowhere")
    finish(entry, folder)
    assert not entry.is_exact
    assert (entry.seed, entry.faults, entry.cluster, entry.failure) == (7, 0, "nowhere", "TimeoutError: not at rest")
    assert (folder / "failure.txt").read_text() == "TimeoutError: not at rest\n"
    assert "TimeoutError: not at rest" in (folder / "traceback.txt").read_text()


def test_a_run_that_went_well_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "7-2"
    folder.mkdir()
    finish(msgspec.structs.replace(Run(7, folder).entry("nowhere"), judged=True), folder)
    assert not folder.exists()


@pytest.mark.parametrize(("is_cut", "keeps"), [(True, False), (True, True), (False, False)])
def test_whole_logs_are_left_of_the_journals_only_where_the_rest_was_cut(
    tmp_path: Path, is_cut: bool, keeps: bool
) -> None:
    data = tmp_path / "kafka" / "broker-2" / "data"
    for name in ("p-1.in-0", "p-1.out-10", "__consumer_offsets-3"):
        (data / name).mkdir(parents=True)
    (data / "cleaner-offset-checkpoint").write_text("0")
    if is_cut:
        (tmp_path / "around").mkdir()
    made = Run(7, tmp_path)
    made.failed(AssertionError("wrong"))
    finish(made.entry("nowhere"), tmp_path, keeps=keeps)
    dropped = set[str]() if keeps or not is_cut else {"p-1.in-0", "p-1.out-10"}
    names = {"p-1.in-0", "p-1.out-10", "__consumer_offsets-3", "cleaner-offset-checkpoint"}
    assert {path.name for path in data.iterdir()} == names - dropped


def test_a_run_without_a_verdict_is_not_exact_though_nothing_is_known_to_be_wrong(tmp_path: Path) -> None:
    entry = Run(7, tmp_path).entry("nowhere")
    assert (entry.failure, entry.judged, entry.is_exact) == (None, False, False)


class Clock:
    """Continues when the test releases it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class Following:
    """Was given one output of each source partition, and nothing more."""

    def __init__(self, standstills: Standstills, clock: Clock) -> None:
        self.trail = Trail()
        self._standstills = standstills
        self._clock = clock

    def start(self) -> None:
        self.trail.saw(0, 0, b"0:00000000")
        self._standstills.output(0, self._clock.now_s)

    def finish(self, _ends: object, *, deadline_s: float) -> None:
        """It has read all."""


class Feeding:
    def __init__(self, written: int) -> None:
        self.written = written

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Known:
    """A judge's finding: one record, copied once."""

    def __init__(self, *, is_through: bool = True) -> None:
        self._is_through = is_through
        self.is_quiet = False

    def is_through(self) -> bool:
        return self._is_through

    def source_ends(self) -> dict[int, int]:
        return {0: 1}

    consumed = sink_ends = source_ends

    def is_decided(self) -> bool:
        return True

    def judge(self, followed: Trail, *, batches_to: Path, is_through: bool) -> tuple[Verdict, list[str]]:
        assert self.is_quiet, "a task still writes the records that are judged"
        assert followed.count == 1
        fine = Wrong()
        doubled = fine if is_through else Wrong(2, first=Where(sink=(0, 7)))
        return Verdict(1, 1, 1, 0, fine if is_through else None, doubled, fine, fine, fine, fine, fine, fine), []

    def around(self, where: Where) -> Cut:
        return Cut({"copies-0": [f"> {where.sink}"]}, {1_000})


FINE = Asked(0)


class Scene:
    """A stage on which nothing runs. acts: what becomes of each fault. settles_at_s: on its clock."""

    name = "nowhere"
    is_over = False

    def __init__(
        self,
        clock: Clock,
        acts: Sequence[BaseException | str | None] = (),
        *,
        facts: Known | None = None,
        settles_at_s: float = 0.0,
        drains: bool = True,
        asked: Asked = FINE,
    ) -> None:
        self.pipeline = cast(Any, SimpleNamespace(bootstrap_servers="", sink="", partitions=1))
        self.kinds = (Kind.SLOW,)
        self.freezes = {Point.IN_REVOKE.value: {Outlasted.BOTH: 1}}
        self.facts = cast(Any, facts or Known())
        self._acts = iter(acts)
        self._clock = clock
        self._settles_at_s = settles_at_s
        self._drains = drains
        self._asked = asked

    def __enter__(self) -> object:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_over = True

    def do(self, fault: Fault, did: Callable[[str], None], *, wait: Callable[[float], object]) -> None:
        act = next(self._acts)
        if isinstance(act, BaseException):
            raise act
        if act is not None:
            did(act)

    def lines_of_silence(self) -> Iterator[str]:
        yield f"at {self._clock.now_s:g} s in-0 has no owner; {'over' if self.facts.is_quiet else 'at work'}"

    def explanations(self) -> list[str]:
        return []

    def ask_offset_log(self) -> Asked:
        return self._asked

    def settle(self) -> None:
        self._clock.now_s += self._settles_at_s

    def drain(self) -> None:
        self._clock.now_s += 30
        if self._drains:
            self.facts.is_quiet = True
        else:
            raise AssertionError("task 1 goes on")

    def end(self) -> None:
        self.facts.is_quiet = True


# None of its first faults waits until records flow again, which they do not here.
SEED = next(seed for seed in count() if not any(fault.is_awaited for fault in islice(faults(seed, (Kind.SLOW,)), 3)))


def feeds(monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    def feeder(_pipeline: object, **_settings: object) -> Feeding:
        return Feeding(written)

    monkeypatch.setattr(run, "Feeder", feeder)


class Waiting:
    """In no time."""

    def wait(self, _seconds: float) -> bool:
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A run that waits for nothing, without feeder and consumer."""
    clock = Clock()
    monkeypatch.setattr(run, "time", clock)
    monkeypatch.setattr(run, "threading", SimpleNamespace(Event=Waiting))
    feeds(monkeypatch, 1)

    def follower(_servers: str, _sink: str, standstills: Standstills) -> Following:
        return Following(standstills, clock)

    monkeypatch.setattr(run, "Follower", follower)
    monkeypatch.setattr(run, "_REST_WITHIN_S", 0.0)
    return clock


def entry_of(scene: Scene, folder: Path, *, at_most: int) -> Entry:
    return run_on(scene, seed=SEED, folder=folder, minutes=1, at_most=at_most)


def test_a_fault_that_came_too_late_is_not_counted_and_another_one_takes_its_place(
    clock: Clock, tmp_path: Path
) -> None:
    entry = entry_of(Scene(clock, [NotDoneError("it has ended by itself"), "done", "done"]), tmp_path, at_most=2)
    assert entry.is_exact, entry.failure
    assert (entry.faults, entry.not_done, entry.by_kind) == (2, 1, {Kind.SLOW: KindFigures(2, 0.0)})
    assert entry.freezes == {"in-revoke": {Outlasted.BOTH: 1}}
    log = (tmp_path / "faults.jsonl").read_text().splitlines()
    assert "NotDoneError: it has ended by itself" in log[1]


def test_a_fault_without_a_target_ends_the_run_and_is_not_counted(clock: Clock, tmp_path: Path) -> None:
    entry = entry_of(Scene(clock, ["done", None, "done"]), tmp_path, at_most=3)
    assert (entry.faults, entry.is_exact) == (1, False)
    assert "the target of slow was not reported" in (entry.failure or "")


def test_a_fault_that_could_not_be_done_does_not_keep_the_judge_from_judging(clock: Clock, tmp_path: Path) -> None:
    entry = entry_of(Scene(clock, [AssertionError("no driver")]), tmp_path, at_most=1)
    assert (entry.judged, entry.records, entry.is_exact) == (True, 1, False)
    assert entry.failure == "AssertionError: no driver"


def test_a_run_that_does_not_come_to_rest_is_judged_without_missing_records(clock: Clock, tmp_path: Path) -> None:
    entry = entry_of(Scene(clock, ["done"], facts=Known(is_through=False), settles_at_s=200), tmp_path, at_most=1)
    assert (entry.judged, entry.is_exact) == (False, False)
    assert (entry.lost, entry.duplicated, entry.torn, entry.out_of_order) == (None, 2, 0, 0)
    assert entry.records == 1
    assert "duplicated: 2" in (entry.failure or "")
    assert (tmp_path / "around" / "duplicated.txt").read_text() == "# duplicated: 2\n\n## copies-0\n> (0, 7)\n\n\n"
    assert entry.longest_standstill_s == 200.0


def test_owners_are_recorded_while_quiet_workers_are_still_at_work(clock: Clock, tmp_path: Path) -> None:
    entry_of(Scene(clock, ["done"], facts=Known(is_through=False), settles_at_s=200), tmp_path, at_most=1)
    assert (tmp_path / SILENCE).read_text() == "# not at rest\nat 200 s in-0 has no owner; at work\n\n"


def test_a_fault_without_outputs_after_it_leaves_a_record_of_owners(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FLOWS_WITHIN_S", 0.0)
    seed = next(seed for seed in count() if next(faults(seed, (Kind.SLOW,))).is_awaited)
    entry = run_on(Scene(clock, ["done"]), seed=seed, folder=tmp_path, minutes=1, at_most=1)
    assert "outputs of every partition; none from [0]" in (entry.failure or "")
    assert (tmp_path / SILENCE).read_text() == "# after slow, number 0\nat 0 s in-0 has no owner; at work\n\n"


def test_losses_are_judged_too_when_all_has_come_out_and_a_task_does_not_drain(clock: Clock, tmp_path: Path) -> None:
    entry = entry_of(Scene(clock, ["done"], drains=False), tmp_path, at_most=1)
    assert (entry.judged, entry.lost, entry.is_exact) == (True, 0, False)
    assert entry.failure == "AssertionError: task 1 goes on"


@pytest.mark.parametrize(
    ("asked", "is_exact"), [(Asked(0), True), (Asked(None), True), (Asked(2, ("in-0: gap: 10 to 14",)), False)]
)
def test_a_run_whose_tasks_recorded_contradictions_has_failed(
    clock: Clock, tmp_path: Path, asked: Asked, is_exact: bool
) -> None:
    entry = entry_of(Scene(clock, ["done"], asked=asked), tmp_path, at_most=1)
    assert (entry.offset_log, entry.judged, entry.is_exact) == (asked.contradictions, True, is_exact)
    assert ("the offset log: 2 contradictions, such as in-0: gap: 10 to 14" in (entry.failure or "")) is not is_exact


def test_a_run_that_was_cut_off_is_entered_without_a_verdict(clock: Clock, tmp_path: Path) -> None:
    scene = Scene(clock, ["done", CutOffError("SIGTERM")])
    entry = entry_of(scene, tmp_path, at_most=3)
    assert (entry.judged, entry.faults, entry.failure) == (False, 1, "CutOffError: SIGTERM")
    assert (entry.lost, entry.duplicated, entry.torn, entry.out_of_order) == (None, None, None, None)
    assert scene.is_over


def test_when_all_has_come_out_the_drain_is_no_standstill(clock: Clock, tmp_path: Path) -> None:
    entry = entry_of(Scene(clock, ["done"]), tmp_path, at_most=1)
    assert clock.now_s == 30
    assert entry.is_exact, entry.failure
    assert entry.longest_standstill_s == 0.0


def test_records_that_the_source_does_not_have_any_more_are_reported(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that brokers lost at the end of the source leave no gap there, and none are missing in the sink."""
    feeds(monkeypatch, 3)
    entry = entry_of(Scene(clock, ["done"]), tmp_path, at_most=1)
    assert entry.failure == "3 records were fed, the source has 1"
