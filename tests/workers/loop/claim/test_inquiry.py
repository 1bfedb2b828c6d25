"""Rule 5 as a decision: the server's answer, else the journal, else neither."""

from __future__ import annotations

import pytest

from app.core.journals.transaction_state import TransactionState, TransactionStatus
from app.edges.embedded.ports import free_ports
from workers.loop.claim.inquiry import SETTLE_S, ClaimStanding, Inquiry, InquiryAnswer
from workers.loop.claim.journal import IdJournal
from workers.loop.control import ProducerIdentity
from workers.loop.errors import FatalError, LoopError

S = TransactionStatus
IDENTITY = ProducerIdentity(producer_id=7, epoch=3)
UNFENCED = ClaimStanding(has_held=True, identity=IDENTITY, is_fenced=False)
FENCED = ClaimStanding(has_held=True, identity=IDENTITY, is_fenced=True)


def state(status: TransactionStatus, epoch: int, *, lasted_ms: int = 100) -> TransactionState:
    return TransactionState(
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=10_000,
        status=status,
        start_ms=1_000_000,
        last_update_ms=1_000_000 + lasted_ms,
    )


OURS = [state(S.EMPTY, 3), state(S.ONGOING, 3)]
ABORTING = [*OURS, state(S.PREPARE_ABORT, 4)]
ABORTED = [*ABORTING, state(S.COMPLETE_ABORT, 4)]
TAKEN = [*ABORTED, state(S.EMPTY, 5)]
TIMED_OUT = [*OURS, state(S.PREPARE_ABORT, 4, lasted_ms=10_500), state(S.COMPLETE_ABORT, 4, lasted_ms=10_600)]


class ScriptedJournal(IdJournal):
    """Says what the test writes into it."""

    def __init__(self) -> None:
        self.states = []
        self.error: LoopError | None = None
        self.reaches_its_end = True
        self.is_closed = False

    def read_on(self, timeout_s: float) -> bool:
        if self.error is not None:
            raise self.error
        return self.reaches_its_end

    def close(self) -> None:
        self.is_closed = True


class Asked:
    """An inquiry with a server of one answer (None: it is away), a journal and a clock that the test turns."""

    def __init__(self, word: bool | None = None, *, group_speaks_s: float | None = None) -> None:
        self.now = 0.0
        self.opened: list[ScriptedJournal] = []
        self.journal = ScriptedJournal()
        self.inquiry = Inquiry(
            ask_server=lambda _timeout_s: word,
            open_journal=self._open,
            group_speaks_s=group_speaks_s,
            clock=lambda: self.now,
        )

    def _open(self) -> IdJournal:
        self.opened.append(self.journal)
        return self.journal

    def says(self, standing: ClaimStanding, states: list[TransactionState]) -> bool | None:
        self.journal.states = list(states)
        return self.inquiry.ask(standing).may


@pytest.mark.parametrize("word", [True, False])
@pytest.mark.parametrize("standing", [UNFENCED, FENCED, ClaimStanding(has_held=False, identity=None, is_fenced=True)])
def test_servers_answer_is_enough(word: bool, standing: ClaimStanding) -> None:
    asked = Asked(word)
    assert asked.says(standing, TAKEN) is word
    assert asked.opened == []


@pytest.mark.parametrize("standing", [UNFENCED, FENCED])
def test_later_init_says_no_and_a_timeout_yes(standing: ClaimStanding) -> None:
    assert Asked().says(standing, TAKEN) is False
    assert Asked().says(standing, TIMED_OUT) is True


def test_init_that_may_be_our_own_is_nobodys_when_nothing_has_been_written_under_it_for_long() -> None:
    asked = Asked()
    unheard = ClaimStanding(has_held=True, identity=IDENTITY, may_have_bumped=True, is_fenced=False)
    assert asked.says(unheard, TAKEN) is None
    asked.now += SETTLE_S
    assert asked.says(unheard, TAKEN) is True


def test_init_that_may_be_our_own_is_anothers_as_soon_as_something_is_written_under_it() -> None:
    asked = Asked()
    unheard = ClaimStanding(has_held=True, identity=IDENTITY, may_have_bumped=True, is_fenced=False)
    assert asked.says(unheard, TAKEN) is None
    assert asked.says(unheard, [*TAKEN, state(S.ONGOING, 5)]) is False


def test_init_that_may_be_our_own_does_not_help_a_fenced_attempt() -> None:
    assert (
        Asked().says(ClaimStanding(has_held=True, identity=IDENTITY, may_have_bumped=True, is_fenced=True), TAKEN)
        is False
    )


def test_journal_without_another_client_allows_an_unfenced_attempt_and_no_fenced_one() -> None:
    assert Asked().says(UNFENCED, OURS) is True
    assert Asked().says(FENCED, OURS) is False


@pytest.mark.parametrize("fenced", [False, True])
def test_unknown_identity_or_forbidden_journal_stops_only_a_fenced_attempt(fenced: bool) -> None:
    nobody = ClaimStanding(has_held=True, identity=None, is_fenced=fenced)
    assert Asked().says(nobody, TIMED_OUT) is not fenced
    asked = Asked()
    asked.journal.error = FatalError("could not read __transaction_state: TOPIC_AUTHORIZATION_FAILED")
    answer = asked.inquiry.ask(FENCED if fenced else UNFENCED)
    assert answer.may is not fenced
    assert "the journal cannot be read: could not read __transaction_state" in answer.reason


def test_an_attempt_that_has_not_had_the_id_yet_may_try_again() -> None:
    asked = Asked()
    assert asked.says(ClaimStanding(has_held=False, identity=None, is_fenced=True), TAKEN) is True
    assert asked.opened == []


@pytest.mark.parametrize("standing", [UNFENCED, FENCED])
def test_journal_that_does_not_answer_is_waited_for(standing: ClaimStanding) -> None:
    """No client can initialise the id meanwhile: the broker that has the journal is its coordinator."""
    (port,) = free_ports(1)
    config = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "nobody", "log_level": 0}
    inquiry = Inquiry(ask_server=lambda _timeout_s: None, open_journal=lambda: IdJournal("t", config))
    answer = inquiry.ask(standing)
    inquiry.give_up()
    assert answer.may is None
    assert "the journal does not answer: could not read __transaction_state" in answer.reason


def test_abort_before_its_time_is_checked_again_until_the_next_init() -> None:
    """A coordinator may take longer to abort than any bound that begins before it has."""
    asked = Asked()
    assert asked.says(FENCED, ABORTING) is None
    asked.now = 3 * SETTLE_S
    assert asked.says(FENCED, ABORTING) is None
    assert asked.says(FENCED, ABORTED) is None
    asked.now += 0.9 * SETTLE_S
    assert asked.says(FENCED, ABORTED) is None
    assert asked.says(FENCED, TAKEN) is False


def test_abort_without_a_later_init_frees_the_id_after_a_while() -> None:
    asked = Asked()
    assert asked.says(FENCED, ABORTED) is None
    asked.now = SETTLE_S
    assert asked.says(FENCED, ABORTED) is True


@pytest.mark.parametrize("is_answered", [True, False])
def test_journal_is_opened_once_for_a_question_and_closed_with_it(is_answered: bool) -> None:
    asked = Asked()
    asked.journal.reaches_its_end = False
    for _ in range(3):
        assert asked.inquiry.ask(UNFENCED) == InquiryAnswer(
            None, "the server is away, and the journal is still being read"
        )
    assert len(asked.opened) == 1
    asked.journal.reaches_its_end = True
    if is_answered:
        assert asked.says(UNFENCED, OURS) is True
    else:
        asked.inquiry.give_up()
    assert asked.journal.is_closed
    asked.says(UNFENCED, OURS)
    assert len(asked.opened) == 2


@pytest.mark.parametrize("word", [None, True])
def test_later_init_of_a_partitions_id_is_for_the_group_to_explain(word: bool | None) -> None:
    asked = Asked(word, group_speaks_s=12.0)
    assert asked.says(FENCED, TAKEN) is None
    asked.now += 11.9
    assert asked.says(FENCED, TAKEN) is None
    asked.now += 0.2
    assert asked.says(FENCED, TAKEN) is True


def test_each_fencing_of_a_partitions_id_waits_again() -> None:
    asked = Asked(group_speaks_s=12.0)
    assert asked.says(FENCED, TAKEN) is None
    asked.now += 12.0
    assert asked.says(FENCED, TAKEN) is True
    assert asked.says(FENCED, TAKEN) is None


def test_partitions_id_that_timed_out_is_taken_again_at_once() -> None:
    assert Asked(True, group_speaks_s=12.0).says(FENCED, TIMED_OUT) is True


def test_servers_no_is_enough_for_a_partitions_id_and_its_yes_for_an_unfenced_attempt() -> None:
    assert Asked(False, group_speaks_s=12.0).says(FENCED, TIMED_OUT) is False
    asked = Asked(True, group_speaks_s=12.0)
    assert asked.says(UNFENCED, TAKEN) is True
    assert asked.opened == []
