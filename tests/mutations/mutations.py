"""The mutations: a protection, the guards that would hide that it is gone, and the scene that shows it."""

from __future__ import annotations

from typing import NamedTuple

from tests.fault_suite.freeze_points import Point
from tests.fault_suite.plan import Kind
from tests.mutations import file_scenes, scenes
from tests.mutations.drawn import Drawn, frozen_at, lasts
from tests.mutations.scenes import Scene
from tests.mutations.switches import Switch

_PAST_SESSION_S = 10.0
_SCENE_OF_FILES = "the stage of file pipelines (`tests/fault_suite/file_stage.py`) has no switches"
_LONG_TRANSACTIONS = {"transaction_timeout_ms": 30_000}
"""A worker frozen past the session wakes up before the coordinator has ended the transaction."""


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
        "offsets are sent only for partitions that had no other owner since the poll",
        "every partition counts as unchanged",
        scenes.partition_goes_and_comes_back,
        "duplicated",
        Drawn((Kind.WORKER_TERMINATED, Kind.INSTANCES_SCALED), faults=4, settings={"commit_interval_ms": 2_000}),
        (
            Guard(
                Switch.COMMIT_ON_REVOKE,
                "it avoids repeating an interval at a rebalance; if it fails or times out, only the number is left",
            ),
            Guard(
                Switch.CONFIRMED,
                "it protects against replaced coordinators; it uses the number too, and would wait without it",
            ),
        ),
    ),
    Mutation(
        Switch.GENERATION,
        "offsets are sent with the member's own generation",
        "they are sent without a generation",
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
        "after an abort, the partitions rewind to the committed offsets",
        "reading continues",
        scenes.every_third_checkpoint_fails,
        "lost",
        Drawn(
            (Kind.STALLED_TO_BROKER,), faults=2, meets=lasts(_PAST_SESSION_S), settings={"session_timeout_ms": 30_000}
        ),
    ),
    Mutation(
        Switch.ABORT_ON_LOST,
        "open checkpoints of lost partitions are aborted",
        "the loss is ignored",
        scenes.member_is_lost,
        "duplicated",
        "a checkpoint must stay open over a loss and a return without its partitions; the suite commits each 100 ms, "
        "and a commit before the return is refused by the generation",
    ),
    Mutation(
        Switch.DISCARD_PRODUCER,
        "a producer of unknown outcome is replaced: the next init decides, then the committed offsets are read",
        "it is used again",
        scenes.commit_arrives_late,
        "duplicated",
        "a request must arrive after the client's timeout and before the coordinator's, which is the same",
        (
            Guard(
                Switch.READ_COMMITTED,
                "a protection itself (below): the coordinator does not return pending offsets",
            ),
            Guard(
                Switch.BEGIN_REFUSED,
                "the client's own: it begins no transaction with one open, and the attempt would fail",
            ),
        ),
    ),
    Mutation(
        Switch.READ_COMMITTED,
        "records of open transactions are not read, pending offsets are waited for",
        "source and offsets are read at `read_uncommitted`",
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
        "the offset is read first",
        scenes.former_owner_wakes_before_the_init,
        "duplicated",
        "the thaw must come during the next owner's init, which takes a tenth of a second",
        (
            Guard(
                Switch.GENERATION,
                "a protection itself (above); `offset_fencing: group_only` has only the order",
            ),
        ),
    ),
    Mutation(
        Switch.FILES_AT_REVOKE,
        "polled records are in referenced files before their partition is released",
        "records without a file are dropped in the callback",
        file_scenes.partition_comes_straight_back,
        "lost",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.BEGINS_AT_COMMITTED,
                "the client's own, which keeps no position over a revoke: the next owner reads the records again",
            ),
        ),
    ),
    Mutation(
        Switch.LETS_GO_FIRST,
        "a failing attempt aborts its open checkpoint before it leaves the group",
        "it leaves, and the client's last callback commits the checkpoint",
        file_scenes.fails_in_the_middle_of_a_batch,
        "lost",
        _SCENE_OF_FILES,
    ),
    Mutation(
        Switch.HELD_UNTIL_READY,
        "an assigned partition is not fetched before its producer is ready",
        "it is fetched at once, and the records are dropped",
        file_scenes.records_come_before_the_producer,
        "lost",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.REWIND,
                "a protection itself (above): dropped records are read again",
            ),
        ),
    ),
    Mutation(
        Switch.FILED_OWNERSHIP,
        "files are referenced only if their partitions had no other owner since the poll",
        "partitions are not checked after the uploads",
        file_scenes.records_of_before_a_rebalance,
        "duplicated",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.COMMIT_ON_REVOKE,
                "it avoids writing the same files again; but uploads may be too slow for a rebalance",
            ),
        ),
    ),
    Mutation(
        Switch.REVOKE_BY_ITSELF,
        "a revoke ends the open checkpoint in its own callback",
        "it waits for the next assignment, as if both came in one poll",
        file_scenes.assigned_polls_after_it_was_revoked,
        "duplicated",
        _SCENE_OF_FILES,
    ),
    Mutation(
        Switch.UPLOAD_DEADLINE,
        "late uploads are never referenced",
        "they have no time limit",
        file_scenes.frozen_while_it_uploads,
        "duplicated",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.GENERATION,
                "a protection itself (above): the coordinator refuses removed members",
            ),
        ),
    ),
)


class StoryFault(NamedTuple):
    """A fault of the debugging story, and the protection against it. why: of the loss or duplication."""

    fault: str
    protection: Switch
    why: str


STORY = (
    StoryFault(
        "polled records without a file, at a revoke that returns the partition at once",
        Switch.FILES_AT_REVOKE,
        "lost: the next records' offsets pass them",
    ),
    StoryFault(
        "the same at the end of a partition's last batch",
        Switch.LETS_GO_FIRST,
        "lost: the offsets are after the batch, whose end is in no file",
    ),
    StoryFault(
        "the first batch after a rebalance dropped",
        Switch.HELD_UNTIL_READY,
        "lost: the offsets of the next batch pass it",
    ),
    StoryFault(
        "a batch requested before a rebalance, counted in the new generation",
        Switch.FILED_OWNERSHIP,
        "duplicated, not lost: a batch has its offsets here, and the owner in between has filed the same records",
    ),
    StoryFault(
        "an assignment one poll after the revoke",
        Switch.REVOKE_BY_ITSELF,
        "duplicated, not lost: the owner between the polls files the same records",
    ),
    StoryFault(
        "an upload across a rebalance",
        Switch.UPLOAD_DEADLINE,
        "duplicated: both uploads are complete and referenced",
    ),
)
