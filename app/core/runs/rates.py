"""A task's rates per second, from the counters of its heartbeats.

Records are counted when they are committed. If commits are rarer than heartbeats, most heartbeats count nothing new,
and one of them counts everything of half a minute. So such a task's rates are from commit to commit.
"""

from __future__ import annotations

from app.core.runs.task import CounterReading, Counters, TaskRates, TaskReport, TaskState, TaskStatus

_OFTEN_MS = 1_000
"""Heartbeats come about this often."""


def rates_between(before: TaskStatus | None, after: TaskReport) -> TaskRates:
    """Return the rates of `after`, compared with the report before it; all None unless both are of one attempt.

    | the task commits    | counted since                                              | its rates are                |
    |---------------------|------------------------------------------------------------|------------------------------|
    | about each second   | anything                                                   | between the two reports      |
    | less often          | something, for the first time since then                   | from then to now             |
    | less often          | nothing, for less than so long, and the task runs          | what they were               |
    | less often          | nothing, for longer, or the task does not run              | 0                            |

    "So long" is two intervals plus the time for uploads. If a task was idle, the time before its next commit counts as
    at most that.
    """
    every_ms = after.commits_every_ms or 0
    is_rare = every_ms > _OFTEN_MS
    longest_ms = 2 * every_ms + (after.uploads_within_ms or 0)
    now = CounterReading(at_ms=after.sent_at_ms, counters=after.counters)
    if (
        before is None
        or (before.last.lease, before.last.attempt) != (after.lease, after.attempt)
        or after.sent_at_ms <= before.last.sent_at_ms
    ):
        return TaskRates(since=now if is_rare else None)
    last = CounterReading(at_ms=before.last.sent_at_ms, counters=before.last.counters)
    if not is_rare:
        return _rates(last, now, over_ms=now.at_ms - last.at_ms, since=None)
    since = before.rates.since or last
    passed_ms = max(1, now.at_ms - since.at_ms)
    if _ends(now.counters) != _ends(since.counters):
        return _rates(since, now, over_ms=min(passed_ms, longest_ms), since=now)
    if after.state is TaskState.RUNNING and passed_ms <= longest_ms:
        return before.rates
    return _rates(since, since, over_ms=min(passed_ms, longest_ms), since=since)


def _ends(counters: Counters) -> tuple[int, ...]:
    """Return the counters that change when a checkpoint ends, with any outcome."""
    return (
        counters.records_in,
        counters.transactions_committed,
        counters.transactions_aborted,
        counters.transactions_unknown,
    )


def _rates(before: CounterReading, after: CounterReading, *, over_ms: int, since: CounterReading | None) -> TaskRates:
    seconds = over_ms / 1000
    new, old = after.counters, before.counters
    return TaskRates(
        records_in_per_s=max(0, new.records_in - old.records_in) / seconds,
        records_out_per_s=max(0, new.records_out - old.records_out) / seconds,
        bytes_in_per_s=max(0, new.bytes_in - old.bytes_in) / seconds,
        bytes_out_per_s=max(0, new.bytes_out - old.bytes_out) / seconds,
        commits_per_s=max(0, new.transactions_committed - old.transactions_committed) / seconds,
        aborts_per_s=max(0, new.transactions_aborted - old.transactions_aborted) / seconds,
        over_ms=over_ms,
        since=since,
    )
