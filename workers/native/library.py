"""The C part: found for this platform and this librdkafka, or the reason why the loop works without it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import sysconfig
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer

TESTED = "2.16.0"
"""The librdkafka with which it was tested. Another one may have other structures behind the same functions."""
BUILT = "built"
_HEADER_BYTES = 16
"""The header of a Python object. The client's handle is the first field after it (confluent_kafka.h, Handle)."""
_PRODUCER, _CONSUMER = 0, 1


class RunFacts(Structure):
    """`fl_run` of records.c."""

    _fields_ = (
        ("topic", c_char_p),
        ("begin", c_int64),
        ("end", c_int64),
        ("first_offset", c_int64),
        ("last_offset", c_int64),
        ("bytes", c_int64),
        ("partition", c_int32),
        ("untimed", c_int32),
    )


class Trouble(Structure):
    """`fl_trouble` of records.c."""

    _fields_ = (
        ("topic", c_char_p),
        ("text", c_char_p),
        ("offset", c_int64),
        ("partition", c_int32),
        ("code", c_int32),
    )


class BatchFacts(Structure):
    """`fl_batch` of records.c."""

    _fields_ = (
        ("records", c_void_p),
        ("errors", c_void_p),
        ("runs", POINTER(RunFacts)),
        ("troubles", POINTER(Trouble)),
        ("count", c_int64),
        ("run_count", c_int64),
        ("trouble_count", c_int64),
        ("run_room", c_int64),
    )


class RecordFacts(Structure):
    """`fl_facts` of records.c."""

    _fields_ = (
        ("offset", c_int64),
        ("timestamp_ms", c_int64),
        ("key_bytes", c_int64),
        ("value_bytes", c_int64),
        ("headers", c_int64),
        ("timestamp_type", c_int32),
        ("reserved", c_int32),
    )


class Slot(Structure):
    """`fl_slot` of stepped.c."""

    record: int
    offset: int
    bytes: int
    fate: int
    topic: int
    _fields_ = (
        ("record", c_int64),
        ("offset", c_int64),
        ("bytes", c_int64),
        ("fate", c_int32),
        ("topic", c_int32),
    )


class StepsFacts(Structure):
    """The first fields of `fl_steps` of stepped.c."""

    _fields_ = (("slots", POINTER(Slot)), ("count", c_int64), ("topic_count", c_int64), ("text", c_void_p))


class Buffer(Structure):
    """`fl_buffer` of arrow.c."""

    _fields_ = (("bytes", c_void_p), ("size", c_int64))


class Strings(Structure):
    """`fl_strings` of arrow.c."""

    _fields_ = (("validity", Buffer), ("offsets", Buffer), ("data", Buffer), ("first", c_int64))


class Columns(Structure):
    """`fl_columns` of arrow.c."""

    _fields_ = (
        *(
            (name, Buffer)
            for name in ("numbers", "offsets", "partitions", "topics", "timestamps", "times_there", "lists")
        ),
        *((name, Strings) for name in ("keys", "values", "names", "contents")),
    )


class RowFacts(Structure):
    """`fl_rows` of arrow.c."""

    _fields_ = (
        ("count", c_int64),
        ("topic_count", c_int64),
        *((name, Buffer) for name in ("records", "timestamps", "topics")),
        *((name, Strings) for name in ("values", "keys", "lists", "names", "contents")),
    )


class Text(Structure):
    """`fl_text` of json.h. size: the bytes in it."""

    address: int | None
    size: int
    room: int
    _fields_ = (("address", c_void_p), ("size", c_uint64), ("room", c_uint64), ("failed", c_int64))


class RangeFacts(Structure):
    """`fl_range` of filing.c."""

    source: int
    first: int
    last: int
    _fields_ = (("source", c_int64), ("first", c_int64), ("last", c_int64))


class PartFacts(Structure):
    """`fl_part` of filing.c."""

    frames: Text
    records: int
    size_bytes: int
    last_use: int
    _fields_ = (
        ("frames", Text),
        ("ranges", POINTER(RangeFacts)),
        *((name, c_int64) for name in ("range_count", "range_room", "records", "size_bytes", "last_use")),
        ("check", c_void_p),
        ("key", c_void_p),
        ("key_bytes", c_uint64),
        ("hash", c_uint64),
    )


class FilingFacts(Structure):
    """The first fields of `fl_filing` of filing.c."""

    _fields_ = (
        *((name, c_int64) for name in ("held_bytes", "look_at", "stopped", "records", "size_bytes", "count")),
        ("parts", POINTER(PartFacts)),
    )


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fl_load": (c_char_p, (c_char_p,)),
    "fl_version": (c_int, ()),
    "fl_type": (c_int, (c_void_p,)),
    "fl_source_new": (c_void_p, (c_void_p,)),
    "fl_source_add": (c_int64, (c_void_p, c_char_p, c_int32)),
    "fl_source_remove": (None, (c_void_p, c_int64)),
    "fl_source_forward": (None, (c_void_p,)),
    "fl_source_free": (None, (c_void_p,)),
    "fl_take": (POINTER(BatchFacts), (c_void_p, c_int64, c_int)),
    "fl_batch_free": (None, (POINTER(BatchFacts),)),
    "fl_untimed": (c_int64, (POINTER(BatchFacts), c_int64, c_int64, POINTER(c_int64))),
    "fl_give": (
        c_int64,
        (c_void_p, c_char_p, POINTER(BatchFacts), c_int64, c_int64, c_int, POINTER(c_int32)),
    ),
    "fl_steps_new": (POINTER(StepsFacts), (c_char_p, c_int64, c_int64)),
    "fl_steps_free": (None, (POINTER(StepsFacts),)),
    "fl_steps_run": (c_int, (POINTER(StepsFacts), POINTER(BatchFacts), POINTER(c_int64), c_int64)),
    "fl_steps_try": (c_int, (POINTER(StepsFacts), c_char_p, c_int64)),
    "fl_steps_decide": (c_int, (POINTER(StepsFacts), c_int64, c_int32, c_int32, c_char_p, c_int64)),
    "fl_steps_sum": (c_int64, (POINTER(StepsFacts), POINTER(c_int64), POINTER(c_int64))),
    "fl_steps_give": (
        c_int64,
        (POINTER(StepsFacts), c_void_p, POINTER(c_char_p), POINTER(BatchFacts), c_int, POINTER(c_int32)),
    ),
    "fl_arrow_sizes": (c_int64, (POINTER(BatchFacts), POINTER(c_int64), c_int64, c_int, POINTER(c_int64))),
    "fl_arrow_read": (c_int64, (POINTER(BatchFacts), POINTER(c_int64), c_int64, POINTER(Columns), c_int64)),
    "fl_arrow_give": (
        c_int64,
        (c_void_p, POINTER(c_char_p), POINTER(BatchFacts), POINTER(RowFacts), c_int64, POINTER(c_int32)),
    ),
    "fl_avro_new": (c_void_p, (c_char_p, c_int64)),
    "fl_avro_free": (None, (c_void_p,)),
    "fl_block_new": (POINTER(Text), ()),
    "fl_block_free": (None, (POINTER(Text),)),
    "fl_block_put": (c_int, (POINTER(Text), c_char_p, c_int64)),
    "fl_block_fill": (c_int64, (POINTER(Text), c_void_p, c_void_p, c_int64, POINTER(c_int64), c_int64)),
    "fl_release": (None, (c_void_p,)),
    "fl_filing_new": (POINTER(FilingFacts), (c_char_p, c_int64, c_int64, c_uint64)),
    "fl_filing_free": (None, (POINTER(FilingFacts),)),
    "fl_filing_clear": (None, (POINTER(FilingFacts),)),
    "fl_filing_part": (c_int64, (POINTER(FilingFacts), c_char_p, c_int64)),
    "fl_filing_check": (None, (POINTER(FilingFacts), c_int64, c_void_p)),
    "fl_filing_hold": (c_int64, (POINTER(FilingFacts), c_int64, c_char_p, c_int64)),
    "fl_filing_drop": (None, (POINTER(FilingFacts), c_int64)),
    "fl_filing_take": (None, (POINTER(FilingFacts), c_int64)),
    "fl_filing_run": (
        c_int,
        (POINTER(FilingFacts), POINTER(BatchFacts), POINTER(StepsFacts), c_int64, POINTER(c_int64), c_int64),
    ),
    "fl_filing_try": (c_int, (POINTER(FilingFacts), c_char_p, c_int64, c_int64, c_int, c_int64, c_int64)),
    "fl_copy": (c_int64, (POINTER(BatchFacts), c_int64, c_int64, POINTER(RecordFacts), c_void_p, c_int64)),
}


class NativeLibrary:
    """The functions of the C part, as `calls.fl_…`, in this process."""

    def __init__(self, calls: ctypes.CDLL, file: Path) -> None:
        self.calls = calls
        self.file = file

    def handle(self, client: Consumer | Producer) -> int:
        """Return the client's handle in librdkafka. Raises ValueError for a client that is closed."""
        found = c_void_p.from_address(id(client) + _HEADER_BYTES).value
        if found is None:
            raise ValueError("the client is closed")
        return found

    def fits(self, client: Consumer | Producer) -> bool:
        """True if the handle is of a client of this kind: a last check before any use of it."""
        wanted = _CONSUMER if isinstance(client, Consumer) else _PRODUCER
        return self.calls.fl_type(self.handle(client)) == wanted


@cache
def native_library() -> NativeLibrary | str:
    """Return the library, or the reason why this process works without it."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != _HEADER_BYTES:
        return f"this is {sys.implementation.name} {platform.python_version()}, whose objects are laid out differently"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python has no global lock, and its objects are laid out differently"
    version, number = confluent_kafka.libversion()
    if version != TESTED:
        return f"librdkafka is {version}, and native records were tested with {TESTED}"
    file = _file()
    if not file.is_file():
        return f"there is no file for {platform_name()}"
    bundled = _bundled()
    if bundled is None:
        return "confluent-kafka does not bring its own librdkafka here"
    try:
        # Executors have this package in a zip, from which it is copied for the moment of loading.
        with resources.as_file(file) as path:
            calls = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(calls, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return f"{file.name} cannot be loaded: {error}"
    missing = calls.fl_load(os.fsencode(bundled))
    if missing is not None:
        return f"librdkafka lacks {missing.decode()}"
    if calls.fl_version() != number:
        return "two versions of librdkafka are loaded"
    return NativeLibrary(calls, Path(str(file)))


def platform_name() -> str:
    """Return the name of this platform's file: `linux-x86_64`, `linux-aarch64`, `macos-arm64`."""
    system = {"linux": "linux", "darwin": "macos"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    if system == "linux" and platform.libc_ver()[0] != "glibc":
        return f"{system}-{machine}-musl"
    return f"{system}-{ {'amd64': 'x86_64'}.get(machine, machine) }"


def _file() -> Traversable:
    return resources.files("workers.native") / BUILT / f"{platform_name()}.so"


def _bundled() -> Path | None:
    package = Path(confluent_kafka.__file__).parent
    folders = (package.parent / "confluent_kafka.libs", package / ".dylibs")
    return next((file for folder in folders for file in sorted(folder.glob("librdkafka*"))), None)
