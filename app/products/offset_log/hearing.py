"""Detection of attempts without any report: the coordinator counts every InitProducerId of an id in its epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.core.wire.offset_report import Init

_MOST_NAMED = 5


def unheard_inits(heard: Mapping[str, Iterable[Init]], now: Mapping[str, Init | None]) -> tuple[str, ...]:
    """Return the reasons why an attempt without a report may have committed; empty if none can have.

    A commit for the pipeline needs one of its ids, and every init raises the epoch of that id, from 0. So an epoch that
    no attempt reported may belong to an attempt that died before its first report. It may also be a bump of the
    coordinator, which aborted a transaction, or belong to an attempt whose events are deleted. Therefore it makes a gap
    unverifiable, and is no contradiction. This holds for clients before KIP-890, as those of the workers are.

    Args:
        `heard`: every reported init that is kept, by transactional id.
        now: the coordinator's state of each id of the pipeline, None if it does not know the id (any more).
    """
    said: list[str] = []
    for name, latest in sorted(now.items()):
        told = set(heard.get(name, ()))
        if latest is None:
            # Expired after days without a transaction, so the reported inits cannot be compared.
            if told:
                said.append(f"the coordinator does not know {name} any more")
            continue
        if not told:
            said.append(f"no attempt reported {name} at epoch {latest.epoch}")
            continue
        of_latest = {init.epoch for init in told if init.producer_id == latest.producer_id}
        if {init.producer_id for init in told} - {latest.producer_id}:
            said.append(f"{name} has a new producer id, and the last epoch of the old one is not known")
        missing = sorted(set(range(latest.epoch + 1)) - of_latest)
        if missing:
            more = "" if len(missing) <= _MOST_NAMED else f" and {len(missing) - _MOST_NAMED} more"
            epochs = ", ".join(map(str, missing[:_MOST_NAMED]))
            said.append(f"no attempt reported {name} at epoch {epochs}{more}")
    return tuple(said)
