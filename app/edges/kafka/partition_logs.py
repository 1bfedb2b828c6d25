"""Read several partitions' logs at once, within one bound; a leader without an answer delays no other. Blocks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping

from app.core.blocked.facts import LogEnds, Refused
from app.core.clusters.partition import Partition
from app.core.journals.log_look import FromTime, Landmark, LogBounds, LogLook, LogStart, ReadBound
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.partition_log import MAX_WAIT_MS, LogRange, no_such_partition, refusals
from app.edges.kafka.raw_client import errors, reading_answers
from app.edges.kafka.raw_fetch import PARTITION_MAX_BYTES, FetchedLog, FetchIsolation
from app.edges.kafka.transactions.leaders import LeaderClient
from app.edges.kafka.transactions.questions import FETCH
from app.kit.errors import InvalidError, NotFoundError, UnavailableError

_SLOW_S = 1.0
"""A leader that did not answer a fetch for this time is not asked again."""
_LEAST_PARTITION_BYTES = 64 << 10


def read_partition_logs(
    resolved: Mapping[str, str],
    attempt: ConnectionAttempt,
    topic: str,
    starts: LogStart | Mapping[int, LogStart],
    bound: ReadBound,
) -> dict[Partition, LogLook | Refused]:
    """Return raw batches of each partition; see app/core/clusters/brokers.py."""
    with refusals(attempt, topic), LogsClient(resolved, attempt) as client, reading_answers():
        existing = client.existing(topic)
        chosen = starts if isinstance(starts, Mapping) else dict.fromkeys(sorted(existing), starts)
        for number in chosen:
            if number not in existing:
                raise no_such_partition(topic, number, existing)
        if len(chosen) > bound.partitions:
            raise InvalidError(
                f"{topic} has {len(chosen)} partitions, and at most {bound.partitions} are read at once: choose one",
                field="partition",
            )
        return client.read({Partition(topic, number): start for number, start in chosen.items()}, bound)


class LogsClient(LeaderClient):
    """A connection to the cluster; a context manager. Its methods block."""

    def read(self, starts: Mapping[Partition, LogStart], bound: ReadBound) -> dict[Partition, LogLook | Refused]:
        ends = self.ends(list(starts))
        refused = {at: one for at, one in ends.items() if isinstance(one, Refused)}
        known = {at: one for at, one in ends.items() if isinstance(one, LogEnds)}
        times = {at: start.timestamp_ms for at in known if isinstance(start := starts[at], FromTime)}
        at_time: dict[Partition, int | Refused] = {}
        for timestamp_ms in set(times.values()):
            chosen = [at for at, one in times.items() if one == timestamp_ms]
            at_time |= self._offsets(chosen, timestamp_ms, FetchIsolation.READ_UNCOMMITTED)
        before_end = min(bound.before_end, max(1, bound.records // max(1, len(known))))
        ranges: dict[Partition, LogRange] = {}
        for at, log in known.items():
            found = at_time.get(at, -1)
            if isinstance(found, Refused):
                refused[at] = found
                continue
            bounds = LogBounds(
                first_offset=log.earliest, last_stable_offset=log.last_stable, high_watermark=log.high_watermark
            )
            ranges[at] = LogRange(_first(starts[at], bounds, before_end=before_end, at_time=found), bounds)
        refused |= self._fill(ranges, bound)
        return {at: refused[at] if at in refused else ranges[at].look() for at in starts}

    def existing(self, topic: str) -> Collection[int]:
        """Return the topic's partitions. Raises NotFoundError, or UnavailableError with the refusal."""
        found = self._leaders_by_topic([topic])[topic]
        if not isinstance(found, Refused):
            return found
        if found.is_no_such_partition or found.error.startswith("INVALID_TOPIC"):
            hint = f"the cluster at {self._attempt.address} has no topic {topic}, or hides it from this client"
            raise NotFoundError(hint, field="topic")
        raise UnavailableError(found.sentence)

    def _fill(self, ranges: Mapping[Partition, LogRange], bound: ReadBound) -> dict[Partition, Refused]:
        """Fetch until the bound or all ends; return the partitions of which nothing could be read."""
        until = time.monotonic() + min(bound.for_s, self.left_ms / 1000)
        share = max(_LEAST_PARTITION_BYTES, min(PARTITION_MAX_BYTES, bound.size_bytes // max(1, len(ranges))))
        missed: dict[Partition, Exception] = {}
        left_out: set[Partition] = set()
        leaders = self.leaders(list(ranges))
        while time.monotonic() < until and not _is_reached(ranges, bound):
            reading = {at: one for at, one in ranges.items() if at not in left_out and not one.is_at_end}
            if not reading:
                break
            by_isolation: defaultdict[FetchIsolation, dict[Partition, int]] = defaultdict(dict)
            # An answer is full with some of them: the least read ones come first.
            for at, one in sorted(reading.items(), key=lambda item: item[1].size_bytes):
                by_isolation[one.isolation][at] = one.position
            missed = {}
            for isolation, positions in by_isolation.items():
                began = time.monotonic()
                found, failed = self._from_leaders(positions, leaders, isolation, share)
                for at, answer in found.items():
                    ranges[at].take(answer, isolation)
                missed |= failed
                if time.monotonic() - began > _SLOW_S:
                    left_out |= failed.keys()
            if missed.keys() - left_out:
                # An election takes a moment.
                self._pause()
                leaders = self.leaders(list(ranges))
        return {at: FETCH.refused(str(at), error) for at, error in missed.items() if not ranges[at].batches}

    def _from_leaders(
        self,
        positions: Mapping[Partition, int],
        leaders: Mapping[Partition, int],
        isolation: FetchIsolation,
        share: int,
    ) -> tuple[dict[Partition, FetchedLog], dict[Partition, Exception]]:
        """Return the answers, and why the other partitions have none."""
        led: defaultdict[int, dict[Partition, int]] = defaultdict(dict)
        for at, position in positions.items():
            if at in leaders:
                led[leaders[at]][at] = position
        requests = {
            broker: self._request(parts, MAX_WAIT_MS, isolation, partition_max_bytes=share)
            for broker, parts in led.items()
        }
        found: dict[Partition, FetchedLog] = {}
        failed: dict[Partition, Exception] = {}
        for broker, answer in self._from_each(requests).items():
            if isinstance(answer, Exception):
                failed |= dict.fromkeys(led[broker], answer)
            else:
                found |= self._fetched(answer, positions)
        unknown = errors.LeaderNotAvailableError("it has no leader now")
        return found, failed | {at: unknown for at in positions if at not in found and at not in failed}


def _is_reached(ranges: Mapping[Partition, LogRange], bound: ReadBound) -> bool:
    return (
        sum(one.record_count for one in ranges.values()) >= bound.records
        or sum(one.size_bytes for one in ranges.values()) >= bound.size_bytes
    )


def _first(start: LogStart, bounds: LogBounds, *, before_end: int, at_time: int) -> int:
    """Return the first offset to read, which is one of the log or its end."""
    match start:
        case FromTime():
            wanted = bounds.high_watermark if at_time < 0 else at_time
        case Landmark.START:
            wanted = bounds.first_offset
        case Landmark.LSO:
            wanted = bounds.last_stable_offset
        case Landmark.END:
            wanted = bounds.high_watermark - before_end
        case int():
            wanted = start
    return min(max(wanted, bounds.first_offset), bounds.high_watermark)
