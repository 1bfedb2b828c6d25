"""REST schemas of blocked consumers and of ending a transaction by hand."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core.blocked import diagnosis, ending, facts, readers
from app.core.blocked.service import ending as ended
from app.core.runs.api.offset_schemas import Offset, Partition, Topic
from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why

TransactionalId = Annotated[str, Field(min_length=1, max_length=1000, examples=["fl.t.delayed-flights.0.0"])]
ProducerId = Annotated[int, Field(ge=0, lt=2**63)]
ProducerEpoch = Annotated[int, Field(ge=0, lt=2**15)]
Force = Annotated[bool, Field(description="Override the objections; requires a `why`.")]


@shows(diagnosis.ChainLink)
class Link:
    """One sentence, the request that it is based on, and the time of that answer."""


@shows(diagnosis.Holder)
class Holder:
    """The open transaction that blocks consumers, and its partition. `transactional_id` null: no coordinator knows
    it.
    """


@shows(diagnosis.Diagnosis)
class Diagnosis:
    """One partition. until_ms: the time at which it ends by itself, if known."""

    commands = "Commands to paste: Fenceline's and Kafka's own."


@shows(diagnosis.Explanation)
class Explanation:
    """A group or a topic; its worst partition first."""


@shows(ending.EndingPlan, without=("known",))
class EndingPlan:
    """A planned change. objections: refused for them unless forced. impossible: refused in any case."""

    command = "The same with Kafka's own tool."


@shows(facts.OpenTransaction)
class OpenTransaction:
    """As the partition's leader has it (DescribeProducers)."""


@shows(ending.EndPlan, without=("known",))
class EndPlan:
    command = "The same with Kafka's own tool."


@shows(ended.FenceResult)
class Fenced:
    """The result, and the new producer id and epoch of the id."""

    state = "The coordinator's answer afterwards."


@shows(ended.EndedTransaction)
class Ended:
    """The result, and the state of the partition's consumers afterwards."""


@shows(readers.BlockedPartition)
class BlockedPartition:
    """A blocked partition. at_least: there are more `records` behind its last stable offset."""


@shows(readers.WaitingGroup)
class WaitingGroup:
    """A group that waits at a last stable offset, or reads up to it. before: the offsets in between."""


@shows(readers.BlockedReaders)
class BlockedReaders:
    """A transaction, and the partitions that it blocks. until_ms: the time at which its coordinator ends it."""


@shows(readers.BlockedReport)
class BlockedReport:
    """The longest blocked first. problem: why the present state is not known; `causes` are the last known then."""


class FenceTarget(Body):
    transactional_id: TransactionalId


class FenceGiven(FenceTarget):
    force: Force = False
    why: Why = None


class EndTarget(Body):
    """start_offset: the first offset of the transaction; without it, the one that blocks consumers."""

    topic: Topic
    partition: Partition
    start_offset: Offset | None = None


class EndGiven(Body):
    """The transaction as the preview showed it; 412 if another one is there now."""

    topic: Topic
    partition: Partition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_offset: Offset
    force: Force = False
    why: Why = None
