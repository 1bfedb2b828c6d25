"""Read the files that the demo's second pipeline refers to.

They are read by docs/file-reference.schema.json alone, without code of the sink or of `fenceline files read`.
"""

import hashlib
import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import fastavro
import orjson

from app.products.demo.feed import FedFlight
from app.products.demo.outputs import WrongOutputError

_FORMAT = "fenceline.file/1"


class FlightsInFiles:
    """Expects every flight, with all of its fields, in a file of its carrier and day below `root`.

    files: the number of references read.
    """

    def __init__(self, root: Path) -> None:
        self.files = 0
        self._root = root

    def expected(self, fed: FedFlight) -> str | None:
        lap, flight = fed
        return _output(flight.fields(lap=lap))

    def found(self, value: bytes) -> list[str]:
        """Return the flights of a referenced file. A reference that exists twice returns its flights twice."""
        self.files += 1
        reference = _reference(value)
        records = self._records(reference)
        if len(records) != reference["records"]:
            raise WrongOutputError(f"{reference['path']} has {len(records)} records, not {reference['records']}")
        return [_output_in(record, reference) for record in records]

    def _records(self, reference: Mapping[str, Any]) -> list[dict[str, Any]]:
        path = reference["path"]
        if reference["root"] != self._root.as_uri():
            raise WrongOutputError(f"{path} is below {reference['root']}, not below {self._root.as_uri()}")
        try:
            content = (self._root / path).read_bytes()
        except FileNotFoundError:
            raise WrongOutputError(f"{path} is referenced, but missing") from None
        if (len(content), hashlib.sha256(content).hexdigest()) != (reference["size_bytes"], reference["sha256"]):
            raise WrongOutputError(f"{path} differs from the referenced file")
        try:
            return cast("list[dict[str, Any]]", list(fastavro.reader(io.BytesIO(content))))
        except (ValueError, EOFError) as error:
            raise WrongOutputError(f"{path} is not readable as Avro: {error}") from error


def _reference(value: bytes) -> Mapping[str, Any]:
    try:
        reference: Any = orjson.loads(value)
    except ValueError:
        reference = None
    if not isinstance(reference, dict) or cast("dict[str, Any]", reference).get("format") != _FORMAT:
        raise WrongOutputError(f"not a reference: {value!r}")
    return cast("dict[str, Any]", reference)


def _output_in(record: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    # In Avro a missing field of a record is null.
    fields = {name: value for name, value in record.items() if value is not None}
    belongs_in = {"carrier": fields.get("carrier"), "date": str(fields.get("scheduled_departure"))[:10]}
    if reference["partition"] != belongs_in:
        raise WrongOutputError(f"{fields.get('flight_id')} belongs in {belongs_in}, not in {reference['path']}")
    return _output(fields)


def _output(fields: Mapping[str, Any]) -> str:
    """Return the id with a checksum of the other fields: a live demo keeps a million of these."""
    return f"{fields.get('flight_id')} {zlib.crc32(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)):08x}"
