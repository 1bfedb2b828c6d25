"""Makes workers like the copier of Kafka's transactions_test.py: so many records a transaction, some aborted by chance.

From outside, as freeze points are (see seams): the loop ends a transaction by time and never aborts for fun.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import msgspec

from tests.fault_suite.seams import Make, Seam, around

_VARIABLE = "FENCELINE_TEST_COPIER"


class Copier(msgspec.Struct, frozen=True, kw_only=True):
    """records: of a transaction. aborted: which part of them, between 0 and 1. in_a_row: that many at most.

    Aborts one after the other make the loop wait longer each time, as long as chance likes.
    """

    records: int
    aborted: float
    seed: int
    in_a_row: int | None = None

    def environment(self) -> dict[str, str]:
        return {_VARIABLE: msgspec.json.encode(self).decode()}

    def seams(self, rng: random.Random) -> list[Seam]:
        from workers.loop import lane
        from workers.loop.errors import AbortableError
        from workers.loop.producing.transactional_producer import TransactionalProducer
        from workers.loop.records.batching import BatchSize

        aborted_in_a_row = 0

        def abort_by_chance() -> None:
            nonlocal aborted_in_a_row
            if rng.random() < self.aborted and aborted_in_a_row != self.in_a_row:
                aborted_in_a_row += 1
                raise AbortableError("aborted by chance")
            aborted_in_a_row = 0

        _require(lane, "MAX_CHECKPOINT_RECORDS")
        return [
            Seam(lane, "MAX_CHECKPOINT_RECORDS", self.records),
            # The first record of a transaction comes alone, and the rest with one poll.
            Seam(BatchSize, "count", self.records - 1),
            around(TransactionalProducer, "commit", before=abort_by_chance),
        ]


def makers(environment: Mapping[str, str]) -> list[Make]:
    """Nothing, where it is not asked for."""
    asked = environment.get(_VARIABLE)
    if asked is None:
        return []
    copier = msgspec.json.decode(asked, type=Copier)
    # Every process draws its own.
    return [lambda: copier.seams(random.Random(f"{copier.seed}/{os.getpid()}"))]


def _require(owner: object, name: str) -> None:
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name} any more")
