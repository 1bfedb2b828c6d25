"""Calls that wait for brokers, made together on threads of a pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from workers.loop.errors import OutcomeUnknownError, ProducerLostError
from workers.loop.group.member_metadata import MemberMetadata
from workers.loop.slices import SLICE_S, CallPatience

_AT_ONCE = 32
"""The number of calls that wait for brokers at the same time; each has a thread meanwhile."""
_OVERDUE_S = 10.0
"""A call returns some slices after its timeout, that of the offsets 2 s; then it is abandoned."""


class Together:
    """The calling thread waits for all of them, and answers their requests to the consumer.

    Args:
        metadata: the member's metadata for the calls, answered by the calling thread.
        meanwhile: called while it waits, every slice.
    """

    def __init__(self, metadata: MemberMetadata, *, meanwhile: Callable[[], None], clock: Callable[[], float]) -> None:
        self._metadata = metadata
        self._meanwhile = meanwhile
        self._clock = clock
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lane")

    def close(self) -> None:
        """Wait for nothing more: an abandoned call may still come back, and its requests are refused."""
        self._pool.shutdown(wait=False)
        self._metadata.close()

    def make(
        self,
        calls: Sequence[Callable[[CallPatience], None]],
        bound_s: float,
        *,
        least_s: float = 0.0,
        overdue: type[OutcomeUnknownError | ProducerLostError] = ProducerLostError,
    ) -> list[BaseException | None]:
        """Make all of them and wait, answering for the consumer meanwhile; return the errors of each.

        Args:
            bound_s: the bound for all of them together.
            least_s: the bound of a call that begins late, after others have used up the bound.
            overdue: stands for the answer of a call that has not returned long after that. Its producer is discarded,
                and refuses later requests of the call; its id is initialised before it is used again.
        """
        ends_at = self._clock() + bound_s

        def make_one(call: Callable[[CallPatience], None]) -> None:
            call(CallPatience(max(least_s, ends_at - self._clock())))

        futures = [self._pool.submit(make_one, call) for call in calls]
        for future in futures:
            future.add_done_callback(lambda _: self._metadata.wake())
        waits_s = bound_s + _OVERDUE_S * math.ceil(len(futures) / _AT_ONCE)
        deadline = self._clock() + waits_s
        while not all(future.done() for future in futures) and self._clock() < deadline:
            self._metadata.serve(SLICE_S)
            self._meanwhile()
        late = f"a call did not come back for {waits_s:.1f} s"
        # Calls that have not begun never begin.
        for future in futures:
            future.cancel()
        is_late = [not future.done() or future.cancelled() for future in futures]
        return [
            overdue(late) if late_one else future.exception() for future, late_one in zip(futures, is_late, strict=True)
        ]
