"""Offsets for the group alone: `offset_fencing: group_only`, as clients before KIP-447 send them."""

from __future__ import annotations

from confluent_kafka import Consumer


class GroupAlone:
    """No member and generation -1: the broker accepts such offsets from any client, without regard to the owner.

    It is the metadata of a consumer that has never subscribed, in a classic group. One of a KIP-848 group carries a
    made-up member id, and is refused (`tests/exactly_once/test_group_only.py`).
    """

    def __init__(self, group_id: str) -> None:
        outsider = Consumer({"group.id": group_id, "bootstrap.servers": ""})
        try:
            self._metadata: object = outsider.consumer_group_metadata()
        finally:
            outsider.close()

    def consumer_group_metadata(self) -> object:
        """Return the metadata, which never changes."""
        return self._metadata
