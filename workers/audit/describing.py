"""The data that the comparison did not keep of the few ids that are shown: their text, and their records' times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import msgspec
from confluent_kafka import Message

from app.core.pipelines.pipeline import FailurePolicy
from app.products.audits.result import AuditSide, Example, RangeRead, RecordPlace
from app.products.audits.specification import AuditSpecification
from workers.audit.collecting import timestamp_of
from workers.audit.comparing import Deviation
from workers.audit.expecting import Expectations
from workers.audit.file_describing import FileText
from workers.audit.ids import id_of, shown
from workers.audit.judging import places
from workers.audit.reading import AuditReadError, SplitReader, committed_records
from workers.audit.rows import hash_of
from workers.audit.splits import Split
from workers.audit.stores import FileStores
from workers.transforms.headers import readable


def describe(
    specification: AuditSpecification,
    ranges: Sequence[RangeRead],
    deviations: Sequence[Deviation],
    *,
    open_reader: Callable[[], AbstractContextManager[SplitReader]],
    stores: FileStores,
) -> Iterator[Example]:
    """Each deviation as an example. A record that is gone meanwhile leaves its place without a timestamp."""
    if not deviations:
        return
    expectations = Expectations(specification)
    in_files = FileText(specification, stores)
    with open_reader() as consumer:
        for deviation in deviations:
            topic = specification.sink_topics[deviation.sink]
            inputs = [_read(consumer, place, specification) for place in places(deviation.inputs, ranges)]
            outputs = [_read(consumer, place, specification) for place in places(deviation.outputs, ranges)]
            digest = deviation.key[:14]
            if specification.files is not None and topic == specification.sink_topic:
                outputs = [in_files.named(place, message) for place, message in outputs]
                text = _text_of_inputs(expectations, digest, inputs) or in_files.text(digest, outputs)
            else:
                text = _text(specification, expectations, topic, digest, inputs, outputs)
            yield Example(
                finding=deviation.finding,
                id=text,
                topic=topic,
                expected=deviation.expected,
                found=deviation.found,
                inputs=tuple(place for place, _ in inputs),
                outputs=tuple(place for place, _ in outputs),
            )


def _read(
    consumer: SplitReader, place: RecordPlace, specification: AuditSpecification
) -> tuple[RecordPlace, Message | None]:
    split = Split(
        number=0,
        side=AuditSide.SOURCE,
        topic=place.topic,
        partition=place.partition,
        start=place.offset,
        end=place.offset + 1,
        window_start=place.offset,
        window_end=place.offset + 1,
    )
    stall_s = specification.bounds.stall_ms / 1000
    try:
        for batch in committed_records(consumer, split, stall_s=stall_s, deleted=lambda _start, _end: None):
            return msgspec.structs.replace(place, timestamp_ms=timestamp_of(batch[0])), batch[0]
    except AuditReadError:
        # The finding is valid without it.
        return place, None
    return place, None


def _text(
    specification: AuditSpecification,
    expectations: Expectations,
    topic: str,
    digest: bytes,
    inputs: Sequence[tuple[RecordPlace, Message | None]],
    outputs: Sequence[tuple[RecordPlace, Message | None]],
) -> str | None:
    """The id that has this hash, from the first record that still has it."""
    errors = specification.errors
    is_letters = errors.policy is FailurePolicy.DEAD_LETTER and topic == errors.dead_letter_topic
    find = id_of((specification.source_id or specification.id) if is_letters else specification.id)
    for _, message in outputs:
        if message is not None:
            found = find(message.value(), message.key(), readable(message))
            if found is not None and hash_of(found) == digest:
                return shown(found)
    return _text_of_inputs(expectations, digest, inputs)


def _text_of_inputs(
    expectations: Expectations, digest: bytes, inputs: Sequence[tuple[RecordPlace, Message | None]]
) -> str | None:
    for _, message in inputs:
        if message is not None:
            for _, found in expectations.of(message).ids:
                if found is not None and hash_of(found) == digest:
                    return shown(found)
    return None
