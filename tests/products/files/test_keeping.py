"""Files in a real database: each counted once, whoever reads and however often, with how far was read."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from app.core.pipelines.store import PipelineStore
from app.core.wire.file_references import InputRange
from app.kit.errors import ConflictError
from app.products.files.reading import moved
from app.products.files.service import showing
from app.products.files.service.receiving import LONGEST_PATH, receive
from app.products.files.store.files import WrittenFileStore
from app.products.files.totals import Total
from tests.support.control_plane import ControlPlane
from tests.support.kept_files import NOTHING, PLACE, flights, keep_in, statements, steps_to, take, totals
from tests.support.written_files import AT_MS, message, portion, reference


async def test_what_is_kept_is_what_the_reference_said(plane: ControlPlane) -> None:
    await flights(plane)
    sent = portion(message(0, committed_ms=AT_MS + 30_920), message(1))
    await take(plane, sent)
    expected, _ = receive("flights", "out", [sent], now=plane.now).files
    async with plane.uow() as uow:
        page = await showing.list_files(uow, "flights", NOTHING, after=None, limit=50)
        standing = await showing.standing_of(uow, await uow.of(PipelineStore).get("flights"), now=plane.now)
        (schema,) = await showing.schemas_of(uow, "flights", limit=5)
        (checkpoint,) = await showing.checkpoints_of(uow, "flights", limit=5)
    assert page.items[-1].file == expected
    assert standing.is_whole
    assert (schema.schema.schema, schema.schema.files) == (reference().schema, 2)
    assert (checkpoint.total, checkpoint.committed_at) == (
        Total(files=2, records=20, size_bytes=2_000),
        expected.committed_at,
    )


async def test_totals_grow_with_each_portion(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0), message(1, reference(1, user="otto", records=5))))
    await take(plane, portion(message(3, reference(3, size_bytes=7_000, checkpoint=2))))
    found = await totals(plane)
    assert found.total == Total(files=3, records=25, size_bytes=9_000)
    assert [(one.partition["user"], one.total.size_bytes) for one in found.partitions] == [
        ("anna", 8_000),
        ("otto", 1_000),
    ]
    assert found.partitions_kept == 2
    async with plane.uow() as uow:
        (hour,) = await uow.of(WrittenFileStore).hours("flights", since=plane.now - timedelta(days=1))
        newest, oldest = await uow.of(WrittenFileStore).checkpoints("flights", limit=5)
    assert hour.total == found.total
    assert {newest.checkpoint, oldest.checkpoint} == {1, 2}


async def test_portion_that_is_read_twice_is_counted_once(plane: ControlPlane) -> None:
    """Two servers have read the same; the one who is slower gets nothing in."""
    await flights(plane)
    sent = portion(message(0), message(1))
    async with plane.uow() as slow:
        steps = await steps_to(slow, plane, [sent])
        await take(plane, sent)
        with pytest.raises(ConflictError, match="another server"):
            await keep_in(slow, plane, [sent], steps)
    assert (await totals(plane)).total.files == 2
    async with plane.uow() as slow:
        steps = await steps_to(slow, plane, [portion(message(3))])
        await take(plane, portion(message(3)))
        with pytest.raises(ConflictError, match="another server"):
            await keep_in(slow, plane, [portion(message(3))], steps)
    assert (await totals(plane)).total.files == 3


async def test_two_servers_at_the_same_moment_count_once(plane: ControlPlane) -> None:
    await flights(plane)
    sent = portion(*(message(number) for number in range(200)))

    async def one() -> bool:
        async with plane.uow() as uow:
            try:
                await keep_in(uow, plane, [sent], [(None, moved(None, sent, place=PLACE, now=plane.now))])
            except ConflictError:
                return False
            await uow.commit()
            return True

    assert sorted(await asyncio.gather(*(one() for _ in range(4)))) == [False, False, False, True]
    assert (await totals(plane)).total.files == 200


async def test_server_that_dies_before_its_commit_leaves_nothing(plane: ControlPlane) -> None:
    await flights(plane)
    sent = portion(message(0))
    async with plane.uow() as uow:
        await keep_in(uow, plane, [sent], await steps_to(uow, plane, [sent]))
    assert (await totals(plane)).total == Total()
    assert (await take(plane, sent)).new == 1


async def test_topic_made_anew_counts_what_is_new_in_it(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0), message(1)))
    anew = portion(message(0), message(1), message(2), start=0)
    kept = await take(plane, anew, place=PLACE._replace(topic_id="id-2"))
    assert (kept.new, kept.reception.repeated) == (1, 0)
    found = await totals(plane)
    assert found.total.files == 3
    assert any("recreated" in note for note in found.standing.notes)


async def test_file_that_two_references_name_is_counted_once_and_told(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0), message(1, reference(0))))
    kept = await take(plane, portion(message(3, reference(0))))
    assert (kept.new, kept.reception.repeated) == (0, 1)
    found = await totals(plane)
    assert found.total.files == 1
    watch = found.standing.watch
    assert watch is not None
    assert watch.repeated == 2
    assert "out-0 at offset 3" in watch.repetition
    assert "out-0 at offset 0" in watch.repetition


async def test_what_is_no_reference_is_counted(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0, b"x"), message(1, reference(1, pipeline="others")), message(2)))
    await take(plane, portion(message(4, b"y")))
    watch = (await totals(plane)).standing.watch
    assert watch is not None
    assert (watch.strangers, watch.of_others, watch.total.files) == (2, 1, 1)
    assert "offset 4" in watch.stranger


async def test_longest_and_oddest_texts_are_kept(plane: ControlPlane) -> None:
    await flights(plane)
    odd = reference(
        path="p" * LONGEST_PATH,
        partition={"user": "\x00" * 5_000},
        transactional_id="t" * 1_000,
        fingerprint="f" * 1_000,
        schema={"doc": "\x00" * 100},
        inputs=tuple(InputRange(topic="in", partition=n, first_offset=0, last_offset=2**62) for n in range(2_000)),
    )
    assert (await take(plane, portion(message(0, odd)))).new == 1
    async with plane.uow() as uow:
        (schema,) = await showing.schemas_of(uow, "flights", limit=5)
        (record,) = (await showing.list_files(uow, "flights", NOTHING, after=None, limit=5)).items
    assert schema.schema.schema == {"doc": "\x00" * 100}
    assert len(record.file.inputs) == 2_000


async def test_batch_takes_a_bounded_number_of_statements(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0)))
    many = [message(number, reference(number, user=f"u{number}", checkpoint=number)) for number in range(2, 1_002)]
    asked = await statements(plane, take(plane, portion(*many)))
    assert len([one for one in asked if "pg_notify" not in one]) <= 10


async def test_numbers_of_a_file_are_kept_as_they_are(plane: ControlPlane) -> None:
    await flights(plane)
    await take(plane, portion(message(0, reference(size_bytes=1 << 46, records=1 << 40, checkpoint=1 << 53))))
    async with plane.uow() as uow:
        (record,) = (await showing.list_files(uow, "flights", NOTHING, after=None, limit=5)).items
    file = record.file
    assert (file.size_bytes, file.records, file.checkpoint) == (1 << 46, 1 << 40, 1 << 53)
