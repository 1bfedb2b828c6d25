"""A file pipeline on a real broker, and an independent judge of its referenced files.

The judge shares no code with sink, store or reader: it reads the messages of the sink topic with a consumer of its own,
opens the files that they name, and counts ids.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import msgspec

from app.core.pipelines.pipeline import ByField, FileSink
from tests.support import verifier
from tests.support.lakes import Folder, Lake
from tests.support.pipelines import TestPipeline
from tests.support.verifier import Found

USERS = 5


def json_value(identity: str) -> bytes:
    """A record with this id; its user has nothing to do with the partition that it lies in."""
    number = int(identity.rpartition(":")[2])
    return msgspec.json.encode({"id": identity, "user": f"u{number % USERS}", "amount": number, "pad": "x" * 40})


def file_sink(root: Path | Lake, **changes: Any) -> FileSink:
    chosen: dict[str, Any] = {
        "root": _lake(root).root,
        "partition_by": (ByField(name="user", field="user"),),
        "rotate_ms": 500,
        "upload_timeout_ms": 5_000,
        **changes,
    }
    return FileSink(**chosen)


@dataclass(frozen=True, slots=True)
class FileAudit:
    """The content of the committed references, compared with the fed records.

    dangling: referenced paths whose file is missing or differs from the reference.
    orphans: files that no committed reference names, half ones included.
    """

    expected: int
    found: int
    lost: tuple[str, ...]
    duplicated: tuple[str, ...]
    unexpected: tuple[str, ...]
    dangling: tuple[str, ...]
    orphans: tuple[str, ...]
    references: tuple[dict[str, Any], ...]

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.dangling)

    def __str__(self) -> str:
        def some(names: tuple[str, ...]) -> str:
            return f"{len(names)}" + (f" (such as {', '.join(names[:5])})" if names else "")

        return (
            f"expected {self.expected}, found {self.found} in {len(self.references)} files: lost {some(self.lost)}, "
            f"duplicated {some(self.duplicated)}, unexpected {some(self.unexpected)}, dangling {some(self.dangling)}, "
            f"orphans {some(self.orphans)}"
        )


def audit_files(pipeline: TestPipeline, root: Path | Lake) -> FileAudit:
    """The fed records, as expected in the files of their users."""
    lake = _lake(root)
    times: Counter[str] = Counter()
    dangling: list[str] = []
    references = [_reference(found) for found in verifier.read_all(pipeline.bootstrap_servers, pipeline.sink)]
    for reference in references:
        content = lake.content(reference["path"])
        if content is None or not _is_as_said(content, reference):
            dangling.append(reference["path"])
            continue
        for record in fastavro.reader(io.BytesIO(content)):
            assert isinstance(record, dict)
            assert record["user"] == reference["partition"]["user"], reference["path"]
            times[str(record["id"])] += 1
    named = {reference["path"] for reference in references}
    assert len(named) == len(references), "a path is referenced twice"
    expected = set(pipeline.fed)
    return FileAudit(
        expected=len(expected),
        found=times.total(),
        lost=tuple(sorted(expected - set(times))),
        duplicated=tuple(sorted(identity for identity, count in times.items() if count > 1)),
        unexpected=tuple(sorted(set(times) - expected)),
        dangling=tuple(dangling),
        orphans=tuple(sorted(lake.paths() - named)),
        references=tuple(references),
    )


def assert_whole(pipeline: TestPipeline, root: Path | Lake) -> FileAudit:
    """After a drain: every id in one referenced file, the group at the source's ends, nothing open."""
    found = audit_files(pipeline, root)
    assert found.is_exact, str(found)
    assert not verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
    ends = verifier.end_offsets(pipeline.bootstrap_servers, pipeline.source, verifier.READ_COMMITTED)
    committed = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    assert {at: offset for at, offset in committed.items() if offset} == {
        (pipeline.source, number): end for number, end in ends.items() if end
    }
    return found


def _reference(found: Found) -> dict[str, Any]:
    reference = msgspec.json.decode(found.value or b"", type=dict[str, Any])
    assert found.key == reference["path"].encode()
    return reference


def _is_as_said(content: bytes, reference: dict[str, Any]) -> bool:
    return len(content) == reference["size_bytes"] and hashlib.sha256(content).hexdigest() == reference["sha256"]


def _lake(root: Path | Lake) -> Lake:
    return Folder(root) if isinstance(root, Path) else root
