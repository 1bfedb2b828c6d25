"""REST schemas of written files: references, totals, checkpoints, schemas, and the progress of reading."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.page import Page
from app.kit.web.api.bodies import Answer
from app.kit.web.api.shown import Items, made, shows
from app.products.files import reading, schema_history, totals, written_file
from app.products.files.checkpoint import CheckpointPhase
from app.products.files.checkpoint import FileCheckpoint as DomainCheckpoint
from app.products.files.service import showing

BY_TASK = "By the clock of the task’s host: "
BYTES = "Size in the store, compressed."


@shows(written_file.InputOffsets)
class InputOffsets:
    """Both offsets are in the file. The outputs of offsets between them may be in another one."""


@shows(written_file.WrittenFile)
class File:
    """One file that is uploaded, verified and named by a committed reference."""

    path = "Below `root`; never used again."
    partition = "The value of each partition column, by name."
    size_bytes = BYTES
    sha256 = "Of the whole file, in hexadecimal."
    fingerprint = "Of its schema: SHA-256 of the Parsing Canonical Form."
    checkpoint = "Number of the checkpoint in its attempt, from 1."
    opened_at = BY_TASK + "its first record."
    closed_at = BY_TASK + "its last record."
    uploaded_at = BY_TASK + "uploaded and verified."
    referenced_at = (
        "The timestamp of its reference: the task’s clock, or the broker’s where the topic has "
        "`message.timestamp.type=LogAppendTime`."
    )
    committed_at = (
        "Time of the commit marker in the reference’s partition, by the broker’s clock; null: the marker "
        "was not in the same answer as the reference, so it is not measured."
    )
    seen_at = "Time at which the server read the reference."
    topic = "Topic of the reference."


@shows(totals.Total)
class Total:
    size_bytes = BYTES


@shows(totals.PartitionTotal)
class PartitionTotal:
    first_at = "The earliest `referenced_at` of its files."
    last_at = "The latest one."


@shows(totals.HourTotal)
class HourTotal:
    hour = "Its beginning; a file counts in the hour of its `referenced_at`."


@shows(reading.TopicReading)
class TopicReading:
    """The progress of reading one partition of the sink topic."""

    topic_id = "Id of the topic, which changes when the topic is recreated."
    end_offset = "The last stable offset at the last read; null: not known."
    begun_at = "Start of reading."
    begun_offset = "First offset of reading; earlier ones were deleted already."
    moved_at = "Time of the last progress."
    unread_offsets = "Offsets deleted since then before a server read them."
    begun_again = "Reason why reading restarted at `begun_at`; empty: it has not."


@shows(reading.FileWatchState)
class FileWatchState:
    """The result of reading a pipeline's references so far."""

    since = "Time of the first attempt."
    looked_at = "Time of the last answer; null: none yet."
    problem = "Reason why references cannot be read, or not all; empty: no problem."
    problem_at = "Start of the problem."
    total = "Totals of every reference ever read; they never shrink."
    strangers = "Number of messages that are no references of this version."
    stranger = "Description of the newest of them."
    of_others = "Number of references of other pipelines."
    repeated = "Number of references to a file that an earlier one names."
    repetition = "Description of the newest of them."
    repeated_at = "Time at which the newest of them was read; null: none."


@shows(showing.FileStanding)
class FileStanding:
    """The freshness and completeness of the files shown."""

    watch = "Null: no server has read references yet."
    readings = "Progress of each partition that is read now."
    behind = "Unread offsets up to the last stable offset, including markers; null: unknown."
    is_whole = "True if every committed reference was read within the last 30 s."
    notes = "Reasons why the list is not complete."


@shows(showing.FileTotals)
class FileTotals:
    total = "Totals of every reference ever read."
    partitions = "Partitions, most bytes first."
    partitions_kept = "Number of kept partitions: 30 days after their last file, at most 100,000."
    hours = "Oldest first, without hours that have no file."


class PhaseLengths(Answer):
    """Milliseconds; null: not measured. A difference of clocks may lengthen or shorten a phase, never below 0."""

    fill: Annotated[
        float | None, Field(description="From the first record of the first file to the last record of the last file.")
    ]
    upload: Annotated[
        float | None,
        Field(description="From then until the last file is written from the spool, uploaded and verified."),
    ]
    reference: Annotated[
        float | None,
        Field(
            description="From then until the last reference is produced, including the begin of the transaction and "
            "the offsets. The end is by the broker’s clock if the topic has LogAppendTime."
        ),
    ]
    commit: Annotated[
        float | None,
        Field(
            description="From then, by the task’s clock, to the commit marker in the references’ partitions, by the "
            "broker’s clock. Null if the marker was not in the same answer as a reference."
        ),
    ]


def _lengths(checkpoint: DomainCheckpoint) -> dict[str, float | None]:
    taken = checkpoint.lengths_ms()
    return {phase.value: taken[phase] for phase in CheckpointPhase}


@shows(DomainCheckpoint)
class FileCheckpoint:
    """The files of one transaction. `opened_at` is the earliest of its files, the other times are the latest."""

    seen_at = "Time at which the server read its newest reference."
    lengths: PhaseLengths = made(_lengths)


@shows(schema_history.FieldChange)
class FieldChange:
    field = "Its path: `user.id`; `items[].price` in an array, `{}` in a map."
    before = "The old type; null: the field is new."
    after = "The new type; null: the field was removed."


@shows(schema_history.FileSchema)
class FileSchema:
    schema = "Avro, as JSON."
    files = "Number of files with it."
    first_at = "The earliest `referenced_at` of its files."
    last_at = "The latest one."


@shows(schema_history.SchemaInHistory)
class SchemaInHistory:
    changes = "Changes since the previous schema; null: none is kept."


@shows(Page[written_file.WrittenFile], optional=True)
class FilePage:
    pass


@shows(Items[DomainCheckpoint])
class FileCheckpoints:
    pass


@shows(Items[schema_history.SchemaInHistory])
class FileSchemas:
    pass
