"""`python -m bench.files.encoding [--turns N] [--dry]`: one thread writes Avro files, by C and by Python, no Kafka.

For each kind of record, in turns: values in the spool become a file (zstandard, on the local disk, schema inferred).
Prints microseconds of processor time for a record and the ratio, and writes them to bench/results/file_encoding.json.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.shape import merge, shape_of
from app.core.pipelines.pipeline import AvroCodec
from bench.files.__main__ import value_of
from bench.machine import keep, machine
from workers.native.library import NativeLibrary, native_library
from workers.sinks import avro_file
from workers.sinks.parts import Buffers, Parts
from workers.sinks.spool import Spool

RECORDS = 20_000
_PIECE = 500
_rng = random.Random(0)


def _encoded(make: Callable[[int], dict[str, Any]]) -> list[bytes]:
    return [msgspec.json.encode(make(number)) for number in range(RECORDS)]


def _floats(_: int) -> dict[str, Any]:
    return {f"f{number}": _rng.random() for number in range(10)}


def _nested(number: int) -> dict[str, Any]:
    legs = [{"from": "EWR", "to": "IAH", "miles": number % 3000, "late": None} for _ in range(4)]
    return {"id": number, "legs": legs, "tags": {"carrier": "UA", "plane": f"N{number}"}}


def _wide(number: int) -> dict[str, Any]:
    return {f"field_{at}": number * at % 1000 for at in range(100)}


KINDS: dict[str, Callable[[], list[bytes]]] = {
    "users": lambda: [value_of(number) for number in range(RECORDS)],
    "doubles": lambda: _encoded(_floats),
    "objects": lambda: _encoded(_nested),
    "integers": lambda: _encoded(_wide),
    "text": lambda: _encoded(lambda number: {"id": number, "text": f"{number} " * 300}),
    "left": lambda: [b'{"x":%d,"y":-0,"z":"a text"}' % number for number in range(RECORDS)],
}
"""users: of 8 fields, as in `python -m bench.files`. doubles: 10 of 17 digits. objects: a list of 4, and a map.
integers: 100. text: of 2 kB. left: a value that C leaves to Python, each time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="write no result")
    turns, on, library = parser.parse_args().turns, machine(), native_library()
    assert isinstance(library, NativeLibrary), library
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fenceline-bench-") as place:
        for kind, make in KINDS.items():
            found[kind] = _compared(Path(place), make(), library, turns)
    keep("file_encoding", on, {"records": RECORDS, "turns": turns, **found})


def _compared(folder: Path, values: list[bytes], library: NativeLibrary, turns: int) -> dict[str, float]:
    spool = Spool(folder)
    parts = Parts(spool, Buffers())
    part = parts.get(())
    part.extents = [spool.append(values[at : at + _PIECE]) for at in range(0, len(values), _PIECE)]
    schema = avro_schema(reduce(merge, [shape_of(msgspec.json.decode(value)) for value in values]), "R")
    seconds: dict[str, list[float]] = {"c": [], "python": []}
    for turn in range(turns):
        for name in list(seconds)[:: -1 if turn % 2 else 1]:
            path = folder / "file.avro"
            began = time.thread_time()
            native = library if name == "c" else None
            avro_file.write(
                parts.values(part), schema, codec=AvroCodec.ZSTANDARD, path=path, syncs=False, native=native
            )
            seconds[name].append(time.thread_time() - began)
            path.unlink()
    medians = {name: statistics.median(its) / len(values) * 1e6 for name, its in seconds.items()}
    return {
        **{name: round(one, 3) for name, one in medians.items()},
        "ratio": round(medians["python"] / medians["c"], 2),
    }


if __name__ == "__main__":
    main()
