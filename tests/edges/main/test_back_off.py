"""The wait after failures in a row: what each user of BackOff waits, and the limits of the rule itself."""

from __future__ import annotations

import pytest

from app.core.hanging import search
from app.core.hanging.loops import cluster_search
from app.core.observing.loops import cluster_observer
from app.core.runs.reconciliation.view import Timing
from app.edges.db import changes
from app.kit.back_off import BackOff
from app.kit.loops.supervisor import LONGEST_BACK_OFF_S
from app.products.files.loops import cluster_files
from app.products.webhooks.retry import DeliveryPace
from workers.loop import settling
from workers.sinks import store
from workers.spark.attempts import AttemptPatience

DELIVERIES, ATTEMPTS = DeliveryPace(), AttemptPatience()
WAITS: dict[str, tuple[BackOff, list[float]]] = {
    "loops": (BackOff(1.0, LONGEST_BACK_OFF_S), [1, 2, 4, 8, 16, 30, 30]),
    "files of a cluster": (cluster_files.BACK_OFF, [1, 2, 4, 8, 16, 32, 60, 60]),
    "search of a cluster": (cluster_search.BACK_OFF, [1, 2, 4, 8, 16, 32, 60, 60]),
    "observer of a cluster": (cluster_observer.BACK_OFF, [0.5, 1, 2, 4, 8, 10, 10]),
    "change feed": (changes.BACK_OFF, [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]),
    "instances": (Timing().back_off, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
    "deliveries": (BackOff(DELIVERIES.first_s, DELIVERIES.longest_s), [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]),
    "questions about a partition": (search.AGAIN, [10, 20, 40, 80, 160, 300, 300]),
    "attempts of a task": (
        BackOff(ATTEMPTS.first_wait_s, ATTEMPTS.longest_wait_s),
        [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300],
    ),
    "producers": (settling.BACK_OFF, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]),
    "questions before an init": (settling.BETWEEN_LOOKS, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2, 2]),
    "uploads": (store.BACK_OFF, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]),
}


@pytest.mark.parametrize("name", WAITS)
def test_wait_grows_up_to_the_longest(name: str) -> None:
    back_off, waits = WAITS[name]
    assert [back_off.wait_s(failures) for failures in range(1, len(waits) + 1)] == pytest.approx(waits)
    assert back_off.wait_s(10**9) == back_off.longest_s


@pytest.mark.parametrize("failures", [0, -1])
def test_without_a_failure_there_is_no_wait(failures: int) -> None:
    assert BackOff(1.0, 2.0).wait_s(failures) == 0.0


@pytest.mark.parametrize(("failures", "wait_s"), [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0)])
def test_first_failure_of_a_task_is_retried_at_once(failures: int, wait_s: float) -> None:
    assert ATTEMPTS.wait_s(failures) == wait_s
