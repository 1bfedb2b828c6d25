"""Before this attempt initialises its id again: is it still the one that should have it? (rule 5)"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from app.domain.journals.transaction_state import TransactionState, TransactionStatus, Undecodable
from app.domain.transactions import fencing
from app.domain.transactions.fencing import FencingCause
from workers.transactional.claim.journal import IdJournal
from workers.transactional.control import ProducerIdentity
from workers.transactional.errors import LoopError, RetriableError
from workers.transactional.slices import SLICE_S

ASK_SERVER_S = 3.0
SETTLE_S = 10.0
"""How long the journal must be quiet after what somebody may have written who took the id, until nobody is believed to
be there.

Whoever had it aborted repeats his init as soon as the abort is complete, every 100 ms at the latest; the rest is what a
busy coordinator may take.
"""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt knows of its hold on the id.

    has_held: a producer of this attempt was initialised.
    identity: what the coordinator gave the last of them; None: not known.
    may_have_bumped: its client may have asked for the next epoch since (KIP-360), as it does in an abort after outputs
        that failed.
    is_fenced: the coordinator has said that somebody or something ended it.
    """

    has_held: bool
    identity: ProducerIdentity | None
    may_have_bumped: bool = False
    is_fenced: bool


class Answer(msgspec.Struct, frozen=True):
    """`may` None: it cannot be known yet, ask again."""

    may: bool | None
    reason: str


class Inquiry:
    """Asks whether an id may be initialised (again).

    1. the server's word on (lease, attempt)   it knows who should run
    2. with the server away, the journal       somebody's later init says no; that nobody has come says yes
    3. where the journal may not be read       a fenced attempt must not: whoever took the id would be fenced back for
                                               nothing. One that was not fenced may: nothing speaks of anybody else

    A journal that cannot be reached says nothing yet. Waiting for it costs nothing: the broker that has it is the id's
    coordinator, without which nobody can initialise the id either.
    """

    def __init__(
        self,
        *,
        ask_server: Callable[[float], bool | None],
        open_journal: Callable[[], IdJournal],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask_server = ask_server
        self._open_journal = open_journal
        self._clock = clock
        self._journal: IdJournal | None = None
        self._known_states = 0
        self._quiet_since = 0.0

    def ask(self, standing: Standing) -> Answer:
        """One look of a few seconds at most; ask until it is answered, or `give_up`."""
        answer = self._look(standing)
        if answer.may is not None:
            self.give_up()
        return answer

    def give_up(self) -> None:
        """Let go of the journal. The next question reads it anew."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _look(self, standing: Standing) -> Answer:
        word = self._ask_server(ASK_SERVER_S)
        if word is not None:
            return Answer(word, f"the server names {'this' if word else 'another'} attempt as current")
        if not standing.has_held:
            return Answer(True, "the server is away, and this attempt has not had the id yet")
        if standing.identity is None:
            return Answer(
                not standing.is_fenced, "the server is away, and this attempt's producer id and epoch are not known"
            )
        if self._journal is None:
            self._journal = self._open_journal()
            self._known_states, self._quiet_since = 0, self._clock()
        try:
            is_read = self._journal.read_on(SLICE_S)
        except RetriableError as error:
            return Answer(None, f"the server is away, and the journal does not answer: {error}")
        except LoopError as error:
            return Answer(not standing.is_fenced, f"the server is away, and the journal cannot be read: {error}")
        if not is_read:
            return Answer(None, "the server is away, and the journal is still being read")
        return self._judge(standing, standing.identity, self._journal.states)

    def _judge(
        self,
        standing: Standing,
        identity: ProducerIdentity,
        states: Sequence[TransactionState | Undecodable | None],
    ) -> Answer:
        verdict = fencing.judge(
            states,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            may_have_bumped=standing.may_have_bumped,
        )
        evidence = f"the server is away; {verdict.evidence}"
        match verdict.cause:
            case FencingCause.TAKEN_OVER:
                return Answer(False, evidence)
            case FencingCause.TIMED_OUT:
                return Answer(True, evidence)
            case FencingCause.UNKNOWN:
                return Answer(not standing.is_fenced, evidence)
            case FencingCause.OWN_EPOCH if standing.is_fenced:
                return Answer(False, evidence)
            case FencingCause.UNSETTLED | FencingCause.OWN_EPOCH:
                # Quiet for long: who wanted to initialise has died in between, or was this attempt's own client.
                return Answer(True if self._is_quiet(states) else None, evidence)

    def _is_quiet(self, states: Sequence[TransactionState | Undecodable | None]) -> bool:
        last = states[-1]
        is_ending = isinstance(last, TransactionState) and last.status is TransactionStatus.PREPARE_ABORT
        if is_ending or len(states) != self._known_states:
            # Nobody can initialise before the abort is complete: the time for it begins then.
            self._known_states, self._quiet_since = len(states), self._clock()
        return self._clock() - self._quiet_since >= SETTLE_S
