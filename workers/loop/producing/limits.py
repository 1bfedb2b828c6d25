"""The largest record, and a topic's reason for refusing one: the brokers' own settings, if they report them."""

from __future__ import annotations

from typing import Protocol

from confluent_kafka import KafkaError

from workers.loop.client_config import LARGEST_REQUEST_BYTES
from workers.loop.errors import RefusedError

_LARGEST_REQUEST = "socket.request.max.bytes"


class AsksSettings(Protocol):
    """Waits for the brokers' answer; unreported settings are missing in it."""

    def settings_of_topic(self, topic: str) -> dict[str, str]: ...
    def settings_of_brokers(self) -> list[dict[str, str]]: ...


class Limits:
    """Asks brokers when a task starts, and a topic when it has refused a record: its settings may have changed.

    No limit of a topic is copied into the client. The broker judges each record by the settings of that moment, and by
    its compressed size.
    """

    def __init__(self, brokers: AsksSettings) -> None:
        self._brokers = brokers
        told = [int(found[_LARGEST_REQUEST]) for found in brokers.settings_of_brokers() if _LARGEST_REQUEST in found]
        self.largest_request_bytes = min(told, default=LARGEST_REQUEST_BYTES)

    def why_refused(self, error: RefusedError) -> str:
        """The reason for a user: the topic, the limit and its setting."""
        if error.setting is not None:
            return f"{error}. Raise it, or write smaller records{self._of_brokers(error.setting)}"
        if error.topic is None:
            return str(error)
        settings = self._brokers.settings_of_topic(error.topic)
        match error.code:
            case KafkaError.MSG_SIZE_TOO_LARGE | KafkaError.RECORD_LIST_TOO_LARGE:
                what, names = "it is too large", ("max.message.bytes",)
            case KafkaError.INVALID_TIMESTAMP:
                what = "its timestamp is out of range"
                names = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
            case _:
                what = "it is not valid there, such as a record without a key in a compacted topic"
                names = ("cleanup.policy",)
        limits = ", ".join(f"{name}={settings[name]}" if name in settings else name for name in names)
        return f"{error.topic} refuses it ({error.name}): {what}. See {limits} of {error.topic}"

    def _of_brokers(self, setting: str) -> str:
        if setting != "message.max.bytes":
            return ""
        return f"; brokers take requests of {self.largest_request_bytes} bytes ({_LARGEST_REQUEST})"
