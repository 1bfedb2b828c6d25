"""Files that pipelines wrote at the edge: each by its reference, totals, checkpoints, schemas, and how far was read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.kit.page import Page
from app.kit.web.api.bodies import Answer
from app.kit.web.api.shown import Items, made, shows
from app.products.files import reading, schema_history, totals, written_file
from app.products.files.checkpoint import FileCheckpoint as DomainCheckpoint
from app.products.files.checkpoint import Phase
from app.products.files.service import showing

BY_TASK = "By the clock of the task’s host: "
BYTES = "As they lie in the store, compressed."


@shows(written_file.InputOffsets)
class InputOffsets:
    """Both offsets are in the file; between them may be some whose output is in another one."""


@shows(written_file.WrittenFile)
class File:
    """One file that is uploaded, verified and referenced by a committed message."""

    path = "Below `root`; never used again."
    partition = "The value of each partition column, by name."
    size_bytes = BYTES
    sha256 = "Of the whole file, in hexadecimal."
    fingerprint = "Of its schema: SHA-256 of the Parsing Canonical Form."
    checkpoint = "Of the attempt, counted from 1."
    opened_at = BY_TASK + "its first record came."
    closed_at = BY_TASK + "it got no more."
    uploaded_at = BY_TASK + "all of it was in the store, and verified."
    referenced_at = (
        "The timestamp of its reference: the task’s clock, or the broker’s where the topic has "
        "`message.timestamp.type=LogAppendTime`."
    )
    committed_at = (
        "When a broker wrote the commit beside the reference, by that broker’s clock; null: the commit "
        "was not in the same answer as the reference, so it is not measured."
    )
    seen_at = "When the server read the reference."
    topic = "Where the reference lies."


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
    """How far one partition of the sink topic was read."""

    topic_id = "Which topic of this name: another one when it was made anew."
    end_offset = "The last stable offset when a server last looked; null: not told."
    begun_at = "Since when it is read."
    begun_offset = "From where; what lay before it was gone already."
    moved_at = "When something was read last."
    unread_offsets = "Deleted from the topic before a server read them, since."
    begun_again = "Why reading began anew then; empty: it is the first time."


@shows(reading.FileWatchState)
class FileWatchState:
    """What reading the references has come to, since the first time."""

    since = "When a server first tried."
    looked_at = "When one last got an answer; null: none yet."
    problem = "Why none, or not all, can be read now; empty: nothing is wrong."
    problem_at = "Since when."
    total = "Of every reference that was ever read; it does not shrink."
    strangers = "Messages that are no references of this version."
    stranger = "About the newest of them."
    of_others = "References of other pipelines."
    repeated = "References to a file that another one had named before."
    repetition = "About the newest of them."
    repeated_at = "When the newest of them was read; null: there is none."


@shows(showing.FileStanding)
class FileStanding:
    """How far what is shown of the files can be trusted to be whole."""

    watch = "Null: no server has begun."
    readings = "Of each partition that is read now."
    behind = "Offsets up to the last stable one that are not read yet, markers among them; null: unknown."
    is_whole = "Every committed reference was read a moment ago."
    notes = "What keeps the list from being all that there ever were."


@shows(showing.FileTotals)
class FileTotals:
    total = "Of every reference that was ever read."
    partitions = "Those with the most bytes first."
    partitions_kept = "How many there are, as far as kept: 30 days after their last file, at most 100,000."
    hours = "Oldest first; hours without a file are left out."


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


def _lengths(checkpoint: DomainCheckpoint) -> dict[str, float | None]:
    taken = checkpoint.lengths_ms()
    return {phase.value: taken[phase] for phase in Phase}


@shows(DomainCheckpoint)
class FileCheckpoint:
    """The files of one transaction; of its times `opened_at` is the earliest of its files, the others the latest."""

    seen_at = "When the server had read all of its references that it has."
    lengths: PhaseLengths = made(_lengths)


@shows(schema_history.FieldChange)
class FieldChange:
    field = "Its path: `user.id`; `items[].price` in an array, `{}` in a map."
    before = "Its type in words; null: it was not there."
    after = "Its type in words; null: it is gone."


@shows(schema_history.FileSchema)
class FileSchema:
    schema = "Avro, as JSON."
    files = "How many had it."
    first_at = "The earliest `referenced_at` of its files."
    last_at = "The latest one."


@shows(schema_history.SchemaInHistory)
class SchemaInHistory:
    changes = "What is other in it than in the schema before; null: none came before, or it is gone."


@shows(Page[written_file.WrittenFile], optional=True)
class FilePage:
    pass


@shows(Items[DomainCheckpoint])
class FileCheckpoints:
    pass


@shows(Items[schema_history.SchemaInHistory])
class FileSchemas:
    pass
