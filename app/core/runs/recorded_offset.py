"""Reported committed offsets of tasks, and their comparison with those of the group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import StartPosition
from app.core.runs.offset_reset import ResetBounds
from app.kit.errors import ConflictError, Problem

_URL_SAFE = str.maketrans("+/", "-_")
_NAMED = 3
"""The number of partitions that a sentence names; all of them are in the problems."""


class RecordedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The last offset of one partition whose commit the brokers confirmed, as far as it was reported.

    topic_id: the topic of that name, as the brokers report it; None: not known (brokers before 2.8).
    is_final: the task that committed it had the partition until it drained, without an unknown outcome. A later owner
    may still have committed more, if it was killed before it could report.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str | None = None
    is_final: bool = False


class LostOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The group has no offset where one was confirmed. `begins`: where a start would begin. Records from there to
    `recorded` would be processed again, or those from `recorded` to there skipped.

    is_final: of the record. If false, a later offset may have been committed.
    """

    topic: str
    partition: int
    recorded: int
    begins: int
    is_final: bool = False

    def __str__(self) -> str:
        bound, what = ("at least", "processed again") if self.begins < self.recorded else ("at most", "skipped")
        place, bound = (f"{self.recorded}", "") if self.is_final else (f"{self.recorded} or later", f"{bound} ")
        return (
            f"{self.topic}-{self.partition} was committed at {place} and would begin at {self.begins} "
            f"({bound}{abs(self.recorded - self.begins)} offsets {what})"
        )


class MovedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The group's offset differs from the last one that a task has reported.

    Another tool has set it, or a task committed it and could not report it: which one is not known.
    """

    topic: str
    partition: int
    recorded: int
    committed: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} is at {self.committed}, recorded at {self.recorded}"


class TruncatedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The log was truncated before the committed offset: the leader epoch of its record has ended at `end`."""

    topic: str
    partition: int
    committed: int
    epoch: int
    end: int

    def __str__(self) -> str:
        at = f"{self.topic}-{self.partition}"
        return f"{at} was committed at {self.committed}, and leader epoch {self.epoch} ended at {self.end}"


class StaleOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The topic was recreated, no offset of the new one is recorded, and the group has one.

    Brokers delete a topic's offsets with it, but not while their coordinator is down.
    """

    topic: str
    partition: int
    committed: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} is at {self.committed}"


class UnansweredOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The group has no offset where one was confirmed, and the start of a new read is not known now."""

    topic: str
    partition: int
    recorded: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, recorded at {self.recorded} ({self.reason})"


class LostOffsetsError(ConflictError):
    """A pipeline is not started, since its group has lost committed offsets; a page offers the next steps."""

    def __init__(self, pipeline: str, group: str, lost: Sequence[LostOffset], *, is_query: bool) -> None:
        ways = ways_out(pipeline, is_query=is_query)
        super().__init__(f"pipeline {pipeline} is not started: {lost_sentence(group, lost)}. {ways}", field="group_id")
        self.pipeline = pipeline
        self.is_query = is_query
        self.problems = [Problem(field="group_id", message=str(one)) for one in lost]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    lost: tuple[LostOffset, ...] = ()
    moved: tuple[MovedOffset, ...] = ()
    truncated: tuple[TruncatedOffset, ...] = ()
    stale: tuple[StaleOffset, ...] = ()
    unanswered: tuple[UnansweredOffset, ...] = ()


def is_same_topic(recorded: RecordedOffset, topic_id: str | None) -> bool:
    """Return whether the record belongs to the current topic of the name; also true if an id is not known."""
    if recorded.topic_id is None or topic_id is None:
        return True
    # Java prints ids in the URL-safe alphabet, librdkafka in the standard one.
    return recorded.topic_id.translate(_URL_SAFE) == topic_id.translate(_URL_SAFE)


def compare(
    recorded: Collection[RecordedOffset],
    *,
    committed: Mapping[Partition, int],
    partitions: Collection[Partition],
    bounds: Mapping[Partition, ResetBounds | str],
    topic_ids: Mapping[str, str | None],
    start_position: StartPosition,
) -> Compared:
    """Compare the recorded offsets with those of the group, for the partitions that the pipeline would read.

    partitions: those that are read; others are ignored. bounds: of those without a committed offset, or the reason why
    their leader does not return them.

    A lost offset at the start position itself is not a problem: no record would be read twice or skipped. An offset
    behind the recorded one differs. An offset ahead of it differs only if the record is final, since a task that died
    may have committed more than it reported.
    """
    has_begun = any(at in committed for at in partitions)
    lost: list[LostOffset] = []
    moved: list[MovedOffset] = []
    stale: list[StaleOffset] = []
    unanswered: list[UnansweredOffset] = []
    for one in sorted(recorded, key=lambda one: (one.topic, one.partition)):
        at = Partition(one.topic, one.partition)
        if at not in partitions:
            continue
        found = committed.get(at)
        if not is_same_topic(one, topic_ids.get(one.topic)):
            if found is not None:
                stale.append(StaleOffset(topic=at.topic, partition=at.partition, committed=found))
        elif found is None:
            bound = bounds[at]
            if isinstance(bound, str):
                unanswered.append(
                    UnansweredOffset(topic=at.topic, partition=at.partition, recorded=one.offset, reason=bound)
                )
                continue
            begins = bound.end if start_position is StartPosition.LATEST and not has_begun else bound.earliest
            if begins != one.offset:
                lost.append(
                    LostOffset(
                        topic=at.topic,
                        partition=at.partition,
                        recorded=one.offset,
                        begins=begins,
                        is_final=one.is_final,
                    )
                )
        elif found < one.offset or (one.is_final and found != one.offset):
            moved.append(MovedOffset(topic=at.topic, partition=at.partition, recorded=one.offset, committed=found))
    return Compared(lost=tuple(lost), moved=tuple(moved), stale=tuple(stale), unanswered=tuple(unanswered))


def lost_sentence(group: str, lost: Sequence[LostOffset]) -> str:
    """Return the lost offsets as one sentence, without the next steps."""
    return f"the group {group} has lost committed offsets: {_named(lost)}"


def _named(found: Sequence[object]) -> str:
    more = f"; and {len(found) - _NAMED} more partitions" if len(found) > _NAMED else ""
    return "; ".join(map(str, found[:_NAMED])) + more


def ways_out(pipeline: str, *, is_query: bool = False) -> str:
    """Return the next steps. A query begins at the group's offsets only if its checkpoint is empty."""
    resume = f"`fenceline runs offsets {pipeline} --to recorded --execute --why …`"
    if is_query:
        return (
            f"The query would begin there only without its checkpoint. Restore the offsets: {resume}. "
            f"To start over, use {new_checkpoint(pipeline)}."
        )
    return (
        f"Resume there: {resume}. "
        "To start over, use `--to earliest` (processes again) or `--to latest` (skips records)."
    )


def new_checkpoint(pipeline: str) -> str:
    """Return the command by which a query begins at other offsets; those of the group have no effect on it."""
    return f"`fenceline new-checkpoint {pipeline}`"


def problems(pipeline: str, group: str, compared: Compared, *, is_query: bool) -> Iterator[Problem]:
    """Yield warnings at the field of the group: the definition may be saved, and the start is refused."""
    if compared.lost:
        ways = ways_out(pipeline, is_query=is_query)
        message = f"A start is refused: {lost_sentence(group, compared.lost)}. {ways}"
        yield Problem(field="group_id", message=message, is_warning=True)
    if compared.truncated:
        message = truncated_sentence(pipeline, compared.truncated, is_query=is_query)
        yield Problem(field="group_id", message=message, is_warning=True)
    if compared.stale:
        message = stale_sentence(pipeline, group, compared.stale, is_query=is_query)
        yield Problem(field="group_id", message=message, is_warning=True)
    if compared.unanswered:
        yield Problem(field="group_id", message=unanswered_sentence(group, compared.unanswered), is_warning=True)
    if compared.moved:
        yield Problem(field="group_id", message=moved_sentence(group, compared.moved), is_warning=True)


def moved_sentence(group: str, moved: Sequence[MovedOffset]) -> str:
    return (
        f"The offsets of {group} differ from the recorded ones: {_named(moved)}. Another tool has set them, or a task "
        "committed them and could not report. Reading continues at the current offsets"
    )


def unanswered_sentence(group: str, unanswered: Sequence[UnansweredOffset]) -> str:
    return (
        f"{group} has no committed offset, and the leader does not answer: {_named(unanswered)}. "
        "The task that gets the partition compares again before it begins there"
    )


def stale_sentence(pipeline: str, group: str, stale: Sequence[StaleOffset], *, is_query: bool) -> str:
    return (
        f"A start is refused: a topic was recreated, and {group} may still have offsets of the deleted one: "
        f"{_named(stale)}. {_elsewhere(pipeline, is_query=is_query)}"
    )


def truncated_sentence(pipeline: str, truncated: Sequence[TruncatedOffset], *, is_query: bool) -> str:
    return (
        "A start is refused: a log was truncated before the committed offset and has other records there now "
        f"(unclean leader election): {_named(truncated)}. {_elsewhere(pipeline, is_query=is_query)}"
    )


def _elsewhere(pipeline: str, *, is_query: bool) -> str:
    """Return the next step where the committed offset cannot be used."""
    if is_query:
        return f"The checkpoint has the same offsets. Begin with another one: {new_checkpoint(pipeline)}"
    return f"Reset the offsets: `fenceline runs offsets {pipeline} --set TOPIC:PARTITION=OFFSET --execute --why …`"
