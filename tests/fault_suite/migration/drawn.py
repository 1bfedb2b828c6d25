"""Which faults each bounce of a migration meets, drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from app.core.runs.mode import Mode
from app.products.migrations.migration import Stage
from tests.fault_suite.plan import Fault, Kind

BOUNCES: dict[Mode, tuple[Stage, Stage]] = {
    Mode.V2: (Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE),
    Mode.GROUP_ONLY: (Stage.BACK_TO_GENERATION, Stage.BACK_TO_GROUP_ONLY),
}
"""The stages forward, and back."""
KILLS = (Kind.INSTANCE_KILLED, Kind.DRIVER_KILLED, Kind.EXECUTOR_KILLED, Kind.WORKER_KILLED)
"""All of an instance's processes at once, or one of them; each in one bounce of the four."""
_GAP_S = (0.0, 12.0)
_LASTS_S = (0.0, 3.0)


class Meant(NamedTuple):
    """bounce: the instance of the stage that restarts meanwhile, counted from 0; fault.gap_s: after that has begun."""

    stage: Stage
    bounce: int
    fault: Fault


def drawn(seed: int) -> Iterator[Meant]:
    """In their order: in each bounce a kill -9 of an instance, of a broker and of the server, one an instance."""
    numbers = count()
    kills = random.Random(f"{seed}/kills").sample(KILLS, len(KILLS))
    for stage, kill in zip((stage for stages in BOUNCES.values() for stage in stages), kills, strict=True):
        rng = random.Random(f"{seed}/{stage}")
        for bounce, kind in enumerate(rng.sample((kill, Kind.BROKER_KILLED, Kind.SERVER_KILLED), 3)):
            yield Meant(
                stage,
                bounce,
                Fault(
                    number=next(numbers),
                    kind=kind,
                    gap_s=round(rng.uniform(*_GAP_S), 2),
                    lasts_s=round(rng.uniform(*_LASTS_S), 2),
                    which=rng.random(),
                    point=None,
                    is_awaited=False,
                ),
            )
