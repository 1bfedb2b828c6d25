"""The server's answer about an attempt is requested once for all its partitions."""

from __future__ import annotations

import pytest

from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee
from tests.support.tasks import RecordingControl
from workers.loop.claim.inquiry import ClaimStanding
from workers.loop.claim.word import SharedWord
from workers.loop.control import TaskSpecification
from workers.loop.lane_parts import inquiry_of


@pytest.mark.parametrize(("word", "holds_s"), [(True, 1.0), (False, 1.0), (None, 5.0)])
def test_answer_is_requested_once_for_all_lanes_and_again_after_a_while(word: bool | None, holds_s: float) -> None:
    clock = [0.0]
    asked: list[float] = []

    def ask(timeout_s: float) -> bool | None:
        asked.append(timeout_s)
        clock[0] += timeout_s
        return word

    shared = SharedWord(ask, clock=lambda: clock[0])
    assert [shared(3.0) for _ in range(30)] == [word] * 30
    clock[0] += holds_s - 0.01
    assert shared(3.0) is word
    assert (asked, clock[0]) == ([3.0], 3.0 + holds_s - 0.01)
    clock[0] += 0.02
    assert shared(3.0) is word
    assert asked == [3.0, 3.0]


@pytest.mark.parametrize(
    ("guarantee", "times"), [(ProcessingGuarantee.EXACTLY_ONCE, 1), (ProcessingGuarantee.EXACTLY_ONCE_V2, 3)]
)
def test_partitions_share_the_answer_and_a_task_asks_for_its_own(guarantee: ProcessingGuarantee, times: int) -> None:
    specification = TaskSpecification(
        pipeline="p",
        run_id="r",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        definition=PipelineDefinition(
            cluster="c", source_topics=("in",), group_id="g", sink_topic="out", processing_guarantee=guarantee
        ),
        client_config={"bootstrap.servers": ""},
        transactional_id="fl.t.p.0.0",
    )
    control = RecordingControl()
    control.is_current = True
    word = SharedWord(lambda timeout_s: control.ask_is_current(timeout_s=timeout_s))
    for name in ("a", "b", "c"):
        inquiry = inquiry_of(specification, name, control, word=word)
        assert inquiry is not None
        assert inquiry.ask(ClaimStanding(has_held=False, identity=None, is_fenced=False)).may is True
    assert control.asked == times
