"""Random runs that meet a mutation: faults of some kinds, drawn from a seed, over a pipeline that lacks something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.core.pipelines.pipeline import GroupProtocol
from tests.fault_suite.freeze_points import Point
from tests.fault_suite.plan import Fault, Kind, faults
from tests.fault_suite.run import Run
from tests.fault_suite.task_stage import TaskStage
from tests.mutations.switches import Switch, environment_of

_MINUTES = 5.0


class Drawn(NamedTuple):
    """kinds: all that are drawn. faults: how many are done. meets: whether the first one is what it takes.

    settings: of the pipeline, where the suite's own are too short for it.
    """

    kinds: tuple[Kind, ...]
    faults: int
    meets: Callable[[Fault], bool] = lambda _: True
    settings: Mapping[str, Any] = {}

    @property
    def seed(self) -> int:
        """The smallest seed that meets it: after a change of the plan of faults, it is computed again."""
        return next(seed for seed in count(1) if all(map(self.meets, islice(faults(seed, self.kinds), 1))))


class RunFound(msgspec.Struct, frozen=True, kw_only=True):
    """As in the ledger of faults, in which it is not. None: it was not judged."""

    faults: int
    records: int
    lost: int | None
    duplicated: int | None
    torn: int | None
    out_of_order: int | None
    failure: str | None

    @property
    def is_exact(self) -> bool:
        return self.failure is None


def run(drawn: Drawn, off: tuple[Switch, ...], *, folder: Path, protocol: GroupProtocol) -> RunFound:
    """On a broker of its own, judged like every run of faults."""
    folder.mkdir(parents=True)
    seed = drawn.seed
    made = Run(seed, folder)
    stage = TaskStage(seed, folder, brokers=1, protocol=protocol, environment=environment_of(off), **drawn.settings)
    try:
        with stage:
            made.over(stage, minutes=_MINUTES, at_most=drawn.faults, only=drawn.kinds)
    except Exception as error:  # noqa: BLE001 - whatever it was is told
        made.failed(error)
    entry = made.entry(stage.name)
    return RunFound(
        faults=entry.faults,
        records=entry.records,
        lost=entry.lost,
        duplicated=entry.duplicated,
        torn=entry.torn,
        out_of_order=entry.out_of_order,
        failure=entry.failure,
    )


def frozen_at(*points: Point, longer_than_s: float) -> Callable[[Fault], bool]:
    return lambda fault: fault.point in points and fault.lasts_s > longer_than_s


def lasts(longer_than_s: float) -> Callable[[Fault], bool]:
    return lambda fault: fault.lasts_s > longer_than_s
