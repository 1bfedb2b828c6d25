"""The mutations: a protection, the guards that would hide that it is gone, and the scene that shows it."""

from __future__ import annotations

from typing import NamedTuple

from tests.fault_suite.freeze_points import Point
from tests.fault_suite.plan import Kind
from tests.mutations import scenes
from tests.mutations.drawn import Drawn, frozen_at, lasts
from tests.mutations.scenes import Scene
from tests.mutations.switches import Switch

_PAST_SESSION_S = 10.0
_LONG_TRANSACTIONS = {"transaction_timeout_ms": 30_000}
"""Who is frozen past the session wakes up before the coordinator has ended the transaction."""


class Guard(NamedTuple):
    """kept: why it is there, although the protection alone would do in the scene."""

    switch: Switch
    kept: str


class Mutation(NamedTuple):
    """does: what the loop does with it. without: what is done in its place. sees: what the verifier must find.

    drawn: faults that meet it, or why no run of minutes does.
    """

    protection: Switch
    does: str
    without: str
    scene: Scene
    sees: str
    drawn: Drawn | str
    guards: tuple[Guard, ...] = ()

    @property
    def switches(self) -> tuple[Switch, ...]:
        return self.protection, *(guard.switch for guard in self.guards)


MUTATIONS = (
    Mutation(
        Switch.OWNERSHIP_NUMBER,
        "offsets are sent only of partitions that nobody has had since they were polled",
        "every partition counts as unchanged",
        scenes.partition_goes_and_comes_back,
        "duplicated",
        Drawn((Kind.WORKER_TERMINATED, Kind.INSTANCES_SCALED), faults=4, settings={"commit_interval_ms": 2_000}),
        (
            Guard(
                Switch.COMMIT_ON_REVOKE,
                "it spares a rebalance from doing a whole interval again; but it may fail or run out of time, and then "
                "the number is all there is",
            ),
            Guard(
                Switch.CONFIRMED,
                "it is there against coordinators that were replaced; it goes by the number itself, and without it "
                "would wait for a commit that is long past",
            ),
        ),
    ),
    Mutation(
        Switch.GENERATION,
        "offsets are sent with the member's own generation",
        "they are sent for the group alone",
        scenes.frozen_between_poll_and_offsets,
        "duplicated",
        Drawn(
            (Kind.WORKER_FROZEN,),
            faults=1,
            meets=frozen_at(Point.AFTER_OUTPUTS, longer_than_s=_PAST_SESSION_S),
            settings=_LONG_TRANSACTIONS,
        ),
    ),
    Mutation(
        Switch.REWIND,
        "after an abort reading goes back to the committed offsets",
        "it goes on where it is",
        scenes.every_third_checkpoint_fails,
        "lost",
        Drawn(
            (Kind.STALLED_TO_BROKER,), faults=2, meets=lasts(_PAST_SESSION_S), settings={"session_timeout_ms": 30_000}
        ),
    ),
    Mutation(
        Switch.ABORT_ON_LOST,
        "what was open when partitions were lost is aborted",
        "the loss is not heard",
        scenes.member_is_lost,
        "duplicated",
        "its checkpoint must stay open over a loss and a return without its partitions; the suite's are committed each "
        "100 ms, and whoever commits before it is a member again is refused by its generation",
    ),
    Mutation(
        Switch.DISCARD_PRODUCER,
        "a producer of unknown outcome is replaced: its successor's init decides, then it is asked what is committed",
        "it is kept, and used again",
        scenes.commit_arrives_late,
        "duplicated",
        "a request must arrive when its answer is not waited for any more, and before the coordinator's own timeout, "
        "which is the same",
        (
            Guard(
                Switch.READ_COMMITTED,
                "a protection of its own (below): the group's coordinator holds undecided offsets back",
            ),
            Guard(
                Switch.BEGIN_REFUSED,
                "the client's own: it begins no transaction while the one before is undecided, and the attempt would "
                "fail where it can go on",
            ),
        ),
    ),
    Mutation(
        Switch.READ_COMMITTED,
        "undecided records are not read, undecided offsets are waited for",
        "source and offsets are read uncommitted",
        scenes.frozen_between_offsets_and_commit,
        "duplicated",
        Drawn(
            (Kind.WORKER_FROZEN,),
            faults=1,
            meets=frozen_at(Point.AFTER_OFFSETS, Point.BEFORE_COMMIT, longer_than_s=_PAST_SESSION_S),
            settings=_LONG_TRANSACTIONS,
        ),
    ),
    Mutation(
        Switch.INIT_BEFORE_OFFSETS,
        "with a producer for each partition, its id is initialised before its committed offset is read",
        "the partition is taken first",
        scenes.former_owner_wakes_before_the_init,
        "duplicated",
        "who is frozen must wake up while the next owner's init is on its way, which takes a tenth of a second",
        (
            Guard(
                Switch.GENERATION,
                "a protection of its own (above), which `offset_fencing: group_only` does without: then the order is "
                "all there is",
            ),
        ),
    ),
)
