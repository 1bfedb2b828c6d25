from __future__ import annotations

import random

import pytest

from tests.fault_suite import copier
from tests.fault_suite.copier import Copier
from workers.transactional import loop
from workers.transactional.errors import AbortableError
from workers.transactional.producing.transactional_producer import TransactionalProducer
from workers.transactional.records.batching import BatchSize

COPIER = Copier(records=750, aborted=0.5, seed=1)


def test_a_worker_that_nobody_asks_is_left_as_it_is() -> None:
    assert copier.makers({}) == []
    assert len(copier.makers(COPIER.environment())) == 1


def test_a_full_transaction_is_committed_or_aborted_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[TransactionalProducer] = []
    monkeypatch.setattr(TransactionalProducer, "commit", commits.append)
    for seam in COPIER.seams(random.Random(3)):
        monkeypatch.setattr(seam.owner, seam.name, seam.value)
    assert loop.MAX_CHECKPOINT_RECORDS == 750
    # One record opens it.
    assert 1 + BatchSize(target_s=1.0).count == 750
    producer = object.__new__(TransactionalProducer)
    aborted = 0
    for _ in range(200):
        try:
            producer.commit()  # pyright: ignore[reportCallIssue] - the real one takes more
        except AbortableError:
            aborted += 1
    assert 60 < aborted < 140
    assert len(commits) == 200 - aborted
