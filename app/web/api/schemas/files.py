"""Files that pipelines wrote at the edge: each by its reference, totals, checkpoints, schemas, and how far was read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from app.domain.files.checkpoint import FileCheckpoint as DomainCheckpoint
from app.domain.files.checkpoint import Phase
from app.web.api.schemas.base import Answer

ByTask = "By the clock of the task’s host: "
Bytes = Annotated[int, Field(description="As they lie in the store, compressed.")]


class InputOffsets(Answer):
    """Both offsets are in the file; between them may be some whose output is in another one."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class File(Answer):
    """One file that is uploaded, verified and referenced by a committed message."""

    path: Annotated[str, Field(description="Below `root`; never used again.")]
    root: str
    partition: Annotated[dict[str, str], Field(description="The value of each partition column, by name.")]
    size_bytes: Bytes
    records: int
    sha256: Annotated[str, Field(description="Of the whole file, in hexadecimal.")]
    codec: str
    fingerprint: Annotated[str, Field(description="Of its schema: SHA-256 of the Parsing Canonical Form.")]
    inputs: list[InputOffsets]
    transactional_id: str
    attempt: str
    checkpoint: Annotated[int, Field(description="Of the attempt, counted from 1.")]
    opened_at: Annotated[datetime, Field(description=ByTask + "its first record came.")]
    closed_at: Annotated[datetime, Field(description=ByTask + "it got no more.")]
    uploaded_at: Annotated[datetime, Field(description=ByTask + "all of it was in the store, and verified.")]
    referenced_at: Annotated[
        datetime,
        Field(
            description="The timestamp of its reference: the task’s clock, or the broker’s where the topic has "
            "`message.timestamp.type=LogAppendTime`."
        ),
    ]
    committed_at: Annotated[
        datetime | None,
        Field(
            description="When a broker wrote the commit beside the reference, by that broker’s clock; null: the commit "
            "was not in the same answer as the reference, so it is not measured."
        ),
    ]
    seen_at: Annotated[datetime, Field(description="When the server read the reference.")]
    topic: Annotated[str, Field(description="Where the reference lies.")]
    topic_partition: int
    offset: int


class FilePage(Answer):
    items: list[File]
    next_cursor: str | None = None


class Total(Answer):
    files: int
    records: int
    size_bytes: Bytes


class PartitionTotal(Answer):
    partition: dict[str, str]
    total: Total
    first_at: Annotated[datetime, Field(description="The earliest `referenced_at` of its files.")]
    last_at: Annotated[datetime, Field(description="The latest one.")]


class HourTotal(Answer):
    hour: Annotated[datetime, Field(description="Its beginning; a file counts in the hour of its `referenced_at`.")]
    total: Total


class TopicReading(Answer):
    """How far one partition of the sink topic was read."""

    kafka_cluster_id: str
    topic: str
    partition: int
    topic_id: Annotated[str, Field(description="Which topic of this name: another one when it was made anew.")]
    next_offset: int
    end_offset: Annotated[
        int | None, Field(description="The last stable offset when a server last looked; null: not told.")
    ]
    begun_at: Annotated[datetime, Field(description="Since when it is read.")]
    begun_offset: Annotated[int, Field(description="From where; what lay before it was gone already.")]
    moved_at: Annotated[datetime, Field(description="When something was read last.")]
    unread_offsets: Annotated[int, Field(description="Deleted from the topic before a server read them, since.")]
    begun_again: Annotated[str, Field(description="Why reading began anew then; empty: it is the first time.")]


class FileWatchState(Answer):
    """What reading the references has come to, since the first time."""

    since: Annotated[datetime, Field(description="When a server first tried.")]
    looked_at: Annotated[datetime | None, Field(description="When one last got an answer; null: none yet.")]
    problem: Annotated[str, Field(description="Why none, or not all, can be read now; empty: nothing is wrong.")]
    problem_at: Annotated[datetime | None, Field(description="Since when.")]
    total: Annotated[Total, Field(description="Of every reference that was ever read; it does not shrink.")]
    strangers: Annotated[int, Field(description="Messages that are no references of this version.")]
    stranger: Annotated[str, Field(description="About the newest of them.")]
    of_others: Annotated[int, Field(description="References of other pipelines.")]
    repeated: Annotated[int, Field(description="References to a file that another one had named before.")]
    repetition: Annotated[str, Field(description="About the newest of them.")]
    repeated_at: Annotated[datetime | None, Field(description="When the newest of them was read; null: there is none.")]


class FileStanding(Answer):
    """How far what is shown of the files can be trusted to be whole."""

    watch: Annotated[FileWatchState | None, Field(description="Null: no server has begun.")]
    readings: Annotated[list[TopicReading], Field(description="Of each partition that is read now.")]
    behind: Annotated[
        int | None,
        Field(
            description="Offsets up to the last stable one that are not read yet, markers among them; null: unknown."
        ),
    ]
    is_whole: Annotated[bool, Field(description="Every committed reference was read a moment ago.")]
    sentence: str
    notes: Annotated[list[str], Field(description="What keeps the list from being all that there ever were.")]


class FileTotals(Answer):
    standing: FileStanding
    total: Annotated[Total, Field(description="Of every reference that was ever read.")]
    partitions: Annotated[list[PartitionTotal], Field(description="Those with the most bytes first.")]
    partitions_kept: Annotated[
        int, Field(description="How many there are, as far as kept: 30 days after their last file, at most 100,000.")
    ]
    hours: Annotated[list[HourTotal], Field(description="Oldest first; hours without a file are left out.")]
    hours_since: datetime


class PhaseLengths(Answer):
    """In milliseconds; null: not measured. Between two clocks it may be too long or too short, never below 0."""

    fill: Annotated[
        float | None, Field(description="From the first record of its first file until its last file got no more.")
    ]
    upload: Annotated[
        float | None,
        Field(description="From then until the last file was written from the spool, uploaded and verified."),
    ]
    reference: Annotated[
        float | None,
        Field(
            description="From then until the last reference was produced, the beginning of the transaction and the "
            "sending of the offsets included; to the broker’s clock where the topic has LogAppendTime."
        ),
    ]
    commit: Annotated[
        float | None,
        Field(
            description="From then, by the task’s clock, until a broker had written the commit beside the references, "
            "by the broker’s. Null where the commit was not in one answer with a reference."
        ),
    ]


class FileCheckpoint(Answer):
    """The files of one transaction; of its times `opened_at` is the earliest of its files, the others the latest."""

    transactional_id: str
    attempt: str
    checkpoint: int
    total: Total
    opened_at: datetime
    closed_at: datetime
    uploaded_at: datetime
    referenced_at: datetime
    committed_at: datetime | None
    seen_at: Annotated[datetime, Field(description="When the server had read all of its references that it has.")]
    lengths: PhaseLengths

    @classmethod
    def of_checkpoint(cls, checkpoint: DomainCheckpoint) -> Self:
        taken = checkpoint.lengths_ms()
        return cls.of(checkpoint, lengths={phase.value: taken[phase] for phase in Phase})


class FileCheckpoints(Answer):
    items: list[FileCheckpoint]


class FieldChange(Answer):
    field: Annotated[str, Field(description="Its path: `user.id`; `items[].price` in an array, `{}` in a map.")]
    before: Annotated[str | None, Field(description="Its type in words; null: it was not there.")]
    after: Annotated[str | None, Field(description="Its type in words; null: it is gone.")]


class FileSchema(Answer):
    fingerprint: str
    schema_: Annotated[dict[str, Any], Field(alias="schema", description="Avro, as JSON.")]
    files: Annotated[int, Field(description="How many had it.")]
    first_at: Annotated[datetime, Field(description="The earliest `referenced_at` of its files.")]
    last_at: Annotated[datetime, Field(description="The latest one.")]


class SchemaInHistory(Answer):
    schema_: Annotated[FileSchema, Field(alias="schema")]
    changes: Annotated[
        list[FieldChange] | None,
        Field(description="What is other in it than in the schema before; null: none came before, or it is gone."),
    ]


class FileSchemas(Answer):
    items: list[SchemaInHistory]
