"""The ownership check before this attempt initialises its id again (rule 5)."""

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
"""The time for which the journal must show no change after a possible takeover, until it is taken as none.

A client whose init was aborted repeats it as soon as the abort is complete, every 100 ms at the latest. The rest is for
a busy coordinator.
"""


class ClaimStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an attempt's hold on the id.

    has_held: a producer of this attempt was initialised.
    identity: the coordinator's answer to the last init; None: not known.
    may_have_bumped: the client may have asked for the next epoch since (KIP-360), as it does in an abort after outputs
        that failed.
    is_fenced: the coordinator has reported that another client, or the coordinator itself, ended it.
    """

    has_held: bool
    identity: ProducerIdentity | None
    may_have_bumped: bool = False
    is_fenced: bool


class InquiryAnswer(msgspec.Struct, frozen=True):
    """`may` None: not known yet, ask again."""

    may: bool | None
    reason: str


class Inquiry:
    """Asks whether an id may be initialised (again).

    1. the server's answer for (lease, attempt)  the server knows the current attempt
    2. with the server away, the journal         a later init by another client means no; no later init means yes
    3. where the journal may not be read         a fenced attempt must not: it would fence the new owner for nothing.
                                                 An attempt that was not fenced may: nothing indicates another owner

    An id of an input partition is taken by the partition's new owner in the group. This attempt may still have all its
    other partitions. So for a fenced attempt neither the server's yes nor another client's later init decides. It waits
    `group_speaks_s` for the group to revoke the partition, which ends the check. Without a revocation the other client
    was not in the group (any more), and the id may be initialised.

    A journal that cannot be reached decides nothing yet. Waiting for it costs nothing: its broker is the id's
    coordinator, without which no other client can initialise the id either.

    Args:
        group_speaks_s: after so long a member that polls has received its revocations; None: the id belongs to a task.
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

    def ask(self, standing: ClaimStanding) -> InquiryAnswer:
        """Check for a few seconds at most; repeat until it is answered, or `give_up`."""
        answer = self._look(standing)
        if answer.may is not None:
            self._waits_since = None
            self.give_up()
        return answer

    def give_up(self) -> None:
        """Close the journal. The next check reads it from the beginning."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _look(self, standing: ClaimStanding) -> InquiryAnswer:
        word = self._ask_server(ASK_SERVER_S)
        follows_a_partition = self._group_speaks_s is not None
        if word is False or (word and not (follows_a_partition and standing.is_fenced)):
            return InquiryAnswer(word, f"the server names {'this' if word else 'another'} attempt as current")
        server = "the server names this attempt" if word else "the server is away"
        if not standing.has_held:
            return InquiryAnswer(True, f"{server}, and this attempt has not had the id yet")
        if standing.identity is None:
            return self._unless_fenced(standing, f"{server}, and this attempt's producer id and epoch are not known")
        if self._journal is None:
            self._journal = self._open_journal()
            self._known_states, self._quiet_since = 0, self._clock()
        try:
            is_read = self._journal.read_on(SLICE_S)
        except RetriableError as error:
            return InquiryAnswer(None, f"{server}, and the journal does not answer: {error}")
        except LoopError as error:
            return self._unless_fenced(standing, f"{server}, and the journal cannot be read: {error}")
        if not is_read:
            return InquiryAnswer(None, f"{server}, and the journal is still being read")
        return self._judge(standing, standing.identity, self._journal.states, server)

    def _unless_fenced(self, standing: ClaimStanding, evidence: str) -> InquiryAnswer:
        return self._no(evidence) if standing.is_fenced else InquiryAnswer(True, evidence)

    def _no(self, evidence: str) -> InquiryAnswer:
        """Another client has the id: for good, if it is a task's; while it owns the partition, if a partition's."""
        if self._group_speaks_s is None:
            return InquiryAnswer(False, evidence)
        now = self._clock()
        self._waits_since = now if self._waits_since is None else self._waits_since
        if now - self._waits_since < self._group_speaks_s:
            return InquiryAnswer(None, f"{evidence}; waiting for the group to show whether its partition has moved")
        return InquiryAnswer(
            True, f"{evidence}; but for {self._group_speaks_s:.0f} s the group has not revoked its partition"
        )

    def _judge(
        self,
        standing: ClaimStanding,
        identity: ProducerIdentity,
        states: Sequence[TransactionState | Undecodable | None],
        server: str,
    ) -> InquiryAnswer:
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
                return InquiryAnswer(True, evidence)
            case IdLoss.UNKNOWN:
                return self._unless_fenced(standing, evidence)
            case IdLoss.OWN_EPOCH if standing.is_fenced:
                return self._no(evidence)
            case IdLoss.UNSETTLED | IdLoss.OWN_EPOCH:
                # No change for long: the other client has ended in between, or was this attempt's own client.
                return InquiryAnswer(True if self._is_quiet(states) else None, evidence)

    def _is_quiet(self, states: Sequence[TransactionState | Undecodable | None]) -> bool:
        last = states[-1]
        is_ending = isinstance(last, TransactionState) and last.status is TransactionStatus.PREPARE_ABORT
        if is_ending or len(states) != self._known_states:
            # No client can initialise before the abort is complete: the time for it begins then.
            self._known_states, self._quiet_since = len(states), self._clock()
        return self._clock() - self._quiet_since >= SETTLE_S
