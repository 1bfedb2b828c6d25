"""What lies in the files that the demo's second pipeline refers to.

Read as anybody could who knows docs/file-reference.schema.json; it shares no code with the sink, nor with `fenceline
files read`.
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
    """Every flight, with all of its fields, in a file of its carrier and day that is below `root`.

    files: how many references were read.
    """

    def __init__(self, root: Path) -> None:
        self.files = 0
        self._root = root

    def expected(self, fed: FedFlight) -> str | None:
        lap, flight = fed
        return _output(flight.fields(lap=lap))

    def found(self, value: bytes) -> list[str]:
        """Of the file that a reference names, whole. A reference that is there twice brings its flights twice."""
        self.files += 1
        reference = _reference(value)
        records = self._records(reference)
        if len(records) != reference["records"]:
            raise WrongOutputError(f"{reference['path']} has {len(records)} records, not {reference['records']}")
        return [_output_in(record, reference) for record in records]

    def _records(self, reference: Mapping[str, Any]) -> list[dict[str, Any]]:
        path = reference["path"]
        if reference["root"] != self._root.as_uri():
            raise WrongOutputError(f"{path} lies below {reference['root']}, not below {self._root.as_uri()}")
        try:
            content = (self._root / path).read_bytes()
        except FileNotFoundError:
            raise WrongOutputError(f"{path} is referenced and not there") from None
        if (len(content), hashlib.sha256(content).hexdigest()) != (reference["size_bytes"], reference["sha256"]):
            raise WrongOutputError(f"{path} is another file than the one that is referenced")
        try:
            return cast("list[dict[str, Any]]", list(fastavro.reader(io.BytesIO(content))))
        except (ValueError, EOFError) as error:
            raise WrongOutputError(f"{path} is no Avro that can be read: {error}") from error


def _reference(value: bytes) -> Mapping[str, Any]:
    try:
        reference: Any = orjson.loads(value)
    except ValueError:
        reference = None
    if not isinstance(reference, dict) or cast("dict[str, Any]", reference).get("format") != _FORMAT:
        raise WrongOutputError(f"not a reference: {value!r}")
    return cast("dict[str, Any]", reference)


def _output_in(record: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    # In Avro a field that a record does not have is null.
    fields = {name: value for name, value in record.items() if value is not None}
    belongs_in = {"carrier": fields.get("carrier"), "date": str(fields.get("scheduled_departure"))[:10]}
    if reference["partition"] != belongs_in:
        raise WrongOutputError(f"{fields.get('flight_id')} belongs in {belongs_in}, not in {reference['path']}")
    return _output(fields)


def _output(fields: Mapping[str, Any]) -> str:
    """The id, and what stands for the other fields: a live demo remembers a million of these."""
    return f"{fields.get('flight_id')} {zlib.crc32(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)):08x}"
