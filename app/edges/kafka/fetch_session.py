"""One incremental fetch session with one broker (KIP-227): requests name only partitions whose position has changed.

A broker answers with the partitions that have records, another high watermark or an error. It had nothing new in a
partition that is not in its answer. Two journals have a hundred partitions, so complete requests and answers cost a
busy server most of its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from app.core.clusters.partition import Partition

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LAST_EPOCH = 2**31 - 1


class SessionRequest(NamedTuple):
    """positions: what the request names. forgotten: what the session no longer follows."""

    session_id: int
    epoch: int
    positions: dict[Partition, int]
    forgotten: tuple[Partition, ...]


class FetchSession:
    """Used by one thread, for one request at a time: `request`, then `answered` or `failed`."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._sent: dict[Partition, int] = {}

    def request(self, positions: Mapping[Partition, int]) -> SessionRequest:
        """The next request of a session that shall follow exactly these positions."""
        before, self._sent = self._sent, dict(positions)
        if self._epoch == _FIRST_EPOCH:
            # The first of a session; with an old session's id, the broker ends that one.
            return SessionRequest(self._id, _FIRST_EPOCH, self._sent, ())
        changed = {at: offset for at, offset in positions.items() if before.get(at) != offset}
        return SessionRequest(self._id, self._epoch, changed, tuple(at for at in before if at not in positions))

    def answered(self, session_id: int) -> None:
        """The id in an answer without an error; 0: the broker has no place for a session."""
        self._id = session_id
        if session_id == _NO_SESSION:
            self._epoch = _FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def failed(self) -> None:
        """Make the next request complete. It is unknown what the broker has taken, or it has forgotten the session.

        It forgets one by a restart, or when it needs the place (FETCH_SESSION_ID_NOT_FOUND).
        """
        self._epoch = _FIRST_EPOCH
