"""The treatment of a record that cannot be processed: the pipeline's policy (rule 7)."""

from __future__ import annotations

import logging
import time
from collections import deque

from confluent_kafka import Message

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy
from app.core.wire.heartbeat import EventKind
from workers.loop.errors import PipelineStopError
from workers.loop.group.membership import Announce
from workers.loop.records.bad_record_log import BadRecord, BadRecordLog, error_name
from workers.loop.records.suspicion import CondemnedError
from workers.loop.telling.tally import Work
from workers.transforms import Output, RecordError
from workers.transforms.carrying import UNWRITABLE_TIMESTAMP_MS
from workers.transforms.identity import as_output

log = logging.getLogger(__name__)

HEADER_PREFIX = "fenceline."
_MAX_ERROR_LENGTH = 4_000


class FailureWindow:
    """The records of committed checkpoints: how many, and at which of them were bad ones.

    open: the bad ones in all checkpoints that are open now.
    """

    def __init__(self) -> None:
        self.read = 0
        self.bad_at: deque[int] = deque()
        self.open = 0


def _now_ms() -> int:
    return int(time.time() * 1000)


class BadRecords:
    """Applies one policy, and stops the pipeline when bad records are too frequent.

    More than `max_bad` bad records among the last `window_records` read stop it. Bad records of an aborted checkpoint
    are forgotten: they will be found again. Where several checkpoints are open at once, each has its own findings and
    all share `window` and `told`, the attempt's totals by cause.
    """

    def __init__(
        self,
        handling: ErrorHandling,
        *,
        announce: Announce,
        window: FailureWindow | None = None,
        told: BadRecordLog | None = None,
    ) -> None:
        self._handling = handling
        self._announce = announce
        self._window = window or FailureWindow()
        self._told = told or BadRecordLog()
        self._found_open: list[BadRecord] = []
        self._read_open = 0
        self._bad_open: list[int] = []
        self._first_open: str | None = None

    def read(self, records: int) -> None:
        """Count processed records, good and bad."""
        self._read_open += records

    def treat(self, message: Message, error: Exception, work: Work) -> Output | None:
        """The dead letter to write for a bad record, or None if it is skipped.

        Raises:
            PipelineStopError: the policy is `fail`, or there were too many.
        """
        place = f"{message.topic()}-{message.partition()} offset {message.offset()}"
        sentence = f"the record at {place} cannot be processed: {type(error).__name__}: {error}"
        if contents := _contents(error):
            # Only operators read the logs of executors; the sentence goes to every viewer.
            log.warning("the record at %s: %s", place, contents)
        if self._handling.policy is FailurePolicy.FAIL:
            raise PipelineStopError(f"{sentence}. The policy is `fail`: fix the transform or the record, or skip it")
        self._bad_open.append(self._window.read + self._read_open)
        self._window.open += 1
        self._first_open = self._first_open or sentence
        self._found_open.append(
            BadRecord(
                message.topic() or "",
                message.partition() or 0,
                message.offset() or 0,
                error_name(error),
                self._handling.policy is FailurePolicy.SKIP,
            )
        )
        self._refuse_too_many(sentence)
        if self._handling.policy is FailurePolicy.SKIP:
            work.records_skipped += 1
            return None
        work.records_dead_lettered += 1
        return dead_letter(message, error, topic=self._handling.dead_letter_topic)

    def committed(self) -> None:
        """Keep the findings of the open checkpoint, by cause. Only a new cause is an event, so that they are few."""
        self._window.read += self._read_open
        self._window.bad_at.extend(self._bad_open)
        if self._first_open is not None and self._told.add(self._found_open, now_ms=_now_ms()):
            more = len(self._bad_open) - 1
            self._announce(EventKind.BAD_RECORD, self._first_open + (f" (and {more} more)" if more else ""))
        self._forget_open()

    def aborted(self) -> None:
        self._forget_open()

    def _forget_open(self) -> None:
        self._window.open -= len(self._bad_open)
        self._read_open, self._bad_open, self._first_open, self._found_open = 0, [], None, []

    def _refuse_too_many(self, sentence: str) -> None:
        begin = self._window.read + self._read_open - self._handling.window_records
        bad_at = self._window.bad_at
        while bad_at and bad_at[0] < begin:
            bad_at.popleft()
        count = len(bad_at) + self._window.open
        if count > self._handling.max_bad:
            raise PipelineStopError(
                f"{count} bad records within {self._handling.window_records}, at most {self._handling.max_bad} are "
                f"allowed; the last: {sentence}"
            )


def _contents(error: Exception) -> str:
    return error.contents if isinstance(error, RecordError) else ""


def dead_letter(message: Message, error: Exception, *, topic: str | None) -> Output:
    """The original record, with `fenceline.*` headers that report its place and its error.

    If its timestamp may be the error, or cannot be written, it is in a header too. The dead letter then has the time of
    writing. A dead letter must not be refused for its record's error.
    """
    record = as_output(message)
    text = f"{type(error).__name__}: {error}" + (f": {contents}" if (contents := _contents(error)) else "")
    added = {
        "error": text[:_MAX_ERROR_LENGTH],
        "topic": message.topic() or "",
        "partition": str(message.partition()),
        "offset": str(message.offset()),
    }
    if isinstance(error, CondemnedError) or record.timestamp_ms == UNWRITABLE_TIMESTAMP_MS:
        added["timestamp"] = str(record.timestamp_ms)
        record = record._replace(timestamp_ms=None)
    headers = [
        *(record.headers or ()),
        *((HEADER_PREFIX + name, text.encode(errors="replace")) for name, text in added.items()),
    ]
    return record._replace(headers=headers, topic=topic)
