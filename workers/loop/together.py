"""Calls that wait for brokers, made together on threads of a pool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from workers.loop.errors import OutcomeUnknownError, ProducerLostError
from workers.loop.group.member_metadata import MemberMetadata
from workers.loop.slices import SLICE_S, Patience

_AT_ONCE = 32
"""So many calls wait for brokers at once; each has a thread meanwhile."""
_OVERDUE_S = 10.0
"""A call comes back some slices later than it was told to, that of the offsets 2 s; then nobody waits for it."""


class Together:
    """The thread that asks waits for all of them, and answers what they ask for the consumer.

    Args:
        metadata: what the calls ask for the member's metadata, answered by the asking thread.
        meanwhile: called while it waits, every slice.
    """

    def __init__(self, metadata: MemberMetadata, *, meanwhile: Callable[[], None], clock: Callable[[], float]) -> None:
        self._metadata = metadata
        self._meanwhile = meanwhile
        self._clock = clock
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lane")

    def close(self) -> None:
        """Nothing is waited for: a call that has been given up may still come back, and is refused what it asks."""
        self._pool.shutdown(wait=False)
        self._metadata.close()

    def make(
        self,
        calls: Sequence[Callable[[Patience], None]],
        bound_s: float,
        *,
        least_s: float = 0.0,
        overdue: type[OutcomeUnknownError | ProducerLostError] = ProducerLostError,
    ) -> list[BaseException | None]:
        """Make all of them and wait, answering for the consumer meanwhile; what each has raised.

        Args:
            bound_s: how long they may take in all.
            least_s: what is left for one whose turn comes late, after others have used that up.
            overdue: what stands for the answer of one that has not come back long after that. Its producer is let go of
                and refuses what the call may still want of it; its id is initialised before it is used again.
        """
        ends_at = self._clock() + bound_s

        def make_one(call: Callable[[Patience], None]) -> None:
            call(Patience(max(least_s, ends_at - self._clock())))

        futures = [self._pool.submit(make_one, call) for call in calls]
        for future in futures:
            future.add_done_callback(lambda _: self._metadata.wake())
        waits_s = bound_s + _OVERDUE_S * math.ceil(len(futures) / _AT_ONCE)
        deadline = self._clock() + waits_s
        while not all(future.done() for future in futures) and self._clock() < deadline:
            self._metadata.serve(SLICE_S)
            self._meanwhile()
        late = f"a call did not come back for {waits_s:.1f} s"
        # Those that have not begun never do.
        for future in futures:
            future.cancel()
        is_late = [not future.done() or future.cancelled() for future in futures]
        return [
            overdue(late) if late_one else future.exception() for future, late_one in zip(futures, is_late, strict=True)
        ]
