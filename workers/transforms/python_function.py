"""A function of an uploaded file, for each record or for a batch; a batch that raises is run again record by record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from app.core.pipelines.pipeline import PythonFunction, PythonScope
from app.core.transforms.comparison import kind_of
from workers.transforms import Failure, Output, Processed, RecordError, TransformError
from workers.transforms.record import Origin, Record
from workers.transforms.user_code import load_function, place_of, sha256_of, text_of

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_NO_TIMESTAMP = -1
_RUST = "pyo3_runtime"
MAX_CONTENTS = 500
_MAX_TIMESTAMP_MS = (1 << 63) - 1


class UserFunctionError(RecordError):
    """The function raised for a record, or returned something else than outputs; the message has the file's line."""


class UserFunction:
    """The function of an uploaded file. An error of a call is a UserFunctionError that names the file's line."""

    def __init__(self, transform: PythonFunction, *, source: str) -> None:
        """Raises TransformError when the text is not the revision's, does not import or lacks the function."""
        found = sha256_of(source)
        if found != transform.sha256.lower():
            raise TransformError(
                f"{transform.file_name} is not the file of this revision: its SHA-256 is {found}, "
                f"the revision names {transform.sha256}. Upload the file again as a new revision."
            )
        self.file_name = transform.file_name
        self._name = transform.function
        self.function = load_function(source, function=transform.function, file_name=transform.file_name)

    def __call__(self, argument: object) -> object:
        try:
            return cast(object, self.function(argument))
        except (Exception, SystemExit) as error:
            raise self._raised(error) from error
        except BaseException as error:
            # A panic in a library in Rust, such as polars, is no Exception.
            if type(error).__module__ != _RUST:
                raise
            raise self._raised(error) from error

    def wrong(self, what: str, *, contents: str = "") -> UserFunctionError:
        """The error of a result. The text begins with a verb. contents: may quote a record."""
        return UserFunctionError(f"`{self._name}` in {self.file_name} {what}", contents=contents[:MAX_CONTENTS])

    def _raised(self, error: BaseException) -> UserFunctionError:
        return UserFunctionError(f"{self.file_name}, {place_of(error, self.file_name)}", contents=text_of(error))


class PythonTransform:
    """Calls the function on each record or batch and checks everything that comes back."""

    is_identity = False

    def __init__(self, transform: PythonFunction, *, source: str) -> None:
        """Raises TransformError as UserFunction."""
        self._run = UserFunction(transform, source=source)
        self._wrong = self._run.wrong
        self._is_batch = transform.scope is PythonScope.BATCH
        self._sources: set[str] = set()

    def process(self, messages: list[Message]) -> Processed:
        records = [_record(message) for message in messages]
        self._sources.update(message.topic() or "" for message in messages)
        if self._is_batch:
            try:
                return _processed(enumerate(self._call_batch(records)), [])
            except UserFunctionError as error:
                if len(records) == 1:
                    return Processed([], [Failure(0, error)])
            # Run alone, each record shows if it was the cause.
            return self._one_by_one(records, self._call_batch_of_one)
        return self._one_by_one(records, self._call_record)

    def _one_by_one(self, records: list[Record], call: Callable[[Record], list[Output]]) -> Processed:
        found: list[tuple[int, list[Output]]] = []
        failures: list[Failure] = []
        for index, record in enumerate(records):
            try:
                found.append((index, call(record)))
            except UserFunctionError as error:
                failures.append(Failure(index, error))
        return _processed(found, failures)

    def _call_record(self, record: Record) -> list[Output]:
        returned = self._run(record)
        if returned is None:
            return []
        if isinstance(returned, Record):
            return [self._output(returned)]
        return self._outputs(returned, "None, a Record or a list of Records")

    def _call_batch(self, records: list[Record]) -> list[list[Output]]:
        # A copy: a function may change its list, and it is needed again after an error.
        returned = self._run(list(records))
        if not isinstance(returned, list | tuple):
            raise self._wrong(
                f"returned {_name_of(returned)}; a batch function returns one list of Records for each input"
            )
        lists = cast("list[object]", returned)
        if len(lists) != len(records):
            raise self._wrong(
                f"returned {len(lists)} lists for {len(records)} records; it must be one for each, in order"
            )
        return [self._outputs(item, "one list of Records for each input") for item in lists]

    def _call_batch_of_one(self, record: Record) -> list[Output]:
        return self._call_batch([record])[0]

    def _outputs(self, returned: object, wanted: str) -> list[Output]:
        if not isinstance(returned, list | tuple):
            raise self._wrong(f"returned {_name_of(returned)}; it must return {wanted}")
        return [self._output(item) for item in cast("list[object]", returned)]

    def _output(self, record: object) -> Output:
        if not isinstance(record, Record):
            raise self._wrong(f"returned a list with {_name_of(record)} in it; every output must be a Record")
        value, key, topic, timestamp_ms = record.value, record.key, record.topic, record.timestamp_ms
        # User code need not keep to the annotations of Record.
        if not _is_bytes(value):
            raise self._wrong(f"returned a Record whose value is {_name_of(value)}; it must be bytes or None")
        if not _is_bytes(key):
            raise self._wrong(f"returned a Record whose key is {_name_of(key)}; it must be bytes or None")
        if topic is not None and not (_is_text(topic) and is_topic_name(topic)):
            raise self._wrong("returned a Record whose topic is not a topic's name", contents=repr(topic))
        if topic in self._sources:
            raise self._wrong(f"returned a Record for {topic!r}, which this pipeline reads: that would never end")
        if timestamp_ms is not None and not (type(timestamp_ms) is int and 0 <= timestamp_ms <= _MAX_TIMESTAMP_MS):
            raise self._wrong(
                "returned a Record whose timestamp is neither milliseconds nor None", contents=repr(timestamp_ms)
            )
        return Output(value, key, self._headers(record.headers), timestamp_ms, topic)

    def _headers(self, headers: object) -> list[tuple[str, bytes | None]] | None:
        if not isinstance(headers, list | tuple):
            raise self._wrong(
                f"returned a Record whose headers are {_name_of(headers)}; they must be (name, bytes) pairs"
            )
        checked: list[tuple[str, bytes | None]] = []
        for header in cast("list[object]", headers):
            match header:
                case (str() as name, None | bytes() as value) if _is_header_name(name):
                    checked.append((name, value))
                case (str() as name, None | bytes()):
                    raise self._wrong(
                        "returned a Record with a header name that the client cannot write", contents=repr(name)
                    )
                case _:
                    raise self._wrong(
                        "returned a Record with a header that is not (name, bytes)", contents=repr(header)
                    )
        return checked or None


def _processed(found: Iterable[tuple[int, list[Output]]], failures: list[Failure]) -> Processed:
    """Join the outputs of each record, by its index."""
    outputs: list[Output] = []
    inputs: list[int] = []
    for index, its in found:
        outputs += its
        inputs += [index] * len(its)
    return Processed(outputs, failures, inputs)


def timestamp_of(message: Message) -> int | None:
    """Milliseconds since 1970; None for a record without a timestamp."""
    kind, timestamp_ms = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or timestamp_ms == _NO_TIMESTAMP else timestamp_ms


def _record(message: Message) -> Record:
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    return Record(
        message.value(),
        message.key(),
        () if headers is None else tuple(headers),
        timestamp_of(message),
        None,
        Origin(message.topic() or "", message.partition() or 0, message.offset() or 0),
    )


def is_topic_name(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def _is_header_name(name: str) -> bool:
    """A lone surrogate would end the process, and a name is cut at a zero (confluent-kafka 2.16.1)."""
    return "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)


def _is_bytes(value: object) -> bool:
    return value is None or isinstance(value, bytes)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _name_of(value: Any) -> str:
    return "None" if value is None else kind_of(value)
