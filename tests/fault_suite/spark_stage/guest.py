"""A member of the pipeline's group that is none of its tasks: the members release partitions for it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer

from app.core.pipelines.pipeline import GroupProtocol
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET

_POLL_S = 0.1
_LEFT_S = 60.0


class Guest:
    """A context manager: it joins when it is entered, and leaves at the end. It reads its partitions and commits
    nothing, so that the next owner begins where the one before has ended."""

    def __init__(self, pipeline: TestPipeline) -> None:
        definition = pipeline.definition
        settings: dict[str, Any] = {
            "bootstrap.servers": pipeline.bootstrap_servers,
            **QUIET,
            "client.id": "guest",
            "group.id": definition.group_id,
            "group.protocol": definition.group_protocol.value,
            "enable.auto.commit": False,
        }
        if definition.group_protocol is GroupProtocol.CLASSIC:
            settings["session.timeout.ms"] = definition.session_timeout_ms
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = Consumer(settings)
        self._consumer.subscribe([pipeline.source])
        self._leaving = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._stay, name="guest", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises what went wrong, unless something else has already."""
        self._leaving.set()
        self._thread.join(_LEFT_S)
        if error is None:
            assert not self._thread.is_alive(), f"the guest did not leave its group within {_LEFT_S:g} s"
            if self._failed is not None:
                raise self._failed

    def _stay(self) -> None:
        try:
            while not self._leaving.is_set():
                self._consumer.poll(_POLL_S)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that ends the visit
            self._failed = error
        finally:
            self._consumer.close()
