"""What every stage for faults has: brokers behind proxies, and one pipeline on them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from app.domain.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from tests.fault_suite.plan import FREEZING, OF_TRANSACTIONS, Kind
from tests.fault_suite.proxied_cluster import ProxiedCluster
from tests.fault_suite.reading import Facts
from tests.support.pipelines import TestPipeline


class PipelineStage(ABC):
    """A context manager: everything runs when it is entered, nothing when it is left. Which group protocol it has
    depends on the seed, unless it is named; `group_only` is for classic groups alone."""

    pipeline: TestPipeline

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        brokers: int,
        guarantee: ProcessingGuarantee,
        fencing: OffsetFencing,
        protocol: GroupProtocol | None,
    ) -> None:
        drawn = random.Random(f"{seed}/protocol").choice(list(GroupProtocol))
        of_seed = GroupProtocol.CLASSIC if fencing is OffsetFencing.GROUP_ONLY else drawn
        self._protocol = protocol or of_seed
        self._guarantee = guarantee
        self._fencing = fencing
        self._folder = folder
        self._stack = ExitStack()
        self.cluster = ProxiedCluster(brokers, folder)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What needs no transaction can be done to at_least_once too: the negative control of a run."""
        kinds = (*self._kinds(), *self.cluster.kinds)
        if self._guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
            return kinds
        return tuple(kind for kind in kinds if kind not in (*FREEZING, *OF_TRANSACTIONS))

    @property
    def name(self) -> str:
        """What the ledger says of it: where it runs, and what is promised where that is not exactly_once_v2."""
        promised = {
            ProcessingGuarantee.EXACTLY_ONCE_V2: "",
            ProcessingGuarantee.EXACTLY_ONCE: f", exactly_once with {self._fencing}",
            ProcessingGuarantee.AT_LEAST_ONCE: ", at_least_once",
        }
        return f"{self._where}, {self._protocol} group{promised[self._guarantee]}"

    @property
    @abstractmethod
    def _where(self) -> str:
        """Brokers, and who runs the tasks."""

    @abstractmethod
    def _kinds(self) -> Iterable[Kind]:
        """Those of who runs the pipeline; the cluster has its own."""

    @property
    def facts(self) -> Facts:
        definition = self.pipeline.definition
        return Facts(
            self.cluster.bootstrap_servers,
            source=self.pipeline.source,
            sink=definition.sink_topic,
            group=definition.group_id,
        )

    def explanations(self) -> list[str]:
        """What of a failure is the brokers' own doing, as they say."""
        skipped = self.cluster.skipped_markers()
        told = f"the brokers left out markers of {skipped} transactions: partitions had no leader just then"
        return [told] if skipped else []
