"""Has the demo's pipeline read all that it was fed, and did its run end well? Asked before and after the last drain.

The group's committed offsets count flights: the feed's producer is not transactional, so nothing but flights lies in
the source topic. In the sink that would not hold, where each transaction leaves a marker.
"""

import time
from collections.abc import Callable

from app.core.runs.run import RunState
from app.edges.embedded.errors import EmbeddedError
from app.products.demo.proof import Verdict
from app.products.demo.server import Run

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


def is_at_work(run: Run) -> bool:
    """Whether it reads, or will as soon as it can: nobody has paused, drained or stopped it."""
    return run.state in _AT_WORK


def refuse_failed(run: Run) -> None:
    """Raise EmbeddedError if the run has failed. One that was stopped is somebody's wish."""
    if run.state is RunState.FAILED:
        raise EmbeddedError(_failure(run))


def wait_until_read(fed: int, *, count_read: Callable[[], int], get_run: Callable[[], Run], within_s: float) -> None:
    """Wait until all that was fed is committed, the run has ended, or `within_s` is over; the last proof judges."""
    deadline = time.monotonic() + within_s
    while count_read() != fed and time.monotonic() < deadline:
        if get_run().state in (RunState.FAILED, RunState.STOPPED):
            return
        time.sleep(_LOOK_EVERY_S)


def complaints(verdict: Verdict, *, before: Run, after: Run, may_end_early: bool = False) -> tuple[str, ...]:
    """Everything that was not as it must be at the end; empty when all was read and each flight counts once.

    Args:
        verdict: of the last proof, after the drain.
        before: the run when the drain was asked for.
        after: the run when it had ended.
        may_end_early: somebody may have paused or stopped it before all was read, which is then no complaint.
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
        found.append(f"the last proof did not hold: {verdict.sentence()}")
    return tuple(found)


def _failure(run: Run) -> str:
    return f"the run has failed: {run.end_reason or 'no reason was given'}"
