"""The goals for the recovery time, and the table of the measured ones."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from app.core.pipelines.pipeline import GroupProtocol

_SPARE_S = 3.0
_DRAINED_S = 5.0
# Once a server has removed the dead member.
_REMOVED_S = {GroupProtocol.CLASSIC: 2.0, GroupProtocol.CONSUMER: 4.0}
# Once its worker, which lives on without an executor, has left the group.
_LEFT_S = {GroupProtocol.CLASSIC: 3.0, GroupProtocol.CONSUMER: 5.0}


class Loss(StrEnum):
    """The loss of one of two instances."""

    DRAINED = "drained and started again"
    EXECUTOR_KILLED = "its executor killed, server up"
    EXECUTOR_KILLED_SERVER_AWAY = "its executor killed, server away"
    KILLED = "killed, server up"
    KILLED_SERVER_AWAY = "killed, server away"


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """session_s: of a member of the group. transaction_s: of the tasks' transactions. cleanup_s: how often brokers look
    for transactions that have timed out."""

    session_s: float
    transaction_s: float
    cleanup_s: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """standstill_s: the longest time without outputs of some source partition. It counts from before the loss until the
    instance was back and every partition had outputs. judged: whether it is known that no record was lost or
    duplicated by it."""

    loss: Loss
    protocol: GroupProtocol
    standstill_s: float
    bound_s: float
    commit: str
    date: str
    judged: bool = True

    @property
    def is_kept(self) -> bool:
        return self.standstill_s <= self.bound_s


class Report(msgspec.Struct, frozen=True, kw_only=True):
    measured: tuple[Measured, ...]
    timeouts: Timeouts
    records_per_s: int
    versions: dict[str, str]


def bound_s(loss: Loss, protocol: GroupProtocol, timeouts: Timeouts) -> float:
    """The goals for the time without records."""
    match loss:
        case Loss.DRAINED:
            return _DRAINED_S
        case Loss.EXECUTOR_KILLED | Loss.EXECUTOR_KILLED_SERVER_AWAY:
            return _LEFT_S[protocol]
        case Loss.KILLED:
            return _REMOVED_S[protocol]
        case Loss.KILLED_SERVER_AWAY:
            return max(timeouts.session_s, timeouts.transaction_s + timeouts.cleanup_s) + _SPARE_S


def table(measured: Iterable[Measured]) -> str:
    """In Markdown, for docs/measured/standstill.md."""
    lines = ["| one of two instances | group protocol | recovery time | bound | kept |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.loss} | {one.protocol} | {one.standstill_s:.1f} s | {one.bound_s:.1f} s | "
        f"{'yes' if one.is_kept else '**no**'}{'' if one.judged else '; cut off before the records were counted'} |"
        for one in measured
    ]
    return "\n".join(lines) + "\n"
