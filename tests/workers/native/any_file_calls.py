"""Calls of the functions for file sinks with numbers in and out of range, for test_any_calls.py."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import msgspec

from app.core.pipelines.pipeline import ByDate, ByField, ByHour, FileSink
from tests.support.avro_cases import AvroCases
from tests.support.json_cases import JsonCases
from workers.native.avro import definition_of
from workers.native.filing import Stop
from workers.native.filing import definition_of as columns_of
from workers.native.library import NativeLibrary
from workers.sinks.frames import framed

ROOT, NULL = "file:///nowhere", b"__HIVE_DEFAULT_PARTITION__"
MISSING = FileSink(root=ROOT, partition_by=(ByField(name="none", field="none.such"),))
"""Every object is in one part."""
TIMED = FileSink(
    root=ROOT, partition_by=(ByField(name="a", field="a"), ByDate(name="d"), ByHour(name="h")), event_time="at"
)
ANY: dict[str, Any] = {"null": 0, "boolean": 0, "integer": [0, -(1 << 63), (1 << 63) - 1], "double": 0, "text": 0}


class FileCalls:
    """span: a batch, and two bounds, in range or not. steps: those that had their last run on some batch."""

    def __init__(
        self, library: NativeLibrary, rng: random.Random, span: Callable[[], tuple[Any, int, int]], steps: Any
    ) -> None:
        self._calls, self._rng, self._span, self._steps = library.calls, rng, span, steps
        self._cases = AvroCases(rng)
        # A type that takes any object with a map, so that C files many records.
        taken = {"type": {"map": [0, {**ANY, "map": [0, ANY], "array": [0, ANY]}]}, "escapes": True}
        self._anything = self._avro(msgspec.json.encode(taken))
        self._block = self._calls.fl_block_new()
        self._filing, self._timed = (self._filing_of(settings) for settings in (MISSING, TIMED))
        assert self._anything
        self.filed = 0

    @property
    def kinds(self) -> list[Callable[[], None]]:
        of_files = [self.part, self.check, self.hold, self.run, self.run, self.end]
        return [self.fill, self.define, *of_files, self.try_value, self.try_time]

    def fill(self) -> None:
        """Frames of a random schema, cut or with a length that is wrong, from a place in or out of them."""
        schema = self._cases.schema()
        try:
            text = msgspec.json.encode(definition_of(schema))
        except ValueError:
            return
        made = self._avro(text)
        assert made
        frames = bytearray(framed([self._cases.value(schema) for _ in range(5)]))
        if self._rng.random() < 0.3:
            frames[self._rng.randrange(4)] ^= 1 << self._rng.randrange(8)
        del frames[self._rng.choice([len(frames), len(frames), self._rng.randrange(len(frames))]) :]
        room = (ctypes.c_char * len(frames)).from_buffer(frames)
        at = ctypes.c_int64(self._rng.choice([0, 0, 0, 0, 1, len(frames) - 2, len(frames), -1, 2**62]))
        most = self._rng.choice([-1, 0, 9, 1 << 20])
        for _ in range(3):
            self._calls.fl_block_fill(self._block, made, ctypes.addressof(room), len(frames), ctypes.byref(at), most)
        self._calls.fl_block_put(self._block, b"xy", self._rng.choice([-1, 0, 2]))
        self._block.contents.size = 0
        self._calls.fl_avro_free(made)

    def define(self) -> None:
        """A definition that is damaged or cut is refused, or is another one."""
        text = bytearray(
            self._rng.choice([msgspec.json.encode(definition_of(self._cases.schema())), columns_of(TIMED)])
        )
        text[self._rng.randrange(len(text))] = self._rng.randrange(256)
        damaged = bytes(text[: self._rng.choice([len(text), self._rng.randrange(len(text))])])
        if made := self._avro(damaged):
            frames, at = framed([b'{"a":[1,"A",{}],"f0":{"b":2.5},"c":null}']), ctypes.c_int64(0)
            self._calls.fl_block_fill(self._block, made, frames, len(frames), ctypes.byref(at), 99)
            self._calls.fl_avro_free(made)
        if made := self._calls.fl_filing_new(damaged, len(damaged), 99, 1):
            self._calls.fl_filing_part(made, b"", 0)
            self._calls.fl_filing_check(made, 0, self._anything)
            self._calls.fl_filing_try(made, b'{"a":1}', 7, 0, 1, 0, 0)
            self._calls.fl_filing_free(made)

    def part(self) -> None:
        key = self._rng.choice([b"", b"x", framed([NULL]), framed([NULL])])
        self._calls.fl_filing_part(self._filing, key, self._rng.choice([len(key), len(key), -1]))

    def check(self) -> None:
        self._calls.fl_filing_check(self._filing, self._part(), self._rng.choice([self._anything] * 3 + [None]))

    def hold(self) -> None:
        value = self._rng.randbytes(self._rng.choice([0, 1, 5_000]))
        self._calls.fl_filing_hold(self._filing, self._part(), value, self._rng.choice([-1, len(value)]))

    def run(self) -> None:
        batch, begin, end = self._span()
        at, before = ctypes.c_int64(begin), self._filing.contents.records
        self._filing.contents.look_at = self._rng.choice([0, 1 << 40])
        for _ in range(4):
            self._calls.fl_filing_run(
                self._filing,
                batch,
                self._rng.choice([None, self._steps]),
                self._rng.choice([0, 1]),
                ctypes.byref(at),
                end,
            )
            at.value += self._rng.choice([0, 1])
        self.filed += self._filing.contents.records - before

    def try_value(self) -> None:
        self._try(self._filing, JsonCases(self._rng).value())

    def try_time(self) -> None:
        """A time with some other characters, or cut, in the part of 1970 or in none."""
        text = bytearray(b"1970-01-01T00:00:00.123+00:00")
        for _ in range(self._rng.choice([0, 0, 1, 2])):
            text[self._rng.randrange(len(text))] = self._rng.choice(b"0123456789-+:.TZ9")
        shown = bytes(text[: self._rng.choice([len(text), 19, 20, self._rng.randrange(len(text))])])
        at = self._rng.choice([b'"%s"' % shown, b"0", b"-1", b"%d" % self._rng.randint(-(1 << 60), 1 << 60)])
        key = framed([b"7", b"1970-01-01", b"00"])
        number = self._calls.fl_filing_part(self._timed, key, len(key))
        self._calls.fl_filing_check(self._timed, number, self._anything)
        self._try(self._timed, b'{"a":7,"at":%s}' % at)

    def _try(self, filing: Any, value: bytes) -> None:
        stop = self._calls.fl_filing_try(
            filing,
            value,
            self._rng.choice([-1, len(value), len(value), len(value), len(value) // 2]),
            self._rng.choice([0, 0, 0, -1, 2**62, -(2**62)]),
            self._rng.choice([0, 1]),
            self._rng.choice([0, 1]),
            7,
        )
        self.filed += stop in (Stop.DONE, Stop.PART_FULL, Stop.MEMORY_FULL)

    def end(self) -> None:
        """Drop, take or clear what is held."""
        facts, number = self._filing.contents, self._part()
        match self._rng.randrange(8):
            case 0:
                self._calls.fl_filing_clear(self._filing)
            case 1:
                self._calls.fl_filing_drop(self._filing, number)
            case 2:
                address = facts.parts[number].frames.address if 0 <= number < facts.count else None
                self._calls.fl_filing_take(self._filing, number)
                self._calls.fl_release(address)
            case _:
                pass
        assert (facts.held_bytes == 0) == (not any(facts.parts[at].frames.room for at in range(facts.count)))

    def close(self) -> None:
        for filing in (self._filing, self._timed):
            self._calls.fl_filing_free(filing)
        self._calls.fl_block_free(self._block)
        self._calls.fl_avro_free(self._anything)

    def _filing_of(self, settings: FileSink) -> Any:
        text = columns_of(settings)
        made = self._calls.fl_filing_new(text, len(text), 9_000, self._rng.getrandbits(64))
        assert made
        return made

    def _avro(self, text: bytes) -> Any:
        return self._calls.fl_avro_new(text, len(text))

    def _part(self) -> int:
        return self._rng.choice([0, 0, 1, 1, 2, -1, 7, 2**62])
