"""How numbers, times and lines to paste are written in a chain of reasons."""

from __future__ import annotations

from app.domain.printable import shell_word
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
    return _of_id(_kafka_tool(bootstrap_servers, "describe --transactional-id"), known.transactional_id)


def terminate_line(transactional_id: str, bootstrap_servers: str) -> str:
    """How Kafka's own tool fences it."""
    return _of_id(_kafka_tool(bootstrap_servers, "forceTerminateTransaction --transactionalId"), transactional_id)


def fence_line(known: KnownTransaction, bootstrap_servers: str) -> str:
    line = _of_id("fenceline fence", known.transactional_id)
    return line and f"{line} --bootstrap-server {shell_word(bootstrap_servers)}"


def abort_line(topic: str, partition: int, start_offset: int, bootstrap_servers: str) -> str:
    """How Kafka's own tool ends it."""
    return (
        f"{_kafka_tool(bootstrap_servers, 'abort')} "
        f"--topic {shell_word(topic)} --partition {partition} --start-offset {start_offset}"
    )


def end_line(topic: str, partition: int, bootstrap_servers: str, *, start_offset: int | None = None) -> str:
    """Without an offset: the one that holds readers up."""
    which = "" if start_offset is None else f" --start-offset {start_offset}"
    return f"fenceline end {shell_word(topic)} {partition}{which} --bootstrap-server {shell_word(bootstrap_servers)}"


def _kafka_tool(bootstrap_servers: str, act: str) -> str:
    return f"kafka-transactions.sh --bootstrap-server {shell_word(bootstrap_servers)} {act}"


def _of_id(line: str, transactional_id: str) -> str:
    """The line with the id as its last word; empty for an id that no line can name."""
    return "" if "\0" in transactional_id else f"{line} {shell_word(transactional_id)}"
