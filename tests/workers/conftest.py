"""Common fixtures of the workers' tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.worker_listener import WorkerListener


@pytest.fixture
def worker_listener() -> Generator[WorkerListener]:
    """A listener that answers as the test says."""
    listener = WorkerListener()
    yield listener
    listener.close()
