"""A file is uploaded and referenced while the collector runs, at each of its steps: no referenced file is deleted.

Every order is tried in which the steps of a sink that keeps its times can fall between those of the collector. The
controls take one rule away each, and then one of the orders deletes a referenced file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import pytest

from app.products.files import orphans
from app.products.files.orphans import KnownSince, Margin
from app.products.files.reader import collecting
from app.products.files.reader.collecting import OrphanCollector
from app.products.files.reader.errors import ReferencesUnreadableError
from tests.support.file_worlds import MemoryStore, MemoryTopic, World, reference_to

PATH = f"flights/day=1/{1:032x}.avro"
OTHER = f"flights/day=1/{2:032x}.avro"
MARGIN = Margin(rotation_ms=1_000, upload_ms=1_000, standstill_ms=1_000, transaction_ms=1_000, clocks_ms=1_000)
STEPS = 8
"""Of the collector, that those of a sink may fall before: see `step` in Collector."""

Event = str
Order = tuple[tuple[Event, int], ...]
"""Each event of the sink, and before which step of the collector it happens; STEPS: after all of them."""

UPLOAD, WRITE, DECIDE, MARK, ABORT, WAIT, NEXT, TRUNCATE = (
    "upload", "write", "decide", "mark", "abort", "wait", "next", "truncate"
)  # fmt: skip


def orders(events: Sequence[Event]) -> Iterator[Order]:
    """All placements of these events, in this order, between the collector's steps."""
    for steps in combinations_with_replacement(range(STEPS + 1), len(events)):
        yield tuple(zip(events, steps, strict=True))


def with_waits(events: Sequence[Event]) -> Iterator[tuple[Event, ...]]:
    """With a time longer than the margin before, between or after; but not between an upload and the decision."""
    for at in range(len(events) + 1):
        before = events[:at]
        if UPLOAD in before and not {DECIDE, ABORT} & set(before):
            continue
        yield (*before, WAIT, *events[at:])


class Run:
    """One collector with one sink, in one order."""

    def __init__(self, order: Order, *, is_first_incarnation: bool = True, margin: Margin = MARGIN) -> None:
        self.world = World()
        self.store = MemoryStore(self.world)
        self.topic = MemoryTopic(self.world)
        self.is_decided = False
        self._left = list(order)
        self._step = 0
        # What was always there, so that the topic is no empty one.
        self.store.put(OTHER)
        self.topic.write(0, reference_to(OTHER, uploaded_at_ms=self.world.now_ms))
        self.topic.mark(0)
        self.collector = OrphanCollector(
            self.store,
            [self.topic],
            pipeline="flights",
            margin=margin,
            created_ms=0,
            is_first_incarnation=is_first_incarnation,
            patience_s=0,
            now_ms=lambda: self.world.now_ms,
            step=lambda _: self.meanwhile(),
        )

    def meanwhile(self) -> None:
        while self._left and self._left[0][1] <= self._step:
            getattr(self, f"do_{self._left.pop(0)[0]}")()
        self._step += 1

    def collect(self) -> None:
        findings = self.collector.look()
        self.collector.delete(findings)
        self._step = STEPS
        self.meanwhile()

    def do_upload(self) -> None:
        self.store.put(PATH)

    def do_write(self) -> None:
        self.topic.write(1, reference_to(PATH, uploaded_at_ms=self.world.now_ms))

    def do_decide(self) -> None:
        self.is_decided = True

    def do_mark(self) -> None:
        self.topic.mark(1)

    def do_abort(self) -> None:
        self.topic.mark(1, is_commit=False)

    def do_wait(self) -> None:
        self.world.now_ms += MARGIN.total_ms + 1

    def do_next(self) -> None:
        self.topic.write(2, reference_to(f"flights/day=1/{3:032x}.avro", uploaded_at_ms=self.world.now_ms))
        self.topic.mark(2)

    def do_truncate(self) -> None:
        """Everything but the newest reference."""
        self.topic.delete_records(before=self.topic.ends()[0] - 2)

    @property
    def lost(self) -> bool:
        """A file that consumers have been referred to is gone."""
        return (self.is_decided and PATH in self.store.deleted) or OTHER in self.store.deleted


COMMITTED = (UPLOAD, WRITE, DECIDE, MARK)
TRUNCATED = (UPLOAD, WRITE, DECIDE, MARK, NEXT, TRUNCATE)


def nothing(*_: Any) -> None:
    pass


def all_orders(events: Sequence[Event]) -> Iterator[Order]:
    for sequence in with_waits(events):
        yield from orders(sequence)


def losing(events: Sequence[Event], make: Callable[[Order], Run] = Run) -> list[Order]:
    """Orders in which a referenced file is deleted; asserts that there are orders at all."""
    found: list[Order] = []
    tried = 0
    for order in all_orders(events):
        run = make(order)
        run.collect()
        tried += 1
        if run.lost:
            found.append(order)
    assert tried > 1_000
    return found


def test_no_referenced_file_is_deleted_in_whatever_order() -> None:
    assert losing(COMMITTED) == []


def test_nor_when_references_are_deleted_from_the_topic_meanwhile() -> None:
    assert losing(TRUNCATED) == []


def test_nor_when_the_topic_may_have_been_made_anew() -> None:
    assert losing(TRUNCATED, lambda order: Run(order, is_first_incarnation=False)) == []


def test_an_aborted_checkpoints_file_is_collected_once_it_is_old_enough() -> None:
    """The tests above would pass if nothing were ever deleted."""
    collected = [order for order in all_orders((UPLOAD, WRITE, ABORT)) if _collects(order)]
    assert (("upload", 0), ("write", 0), ("abort", 0), ("wait", 0)) in collected
    assert all(dict(order)["wait"] <= 1 for order in collected)


def _collects(order: Order) -> bool:
    run = Run(order)
    run.collect()
    return PATH in run.store.deleted


def test_control_without_waiting_for_open_transactions_a_decided_one_is_overlooked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never_blocked(*_: Any) -> Iterator[Any]:
        return iter(())

    monkeypatch.setattr(OrphanCollector, "_wait_until_decided", never_blocked)
    found = losing(COMMITTED)
    assert found
    # Decided before the end was asked for, marked after the references were read.
    assert all(dict(order)["decide"] <= 2 and dict(order)["mark"] >= 5 for order in found)


def test_control_an_age_counted_from_after_the_end_was_asked_for_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is listed, then referenced behind the end, then grows old before it is judged."""
    judged: Any = collecting.judge
    worlds: list[World] = []

    def judge(stored: Any, **arguments: Any) -> Any:
        return judged(stored, **{**arguments, "now_ms": worlds[-1].now_ms})

    def run(order: Order) -> Run:
        made = Run(order)
        worlds.append(made.world)
        return made

    monkeypatch.setattr(collecting, "judge", judge)
    # The look right before deleting would notice: what is shown is that it need not.
    monkeypatch.setattr(OrphanCollector, "_check_unreferenced", nothing)
    found = losing(COMMITTED, run)
    assert found
    assert all(dict(order)["upload"] <= 1 and dict(order)["decide"] >= 2 for order in found)


def test_control_without_age_a_file_whose_transaction_is_to_come_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Margin(rotation_ms=-1, upload_ms=0, standstill_ms=0, transaction_ms=0, clocks_ms=0)
    monkeypatch.setattr(OrphanCollector, "_check_unreferenced", nothing)
    assert losing(COMMITTED, lambda order: Run(order, margin=none)) != []


def test_control_without_a_look_at_where_the_log_begins_deleted_references_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def always(*_: Any, **__: Any) -> KnownSince:
        return KnownSince(at_ms=0, why="")

    monkeypatch.setattr(collecting, "known_since", always)
    assert losing(TRUNCATED) != []


def test_a_sink_that_breaks_its_times_is_noticed_before_anything_is_deleted() -> None:
    """Referenced between the look and the deletion, though its upload is older than the margin."""
    run = Run(((UPLOAD, 0), (WAIT, 0), (WRITE, 5), (DECIDE, 5), (MARK, 5)))
    findings = run.collector.look()
    assert [stored.path for stored in findings.orphans] == [PATH]
    with pytest.raises(ReferencesUnreadableError, match="the margin is too small"):
        run.collector.delete(findings)
    assert run.store.deleted == []


def test_control_the_form_of_names_is_all_that_keeps_a_strangers_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def collected() -> list[str]:
        run = Run(())
        run.store.put("flights/day=1/notes.txt")
        run.do_wait()
        run.collect()
        return run.store.deleted

    assert collected() == []

    def any_name(_: str) -> re.Pattern[str]:
        return re.compile(r".*(?P<partial>x)?")

    monkeypatch.setattr(collecting, "form_of", any_name)
    assert collected() == ["flights/day=1/notes.txt"]
    assert orphans.form_of("flights").fullmatch("flights/day=1/notes.txt") is None
