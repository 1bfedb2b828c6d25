"""Has the pipeline passed the window? Before that an audit would look for outputs that are still to come."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Partition = tuple[str, int]
_NAMED = 3


class NotPassed(msgspec.Struct, frozen=True, kw_only=True):
    """Why an audit does not begin, as a clause. is_final: waiting does not help."""

    reason: str
    is_final: bool = False


def beyond(window_ends: Mapping[Partition, int], log_ends: Mapping[Partition, int]) -> NotPassed | None:
    """Whether a window of offsets names what is not there; `log_ends`: of each partition of the source."""
    for (topic, partition), end in sorted(window_ends.items()):
        log_end = log_ends.get((topic, partition))
        if log_end is None:
            return NotPassed(reason=f"{topic}-{partition} is no partition that the pipeline reads", is_final=True)
        if end > log_end:
            return NotPassed(
                reason=f"{topic}-{partition} ends at offset {log_end:,}, before the window does ({end:,}): audit up to "
                "what is there",
                is_final=True,
            )
    return None


def not_passed(committed: Mapping[Partition, int], window_ends: Mapping[Partition, int]) -> NotPassed | None:
    """What the pipeline has still to process of the window; None: nothing.

    committed: the group's offsets. window_ends: the first offset behind the window, of each source partition that
    holds anything before it.
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
    return NotPassed(reason=f"the pipeline has not committed all of the window: {', '.join(named)}{more} to go")
