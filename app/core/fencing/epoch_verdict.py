"""Judge the cause of the end of a producer's epoch, from journal records, client reports and Fenceline's commands.

`own` is the producer's last record, at epoch e. The coordinator's next step decides:
  its transaction was ended at e+1, then InitProducerId was answered     takeover, the return of the same application
                                                                         (comeback.py), newer_driver.py, FenceProducers
  its transaction was ended at e+1 when its timeout was over             timeout
  its transaction was ended at e+1 by EndTxn of a Fenceline server       a dead task
  its transaction was ended at e+1, none of these                        the coordinator's abort, reason not recorded
  nothing was open, InitProducerId was answered                          clean restart, until the old one is refused
From KIP-890 on (TV_2) a client ends its own transactions at e+1 too, so an abort alone is no fencing.
Source: Kafka, TransactionCoordinator.prepareInitProducerIdTransit and .endTransaction; TransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.core.fencing.comeback import Comeback, comeback_of
from app.core.fencing.evidence import ClientWord, CommandVerb, CommandWord, CoordinatorRecord, Evidence
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKey, FencingVerdict
from app.core.fencing.newer_driver import DriverTaker, driver_taker_of
from app.core.fencing.steps import IDLE, is_ended_by, is_init_after, is_next_owner
from app.core.journals.live_transactions import RecordedState
from app.core.journals.transaction_state import TransactionStatus
from app.core.runs.task import EventKind
from app.kit.words import duration

RETRY_MS = 2_000
"""An init of an id with an open transaction is repeated: librdkafka does so after 0.5 s, Java after 1 s at most
(retry.backoff.max.ms). An init that comes later than this after the abort has hardly caused it.
"""

COMMAND_WINDOW_MS = 60_000
"""A FenceProducers of Fenceline without an answer is related to inits that are at most this far away."""

_KIP_890 = 2
_COMMITS = frozenset({TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT})


class _Story(msgspec.Struct, frozen=True, kw_only=True):
    """The records by their part in the event; None for a record that is missing or does not fit."""

    own: RecordedState | None = None
    abort: RecordedState | None = None
    end: RecordedState | None = None
    init: RecordedState | None = None
    then: RecordedState | None = None
    refusals: tuple[ClientWord, ...] = ()
    ends: tuple[ClientWord, ...] = ()
    commands: tuple[CommandWord, ...] = ()
    dead_ends: tuple[CommandWord, ...] = ()
    comeback: Comeback | None = None
    driver: DriverTaker | None = None

    @property
    def taker(self) -> FencingCause:
        """The cause for an init by another producer: a takeover, unless its sender is known."""
        if self.driver is not None:
            return self.driver.cause
        is_better = self.comeback is not None and not self.comeback.is_doubtful
        return FencingCause.APPLICATION_RETURNED if is_better else FencingCause.TAKEOVER

    @property
    def is_kip_890(self) -> bool:
        return self.own is not None and _is_kip_890(self.own)

    @property
    def lasted_ms(self) -> int:
        return -1 if self.abort is None else self.abort.last_update_ms - self.abort.start_ms

    @property
    def timed_out(self) -> bool:
        return self.abort is not None and self.lasted_ms >= self.abort.timeout_ms

    @property
    def init_came_at_once(self) -> bool:
        end = self.end or self.abort
        return self.init is not None and end is not None and self.init.timestamp_ms - end.timestamp_ms <= RETRY_MS

    @property
    def new_one_works(self) -> bool:
        return self.init is not None and self._wrote_next(self.init)

    @property
    def went_on(self) -> bool:
        """The old producer continued, at the epoch that the end of its transaction gave it."""
        return self.abort is not None and self.init is None and self._wrote_next(self.abort)

    def _wrote_next(self, at: RecordedState) -> bool:
        """Return True if the next record is of the producer with this epoch; a commit may have given it the next
        one.
        """
        if self.then is None or self.then.producer_id != at.producer_id:
            return False
        is_moved = self.then.status in _COMMITS and _is_kip_890(self.then)
        return self.then.producer_epoch == at.producer_epoch + is_moved


def _is_kip_890(written: RecordedState) -> bool:
    """Return True for a record of a TV_2 client. Version 0 does not have that field, and brokers that write it have no
    such clients.
    """
    return written.version >= 1 and written.client_transaction_version >= _KIP_890


def judge_epoch(key: FencingKey, evidence: Sequence[Evidence]) -> FencingVerdict | None:
    """Judge the cause for evidence of kind EPOCH; None without sufficient evidence."""
    story = _read(key, evidence)
    verdict = (
        _by_command(key, story)
        or _by_server(key, story)
        or _aborted(key, story)
        or _over_idle(key, story)
        or _refused_only(key, story)
    )
    return None if verdict is None else _with_refusals(verdict, story)


def _read(key: FencingKey, evidence: Sequence[Evidence]) -> _Story:
    records = sorted(
        (one.record for one in evidence if isinstance(one, CoordinatorRecord)), key=lambda record: record.offset
    )
    owner = (key.producer_id, key.producer_epoch)
    own = next((one for one in reversed(records) if (one.producer_id, one.producer_epoch) == owner), None)
    later = [one for one in records if own is not None and one.offset > own.offset]
    abort = end = init = then = None
    for record in later:
        if own is None:
            break
        if abort is None and init is None and is_ended_by(own, record):
            abort = record
        elif abort is not None and init is None and record.status.is_abort:
            end = record
        elif init is None and _is_init(own, end or abort, record):
            init = record
        elif then is None:
            then = record
    return _Story(
        own=own,
        abort=abort,
        end=end,
        init=init,
        then=then,
        refusals=tuple(one for one in evidence if isinstance(one, ClientWord) and one.kind is EventKind.FENCED),
        ends=tuple(one for one in evidence if isinstance(one, ClientWord) and one.kind is EventKind.SUPERSEDED),
        commands=tuple(one for one in evidence if isinstance(one, CommandWord) and one.verb is CommandVerb.FENCE),
        dead_ends=tuple(one for one in evidence if isinstance(one, CommandWord) and one.verb is CommandVerb.END_DEAD),
        comeback=comeback_of(key, evidence, own=own, init=init),
        driver=driver_taker_of(evidence, own=own, init=init),
    )


def _is_init(own: RecordedState, abort: RecordedState | None, record: RecordedState) -> bool:
    return is_init_after(own, record) if abort is None else is_next_owner(abort, record)


def _by_command(key: FencingKey, story: _Story) -> FencingVerdict | None:
    """Judge a FenceProducers of Fenceline: its answer is the epoch in the journal, or it was near and unanswered.

    Until the journal is read that far, the answer alone is proof.
    """
    for command in story.commands:
        is_answered = command.producer_id is not None
        if story.init is None:
            is_ours = is_answered
        elif is_answered:
            answer = (command.producer_id, command.producer_epoch)
            is_ours = answer == (story.init.producer_id, story.init.producer_epoch)
        else:
            is_near = abs(command.at_ms - story.init.timestamp_ms) <= COMMAND_WINDOW_MS
            is_ours = is_near and not story.new_one_works
        if is_ours:
            why = f", because: {command.why}" if command.why else ""
            taken = story.abort or story.init
            return FencingVerdict(
                cause=FencingCause.OPERATOR_FENCE,
                confidence=Confidence.CERTAIN if is_answered else Confidence.LIKELY,
                at_ms=command.at_ms if taken is None else taken.timestamp_ms,
                sentence=f"{command.who} fenced {_whose(key)}{why}. {'' if taken is None else _lost(story)}".strip(),
                alternatives=() if is_answered else (story.taker,),
            )
    return None


def _by_server(key: FencingKey, story: _Story) -> FencingVerdict | None:
    """Judge Fenceline's end of a dead task's transaction: its answer is the epoch of the abort.

    A request just after the abort of a timeout or an init gets the same answer. So these two stay alternatives.
    """
    abort = story.abort
    for command in story.dead_ends:
        if abort is None:
            is_ours = command.is_answered
        elif command.is_answered:
            answer = (command.producer_id, command.producer_epoch)
            # If the abort took the last epoch, the end has the next producer id.
            is_ours = any(answer == (one.producer_id, one.producer_epoch) for one in (abort, story.end) if one)
        else:
            is_ours = abs(command.at_ms - abort.timestamp_ms) <= COMMAND_WINDOW_MS
        if is_ours:
            alternatives = (
                *([story.taker] if story.init_came_at_once or not command.is_answered else ()),
                *([FencingCause.TIMEOUT] if story.timed_out else ()),
            )
            why = f", because {command.why}" if command.why else ""
            return FencingVerdict(
                cause=FencingCause.DEAD_TASK,
                confidence=Confidence.LIKELY if alternatives else Confidence.CERTAIN,
                at_ms=command.at_ms if abort is None else abort.timestamp_ms,
                sentence=f"The {command.who} ended the transaction of {_whose(key)}{why}. "
                f"{'' if abort is None else _lost(story)}".strip(),
                alternatives=alternatives,
            )
    return None


def _aborted(key: FencingKey, story: _Story) -> FencingVerdict | None:
    abort = story.abort
    if abort is None:
        return None
    if story.went_on and not story.refusals:
        return _verdict(
            FencingCause.OWN_ABORT,
            Confidence.LIKELY if story.timed_out else Confidence.CERTAIN,
            abort,
            f"{_name(key)} ended its own transaction and continued at epoch {abort.producer_epoch}. "
            "No producer was fenced.",
            *([FencingCause.TIMEOUT] if story.timed_out else ()),
        )
    could_be_own = story.is_kip_890 and not story.refusals
    if story.timed_out:
        could_be_init = story.init is None or story.init_came_at_once
        alternatives = (
            *([story.taker] if could_be_init else ()),
            *([FencingCause.OPERATOR_FENCE] if could_be_init and not story.new_one_works else ()),
            *([FencingCause.OWN_ABORT] if could_be_own else ()),
        )
        return _verdict(
            FencingCause.TIMEOUT,
            Confidence.LIKELY if alternatives else Confidence.CERTAIN,
            abort,
            f"The coordinator aborted the transaction of {_whose(key)} after {duration(story.lasted_ms)}: its timeout "
            f"of {duration(abort.timeout_ms)} was over. {_lost(story)}",
            *alternatives,
        )
    if story.init is not None and (story.init_came_at_once or not could_be_own):
        return _taken_over(key, story, story.init, could_be_own=could_be_own)
    if could_be_own:
        return _verdict(
            FencingCause.OWN_ABORT,
            Confidence.LIKELY,
            abort,
            f"{_name(key)} most likely ended its own transaction, as clients do from KIP-890 on.",
            story.taker,
            *([FencingCause.OPERATOR_FENCE] if not story.new_one_works else ()),
        )
    return _verdict(
        FencingCause.COORDINATOR_ABORT,
        Confidence.OPEN,
        abort,
        f"The coordinator aborted the transaction of {_whose(key)}{_lasted('after', story)}, before its "
        f"timeout of {duration(abort.timeout_ms)}: an init of its id was requested, and no answer is recorded. "
        f"{_lost(story)}",
        story.taker,
        FencingCause.OPERATOR_FENCE,
        FencingCause.DEAD_TASK,
    )


def _taken_over(key: FencingKey, story: _Story, init: RecordedState, *, could_be_own: bool) -> FencingVerdict:
    """`init` ended the transaction. Only its sender's first write shows that it is a producer."""
    comeback, driver, cause = story.comeback, story.driver, story.taker
    instead = FencingCause.APPLICATION_RETURNED if driver is None else FencingCause.NEWER_ATTEMPT
    other = instead if cause is FencingCause.TAKEOVER else FencingCause.TAKEOVER
    alternatives = (
        *([other] if comeback is not None or driver is not None else ()),
        *([FencingCause.OPERATOR_FENCE] if not story.new_one_works else ()),
        *([FencingCause.DEAD_TASK] if story.abort is not None and not story.init_came_at_once else ()),
        *([FencingCause.OWN_ABORT] if could_be_own else ()),
        *([FencingCause.OWN_EPOCH] if not story.refusals and not story.is_kip_890 else ()),
    )
    said = f"A new producer took {_whose(key)} over: {_moved(key, init)}."
    if driver is not None:
        said = f"{driver.sentence} It fenced {_whose(key)}: {_moved(key, init)}."
    elif comeback is not None and cause is FencingCause.APPLICATION_RETURNED:
        said = f"{comeback.sentence} {_whose(key)}: {_moved(key, init)}."
    elif comeback is not None:
        said += " Two members of its thread alternate in the group, as with two processes and a copied state directory."
    return _verdict(
        cause,
        Confidence.LIKELY if alternatives else Confidence.CERTAIN,
        story.abort or init,
        f"{said} {_lost(story)}{'' if driver is not None else _is_idle_since(story, init)}",
        *alternatives,
    )


def _over_idle(key: FencingKey, story: _Story) -> FencingVerdict | None:
    own, init = story.own, story.init
    if own is None or init is None or own.status not in IDLE:
        return None
    if story.refusals:
        return _verdict(
            FencingCause.ZOMBIE_REFUSED,
            Confidence.CERTAIN,
            init,
            f"A new producer of {key.transactional_id} had started ({_moved(key, init)}) with no transaction open, "
            f"and the old one still tried to write. The broker rejected all of it.",
        )
    unseen: tuple[FencingCause, ...] = ()
    if init.producer_id != own.producer_id:
        cause = FencingCause.EPOCHS_USED_UP
        # The epochs of two producer ids do not show whether records between them are missing.
        unseen = (story.taker, FencingCause.TIMEOUT)
        said = f"The epochs of producer id {own.producer_id} are used up, so the next init got another id: "
    else:
        cause, said = (
            FencingCause.CLEAN_RESTART,
            f"{key.transactional_id} was initialised again with no transaction open: ",
        )
    return _verdict(
        cause,
        Confidence.LIKELY,
        init,
        f"{said}{_moved(key, init)}. No producer was fenced, unless the old one is still alive.",
        FencingCause.ZOMBIE_REFUSED,
        *([FencingCause.OPERATOR_FENCE] if not story.new_one_works else ()),
        FencingCause.OWN_EPOCH,
        *unseen,
    )


def _refused_only(key: FencingKey, story: _Story) -> FencingVerdict | None:
    if not story.refusals:
        return None
    return FencingVerdict(
        cause=FencingCause.UNEXPLAINED,
        confidence=Confidence.OPEN,
        at_ms=story.refusals[0].at_ms,
        sentence=f"{_name(key)} was fenced, and the journal, as far as it is read, does not show the cause.",
        alternatives=(story.taker, FencingCause.TIMEOUT, FencingCause.OPERATOR_FENCE),
    )


def _with_refusals(verdict: FencingVerdict, story: _Story) -> FencingVerdict:
    """Add the refused task and its reaction."""
    if not story.refusals or not verdict.cause.is_fencing:
        return verdict
    ended = ", and it ended as superseded" if story.ends else ""
    said = f"{verdict.sentence} The broker refused {story.refusals[0].who}{ended}."
    return msgspec.structs.replace(verdict, sentence=said)


def _verdict(
    cause: FencingCause, confidence: Confidence, record: RecordedState, sentence: str, *alternatives: FencingCause
) -> FencingVerdict:
    return FencingVerdict(
        cause=cause,
        confidence=confidence,
        at_ms=record.timestamp_ms,
        sentence=sentence.strip(),
        alternatives=alternatives,
    )


def _name(key: FencingKey) -> str:
    return f"Producer {key.producer_id} epoch {key.producer_epoch} of {key.transactional_id}"


def _whose(key: FencingKey) -> str:
    return f"{key.transactional_id} (producer {key.producer_id} epoch {key.producer_epoch})"


def _moved(key: FencingKey, init: RecordedState) -> str:
    if init.producer_id == key.producer_id:
        return f"epoch {key.producer_epoch} → {init.producer_epoch}"
    return f"producer {key.producer_id} → {init.producer_id}, epoch {key.producer_epoch} → {init.producer_epoch}"


def _lost(story: _Story) -> str:
    if story.own is None or story.abort is None:
        return "No transaction was open."
    topics = ", ".join(sorted({at.topic for at in story.own.partitions if not at.topic.startswith("__")}))
    into = f" into {topics}" if topics else ""
    return f"Its transaction{_lasted('of', story)}{into} was aborted; read_committed consumers skip its records."


def _lasted(preposition: str, story: _Story) -> str:
    """Return the time for which it was open; empty if another broker's clock ended it before its begin."""
    return f" {preposition} {duration(story.lasted_ms)}" if story.lasted_ms >= 0 else ""


def _is_idle_since(story: _Story, init: RecordedState) -> str:
    if story.new_one_works:
        return ""
    differs = story.own is not None and init.timeout_ms != story.own.timeout_ms
    timeout = f" and has another timeout ({duration(init.timeout_ms)}), as after FenceProducers" if differs else ""
    return f" The new producer has written nothing so far{timeout}."
