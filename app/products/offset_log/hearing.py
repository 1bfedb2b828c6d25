"""Whether there may be attempts of which nothing was heard: the coordinator counts every init of an id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.core.wire.offset_report import Init

_MOST_NAMED = 5


def unheard_inits(heard: Mapping[str, Iterable[Init]], now: Mapping[str, Init | None]) -> tuple[str, ...]:
    """Why an attempt may have committed of which nothing was heard; empty if none can have.

    Whoever commits for the pipeline has had one of its ids, and every init raises the epoch of that id, from 0. So an
    epoch that nobody has told of may be somebody's who died before he could, the first of all who had the id included.
    It may also be the coordinator's own, which raises it when it ends a transaction itself, or of an attempt whose
    words are not kept any more: a doubt, no more. Holds for clients before KIP-890, like the workers'.

    Args:
        heard: every init that attempts told of, as far as is kept, by transactional id.
        now: what the coordinator has for each id of the pipeline, None where it knows no such id (any more).
    """
    said: list[str] = []
    for name, latest in sorted(now.items()):
        told = set(heard.get(name, ()))
        if latest is None:
            # Forgotten after days without a transaction; what was told of it cannot be compared.
            if told:
                said.append(f"the coordinator does not know {name} any more")
            continue
        if not told:
            said.append(f"nothing was heard of who had {name} at epoch {latest.epoch}")
            continue
        of_latest = {init.epoch for init in told if init.producer_id == latest.producer_id}
        if {init.producer_id for init in told} - {latest.producer_id}:
            said.append(f"{name} has got a new producer id, and how far the epochs of the old one went is not known")
        missing = sorted(set(range(latest.epoch + 1)) - of_latest)
        if missing:
            more = "" if len(missing) <= _MOST_NAMED else f" and {len(missing) - _MOST_NAMED} more"
            epochs = ", ".join(map(str, missing[:_MOST_NAMED]))
            said.append(f"nothing was heard of who had {name} at epoch {epochs}{more}")
    return tuple(said)
