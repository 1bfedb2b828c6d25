"""The names of transactional ids, such that two owners never get the same id by accident.

`<prefix>.p.<group>.<topic>.<partition>` is one input partition's id (exactly_once);
`<prefix>.t.<pipeline>.<instance>.<task>` is one task's id (exactly_once_v2).
The tag keeps the two kinds apart; each part is escaped so that dots inside a part never look like separators.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9_-]")
_PART = r"[A-Za-z0-9_%-]+"
_OURS = re.compile(rf"{_PART}\.(?:t\.{_PART}\.\d+|p\.{_PART}\.{_PART})\.\d+")


def escape(part: str) -> str:
    """Percent-encode every character outside A-Z a-z 0-9 _ - (its UTF-8 bytes); injective, never contains a dot."""
    return "".join(
        char if _PLAIN.match(char) else "".join(f"%{byte:02X}" for byte in char.encode("utf-8")) for char in part
    )


def for_task(*, prefix: str, pipeline: str, instance: int, task: int) -> str:
    """The fixed id of an `exactly_once_v2` task, the same for every attempt, so that a retry fences its predecessor."""
    return f"{_of_tasks(prefix, pipeline)}.{instance}.{task}"


def for_partition(*, prefix: str, group: str, topic: str, partition: int) -> str:
    """The fixed id of one input partition of `exactly_once`."""
    return f"{_of_topic(prefix, group, topic)}.{partition}"


def form_for_tasks(*, prefix: str, pipeline: str) -> str:
    """Return the form of `for_task`'s ids for display, before a task exists."""
    return f"{_of_tasks(prefix, pipeline)}.<instance>.<task>"


def form_for_topic(*, prefix: str, group: str, topic: str) -> str:
    """Return the form of `for_partition`'s ids for display."""
    return f"{_of_topic(prefix, group, topic)}.<partition>"


def _of_tasks(prefix: str, pipeline: str) -> str:
    return f"{escape(prefix)}.t.{escape(pipeline)}"


def _of_topic(prefix: str, group: str, topic: str) -> str:
    return f"{escape(prefix)}.p.{escape(group)}.{escape(topic)}"


def is_named_as_ours(transactional_id: str) -> bool:
    """Return True if it has one of the two forms: a hint, and no proof of its owner."""
    return _OURS.fullmatch(transactional_id) is not None


def transaction_log_partition(transactional_id: str, partitions: int = 50) -> int:
    """Return the partition of `__transaction_state` with this id: Java's String.hashCode, absolute, modulo.

    Source: Kafka, TransactionStateManager.partitionFor and Utils.abs (which maps the minimum integer to 0).
    """
    hashed = 0
    encoded = transactional_id.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        hashed = (31 * hashed + int.from_bytes(encoded[index : index + 2], "big")) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
