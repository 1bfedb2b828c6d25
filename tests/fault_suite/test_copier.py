from __future__ import annotations

import random
from itertools import groupby
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from tests.fault_suite import copier
from tests.fault_suite.copier import Copier
from workers.loop import lane
from workers.loop.errors import AbortableError
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.records.batching import BatchSize

COPIER = Copier(records=750, aborted=0.5, seed=1)


def test_a_worker_without_a_request_is_left_as_it_is() -> None:
    assert copier.makers({}) == []
    assert len(copier.makers(COPIER.environment())) == 1


def test_a_full_transaction_is_committed_or_aborted_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[TransactionalProducer] = []
    monkeypatch.setattr(TransactionalProducer, "commit", commits.append)
    for seam in COPIER.seams(random.Random(3)):
        monkeypatch.setattr(seam.owner, seam.name, seam.value)
    assert lane.MAX_CHECKPOINT_RECORDS == 750
    # One record opens it.
    assert 1 + BatchSize(target_s=1.0).count == 750
    ends = ended(200)
    assert 60 < ends.count("aborted") < 140
    assert len(commits) == ends.count("committed")
    assert longest(ends) > 2


def test_aborts_in_a_row_can_be_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionalProducer, "commit", Mock())
    for seam in replace(COPIER, in_a_row=2).seams(random.Random(3)):
        monkeypatch.setattr(seam.owner, seam.name, seam.value)
    assert longest(ended(200)) == 2


def ended(count: int) -> list[str]:
    producer = object.__new__(TransactionalProducer)
    ends: list[str] = []
    for _ in range(count):
        try:
            producer.commit()  # pyright: ignore[reportCallIssue] - the real one takes more
        except AbortableError:
            ends.append("aborted")
        else:
            ends.append("committed")
    return ends


def longest(ends: list[str]) -> int:
    """The most aborts one after the other."""
    return max(len(list(same)) for end, same in groupby(ends) if end == "aborted")
