"""A stage for faults over a file pipeline: the one of tasks, and an object store that misbehaves all the time."""

from __future__ import annotations

import random
from pathlib import Path

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from tests.fault_suite.freeze_points import AnyPoint, FilePoint, Point
from tests.fault_suite.plan import Fault
from tests.fault_suite.task_stage import TaskStage
from tests.support import object_store
from tests.support.file_pipelines import file_sink, json_value
from tests.support.lakes import Bucket

_PARTITIONS = 4
_ROTATE_MS = 500
_UPLOADS_WITHIN_MS = 3_000
_FAULTY = 0.2
_HANGS = 0.003
"""The share of all requests. Hanging ones are released at the end: they arrive late, or their answer does."""
_HANGING = (object_store.Fault.HELD, object_store.Fault.UNANSWERED)
_FAULTS = (object_store.Fault.ERROR, object_store.Fault.LOST, object_store.Fault.TWICE, object_store.Fault.CHANGED)


class FileStage(TaskStage):
    """Two or three tasks that write files. The seed decides which request of the store meets which fault, and where a
    worker is frozen, the points of files among the places."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        brokers: int,
        lake: Bucket,
        guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE_V2,
        protocol: GroupProtocol | None = None,
    ) -> None:
        super().__init__(
            seed,
            folder,
            brokers=brokers,
            guarantee=guarantee,
            protocol=protocol,
            environment=lake.environment,
            partitions=_PARTITIONS,
            value_of=json_value,
            files=file_sink(lake, rotate_ms=_ROTATE_MS, upload_timeout_ms=_UPLOADS_WITHIN_MS),
        )
        self.lake = lake
        self._seed = seed
        lake.proxy.fault = self._fault_of_request

    @property
    def _where(self) -> str:
        return f"{super()._where} that write files"

    def settle(self) -> None:
        """The store is well from now on, too."""
        self.heal_store()
        super().settle()

    def heal_store(self) -> None:
        """Release its hanging requests."""
        self.lake.proxy.fault = lambda _method, _path, _before: object_store.Fault.NONE
        self.lake.proxy.release()

    def point_of(self, fault: Fault) -> AnyPoint | None:
        if fault.point is None:
            return None
        return random.Random(f"{self._seed}/point/{fault.number}").choice((*FilePoint, *Point))

    def _fault_of_request(self, _method: str, _path: str, before: int) -> object_store.Fault:
        drawn = random.Random(f"{self._seed}/request/{before}")
        chance = drawn.random()
        if chance < _HANGS:
            return drawn.choice(_HANGING)
        return drawn.choice(_FAULTS) if chance < _FAULTY else object_store.Fault.NONE
