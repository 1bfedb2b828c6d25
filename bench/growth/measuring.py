"""The cost of one step of a growth: server, Postgres and heartbeats, over some seconds after things have settled."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from bench.growth.server import MeasuredServer
from bench.growth.workers import Answered, SimulatedWorkers
from bench.stream_readers import at_part

_HEAVIEST = 5
_SHOWN = 160
_HEARD_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.1


def step(
    server: MeasuredServer, workers: SimulatedWorkers, size: int, *, settle_s: float, measure_s: float
) -> dict[str, object]:
    """What the server costs at this size now; `heaviest` are the statements that took most of Postgres' time.

    The new tasks have begun all at once: `heard_after_s` is until the server had kept a heartbeat of each of them, with
    `refused_at_first` in between; `unheard` is how many of them it had not heard of when it was not waited any longer.
    `load` is the machine's, of one minute, at the end.
    """
    began_s, began_with = time.monotonic(), len(workers.answers)
    while (unheard := workers.unheard()) and time.monotonic() - began_s < _HEARD_WITHIN_S:
        time.sleep(_LOOK_EVERY_S)
    heard_after_s = time.monotonic() - began_s
    refused_at_first = sum(not one.is_kept for one in workers.answers[began_with:])
    time.sleep(settle_s)
    server.count_anew()
    before, answered_before = server.spent(), len(workers.answers)
    time.sleep(measure_s)
    after, answers = server.spent(), workers.answers[answered_before:]
    statements = server.statements()
    took_s = after.at_s - before.at_s
    return {
        "size": size,
        "heard_after_s": round(heard_after_s, 1),
        "refused_at_first": refused_at_first,
        "unheard": unheard,
        "load": round(os.getloadavg()[0], 1),
        "server_cores": round((after.server_cpu_s - before.server_cpu_s) / took_s, 3),
        "postgres_cores": round((after.postgres_cpu_s - before.postgres_cpu_s) / took_s, 3),
        "memory_mb": round(server.memory_mb(), 1),
        "statements_per_second": round(sum(one.calls for one in statements) / took_s, 1),
        **_heartbeats(answers, took_s),
        "heaviest": [
            {
                "per_second": round(one.calls / took_s, 1),
                "cores": round(one.took_ms / took_s / 1000, 4),
                "text": one.text[:_SHOWN],
            }
            for one in statements[:_HEAVIEST]
        ],
    }


def _heartbeats(answers: Sequence[Answered], took_s: float) -> dict[str, object]:
    """p50 and p99 are None while no task reports."""
    took_ms = sorted(one.took_ms for one in answers)
    return {
        "heartbeats_per_second": round(len(answers) / took_s, 1),
        "heartbeat_ms_p50": at_part(took_ms, 0.5) if took_ms else None,
        "heartbeat_ms_p99": at_part(took_ms, 0.99) if took_ms else None,
        "refused": sum(not one.is_kept for one in answers),
    }
