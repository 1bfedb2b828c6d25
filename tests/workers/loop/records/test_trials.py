"""How a suspect is cornered: by deaths that leave only notes, and by refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.clusters.partition import Partition
from workers.loop.group.membership import CommittedPosition
from workers.loop.group.ownership import Ownership
from workers.loop.records.suspicion import Suspicion
from workers.loop.records.trials import MOST_PASSED, UNLIMITED, Trial, read_note

P: Partition = Partition("t", 0)


class Log:
    """One partition with poison pills, and the group's state in Kafka: offset and metadata.

    is_broken: the environment kills with the first record of every attempt. second: with the second.
    """

    def __init__(
        self, *, records: int, poison: int | None, batch: int, is_broken: bool = False, second: bool = False
    ) -> None:
        self.records, self.batch = records, batch
        self.poison: set[int] = set() if poison is None else {poison}
        self.is_broken, self.second = is_broken, second
        self.offset, self.metadata = 0, ""
        self.condemned: list[int] = []
        self.tried: list[int] = []

    def attempt(self) -> bool:
        """Run one attempt as the loop does; True when it came through, False when it died."""
        ownership = Ownership()
        ownership.assigned([P])
        is_warm, processed = False, 0
        suspicion = Suspicion(ownership, is_warm=lambda: is_warm)
        while self.offset < self.records:
            if suspicion.unvetted([P]):
                suspicion.vet(P, CommittedPosition(self.offset, self.metadata))
            count = min(self.batch, suspicion.limit or self.batch, self.records - self.offset)
            end = self.offset + count
            needs_another = suspicion.needs_another(P)
            passed = suspicion.passed(P)
            marks = suspicion.marks({P: end})
            if P in marks:
                suspicion.marking(marks)
                self.metadata = marks[P]
            suspicion.vetted([P])
            if needs_another:
                assert count == 1
                other = self.offset + 1 + passed % MOST_PASSED
                other = min(other, self.records - 1)
                assert other > self.offset, "nothing to try in its place"
                self.tried.append(other)
                if self.is_broken or other in self.poison:
                    return False
                is_warm, processed = True, processed + 1
                continue
            if suspicion.condemned(P) is not None:
                assert count == 1
                self.condemned.append(self.offset)
            else:
                if self.is_broken or self.poison & set(range(self.offset, end)) or (self.second and processed):
                    return False
                is_warm, processed = True, processed + 1
            self.metadata = suspicion.notes({P: end}).get(P, "")
            suspicion.committed({P: end})
            self.offset = end
        return True


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_an_environment_that_kills_at_the_first_record_condemns_none_and_all_go_through_once_it_is_well(
    batch: int,
) -> None:
    log = Log(records=200, poison=None, batch=batch, is_broken=True)
    for _ in range(100):
        assert not log.attempt()
    assert log.condemned == []
    assert len(set(log.tried)) > 10, "not one other record alone, which may be a poison pill too"
    log.is_broken = False
    assert log.attempt()
    assert log.condemned == []


def test_an_environment_that_kills_at_the_second_record_condemns_none() -> None:
    log = Log(records=50, poison=None, batch=1, second=True)
    for _ in range(120):
        if log.attempt():
            break
    assert log.offset == 50
    assert log.condemned == []


def test_poison_pills_side_by_side_are_found_too() -> None:
    log = Log(records=100, poison=None, batch=10)
    log.poison = set(range(8))
    deaths = 0
    while not log.attempt():
        deaths += 1
        assert deaths <= 8 * 14, "a hunt of six for each, and those that lie behind it"
    assert log.condemned == list(range(8))


def test_a_poison_pill_that_is_the_first_of_all_is_found() -> None:
    log = Log(records=100, poison=0, batch=10)
    deaths = 0
    while not log.attempt():
        deaths += 1
        assert deaths <= 7
    assert log.condemned == [0]


def test_a_note_of_the_release_before_condemns_only_after_another_record_was_survived() -> None:
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership)
    suspicion.vet(P, CommittedPosition(5, "fenceline1 limit=1 begun=2 until=10"))
    assert suspicion.condemned(P) is None
    assert suspicion.needs_another(P)


@settings(max_examples=60)
@given(st.integers(2, 40_000), st.data(), st.sampled_from([1, 7, 500, 2_000, 100_000]))
def test_poison_pill_is_found_within_few_deaths_and_no_other_is_condemned(
    records: int, data: st.DataObject, batch: int
) -> None:
    # Behind the poison pill there is another one: without it the suspect waits (docs/loop.md).
    log = Log(records=records, poison=data.draw(st.integers(0, records - 2)), batch=batch)
    deaths = 0
    while not log.attempt():
        deaths += 1
        assert deaths <= 7
    assert log.condemned == sorted(log.poison)
    assert deaths >= 2


def test_partition_without_a_suspect_keeps_no_note() -> None:
    log = Log(records=1_000, poison=None, batch=100)
    assert log.attempt()
    assert log.metadata == ""
    assert log.condemned == []


def test_one_death_limits_nothing_and_two_do() -> None:
    ownership = Ownership()
    ownership.assigned([P])
    for begun, limited in ((0, False), (1, False), (2, True)):
        suspicion = Suspicion(ownership)
        suspicion.vet(P, CommittedPosition(10, Trial(begun=begun).note()))
        assert (suspicion.limit != UNLIMITED) is limited


def test_aborts_of_a_living_worker_are_not_counted_as_deaths() -> None:
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership)
    suspicion.vet(P, CommittedPosition(0, ""))
    assert suspicion.marks({P: 5}) == suspicion.marks({P: 5}) == {P: Trial(begun=1).note()}


def test_own_mark_that_was_committed_without_an_answer_is_nobodys_death() -> None:
    """Else a few lost answers in a row would look like as many deaths, and condemn the record that stands there."""
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership, is_warm=lambda: True)
    note = Trial(limit=1, begun=1, until=10).note()
    for _ in range(3):
        suspicion.vet(P, CommittedPosition(5, note))
        note = suspicion.marks({P: 6})[P]
        suspicion.marking({P: note})
    assert suspicion.condemned(P) is None
    assert note == Trial(limit=1, begun=2, until=6, warm=True).note()
    ownership.given_up([P])
    ownership.assigned([P])
    suspicion.vet(P, CommittedPosition(5, note))
    assert suspicion.condemned(P) is not None, "another may have had it meanwhile, and died"


def test_partition_that_comes_back_is_vetted_again() -> None:
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership)
    suspicion.vet(P, CommittedPosition(0, ""))
    assert suspicion.unvetted([P]) == [P], "its mark is not committed yet"
    suspicion.vetted([P])
    assert suspicion.unvetted([P]) == []
    ownership.given_up([P])
    ownership.assigned([P])
    assert suspicion.unvetted([P]) == [P]


def test_refusal_inside_a_revoke_leaves_no_suspicion_of_revoked_partitions() -> None:
    """It would never end: the task would read a few records at a time for as long as it lives."""
    ownership = Ownership()
    other: Partition = Partition("t", 1)
    ownership.assigned([P, other])
    suspicion = Suspicion(ownership)
    ownership.given_up([P])
    suspicion.refused({P: 100}, records=100, reason=RuntimeError("too large"))
    assert not suspicion.is_active
    suspicion.refused({P: 100, other: 50}, records=80, reason=RuntimeError("too large"))
    suspicion.committed({other: 50})
    assert not suspicion.is_active


@given(st.text(max_size=60))
def test_foreign_metadata_is_no_note(metadata: str) -> None:
    assert read_note(metadata) == Trial()


@given(st.integers(0, 10**6), st.integers(0, 99), st.integers(-1, 2**62), st.booleans(), st.integers(0, 999))
def test_notes_survive(limit: int, begun: int, until: int, warm: bool, passed: int) -> None:
    trial = Trial(limit=limit, begun=begun, until=until, warm=warm, passed=passed)
    assert read_note(trial.note()) == trial


@given(st.integers(2, 100_000), st.data())
def test_refused_record_is_found_by_halving_and_is_the_only_one_condemned(records: int, data: st.DataObject) -> None:
    refused = data.draw(st.integers(0, records - 1))
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership)
    offset, condemned, aborts = 0, list[int](), 0
    while offset < records:
        count = min(suspicion.limit or records, records - offset)
        end = offset + count
        if suspicion.condemned(P) is not None:
            condemned.append(offset)
        elif offset <= refused < end:
            aborts += 1
            suspicion.refused({P: end}, records=count, reason=ValueError("too large"))
            continue
        suspicion.committed({P: end})
        offset = end
    assert condemned == [refused]
    assert aborts <= 8
    assert not suspicion.take_verdict_on_batches(), "a record was found: the batches are not to blame"


def test_search_without_a_result_blames_the_batches_once() -> None:
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership)
    suspicion.refused({P: 100}, records=100, reason=ValueError("too large"))
    assert not suspicion.take_verdict_on_batches()
    suspicion.committed({P: 100})
    assert suspicion.take_verdict_on_batches()
    assert not suspicion.take_verdict_on_batches()


def test_hunt_whose_partition_leaves_says_nothing_about_the_batches() -> None:
    ownership = Ownership()
    ownership.assigned([P])
    suspicion = Suspicion(ownership)
    suspicion.refused({P: 100}, records=100, reason=ValueError("too large"))
    suspicion.forget([P])
    assert not suspicion.is_active
    assert not suspicion.take_verdict_on_batches()
