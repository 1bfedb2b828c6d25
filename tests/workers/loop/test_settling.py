"""Getting whole again: how long is waited between tries."""

from __future__ import annotations

from workers.loop.claim.inquiry import ClaimStanding, Inquiry, InquiryAnswer
from workers.loop.client_config import Batches
from workers.loop.group.membership import Membership
from workers.loop.group.ownership import Ownership
from workers.loop.producing.producers import TaskProducer
from workers.loop.settling import Settling

HOURS_OF_TRIES = 5_000


class NeverKnows(Inquiry):
    """The server is away, and the journal does not answer."""

    def __init__(self) -> None:
        """Always allowed."""

    def ask(self, standing: ClaimStanding) -> InquiryAnswer:
        return InquiryAnswer(None, f"not known yet: {standing}")

    def give_up(self) -> None:
        """Nothing is held."""


def announce(*_said: object, **_more: object) -> None:
    """Ignored."""


def no_producer(_batches: Batches) -> TaskProducer:
    raise AssertionError("a producer was made without leave")


class HoldsNothing(Membership):
    """Without a consumer."""

    def __init__(self) -> None:
        self.ownership = Ownership()

    def hold(self, reason: object) -> None:
        """Nothing is read anyway."""


def settling(clock: list[float]) -> Settling:
    return Settling(
        HoldsNothing(), no_producer, NeverKnows(), announce=announce, learn=announce, clock=lambda: clock[0]
    )


def test_waits_get_longer_up_to_a_bound_however_long_it_fails() -> None:
    whole = settling([0.0])
    waits = [whole.back_off() for _ in range(HOURS_OF_TRIES)]
    assert waits[:3] == [0.05, 0.1, 0.2]
    assert max(waits) == waits[-1] == 5.0
    whole.succeeded()
    assert whole.back_off() == 0.05


def test_question_is_asked_less_often_the_longer_it_is_not_answered() -> None:
    clock = [0.0]
    whole = settling(clock)
    whole.require_producer(is_fenced=True)
    waits: list[float] = []
    for _ in range(HOURS_OF_TRIES):
        assert whole.step() is None
        waits.append(whole.wait_s)
        assert (whole.obstacle or "").startswith("not known yet")
        clock[0] += whole.wait_s + 1e-6
    assert waits[0] < 0.1
    assert 1.9 < waits[-1] < 2.1


def test_it_is_known_for_how_long_something_has_been_needed() -> None:
    clock = [5.0]
    whole = settling(clock)
    assert whole.lasts_s == 0.0
    whole.require_rewind()
    clock[0] = 7.0
    whole.require_producer()
    assert whole.lasts_s == 2.0
