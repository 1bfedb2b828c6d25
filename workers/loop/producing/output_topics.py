"""Check that the output topics of an attempt exist, and that its sink is still the same topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException

from workers.loop.errors import AbortableError, PipelineStopError, error_of

_EVERY_S = 5.0
_MISSING_EVERY_S = 1.0
_MISSING_S = 3.0
"""The time for which a sink must be unknown to be gone: a broker that has just started may not know every topic yet."""
_ANSWER_S = 5.0
_KNOWN_S = 30.0
_UNKNOWN_S = 5.0
_SECOND_LOOK_S = 0.5
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero id, as base64: brokers before 2.8 know topics by name only."""


class DescribedOutput(Protocol):
    """The part of librdkafka's description of a topic that is used. Compare its ids by their text."""

    topic_id: object
    partitions: Sequence[object]
    is_internal: bool


AskOutputs = Callable[[Sequence[str]], Mapping[str, "Future[DescribedOutput]"]]
"""Asks the brokers for topics, and never creates one; answers at once, with futures."""


class UnknownTopicError(Exception):
    """A record names a topic that it cannot be written to."""


class _Seen(msgspec.Struct, frozen=True):
    at: float
    problem: str | None


class _Sink(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: int


class OutputTopics:
    """Looks topics up before their first record, and watches the sink; neither creates a topic.

    unwritable(names)   waits for the brokers. A client that is handed a record for a topic that does not exist waits
                        for it until the transaction times out, and so does every later attempt
    look()              never waits. A sink that is deleted or recreated stops the pipeline: its records are gone, and
                        a consumer's offsets are not valid in the new one
    """

    def __init__(
        self,
        sink_topic: str,
        *,
        ask: AskOutputs,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sink_topic = sink_topic
        self._ask = ask
        self._clock = clock
        self._sleep = sleep
        self._seen: dict[str, _Seen] = {}
        self._sink: _Sink | None = None
        self._missing_since: float | None = None
        self._pending: Future[DescribedOutput] | None = None
        self._next_look_at = clock()

    def unwritable(self, names: Collection[str]) -> Mapping[str, UnknownTopicError]:
        """Those of `names` that nothing may be written to, with their errors. The sink topic is not among them.

        An unknown topic is looked up once more: it may have been created a moment ago.

        Raises:
            AbortableError: the brokers do not answer.
        """
        wanted = {name for name in names if name != self._sink_topic and self._is_stale(name)}
        missing = self._look_up(wanted)
        if missing:
            self._sleep(_SECOND_LOOK_S)
            self._look_up(missing)
        problems = {name: self._seen[name].problem for name in names if name in self._seen}
        return {name: UnknownTopicError(problem) for name, problem in problems.items() if problem is not None}

    def look_up_again(self) -> None:
        """A checkpoint was aborted, perhaps because a topic is gone: earlier answers do not count any more."""
        self._seen.clear()
        self._next_look_at = self._clock()

    def look(self) -> None:
        """Take an answer about the sink that has come, or send a request if it is due; call it often.

        Raises:
            PipelineStopError: the sink is another topic than before.
        """
        if self._pending is not None:
            if self._pending.done():
                answer, self._pending = self._pending, None
                self._judge_sink(answer)
        elif self._clock() >= self._next_look_at:
            self._next_look_at = self._clock() + _EVERY_S
            # If brokers cannot be asked, SourceTopics reports it.
            error_of(self._ask_for_sink, KafkaException)

    def _ask_for_sink(self) -> None:
        self._pending = self._ask([self._sink_topic]).get(self._sink_topic)

    def _is_stale(self, name: str) -> bool:
        seen = self._seen.get(name)
        return seen is None or self._clock() - seen.at >= (_KNOWN_S if seen.problem is None else _UNKNOWN_S)

    def _look_up(self, names: Collection[str]) -> set[str]:
        """Look these topics up; return those that do not exist."""
        missing: set[str] = set()
        if not names:
            return missing
        answers: dict[str, Future[DescribedOutput]] = {}
        error = error_of(lambda: answers.update(self._ask(sorted(names))), KafkaException)
        if error is not None:
            raise AbortableError(f"could not look output topics up: {error.args[0].str()}")
        deadline = self._clock() + 2 * _ANSWER_S
        for name, answer in answers.items():
            found: list[DescribedOutput] = []
            late = partial(answer.result, max(0.0, deadline - self._clock()))
            refused = error_of(lambda late=late, found=found: found.append(late()), Exception)
            problem = None
            if refused is not None:
                if _code_of(refused) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise AbortableError(f"could not look the output topic {name} up: {refused}")
                missing.add(name)
                problem = f"there is no topic {name}: create it, or correct its name in the pipeline"
            elif found[0].is_internal:
                problem = f"the topic {name} is internal to the brokers: correct its name in the pipeline"
            self._seen[name] = _Seen(self._clock(), problem)
        return missing

    def _judge_sink(self, answer: Future[DescribedOutput]) -> None:
        error = answer.exception()
        if error is not None:
            if _code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART and self._sink is not None:
                now = self._clock()
                self._missing_since = now if self._missing_since is None else self._missing_since
                self._next_look_at = now + _MISSING_EVERY_S
                if now - self._missing_since >= _MISSING_S:
                    raise PipelineStopError(
                        f"the sink topic {self._sink_topic} was deleted while the pipeline was writing to it; its "
                        "records are gone. Create it and start again"
                    )
            return
        self._missing_since = None
        described = answer.result()
        found = _Sink(str(described.topic_id), len(described.partitions))
        before, self._sink = self._sink, found
        if before is None:
            return
        has_id = _NO_ID not in (found.topic_id, before.topic_id)
        if has_id and found.topic_id != before.topic_id:
            what = f"was deleted and recreated, with {found.partitions} instead of {before.partitions} partitions,"
        elif not has_id and found.partitions < before.partitions:
            what = f"has {found.partitions} instead of {before.partitions} partitions, so it was recreated"
        else:
            return
        raise PipelineStopError(
            f"the sink topic {self._sink_topic} {what} while the pipeline was writing to it; its records are gone. "
            "Check its partitions and start again"
        )


def _code_of(error: BaseException) -> int | None:
    return error.args[0].code() if isinstance(error, KafkaException) else None
