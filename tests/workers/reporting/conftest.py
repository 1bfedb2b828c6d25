"""Common fixtures of the reporting tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.worker_listener import WorkerListener
from tests.workers.reporting.reporter import accepting, reporter_to
from workers.reporting import HEARTBEAT_PATH, HeartbeatReporter


@pytest.fixture
def reporter(worker_listener: WorkerListener) -> Generator[HeartbeatReporter]:
    worker_listener.answer_with(HEARTBEAT_PATH, accepting)
    made = reporter_to(worker_listener.url)
    yield made
    made.close()
