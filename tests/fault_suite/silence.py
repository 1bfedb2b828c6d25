"""The facts to collect while a partition has no outputs: afterwards there is nothing to ask any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.transactions.client import TransactionClient
from tests.support.quiet import QUIET
from tests.support.tasks import TaskProcess

_ASKED_FOR_S = 10.0
_LAST_EVENTS = 6
_TAIL_CHARS = 1_500


def lines_of_group(bootstrap_servers: str, group: str) -> Iterator[str]:
    """Its members with their partitions and, in a KIP-848 group, the target: one may have no owner, or a dead one."""
    # Their descriptions have no types.
    asking: Any = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    described = asking.describe_consumer_groups([group], request_timeout=_ASKED_FOR_S)[group].result(_ASKED_FOR_S)
    yield f"group {group}: {described.state}"
    for member in described.members:
        target = member.target_assignment
        yield (
            f"  {member.client_id}: has {_partitions(member.assignment)}"
            f"{'' if target is None else f', is to have {_partitions(target)}'}"
        )


def lines_of_transactions(bootstrap_servers: str) -> Iterator[str]:
    """Every transactional id as its coordinator has it."""
    attempt = ConnectionAttempt(bootstrap_servers, _ASKED_FOR_S)
    with TransactionClient({"bootstrap.servers": bootstrap_servers}, attempt) as client:
        listed, _ = client.transactional_ids()
        for name, known in sorted(client.describe_transactions(list(listed.values())).items()):
            yield f"transactional id {name}: {known}"


def lines_of_worker(name: str, worker: TaskProcess) -> Iterator[str]:
    """Its last report; a position of None: nothing was delivered since it was assigned or sought."""
    reports = worker.reports()
    last = worker.last()
    yield f"{name}: {last.state}, generation {last.generation}, last error {last.last_error}"
    for one in last.partitions:
        yield f"  {one.topic}-{one.partition}: position {one.position}, committed {one.committed}, end {one.end}"
    events = [report.event for report in reports if report.event is not None]
    yield from (f"  {event.at:.3f} {event.kind}: {event.message}" for event in events[-_LAST_EVENTS:])
    yield f"  its log ends: {worker.said_in_log()[-_TAIL_CHARS:]}"


def told(*tellers: Callable[[], Iterator[str]]) -> Iterator[str]:
    """The reports of all tellers, one after the other; or the error of one."""
    for teller in tellers:
        try:
            yield from teller()
        except Exception as error:  # noqa: BLE001 - it is told, and the others are asked all the same
            yield f"not to be known: {type(error).__name__}: {error}"


def _partitions(assignment: object) -> list[str]:
    found = getattr(assignment, "topic_partitions", ())
    return sorted(f"{one.topic}-{one.partition}" for one in found)
