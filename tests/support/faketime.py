"""A broker whose clock is another than ours, by Debian's libfaketime."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from app.edges.embedded.kafka import KafkaCluster


def shifted_environment(shift_s: int) -> dict[str, str]:
    """Under these variables a process's clock is `shift_s` ahead; skips where the library is not installed."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("libfaketime is not installed (apt-get install libfaketime)")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{shift_s:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # With it, a JVM's timed waits never end.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


@contextmanager
def broker_with_clock(shift_s: int, overrides: dict[str, str]) -> Generator[KafkaCluster]:
    """One broker, `shift_s` ahead of us; skips where the library is not installed."""
    with patch.dict(os.environ, shifted_environment(shift_s)):
        starting = KafkaCluster.start(overrides=overrides)
    with starting as cluster:
        yield cluster
