"""The state of a lease against which a worker's message is judged."""

from __future__ import annotations

import msgspec

from app.core.runs.instance import ENDED, InstanceState
from app.core.runs.lease_bounds import LeaseBounds
from app.core.runs.run import DesiredRunState
from app.core.runs.task import TaskStatus


class LeaseContext(msgspec.Struct, frozen=True, kw_only=True):
    """The rows against which a worker's message is judged, read in one statement.

    cluster: its name in Fenceline; kafka_cluster_id: as the brokers report it.
    lease: that of the message, with its instance_state and application_id. current_lease: the highest of the ordinal.
    bounds: the ids, topics and tasks that its messages may name. drill: the open drill of this lease, as JSON.
    newest: the highest (lease, attempt) that this task has reported; own: the last report of the message's attempt.
    """

    pipeline: str
    group: str
    cluster: str
    kafka_cluster_id: str
    desired: DesiredRunState
    run_has_ended: bool
    lease: int
    current_lease: int
    instance_state: InstanceState
    application_id: str | None
    database_epoch: str
    bounds: LeaseBounds
    drill: str | None = None
    newest: tuple[int, int] | None = None
    own: TaskStatus | None = None

    @property
    def lease_is_current(self) -> bool:
        """Return whether the lease is the highest of its ordinal and neither it nor the run has ended."""
        return self.lease == self.current_lease and self.instance_state not in ENDED and not self.run_has_ended

    def attempt_is_newest(self, attempt: int) -> bool:
        return self.newest is None or (self.lease, attempt) >= self.newest
