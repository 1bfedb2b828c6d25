"""Why readers wait, and ending a transaction by hand, at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core.blocked import diagnosis, ending, facts
from app.core.blocked.service import ending as ended
from app.core.runs.api.offset_schemas import Offset, Partition, Topic
from app.kit.web.api.bodies import Body
from app.kit.web.api.shown import shows
from app.kit.web.api.words import Why

TransactionalId = Annotated[str, Field(min_length=1, max_length=1000, examples=["fl.t.delayed-flights.0.0"])]
ProducerId = Annotated[int, Field(ge=0, lt=2**63)]
ProducerEpoch = Annotated[int, Field(ge=0, lt=2**15)]
Force = Annotated[bool, Field(description="Overrule what speaks against it; takes a `why`.")]


@shows(diagnosis.Link)
class Link:
    """One sentence, which answer of the brokers it stands on, and when that was given."""


@shows(diagnosis.Holder)
class Holder:
    """The open transaction that holds readers up, and where; `transactional_id` null: no coordinator says whose."""


@shows(diagnosis.Diagnosis)
class Diagnosis:
    """One partition. until_ms: when it ends by itself, where that is known."""

    commands = "Lines to paste: ours and Kafka's own."


@shows(diagnosis.Explanation)
class Explanation:
    """A group, or a topic; its worst partition first."""


@shows(ending.Plan, without=("known",))
class Plan:
    """What would be done. objections: refused for them unless forced. impossible: refused in any case."""

    command = "How Kafka's own tool does it."


@shows(facts.OpenTransaction)
class OpenTransaction:
    """As the partition's leader has it (DescribeProducers)."""


@shows(ending.EndPlan, without=("known",))
class EndPlan:
    command = "How Kafka's own tool does it."


@shows(ended.Fenced)
class Fenced:
    """What was done, and the producer id and epoch that the id has now."""

    state = "As its coordinator says after it."


@shows(ended.Ended)
class Ended:
    """What was done, and how the partition's readers are after it."""


class FenceTarget(Body):
    transactional_id: TransactionalId


class FenceGiven(FenceTarget):
    force: Force = False
    why: Why = None


class EndTarget(Body):
    """start_offset: which transaction, by where it begins; without it the one that readers wait for."""

    topic: Topic
    partition: Partition
    start_offset: Offset | None = None


class EndGiven(Body):
    """The transaction as the preview showed it; 412 when another one is there by now."""

    topic: Topic
    partition: Partition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_offset: Offset
    force: Force = False
    why: Why = None
