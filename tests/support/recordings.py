"""The recorded journals (tests/support/journal_recording.py): their bytes, and what Kafka's own tool reads in them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.support.journal_recording import RECORDED, VERSIONS

TRANSACTIONS = "__transaction_state"
GROUPS = "__consumer_offsets"
SINK = "orders.copied"

STREAMS_RECORDED = RECORDED / "streams"
"""Journals of Kafka Streams alone (tests/support/streams_recording.py)."""

VERSION_NAMES = tuple(version.name for version in VERSIONS)

_RECORD = re.compile(r"\| offset: (\d+) \w+: (-?\d+) .*?headerKeys: \[.*?\] (.*)")
_JOURNAL_RECORD = re.compile(r"key: (\{.*\}) payload: (\{.*\}|<DELETE>)")
_MARKER = re.compile(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)")


@dataclass
class DumpedRecord:
    """`content` is the rest of the line: key and payload, or a marker."""

    offset: int
    timestamp_ms: int
    content: str

    @property
    def key(self) -> dict[str, Any]:
        return json.loads(self._journal_record()[1])

    @property
    def payload(self) -> dict[str, Any] | None:
        """None for a tombstone."""
        found = self._journal_record()[2]
        return None if found == "<DELETE>" else json.loads(found)

    @property
    def marker(self) -> tuple[str, int]:
        found = _MARKER.fullmatch(self.content)
        assert found, self.content
        return found[1], int(found[2])

    def _journal_record(self) -> re.Match[str]:
        found = _JOURNAL_RECORD.fullmatch(self.content)
        assert found, self.content
        return found


@dataclass
class DumpedBatch:
    """`header` has the words of the tool's line."""

    header: dict[str, str]
    records: list[DumpedRecord] = field(default_factory=list[DumpedRecord])

    @property
    def is_control(self) -> bool:
        return self.header["isControl"] == "true"


def recorded_bytes(version: str, topic: str) -> bytes:
    return (RECORDED / version / f"{topic}.log").read_bytes()


def streams_bytes(topic: str) -> bytes:
    return (STREAMS_RECORDED / f"{topic}.log").read_bytes()


def dumped(version: str, topic: str) -> list[DumpedBatch]:
    return parse_dump((RECORDED / version / f"{topic}.dump.txt").read_text(encoding="utf-8"))


def parse_dump(text: str) -> list[DumpedBatch]:
    """The output of `kafka-dump-log.sh`."""
    batches: list[DumpedBatch] = []
    for line in text.split("\n"):
        if line.startswith("baseOffset: "):
            batches.append(DumpedBatch(dict(re.findall(r"(\w+): (\S+)", line))))
        elif found := _RECORD.fullmatch(line):
            batches[-1].records.append(DumpedRecord(int(found[1]), int(found[2]), found[3]))
    return batches
