"""A trial of a transform on some records: the messages to and from the child process that runs it.

`workers/transforms/try_records.py` is the child, and `workers/spark/try_query.py` that of a query. A file that it runs
can write an answer of its own, so the answer is checked like any input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from app.core.journals.log_content import Content, RecordHeader, bytes_of
from app.core.pipelines.pipeline import Transform

MOST_RECORDS = 100
MOST_OUTPUTS = 10
"""The outputs of one record with contents. Further ones are counted."""
MOST_ROWS = 50
"""The rows of a query with contents. Further ones are counted."""
CONTENT_BYTES = 4 << 20
"""The contents of all outputs together. Outputs after them are counted only."""
LONGEST_MESSAGE = 2_000
LONGEST_TOPIC = 249
Text = Annotated[str, msgspec.Meta(max_length=LONGEST_MESSAGE)]


class SampleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a source topic with its whole contents. timestamp_ms: -1 without one."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """cpu_s, memory_mb, uid, is_isolated: as in workers/transforms/check_file.py. source: text of the Python file."""

    transform: Transform
    source: str | None
    sink_topic: str
    records: tuple[SampleRecord, ...]
    cpu_s: int
    memory_mb: int
    uid: int | None = None
    is_isolated: bool = False


class TriedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """topic: the one to write to. partition: None: the partitioner's. timestamp_ms: None: the time of writing."""

    topic: Annotated[str, msgspec.Meta(max_length=LONGEST_TOPIC)]
    partition: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    timestamp_ms: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    key: Content | None = None
    value: Content | None = None
    headers: tuple[RecordHeader, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError, which a decoder reports, for contents that are no base64 or no Unicode."""
        for one in (self.key, self.value, *(header.value for header in self.headers)):
            bytes_of(one)


class TriedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one record. output_count: of all outputs; `outputs` has the first ones.

    error: why it is a bad record; None: it is not. contents: the text of the error, which may quote the record.
    """

    outputs: tuple[TriedOutput, ...] = ()
    output_count: int = 0
    error: Text | None = None
    contents: Text = ""


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """results: one for each record, in order. message: why the transform cannot run at all, at this field."""

    results: tuple[TriedResult, ...] = ()
    message: Text | None = None
    field: Literal["", "file_name", "function"] = ""


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """rows: the first ones of `count`, in order. error: why Spark has ended the query over these records.

    message: why the query cannot be tried, at this field.
    """

    rows: Annotated[tuple[TriedOutput, ...], msgspec.Meta(max_length=MOST_ROWS)] = ()
    count: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] = 0
    error: Text | None = None
    message: Text | None = None
    field: Annotated[str, msgspec.Meta(pattern=r"^transform\.[a-z0-9_.]{1,80}\Z")] = "transform.kind"


def fitting(outputs: Iterable[TriedOutput], most_bytes: int) -> tuple[list[TriedOutput], int]:
    """Return the first outputs that have that many bytes as JSON, and the bytes left: below 0 if one is missing."""
    shown: list[TriedOutput] = []
    for output in outputs:
        most_bytes -= len(msgspec.json.encode(output))
        if most_bytes < 0:
            break
        shown.append(output)
    return shown, most_bytes
