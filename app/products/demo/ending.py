"""Check that the demo's pipeline has read all its input and that its run ended well, before and after the last drain.

The group's committed offsets count flights, as the feed's producer is not transactional: the source topic has flights
only. The sink also has a marker for each transaction.
"""

import time
from collections.abc import Callable

from app.core.runs.run import RunState
from app.edges.embedded.errors import EmbeddedError
from app.products.demo.proof import SinkVerdict
from app.products.demo.server import DemoRun

_LOOK_EVERY_S = 0.25
_AT_WORK = frozenset(
    {
        RunState.PENDING,
        RunState.STARTING,
        RunState.RUNNING,
        RunState.DEGRADED,
        RunState.CRASH_LOOPING,
        RunState.BOUNCING,
    }
)


def is_at_work(run: DemoRun) -> bool:
    """Return whether it reads, or will as soon as it can: it is not paused, drained or stopped."""
    return run.state in _AT_WORK


def refuse_failed(run: DemoRun) -> None:
    """Raise EmbeddedError if the run has failed. A run that a user stopped is no failure."""
    if run.state is RunState.FAILED:
        raise EmbeddedError(_failure(run))


def wait_until_read(
    fed: int, *, count_read: Callable[[], int], get_run: Callable[[], DemoRun], within_s: float
) -> None:
    """Wait until all of the input is committed, the run has ended, or `within_s` is over; the last check judges."""
    deadline = time.monotonic() + within_s
    while count_read() != fed and time.monotonic() < deadline:
        if get_run().state in (RunState.FAILED, RunState.STOPPED):
            return
        time.sleep(_LOOK_EVERY_S)


def complaints(
    verdict: SinkVerdict, *, before: DemoRun, after: DemoRun, may_end_early: bool = False
) -> tuple[str, ...]:
    """Return the problems at the end; empty when all was read and each flight counts once.

    Args:
        verdict: of the last check, after the drain.
        before: the run when the drain was requested.
        after: the run when it had ended.
        may_end_early: a user may have paused or stopped it before all was read, which is no problem then.
    """
    found: list[str] = []
    if after.state is RunState.FAILED:
        found.append(_failure(after))
    ended_early = may_end_early and not is_at_work(before)
    if verdict.records_in != verdict.fed and not ended_early:
        found.append(
            f"{verdict.fed:,} flights were fed, but {verdict.records_in:,} were read "
            f"(the run was {before.state} before the drain)"
        )
    if not verdict.is_exactly_once:
        found.append(f"the last check failed: {verdict.sentence()}")
    return tuple(found)


def _failure(run: DemoRun) -> str:
    return f"the run has failed: {run.end_reason or 'no reason was reported'}"
