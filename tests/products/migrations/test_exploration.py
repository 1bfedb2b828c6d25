"""Every order of freezes, thaws, losses and commits: with the gates no record is processed twice.

Without one of their conditions, some order processes a record twice.
"""

from __future__ import annotations

import pytest

from app.products.migrations.gates import GATES
from app.products.migrations.migration import Stage
from tests.products.migrations.exploring import explore, walked
from tests.products.migrations.worlds import A, B, C, World, world

FORWARD = world((A, A), C, freezes=1)
BACK = world((C, C), A, freezes=1)
BACK_TO_GENERATION = world((C, C), B, freezes=1)
HALF_WAY = world((B, A), C, freezes=1)
"""The state after a migration that was aborted in its first bounce."""


def a_view_of_before() -> World:
    """The newest owner of in-1 is frozen and lost, without a generation; journals and heartbeats are older."""
    start = world((B, A), C, freezes=1, stalls=1, targets=(B, B))
    return walked(
        start,
        "0/0 (generation), in-0: taken",
        "0/0 (generation), in-1: taken",
        "the control plane sees no more",
        "0/0 (generation), in-0: given up",
        "1/0 (group_only), in-0: taken",
        "1/0 (group_only) sleeps",
        "1/0 (group_only) is lost",
        "instance 1 starts as generation",
    )


def one_is_cut_off() -> World:
    """Instance 0 was reported lost but works as a member without a generation; its next lease sends one."""
    return walked(
        world((A, A), C, freezes=1, cuts=1, targets=(B, B)),
        "1/0 (group_only) drains",
        "instance 1 starts as generation",
        "0/0 (group_only) is cut off and lost",
        "instance 0 starts as generation",
    )


@pytest.mark.parametrize(
    ("start", "stages"),
    [
        pytest.param(FORWARD, {Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY}, id="forward"),
        pytest.param(
            BACK, {Stage.BACK_TO_GENERATION, Stage.BACK_TO_GROUP_ONLY, Stage.VERIFY}, id="back from v2 to group_only"
        ),
        pytest.param(
            world((B, C), C, freezes=1), {Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY}, id="instance 1 is v2"
        ),
        pytest.param(
            world((B, C), A, freezes=1),
            {Stage.BACK_TO_GENERATION, Stage.BACK_TO_GROUP_ONLY, Stage.VERIFY},
            id="back, and instance 1 is v2",
        ),
        pytest.param(
            a_view_of_before(), {Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY}, id="a view of before"
        ),
        pytest.param(
            one_is_cut_off(), {Stage.FIRST_BOUNCE, Stage.SECOND_BOUNCE, Stage.VERIFY}, id="one is cut off, and a member"
        ),
    ],
)
def test_no_order_of_events_processes_a_record_twice_and_the_end_is_reached(start: World, stages: set[Stage]) -> None:
    explored = explore(start)
    assert explored.wrong == ()
    assert explored.stages == stages
    assert explored.is_completed, "the gates can open"


@pytest.mark.slow
def test_nor_does_one_that_turns_round_in_the_middle() -> None:
    explored = explore(world((A, A), C, freezes=1, returns=1))
    assert explored.wrong == ()
    assert explored.stages == set(Stage) - {Stage.PREFLIGHT}


@pytest.mark.parametrize(
    ("clause", "start", "what"),
    [
        ("seen_since", a_view_of_before(), "an input is committed a second time"),
        ("none_group_only", HALF_WAY, "an input is committed a second time"),
        ("members_known", one_is_cut_off(), "an input is committed a second time"),
        ("ids_taken_over", FORWARD, "an input is committed a second time"),
        ("all_v2", FORWARD, "is fenced while"),
        ("old_ids_fenced", FORWARD, "can still be written under"),
        ("all_generation", BACK_TO_GENERATION, "is fenced while"),
        ("none_v2", BACK, "is fenced while"),
        ("task_ids_fenced", BACK, "can still be written under"),
        ("all_group_only", BACK, "instance 0 is not group_only"),
        ("ids_held", BACK, "is of nobody who runs"),
        ("all_run", FORWARD, "is taken away while another is away"),
        ("moved", FORWARD, "was called done before it runs"),
        ("drained", FORWARD, "was called done with something open"),
    ],
)
def test_without_this_condition_alone_the_world_goes_wrong(clause: str, start: World, what: str) -> None:
    wrong = explore(start, GATES.without(clause)).wrong
    assert wrong, f"nothing goes wrong without {clause}: what is it for?"
    assert what in wrong[-1], "\n".join(wrong)


def test_the_one_step_switch_processes_a_record_twice() -> None:
    """The negative control: without any gate between them, group_only beside v2."""
    at_once = walked(world((A, A), C, freezes=1, targets=(C, C)), "1/0 (group_only), in-0: taken")
    wrong = explore(at_once).wrong
    assert "an input is committed a second time" in wrong[-1]


def test_a_task_id_that_was_not_fenced_is_written_under_by_one_that_slept_with_its_offsets_sent() -> None:
    """A client without a generation may be an old one, which does not wait for pending offsets (KIP-447)."""
    slept = walked(
        world((C, C), A, freezes=1),
        "1/0 (v2), in-0: taken",
        "1/0 (v2) sleeps with offsets sent",
        "1/0 (v2) is lost",
        "instance 1 starts as v2",
    )
    assert explore(slept).wrong == ()
