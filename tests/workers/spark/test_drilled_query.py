"""The driver of a query on the order of a drill: the JVM is killed before the Python process."""

from __future__ import annotations

import os
import signal

import pytest
from msgspec.structs import replace

from app.core.wire.drill import DRILL_PATH, DrillAct, DrillAnswer, DrillOrder
from tests.support.worker_listener import WorkerListener
from tests.workers.spark.test_watch import SPECIFICATION
from workers.spark import drilled_query


@pytest.mark.parametrize("is_allowed", [True, False])
def test_the_jvm_is_killed_first_and_only_if_the_definition_allows_it(
    worker_listener: WorkerListener, monkeypatch: pytest.MonkeyPatch, is_allowed: bool
) -> None:
    happened: list[object] = []
    worker_listener.answer_with(DRILL_PATH, DrillAnswer(goes_on=True))
    monkeypatch.setattr(drilled_query.os, "kill", lambda pid, number: happened.append((pid, number)))  # pyright: ignore
    specification = replace(
        SPECIFICATION,
        server_urls=(worker_listener.url,),
        definition=replace(SPECIFICATION.definition, allows_drills=is_allowed),
    )
    orders = drilled_query.orders_for(specification, before_kill=lambda: happened.append("in a batch"))
    acting = orders.hear(DrillOrder(drill_id="d", act=DrillAct.KILL, for_s=1, begin_within_s=9))
    assert acting is not None
    acting.join(10)
    (said,) = worker_listener.received[DRILL_PATH]
    assert (said["task"], said["attempt"], said["pid"]) == (0, 0, os.getpid())
    killed = ["in a batch", (os.getppid(), signal.SIGKILL), (os.getpid(), signal.SIGKILL)]
    assert happened == (killed if is_allowed else [])
