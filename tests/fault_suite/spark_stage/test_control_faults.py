"""A fault of the control plane without an effect is none."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.edges.spark.driver_files import _sentence  # pyright: ignore[reportPrivateUsage]
from tests.fault_suite.plan import Fault, Kind, NotDoneError
from tests.fault_suite.spark_stage import control_faults
from tests.fault_suite.spark_stage.control_faults import ControlFaults, refused_writes
from tests.fault_suite.spark_stage.processes import Driver

FULL = Fault(number=0, kind=Kind.DISK_FULL, gap_s=0, lasts_s=3, which=0, point=None, is_awaited=False)


class Disk:
    """is_full: what a server would find."""

    is_full = False

    def fill(self) -> int:
        self.is_full = True
        return 7

    def empty(self) -> None:
        self.is_full = False


OF_THE_SERVER = _sentence(OSError(errno.ENOSPC, "No space"), Path("specification.json"))
OF_A_DRIVER = "TakeOutcome(… message='java.nio.file.FileSystemException: workers.zip: No space left on device')"


@pytest.mark.parametrize("said", [OF_THE_SERVER, OF_A_DRIVER, None], ids=["by server", "by driver", "by none"])
def test_a_full_disk_counts_only_where_a_write_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    log, disk = tmp_path / "server.log", Disk()
    # An earlier one, which does not count for this one.
    log.write_text(f"{OF_THE_SERVER}\n")
    monkeypatch.setattr(control_faults, "_FELT_S", 0.0)

    def kill(_pids: object, _number: object) -> None:
        """The server starts another driver, or has no need to."""
        if said is not None:
            assert disk.is_full
            with log.open("a") as file:
                file.write(f"{said}\n")

    monkeypatch.setattr(control_faults, "hit", kill)
    plane: Any = SimpleNamespace(server=SimpleNamespace(process=SimpleNamespace(log_path=log)))
    processes: Any = SimpleNamespace(wait_for_working_drivers=lambda: [Driver(1, 2)])
    small: Any = disk
    act = ControlFaults(plane, processes, SimpleNamespace(), disk=small).acts[Kind.DISK_FULL]  # pyright: ignore[reportArgumentType]
    waited: list[float] = []
    told: list[str] = []
    if said is not None:
        act(FULL, told.append, waited.append)
        assert (refused_writes(log), waited) == (2, [3])
        assert told[-1] == "the server reported that a file had no room"
    else:
        with pytest.raises(NotDoneError, match="it had no effect"):
            act(FULL, told.append, waited.append)
        assert waited == []
    assert not disk.is_full, "it is emptied in any case"
