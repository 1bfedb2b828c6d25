"""Before this attempt initialises its id again: is it still the one that should have it? (rule 5)"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from app.core.fencing.id_loss import IdLoss, judge_id_loss
from app.core.journals.transaction_state import TransactionState, TransactionStatus, Undecodable
from workers.loop.claim.journal import IdJournal
from workers.loop.control import ProducerIdentity
from workers.loop.errors import LoopError, RetriableError
from workers.loop.slices import SLICE_S

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

    Where an id belongs to an input partition, whoever has taken it has been given the partition by the group, and this
    attempt may still have all its others. So neither the server's yes nor somebody's later init settles it for a fenced
    one: it waits `group_speaks_s` for the group to take the partition away, which ends the question. If it has not,
    who took the id was nobody of the group (any more), and it may be initialised.

    A journal that cannot be reached says nothing yet. Waiting for it costs nothing: the broker that has it is the id's
    coordinator, without which nobody can initialise the id either.

    Args:
        group_speaks_s: after so long a member that polls has heard what it has lost; None: the id belongs to a task.
    """

    def __init__(
        self,
        *,
        ask_server: Callable[[float], bool | None],
        open_journal: Callable[[], IdJournal],
        group_speaks_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask_server = ask_server
        self._open_journal = open_journal
        self._group_speaks_s = group_speaks_s
        self._waits_since: float | None = None
        self._clock = clock
        self._journal: IdJournal | None = None
        self._known_states = 0
        self._quiet_since = 0.0

    def ask(self, standing: Standing) -> Answer:
        """One look of a few seconds at most; ask until it is answered, or `give_up`."""
        answer = self._look(standing)
        if answer.may is not None:
            self._waits_since = None
            self.give_up()
        return answer

    def give_up(self) -> None:
        """Let go of the journal. The next question reads it anew."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _look(self, standing: Standing) -> Answer:
        word = self._ask_server(ASK_SERVER_S)
        follows_a_partition = self._group_speaks_s is not None
        if word is False or (word and not (follows_a_partition and standing.is_fenced)):
            return Answer(word, f"the server names {'this' if word else 'another'} attempt as current")
        server = "the server names this attempt" if word else "the server is away"
        if not standing.has_held:
            return Answer(True, f"{server}, and this attempt has not had the id yet")
        if standing.identity is None:
            return self._unless_fenced(standing, f"{server}, and this attempt's producer id and epoch are not known")
        if self._journal is None:
            self._journal = self._open_journal()
            self._known_states, self._quiet_since = 0, self._clock()
        try:
            is_read = self._journal.read_on(SLICE_S)
        except RetriableError as error:
            return Answer(None, f"{server}, and the journal does not answer: {error}")
        except LoopError as error:
            return self._unless_fenced(standing, f"{server}, and the journal cannot be read: {error}")
        if not is_read:
            return Answer(None, f"{server}, and the journal is still being read")
        return self._judge(standing, standing.identity, self._journal.states, server)

    def _unless_fenced(self, standing: Standing, evidence: str) -> Answer:
        return self._no(evidence) if standing.is_fenced else Answer(True, evidence)

    def _no(self, evidence: str) -> Answer:
        """Somebody else has the id: for good, if it is a task's; while the partition is theirs, if it is that's."""
        if self._group_speaks_s is None:
            return Answer(False, evidence)
        now = self._clock()
        self._waits_since = now if self._waits_since is None else self._waits_since
        if now - self._waits_since < self._group_speaks_s:
            return Answer(None, f"{evidence}; whether its partition has moved is for the group to say")
        return Answer(True, f"{evidence}; but for {self._group_speaks_s:.0f} s the group has not taken its partition")

    def _judge(
        self,
        standing: Standing,
        identity: ProducerIdentity,
        states: Sequence[TransactionState | Undecodable | None],
        server: str,
    ) -> Answer:
        verdict = judge_id_loss(
            states,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            may_have_bumped=standing.may_have_bumped,
        )
        evidence = f"{server}; {verdict.evidence}"
        match verdict.loss:
            case IdLoss.TAKEN_OVER:
                return self._no(evidence)
            case IdLoss.TIMED_OUT:
                return Answer(True, evidence)
            case IdLoss.UNKNOWN:
                return self._unless_fenced(standing, evidence)
            case IdLoss.OWN_EPOCH if standing.is_fenced:
                return self._no(evidence)
            case IdLoss.UNSETTLED | IdLoss.OWN_EPOCH:
                # Quiet for long: who wanted to initialise has died in between, or was this attempt's own client.
                return Answer(True if self._is_quiet(states) else None, evidence)

    def _is_quiet(self, states: Sequence[TransactionState | Undecodable | None]) -> bool:
        last = states[-1]
        is_ending = isinstance(last, TransactionState) and last.status is TransactionStatus.PREPARE_ABORT
        if is_ending or len(states) != self._known_states:
            # Nobody can initialise before the abort is complete: the time for it begins then.
            self._known_states, self._quiet_since = len(states), self._clock()
        return self._clock() - self._quiet_since >= SETTLE_S
