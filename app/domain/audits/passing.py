"""Has the pipeline passed the window? Before that an audit would look for outputs that are still to come."""

from __future__ import annotations

from collections.abc import Mapping

Partition = tuple[str, int]
_NAMED = 3


def not_passed(committed: Mapping[Partition, int], window_ends: Mapping[Partition, int]) -> str | None:
    """A clause on what the pipeline has still to process of the window; None: nothing.

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
    return f"the pipeline has not committed all of the window: {', '.join(named)}{more} to go"
