"""The checks by name, and the run: one after another, each with a result, also after errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException

from app.edges.kafka.raw_client import errors
from app.kit.errors import FencelineError
from app.products.conformance.checking import failures, promises
from app.products.conformance.checking.bench import Bench, BenchPlace
from app.products.conformance.checking.clients import CheckRefusedError, error_of
from app.products.conformance.report import CheckResult, ConformanceFinding, Promise, not_checked
from app.products.conformance.rights import TOPIC, refusal


class Check(NamedTuple):
    """`claim` is the guarantee that it checks; `make` runs it."""

    name: str
    promise: Promise
    claim: str
    make: Callable[[Bench], ConformanceFinding]


CHECKS = (
    Check(
        "open-is-hidden",
        Promise.ATOMICITY,
        "Consumers get no record of an open transaction, and all of them after its commit.",
        promises.open_is_hidden,
    ),
    Check(
        "aborted-is-never-shown",
        Promise.ATOMICITY,
        "Consumers never get a record of an aborted transaction.",
        promises.aborted_is_never_shown,
    ),
    Check(
        "offsets-with-outputs",
        Promise.ATOMICITY,
        "Input offsets are committed with the outputs of their transaction, or not at all.",
        promises.offsets_with_outputs,
    ),
    Check(
        "committed-stays",
        Promise.DURABILITY,
        "A consumer that connects after an acknowledged commit gets its records.",
        promises.committed_stays,
    ),
    Check(
        "outlives-a-broker",
        Promise.DURABILITY,
        "Committed records survive the loss of a broker.",
        promises.outlives_a_broker,
    ),
    Check(
        "order-of-transactions",
        Promise.ORDERING,
        "Consumers get the transactions of a partition in the order of its log.",
        promises.order_of_transactions,
    ),
    Check(
        "both-kinds-in-one-partition",
        Promise.INTERLEAVING,
        "A partition accepts records with and without a transaction, and returns them in one order.",
        promises.both_kinds_in_one_partition,
    ),
    Check(
        "retry-is-written-once",
        Promise.NO_DUPLICATES,
        "A batch that a producer sends again is in the log once.",
        promises.retry_is_written_once,
    ),
    Check(
        "redone-is-shown-once",
        Promise.NO_DUPLICATES,
        "The records of an aborted and repeated transaction are returned once.",
        promises.redone_is_shown_once,
    ),
    Check(
        "refused-record-is-redone",
        Promise.FAILURES,
        "A broker's error in a transaction leads to an abort, never to a partial commit.",
        failures.refused_record_is_redone,
    ),
    Check(
        "commit-may-be-repeated",
        Promise.FAILURES,
        "A commit without an answer may be sent again.",
        failures.commit_may_be_repeated,
    ),
    Check(
        "dead-producer-is-aborted",
        Promise.FAILURES,
        "A transaction that its producer never ends is aborted after its timeout.",
        failures.dead_producer_is_aborted,
    ),
    Check(
        "coordinator-moves",
        Promise.FAILURES,
        "An open transaction survives the loss of its coordinator.",
        failures.coordinator_moves,
    ),
    Check(
        "second-producer-fences-the-first",
        Promise.FENCING,
        "Only the newest producer of a transactional id may write.",
        failures.second_producer_fences_the_first,
    ),
    Check(
        "stale-member-is-refused",
        Promise.FENCING,
        "Offsets of a stale member are rejected.",
        failures.stale_member_is_refused,
    ),
    Check(
        "compaction-keeps-the-last-committed",
        Promise.COMPACTION,
        "Compaction keeps the last committed value of each key, though not complete transactions.",
        failures.compaction_keeps_the_last_committed,
    ),
)


def results_of(
    place: BenchPlace,
    checks: Sequence[Check],
    *,
    bench: type[Bench] = Bench,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[CheckResult]:
    """Make each check when its result is requested. `bench`: where, so that a test can break a guarantee on purpose."""
    for check in checks:
        began = clock()
        finding = _finding(place, check, bench)
        yield CheckResult(
            check=check.name,
            promise=check.promise,
            claim=check.claim,
            verdict=finding.verdict,
            said=finding.said,
            took_s=round(clock() - began, 3),
        )


def _finding(place: BenchPlace, check: Check, bench: type[Bench]) -> ConformanceFinding:
    try:
        with bench(place, check.name) as at_work:
            return check.make(at_work)
    except CheckRefusedError as refused:
        why = refused.error
        return refusal(why.code(), why.str(), prefix=place.prefix, operation=refused.operation, what=refused.what)
    except KafkaException as error:
        why = error_of(error)
        return refusal(why.code(), f"{why.name()}, {why.str()}", prefix=place.prefix)
    except errors.BrokerResponseError as error:
        # Topics are read by the raw protocol: its error for a record or commit is a result, not an exception.
        operation = "Read" if error.errno == TOPIC else None
        return refusal(error.errno, str(error), prefix=place.prefix, operation=operation)
    except (FencelineError, TimeoutError) as error:
        return not_checked(str(error) or "no answer in time")
    except errors.KafkaError as error:
        return not_checked(str(error))
