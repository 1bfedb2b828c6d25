"""One system under one rate, once: the latencies of what came through, and whether all of it did."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.latency.load import Sent, send
from bench.latency.reader import read

QUANTILES = (0.01, *(round(part / 20, 2) for part in range(1, 20)), 0.97, 0.98, 0.99, 0.995, 0.999, 1.0)
_READY_WITHIN_S = 60.0
_MARGIN_S = 120.0


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from when a record was due to be sent to when a reader of committed records had it.

    Attributes:
        records: how many were measured; those of the warm-up are not among them.
        lost, doubled: of all that were sent, the warm-up included.
        quantiles_ms: at `QUANTILES`.
        sender_late_ms_p99: how late the sender itself was; it is part of the latency.
    """

    records: int
    lost: int
    doubled: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    quantiles_ms: tuple[float, ...]
    sender_late_ms_p99: float


def measure(
    bootstrap_servers: str, folder: Path, *, source: str, sink: str, rate: int, warm_s: float, seconds: float
) -> Latencies:
    """Raises AssertionError when a record is missing or came twice."""
    context = multiprocessing.get_context("spawn")
    ours, readers = context.Pipe()
    heard, senders = context.Pipe(duplex=False)
    file = folder / "read.npy"
    reading = context.Process(target=read, args=(bootstrap_servers, sink, file, readers))
    sending = context.Process(target=send, args=(bootstrap_servers, source, rate, warm_s + seconds, senders))
    reading.start()
    try:
        assert ours.poll(_READY_WITHIN_S), "the reader does not begin"
        ours.recv()
        sending.start()
        assert heard.poll(warm_s + seconds + _MARGIN_S), "the sender does not end"
        sent: Sent = heard.recv()
        ours.send(sent.records)
        assert ours.poll(_MARGIN_S), "the reader does not end"
        reading.join(_READY_WITHIN_S)
        sending.join(_READY_WITHIN_S)
    finally:
        for process in (reading, sending):
            if process.is_alive():
                process.kill()
    return judged(np.load(file), sent, first=int(rate * warm_s))


def judged(found: Any, sent: Sent, *, first: int) -> Latencies:
    """The latencies of the records from the `first` on.

    Args:
        found: an array of (number, due, read), nanoseconds, of all that came.

    Raises AssertionError when a record is missing or came twice.
    """
    times = np.bincount(found[:, 0], minlength=sent.records)
    lost, doubled = int(np.count_nonzero(times == 0)), int(np.sum(times[times > 1] - 1))
    assert not lost, f"{lost} of {sent.records} records are missing"
    assert not doubled, f"{doubled} of {sent.records} records came twice"
    measured = found[found[:, 0] >= first]
    took_ms = np.sort(measured[:, 2] - measured[:, 1]) / 1e6
    quantiles = tuple(round(float(took_ms[_at(len(took_ms), part)]), 2) for part in QUANTILES)
    return Latencies(
        records=len(took_ms),
        lost=lost,
        doubled=doubled,
        p50_ms=quantiles[QUANTILES.index(0.5)],
        p99_ms=quantiles[QUANTILES.index(0.99)],
        max_ms=quantiles[-1],
        quantiles_ms=quantiles,
        sender_late_ms_p99=sent.late_ms_p99,
    )


def _at(count: int, part: float) -> int:
    """The place of the smallest value that at least this part of all are not above."""
    return max(0, int(np.ceil(count * part)) - 1)
