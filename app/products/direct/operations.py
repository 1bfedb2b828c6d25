"""Diagnosis and ending of transactions, by brokers directly, or by the server, which knows owners and logs commands."""

from __future__ import annotations

from typing import Annotated, Protocol
from urllib.parse import quote

import typer

from app.core.blocked.diagnosis import DiagnosisKind, Explanation
from app.core.blocked.ending import EndingPlan, EndPlan
from app.core.blocked.readers import BlockedReport
from app.core.blocked.service import ending, explaining
from app.core.blocked.service.ending import EndedTransaction, FenceResult
from app.core.hanging.search_once import search_once
from app.edges.kafka.cli.cluster import DirectCluster, now_ms
from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.names import names_of
from app.products.direct.hanging import HangingAnswer, answer_of

RegisteredCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Ask the server, about a registered cluster: it knows the owners of ids, and keeps a command log.",
        autocompletion=names_of("clusters"),
    ),
]


LOOKED_AT_ONCE = 500
"""The most blocked partitions that one command examines."""


class Operations(Protocol):
    """The operations on one cluster. Every refusal is a CommandError."""

    def blocked(self) -> BlockedReport: ...

    def hanging(self) -> HangingAnswer: ...

    def explain(self, target: str, kind: DiagnosisKind | None) -> Explanation: ...

    def plan_fence(self, transactional_id: str) -> EndingPlan: ...

    def fence(self, transactional_id: str, *, force: bool, why: str | None) -> FenceResult: ...

    def plan_end(self, topic: str, partition: int, start_offset: int | None) -> EndPlan: ...

    def end(
        self, topic: str, partition: int, planned: EndPlan, *, force: bool, why: str | None
    ) -> EndedTransaction: ...


def operations_of(bootstrap_server: str | None, config: list[str] | None, cluster: str | None) -> Operations:
    """Return the operations on the cluster that the options name."""
    check_named(bootstrap_server, config, cluster)
    return DirectOperations(bootstrap_server, config) if cluster is None else ServerOperations(cluster)


def check_named(bootstrap_server: str | None, config: list[str] | None, cluster: str | None) -> None:
    """Raise CommandError unless the options name a cluster in exactly one way."""
    if (bootstrap_server is None) == (cluster is None):
        raise CommandError(
            "name the cluster: --bootstrap-server HOST:PORT asks its brokers, --cluster NAME asks the server",
            code=ExitCode.USAGE,
        )
    if cluster is not None and config:
        raise CommandError("--config goes with --bootstrap-server", code=ExitCode.USAGE)


class DirectOperations(DirectCluster):
    """Brokers directly; `why` is ignored, as there is no command log."""

    def blocked(self) -> BlockedReport:
        return self.run(
            lambda: explaining.find_blocked(
                self.brokers, self.connection, self.asked, limit=LOOKED_AT_ONCE, now_ms=now_ms
            )
        )

    def hanging(self) -> HangingAnswer:
        at_ms = now_ms()
        found = self.run(lambda: search_once(self.brokers, self.connection, now_ms=at_ms, limit=LOOKED_AT_ONCE))
        return answer_of(found, self.bootstrap_server)

    def explain(self, target: str, kind: DiagnosisKind | None) -> Explanation:
        return self.run(lambda: explaining.explain(self.brokers, self.connection, target, self.asked, kind=kind))

    def plan_fence(self, transactional_id: str) -> EndingPlan:
        return self.run(lambda: ending.plan_fencing(self.brokers, self.connection, transactional_id, self.asked))

    def fence(self, transactional_id: str, *, force: bool, why: str | None) -> FenceResult:
        del why
        return self.run(lambda: ending.fence(self.brokers, self.connection, transactional_id, self.asked, force=force))

    def plan_end(self, topic: str, partition: int, start_offset: int | None) -> EndPlan:
        return self.run(
            lambda: ending.plan_ending(
                self.brokers, self.connection, topic, partition, self.asked, start_offset=start_offset
            )
        )

    def end(self, topic: str, partition: int, planned: EndPlan, *, force: bool, why: str | None) -> EndedTransaction:
        del why
        return self.run(
            lambda: ending.end(
                self.brokers, self.connection, topic, partition, self.asked, planned=planned, force=force
            )
        )


class ServerOperations:
    def __init__(self, cluster: str) -> None:
        self._client = connect()
        self._path = f"/clusters/{quote(cluster, safe='')}"

    def blocked(self) -> BlockedReport:
        return as_record(self._client.get(f"{self._path}/blocked-readers"), BlockedReport)

    def hanging(self) -> HangingAnswer:
        return as_record(self._client.get(f"{self._path}/hanging"), HangingAnswer)

    def explain(self, target: str, kind: DiagnosisKind | None) -> Explanation:
        return as_record(self._client.get(f"{self._path}/stuck", target=target, kind=kind), Explanation)

    def plan_fence(self, transactional_id: str) -> EndingPlan:
        return as_record(self._post("preview-fence", transactional_id=transactional_id), EndingPlan)

    def fence(self, transactional_id: str, *, force: bool, why: str | None) -> FenceResult:
        return as_record(self._post("fence", transactional_id=transactional_id, force=force, why=why), FenceResult)

    def plan_end(self, topic: str, partition: int, start_offset: int | None) -> EndPlan:
        found = self._post("preview-end", topic=topic, partition=partition, start_offset=start_offset)
        return as_record(found, EndPlan)

    def end(self, topic: str, partition: int, planned: EndPlan, *, force: bool, why: str | None) -> EndedTransaction:
        assert planned.target is not None  # noqa: S101 - a plan without one is impossible, and was refused
        seen = {
            "producer_id": planned.target.producer_id,
            "producer_epoch": planned.target.producer_epoch,
            "start_offset": planned.target.start_offset,
        }
        return as_record(
            self._post("end", topic=topic, partition=partition, force=force, why=why, **seen), EndedTransaction
        )

    def _post(self, what: str, **body: object) -> object:
        return self._client.post(f"{self._path}/transactions/{what}", body)
