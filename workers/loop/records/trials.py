"""The search for the one record that the broker refuses, or that kills the worker (rule 7).

A checkpoint that cannot be finished holds a suspect. It is repeated in smaller and smaller ones, from the committed
offset on, until a suspect is alone in its checkpoint. A *trial* of one record that fails condemns it.

A refused record leaves the worker alive, so its trials are kept in memory. A record that kills the worker leaves
nothing but earlier commits. So the offsets carry a note, in the metadata that Kafka keeps beside each committed offset.
Before the first batch after an assignment is processed, a transaction of its own commits the offset where the batch
begins together with "trial begun". The checkpoint's own commit removes the note. A note that is found shows that a
worker began just here and did not finish. A partition that moves to another task takes its note along.

Two such deaths are required before anything gets smaller, and two of the lone record before it is condemned. So a kill
for another reason costs a few small checkpoints and no record.

A death at the first record of every attempt is not that record's fault. Too little memory at the start, or a broken
library, kills with any record. So one of the two deaths alone must come to a process that has survived another record.
A process that has not, tries a record after the suspect first and discards the result. If that kills it too, the next
attempt tries a later one, and nothing is condemned.
"""

from __future__ import annotations

import re

import msgspec

UNLIMITED = 0
MAX_CHECKPOINT_RECORDS = 500_000
"""The limit of every checkpoint, so that the search after a death has an end."""
_FIRST_LIMIT = 2_048
_DEATHS_PER_STEP = 64
"""The factor by which a checkpoint shrinks after a death, which costs a restart and often a session timeout."""
_REFUSALS_PER_STEP = 8
"""The factor after a refusal, which costs an abort and a new producer."""
_DEATHS_BEFORE_LIMIT = 2
_DEATHS_ALONE = 2
MOST_PASSED = 64
"""The number of records after the suspect that are tried in its place, one after each death; then from the first."""
_NOTE = re.compile(r"fenceline1 limit=(\d+) begun=(\d+) until=(-?\d+)(?: warm=(1))?(?: passed=(\d+))?")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The suspicion about a partition at its committed offset.

    limit: at most so many records in a checkpoint; UNLIMITED: nothing is suspected yet.
    begun: how often a checkpoint under this limit was begun here and not finished.
    until: the suspicion ends when this offset is committed.
    warm: one of those under limit 1 was begun by a process that had survived another record. Then the lone record is
        the cause, and not an environment in which every first record kills.
    passed: how often another record was tried in the suspect's place, and killed the worker too.
    """

    limit: int = UNLIMITED
    begun: int = 0
    until: int = -1
    warm: bool = False
    passed: int = 0

    def note(self) -> str:
        """The text of the offset metadata."""
        warm, passed = " warm=1" if self.warm else "", f" passed={self.passed}" if self.passed else ""
        return f"fenceline1 limit={self.limit} begun={self.begun} until={self.until}{warm}{passed}"


def read_note(metadata: str) -> Trial:
    """Read the trial in a committed offset's metadata; an empty one if Fenceline did not write the metadata."""
    found = _NOTE.fullmatch(metadata)
    if found is None:
        return Trial()
    limit, begun, until = map(int, found.groups()[:3])
    return Trial(limit=limit, begun=begun, until=until, warm=found[4] is not None, passed=int(found[5] or 0))


def tells_of_a_trial(metadata: str) -> bool:
    """True if a committed offset's metadata is a note that a worker began there."""
    return _NOTE.fullmatch(metadata) is not None


def after_deaths(found: Trial, *, offset: int) -> Trial:
    """The trial at `offset` after the note `found`: the same, or a smaller one.

    The result's `begun` counts the unfinished trials under its own limit; `is_condemned` may hold for it.
    """
    if found.limit == UNLIMITED:
        if found.begun < _DEATHS_BEFORE_LIMIT:
            return found
        return Trial(limit=_FIRST_LIMIT, until=offset + MAX_CHECKPOINT_RECORDS)
    if found.limit > 1 and found.begun > 0:
        return Trial(limit=max(1, found.limit // _DEATHS_PER_STEP), until=found.until)
    return found


def is_condemned(trial: Trial) -> bool:
    """True when the record at the committed offset has been alone in two trials that did not end, one of them warm."""
    return trial.limit == 1 and trial.begun >= _DEATHS_ALONE and trial.warm


def needs_another(trial: Trial) -> bool:
    """True when the lone record has killed only processes that had survived no record: another must be tried first."""
    return trial.limit == 1 and trial.begun > 0 and not trial.warm


def after_refusal(*, records: int, until: int) -> Trial:
    """The trial after a checkpoint of `records` records (more than one), ending at `until`, was refused."""
    return Trial(limit=max(1, records // _REFUSALS_PER_STEP), until=until)
