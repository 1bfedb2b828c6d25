"""How numbers, times and lines to paste are written in a chain of reasons."""

from __future__ import annotations

import shlex

from app.domain.storable import moment_of_ms
from app.domain.stuck.facts import KnownTransaction


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(duration_ms: int) -> str:
    """`0.3 s`, `12 s`, `5 min`; never less than nothing, since two clocks may differ."""
    seconds = max(0, duration_ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.0f} h"


def clock(at_ms: int) -> str:
    return f"{moment_of_ms(at_ms):%H:%M:%S} UTC"


def describe_line(known: KnownTransaction, bootstrap_servers: str) -> str:
    return (
        f"kafka-transactions.sh --bootstrap-server {bootstrap_servers} describe "
        f"--transactional-id {shlex.quote(known.transactional_id)}"
    )


def abort_line(topic: str, partition: int, start_offset: int, bootstrap_servers: str) -> str:
    """How Kafka's own tool ends it."""
    return (
        f"kafka-transactions.sh --bootstrap-server {bootstrap_servers} abort "
        f"--topic {shlex.quote(topic)} --partition {partition} --start-offset {start_offset}"
    )


def end_line(topic: str, partition: int, bootstrap_servers: str, *, start_offset: int | None = None) -> str:
    """Without an offset: the one that holds readers up."""
    which = "" if start_offset is None else f" --start-offset {start_offset}"
    return f"fenceline end {shlex.quote(topic)} {partition}{which} --bootstrap-server {bootstrap_servers}"


def fence_line(known: KnownTransaction, bootstrap_servers: str) -> str:
    return f"fenceline fence {shlex.quote(known.transactional_id)} --bootstrap-server {bootstrap_servers}"
