"""The formulas of other frameworks for transactional ids, to import the ids of an application that moves to Fenceline.

Sources, read for this:
- Kafka Streams, `exactly_once` (until 3.9; 4.0 removed it): `StreamsProducer` sets `applicationId + "-" + taskId`, and
  `TaskId.toString()` is `<subtopology>_<partition>`.
- Kafka Streams, `exactly_once_v2`: `StreamsProducer` sets `applicationId + "-" + processId + "-" + threadIdx`; the
  process id is a UUID kept in the state directory, threads count from 1.
- spring-kafka, `EOSMode.V1` (`ALPHA`; until 2.9): `DefaultKafkaProducerFactory` sets `transactionIdPrefix + suffix`,
  and `KafkaMessageListenerContainer.zombieFenceTxIdSuffix` is `<group>.<topic>.<partition>`.
- spring-kafka, `EOSMode.V2`, and any transaction that no listener began: `transactionIdPrefix + n`, n from 0 (reference
  manual, "Transactions").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_PLACE = re.compile(r"{(\w+)}")
_OF_A_PARTITION = frozenset({"topic", "partition"})
_NUMBER = "number"


class IdFormula(msgspec.Struct, frozen=True, kw_only=True):
    """The formula of one kind of application: it has one id for each partition, or numbers its ids.

    pattern: with `{name}` for each value. meanings: descriptions of the required values, by name.
    first: the first number of a numbering formula.
    """

    name: str
    title: str
    pattern: str
    meanings: dict[str, str]
    first: int = 0

    @property
    def counts(self) -> bool:
        """True if its ids are numbered; their partitions change with every rebalance."""
        return _NUMBER in _PLACE.findall(self.pattern)

    def id_of(self, values: Mapping[str, str], *, topic: str = "", partition: int = 0, number: int = 0) -> str:
        """Return one id. `values` has the values of `meanings`."""
        known = {**values, "topic": topic, "partition": str(partition), _NUMBER: str(number)}
        return _PLACE.sub(lambda match: known[match[1]], self.pattern)


FORMULAS: Mapping[str, IdFormula] = {
    one.name: one
    for one in (
        IdFormula(
            name="kafka-streams",
            title="Kafka Streams, exactly_once",
            pattern="{application_id}-{subtopology}_{partition}",
            meanings={
                "application_id": "its application.id",
                "subtopology": "the number of the sub-topology that reads the topic, as Topology.describe() says",
            },
        ),
        IdFormula(
            name="kafka-streams-v2",
            title="Kafka Streams, exactly_once_v2",
            pattern="{application_id}-{process_id}-{number}",
            meanings={
                "application_id": "its application.id",
                "process_id": "the UUID of one process, as its state directory and its client ids have it",
            },
            first=1,
        ),
        IdFormula(
            name="spring-kafka",
            title="spring-kafka, EOSMode.V1 (ALPHA)",
            pattern="{prefix}{group}.{topic}.{partition}",
            meanings={"prefix": "its transactionIdPrefix", "group": "the listener's group.id"},
        ),
        IdFormula(
            name="spring-kafka-v2",
            title="spring-kafka, EOSMode.V2 (BETA)",
            pattern="{prefix}{number}",
            meanings={"prefix": "its transactionIdPrefix, which differs from instance to instance"},
        ),
    )
}
