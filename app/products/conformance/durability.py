"""Judge by settings whether a committed transaction survives the loss of a broker, which only its owner can cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.kit.words import count
from app.products.conformance.report import ConformanceFinding, at_risk, not_shown

_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_JOURNAL_REPLICAS = "transaction.state.log.replication.factor"
_JOURNAL_MIN_ISR = "transaction.state.log.min.isr"


def judge_settings(
    *, replication_factor: int, topic: Mapping[str, str], brokers: Mapping[str, Sequence[str]]
) -> ConformanceFinding:
    """Never return kept, as no loss was observed; at risk if the loss of a single broker may lose committed records.

    Args:
        topic: the effective settings of a topic that was made for the checks.
        brokers: every reported value of each setting; the weakest counts.
    """
    in_sync = _smallest([topic[_MIN_ISR]] if _MIN_ISR in topic else [])
    journal_replicas = _smallest(brokers.get(_JOURNAL_REPLICAS, ()))
    risks = [
        *_risk_of_few("a topic's partitions have", replication_factor),
        *_risk_of_min_isr(_MIN_ISR, in_sync, replication_factor),
        *_risk_of_few("`__transaction_state` has", journal_replicas),
        *_risk_of_min_isr(_JOURNAL_MIN_ISR, _smallest(brokers.get(_JOURNAL_MIN_ISR, ())), journal_replicas or 0),
    ]
    if topic.get(_UNCLEAN) == "true":
        risks.append(f"`{_UNCLEAN}` is true: an out-of-sync replica may become leader, which loses committed records")
    if risks:
        return at_risk("; ".join(risks))
    if in_sync is None or _UNCLEAN not in topic:
        untold = " and ".join(f"`{name}`" for name in (_MIN_ISR, _UNCLEAN) if name not in topic)
        return not_shown(f"no broker was stopped here, and the cluster does not report {untold}")
    return not_shown(
        f"no broker was stopped here; by its settings (replication factor {replication_factor}, {_MIN_ISR} {in_sync}, "
        f"no unclean election) committed records survive the loss of {count(in_sync - 1, 'replica')}"
    )


def _risk_of_few(what: str, replicas: int | None) -> list[str]:
    if replicas is None or replicas >= 2:
        return []
    return [f"{what} one replica: the loss of its broker loses the committed records"]


def _risk_of_min_isr(name: str, in_sync: int | None, replicas: int) -> list[str]:
    """With one replica, a larger number makes nothing safer."""
    if in_sync is None or in_sync >= 2 or replicas < 2:
        return []
    return [f"`{name}` is {in_sync}: a commit may be acknowledged by one broker only, and lost with it"]


def _smallest(values: Sequence[str]) -> int | None:
    """None where no value is a number."""
    return min((int(value) for value in values if value.isdigit()), default=None)
