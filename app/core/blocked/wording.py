"""Format times and commands in a chain of reasons."""

from __future__ import annotations

from app.core.blocked.facts import KnownTransaction
from app.kit.printable import shell_word
from app.kit.storable import moment_of_ms


def clock(at_ms: int) -> str:
    return f"{moment_of_ms(at_ms):%H:%M:%S} UTC"


def describe_line(known: KnownTransaction, bootstrap_servers: str) -> str:
    return _of_id(_kafka_tool(bootstrap_servers, "describe --transactional-id"), known.transactional_id)


def terminate_line(transactional_id: str, bootstrap_servers: str) -> str:
    """The fence with Kafka's own tool."""
    return _of_id(_kafka_tool(bootstrap_servers, "forceTerminateTransaction --transactionalId"), transactional_id)


def fence_line(known: KnownTransaction, bootstrap_servers: str) -> str:
    line = _of_id("fenceline fence", known.transactional_id)
    return line and f"{line} --bootstrap-server {shell_word(bootstrap_servers)}"


def abort_line(topic: str, partition: int, start_offset: int, bootstrap_servers: str) -> str:
    """The end with Kafka's own tool."""
    return (
        f"{_kafka_tool(bootstrap_servers, 'abort')} "
        f"--topic {shell_word(topic)} --partition {partition} --start-offset {start_offset}"
    )


def end_line(topic: str, partition: int, bootstrap_servers: str, *, start_offset: int | None = None) -> str:
    """Without an offset: the transaction that blocks consumers."""
    which = "" if start_offset is None else f" --start-offset {start_offset}"
    return f"fenceline end {shell_word(topic)} {partition}{which} --bootstrap-server {shell_word(bootstrap_servers)}"


def _kafka_tool(bootstrap_servers: str, act: str) -> str:
    return f"kafka-transactions.sh --bootstrap-server {shell_word(bootstrap_servers)} {act}"


def _of_id(line: str, transactional_id: str) -> str:
    """Append the id as the last argument; empty for an id that no command line can contain."""
    return "" if "\0" in transactional_id else f"{line} {shell_word(transactional_id)}"
