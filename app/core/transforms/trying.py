"""A trial of a transform on some records: the messages to and from the child process that runs it.

`workers/transforms/try_records.py` is the child. A file that it runs can write an answer of its own, so the answer is
checked like any input.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from app.core.journals.log_content import Content, RecordHeader
from app.core.pipelines.pipeline import Transform

MOST_RECORDS = 100
MOST_OUTPUTS = 10
"""The outputs of one record with contents. Further ones are counted."""
CONTENT_BYTES = 4 << 20
"""The contents of all outputs together. Outputs after them are counted only."""
LONGEST_MESSAGE = 2_000
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
    """topic: the one to write to. timestamp_ms: None stands for the time of writing."""

    topic: Annotated[str, msgspec.Meta(max_length=249)]
    timestamp_ms: int | None = None
    key: Content | None = None
    value: Content | None = None
    headers: tuple[RecordHeader, ...] = ()


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
