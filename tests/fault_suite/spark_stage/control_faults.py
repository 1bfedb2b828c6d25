"""Faults of the control plane: its server, its Postgres, its disk, and what it is asked to do meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from tests.fault_suite.plan import Fault, Kind, NotDoneError
from tests.fault_suite.proxied_cluster import Did, Wait
from tests.fault_suite.spark_stage.acts import Act
from tests.fault_suite.spark_stage.control_plane import ControlPlane
from tests.fault_suite.spark_stage.disk import SmallDisk
from tests.fault_suite.spark_stage.intruder import Intruders
from tests.fault_suite.spark_stage.processes import SparkProcesses, chosen, hit
from tests.support.waiting import wait_for

_FEW, _MANY = 2, 3
_STARTED_S = 90.0
_FELT_S = 90.0
# Its own message for a specification that it could not write, and its report of a driver that could write no file.
_REFUSED = ("the disk is full", "No space left on device")


def refused_writes(server_log: Path) -> int:
    """The number of times the server has reported that a file had no room, its own or that of a driver."""
    said = server_log.read_text(encoding="utf-8", errors="replace")
    return sum(said.count(words) for words in _REFUSED)


class ControlFaults:
    """disk: None where there cannot be one of our own; it is not filled then."""

    def __init__(
        self, plane: ControlPlane, processes: SparkProcesses, intruders: Intruders, *, disk: SmallDisk | None
    ) -> None:
        self._plane = plane
        self._processes = processes
        self._intruders = intruders
        self._disk = disk

    @property
    def acts(self) -> Mapping[Kind, Act]:
        of_disk: Mapping[Kind, Act] = {} if self._disk is None else {Kind.DISK_FULL: self._fill_disk}
        return {
            Kind.SERVER_KILLED: self._take_server_away,
            Kind.SERVER_PAUSED: self._take_server_away,
            Kind.SERVER_RESTARTED: self._take_server_away,
            Kind.SERVER_SUPERSEDED: self._supersede_server,
            Kind.POSTGRES_KILLED: self._take_postgres_away,
            Kind.POSTGRES_PAUSED: self._take_postgres_away,
            Kind.POSTGRES_RESTARTED: self._take_postgres_away,
            Kind.DATABASE_RESTORED: self._restore,
            Kind.INSTANCES_SCALED: self._scale,
            Kind.ORDINAL_HELD_TWICE: self._hold_twice,
            **of_disk,
        }

    def settle(self) -> None:
        """Nothing is stopped, nothing is full, no other server is there."""
        if self._disk is not None:
            self._disk.empty()
        self._intruders.end()
        self._plane.settle()

    def _take_server_away(self, fault: Fault, did: Did, wait: Wait) -> None:
        server = self._plane.server
        did(f"server, pid {server.process.pid}")
        if fault.kind is Kind.SERVER_PAUSED:
            server.process.pause(whole_tree=False)
            wait(fault.lasts_s)
            server.process.resume()
            return
        if fault.kind is Kind.SERVER_KILLED:
            server.kill()
        else:
            server.terminate()
        wait(fault.lasts_s)
        server.start()

    def _supersede_server(self, fault: Fault, did: Did, wait: Wait) -> None:
        """Another one gets its locks while it is frozen; it wakes up and believes that it has them."""
        server, another = self._plane.server, self._plane.another_server()
        server.process.pause(whole_tree=False)
        try:
            did(f"server, pid {server.process.pid}, is frozen")
            did(f"{self._plane.end_sessions()} of its sessions are ended")
            another.start()
            did(f"server, pid {another.process.pid}, beside it")
            wait(fault.lasts_s)
            server.process.resume()
            server.wait_until_ready(_STARTED_S)
            did("both run")
            wait(fault.lasts_s)
        finally:
            server.process.resume()
            another.terminate()

    def _take_postgres_away(self, fault: Fault, did: Did, wait: Wait) -> None:
        postgres = self._plane.postgres
        did(f"Postgres, pid {postgres.pid}")
        match fault.kind:
            case Kind.POSTGRES_PAUSED:
                postgres.pause()
                wait(fault.lasts_s)
                postgres.resume()
            case Kind.POSTGRES_KILLED:
                postgres.kill()
                wait(fault.lasts_s)
                postgres.start_again()
            case _:
                postgres.restart()

    def _restore(self, _fault: Fault, did: Did, _wait: Wait) -> None:
        before = self._plane.leases()
        self._plane.restore()
        did(f"leases were {before}, are {self._plane.leases()}")

    def _scale(self, _fault: Fault, did: Did, _wait: Wait) -> None:
        self._plane.wait_until_ready()
        wanted = _MANY if self._plane.wanted_instances() == _FEW else _FEW
        did(f"{wanted} instances by revision {self._plane.scale(wanted)}")

    def _hold_twice(self, fault: Fault, did: Did, wait: Wait) -> None:
        """Another application with the ids of one that runs, which no server knows, and that asks none."""
        self._plane.wait_until_ready()
        ordinal, lease = chosen(fault.which, sorted(self._plane.leases().items()))
        did(f"ordinal {ordinal}, lease {lease}: held by driver {self._intruders.start(ordinal, lease)} too")
        try:
            self._wait_for_a_task_of_the_intruder(did)
            wait(fault.lasts_s)
        finally:
            did(f"its end: {self._intruders.end()}")

    def _wait_for_a_task_of_the_intruder(self, did: Did) -> None:
        """Before it has one it holds nothing."""
        try:
            application = self._intruders.application_id()
            found = wait_for(
                lambda: [task for task in self._processes.tasks() if task.executor.application_id == application],
                _STARTED_S,
                f"a task of {application}",
            )
        except AssertionError as error:
            raise NotDoneError(f"the other application did not come so far: {error}") from error
        did(f"its {found[0]}")

    def _fill_disk(self, fault: Fault, did: Did, wait: Wait) -> None:
        """A driver dies meanwhile, so that the next one's specification, or its own files, have no room.

        NotDoneError where it had no effect: nothing was written while the disk was full.
        """
        assert self._disk is not None
        driver = chosen(fault.which, self._processes.wait_for_working_drivers())
        log_path = self._plane.server.process.log_path
        before = refused_writes(log_path)
        did(f"{self._disk.fill()} bytes written until the disk was full")
        try:
            hit([driver.jvm], signal.SIGKILL)
            did(f"{driver} killed")
            try:
                wait_for(lambda: refused_writes(log_path) > before, _FELT_S, "a write that the full disk refused")
            except AssertionError as error:
                raise NotDoneError(f"it had no effect: {error}") from error
            did("the server reported that a file had no room")
            wait(fault.lasts_s)
        finally:
            self._disk.empty()
