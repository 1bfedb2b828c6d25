"""The folder of one lease of an instance: specification, driver log, outcome, Spark's temporary files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from app.core.runs.instance import InstanceOutcome
from app.core.wire import specification as wire
from app.core.wire.specification import InstanceSpecification
from app.edges.spark.driver_files import DriverFiles


class _Ending(msgspec.Struct):
    """The driver's outcome (workers/spark/watch.py, Ending)."""

    kind: str
    message: str


def folder_of_instances(state_dir: Path) -> Path:
    """The folder of all leases' folders."""
    return state_dir / "instances"


class InstanceFiles(DriverFiles, frozen=True):
    """Paths of one lease."""

    @classmethod
    def of(cls, state_dir: Path, *, run_id: str, ordinal: int, lease: int) -> InstanceFiles:
        return cls(folder_of_instances(state_dir) / f"{run_id}-{ordinal}-{lease}")

    def hand_over(self, specification: InstanceSpecification) -> None:
        """Write the specification so that only this user may read it. Raises UnavailableError, leaving no file behind.

        The driver removes it once its lease is claimed.
        """
        self.write_specification(wire.encode(specification))

    def read_outcome(self) -> InstanceOutcome | None:
        """Return the driver's last outcome, if there is one; it counts if no server was there to receive it."""
        try:
            written = msgspec.json.decode(self.outcome.read_bytes(), type=_Ending)
            at = self.outcome.stat().st_mtime
        except (OSError, msgspec.MsgspecError):
            return None
        return InstanceOutcome(kind=written.kind, message=written.message, at=datetime.fromtimestamp(at, UTC))
