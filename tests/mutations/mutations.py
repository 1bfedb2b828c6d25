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
_SCENE_OF_FILES = (
    "runs of faults over file pipelines have a stage of their own (tests/fault_suite/file_stage.py), which knows no "
    "switches"
)
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
    Mutation(
        Switch.FILES_AT_REVOKE,
        "what a file pipeline has taken is in files that are referenced before its partition is given up",
        "what is in no file yet is dropped in the callback",
        file_scenes.partition_comes_straight_back,
        "lost",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.BEGINS_AT_COMMITTED,
                "the client's own, which keeps no position over a revoke: what a callback could not commit is read "
                "again by whoever gets the partition next",
            ),
        ),
    ),
    Mutation(
        Switch.LETS_GO_FIRST,
        "an attempt that fails lets go of its open checkpoint before it leaves the group",
        "it leaves, and the last callback of the client commits what is open",
        file_scenes.fails_in_the_middle_of_a_batch,
        "lost",
        _SCENE_OF_FILES,
    ),
    Mutation(
        Switch.HELD_UNTIL_READY,
        "nothing is fetched of an assigned partition before there is a producer to file its records under",
        "it is fetched from at once, and what comes is left out",
        file_scenes.records_come_before_the_producer,
        "lost",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.REWIND,
                "a protection of its own (above): what was left out is read again",
            ),
        ),
    ),
    Mutation(
        Switch.FILED_OWNERSHIP,
        "files are referenced only if nobody has had a partition of theirs since their records were polled",
        "the partitions are not looked at after the uploads",
        file_scenes.records_of_before_a_rebalance,
        "duplicated",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.COMMIT_ON_REVOKE,
                "it spares a rebalance from filling the same files again; but uploads may be slower than a rebalance "
                "allows",
            ),
        ),
    ),
    Mutation(
        Switch.REVOKE_BY_ITSELF,
        "a revoke ends the open checkpoint in its own callback",
        "it is put off until partitions are assigned, as if both came in one poll",
        file_scenes.assigned_polls_after_it_was_revoked,
        "duplicated",
        _SCENE_OF_FILES,
    ),
    Mutation(
        Switch.UPLOAD_DEADLINE,
        "uploads that are not done in their time are never referenced",
        "they take what they take",
        file_scenes.frozen_while_it_uploads,
        "duplicated",
        _SCENE_OF_FILES,
        (
            Guard(
                Switch.GENERATION,
                "a protection of its own (above): the group's coordinator refuses whoever is no member any more",
            ),
        ),
    ),
)


class StoryFault(NamedTuple):
    """A fault of the debugging story, and which protection stands against it here. why: lost, or doubled."""

    fault: str
    protection: Switch
    why: str


STORY = (
    StoryFault(
        "records taken but not yet in a file at a revoke that gives the partition straight back",
        Switch.FILES_AT_REVOKE,
        "lost: what comes next is behind them, and its offsets pass them",
    ),
    StoryFault(
        "the same at the end of a partition's last batch",
        Switch.LETS_GO_FIRST,
        "lost: the offsets are those behind the batch, of which the end is in no file",
    ),
    StoryFault(
        "the first batch after a rebalance dropped",
        Switch.HELD_UNTIL_READY,
        "lost: the offsets of the next batch pass it",
    ),
    StoryFault(
        "a batch asked for before the rebalance credited to the new generation",
        Switch.FILED_OWNERSHIP,
        "doubled, not lost: here a batch comes with its offsets, and who had the partition meanwhile has filed the "
        "same records",
    ),
    StoryFault(
        "assigned a poll later than revoked",
        Switch.REVOKE_BY_ITSELF,
        "doubled, not lost: between the two polls the partition is somebody else's, who files the same records",
    ),
    StoryFault(
        "an upload begun before the rebalance and finished after it",
        Switch.UPLOAD_DEADLINE,
        "doubled: both uploads are whole, and both are referenced",
    ),
)
