"""Progress of a pipeline through a window, which must be complete before an audit can begin."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.core.clusters.partition import Partition

_NAMED = 3


class NotPassed(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why an audit does not begin, as a part of a sentence. is_final: waiting does not help."""

    reason: str
    is_final: bool = False


def beyond(window_ends: Mapping[Partition, int], log_ends: Mapping[Partition, int]) -> NotPassed | None:
    """Return why a window of offsets exceeds the source, if it does.

    log_ends: the end of each source partition.
    """
    for at, end in sorted(window_ends.items()):
        (topic, partition), log_end = at, log_ends.get(at)
        if log_end is None:
            return NotPassed(reason=f"the pipeline does not read a partition {topic}-{partition}", is_final=True)
        if end > log_end:
            return NotPassed(
                reason=f"{topic}-{partition} ends at offset {log_end:,}, before the window ({end:,}): audit a smaller "
                "window",
                is_final=True,
            )
    return None


def not_passed(committed: Mapping[Partition, int], window_ends: Mapping[Partition, int]) -> NotPassed | None:
    """Return the part of the window that the pipeline has not committed; None: it has committed all.

    committed: the group's offsets. window_ends: the first offset after the window, of each source partition with
    records before it.
    """
    behind = {
        partition: end - committed.get(partition, 0)
        for partition, end in sorted(window_ends.items())
        if committed.get(partition, 0) < end
    }
    if not behind:
        return None
    named = [
        f"{topic}-{partition} ({offsets:,} offsets)"
        if (topic, partition) in committed
        else f"{topic}-{partition} (no offset)"
        for (topic, partition), offsets in list(behind.items())[:_NAMED]
    ]
    more = f" and {len(behind) - _NAMED} more" if len(behind) > _NAMED else ""
    return NotPassed(reason=f"the pipeline has not committed the whole window: {', '.join(named)}{more} remain")
