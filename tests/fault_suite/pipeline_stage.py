"""The common part of all stages for faults: brokers behind proxies, and one pipeline on them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from tests.fault_suite.freeze_points import AnyPoint
from tests.fault_suite.freezes import Freezes, Outlasted, Timeouts
from tests.fault_suite.offset_log import Asked
from tests.fault_suite.plan import FREEZING, OF_TRANSACTIONS, Kind
from tests.fault_suite.proxied_cluster import SETTINGS, ProxiedCluster
from tests.fault_suite.reading import Facts
from tests.fault_suite.silence import lines_of_group, lines_of_transactions, told
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
        self._freezes = Freezes()
        self.cluster = ProxiedCluster(brokers, folder)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Faults that need no transaction can also meet at_least_once: the negative control of a run."""
        kinds = (*self._kinds(), *self.cluster.kinds)
        if self._guarantee is not ProcessingGuarantee.AT_LEAST_ONCE:
            return kinds
        return tuple(kind for kind in kinds if kind not in (*FREEZING, *OF_TRANSACTIONS))

    @property
    def name(self) -> str:
        """The stage in the ledger: its place, and the guarantee where that is not exactly_once_v2."""
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

    @abstractmethod
    def ask_offset_log(self) -> Asked:
        """The recorded offsets of tasks, when they have come to their end."""

    @property
    def facts(self) -> Facts:
        definition = self.pipeline.definition
        return Facts(
            self.cluster.bootstrap_servers,
            source=self.pipeline.source,
            sink=definition.sink_topic,
            group=definition.group_id,
            log_dirs=[broker.log_dir for broker in self.cluster.kafka.brokers],
            deletions=self.deletions,
        )

    @property
    def deletions(self) -> int:
        """How often a fault has deleted the group's offsets."""
        return 0

    @property
    def freezes(self) -> dict[str, dict[Outlasted, int]]:
        """The number of frozen workers, by their point and by the outlasted timeouts."""
        return self._freezes.counted

    def stood(self, point: AnyPoint | None, stood_s: float) -> str:
        """Record that a worker was frozen for so long, and continues; returns the text for the log of faults."""
        return self._freezes.stood(point, stood_s, self.timeouts)

    @property
    def timeouts(self) -> Timeouts:
        """The client ids of the pipeline's members and producers."""
        definition = self.pipeline.definition
        is_classic = definition.group_protocol is GroupProtocol.CLASSIC
        session_ms = definition.session_timeout_ms if is_classic else int(SETTINGS["group.consumer.session.timeout.ms"])
        look_ms = int(SETTINGS["transaction.abort.timed.out.transaction.cleanup.interval.ms"])
        return Timeouts(session_ms / 1000, definition.transaction_timeout_ms / 1000, look_ms / 1000)

    def lines_of_silence(self) -> Iterator[str]:
        """The present owners of partitions and open transactions, from brokers and workers."""
        servers = self.cluster.bootstrap_servers
        group = partial(lines_of_group, servers, self.pipeline.definition.group_id)
        return told(group, partial(lines_of_transactions, servers))

    def explanations(self) -> list[str]:
        """The part of a failure that the brokers' own logs admit."""
        skipped = self.cluster.skipped_markers()
        told = f"the brokers left out markers of {skipped} transactions: partitions had no leader just then"
        return [told] if skipped else []
