"""Named places of the loop at which a real worker stops itself, with all of its threads, on request of a test.

The product has no such places: they are put around the methods of the loop from outside (see seams). The processes are
started with `environment_of`, as Spark's Python workers are when the cluster has that environment.

A test asks by a file in a folder. The first worker to arrive takes it, by renaming it, and stops. SIGSTOP does it, as a
virtual machine or a cgroup does to the whole process. A sleep is not enough, since the client's own threads would
continue to send heartbeats. The test sees the renamed file and the state of the process, and sends SIGCONT.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import psutil

from tests.fault_suite.seams import Make, Seam, around
from tests.support.waiting import wait_for

FOLDER_VARIABLE = "FENCELINE_TEST_FREEZE_DIR"
_AT_START = Path(__file__).parent / "at_start"
_ROOT = Path(__file__).parents[2]
_FROZEN = "frozen"
_BY_ITSELF = "by itself"


class Point(StrEnum):
    """In the order in which a transaction meets them; between AFTER_OFFSETS and BEFORE_COMMIT the loop does nothing
    today."""

    BETWEEN_INIT_AND_FIRST_FETCH = "between-init-and-first-fetch"
    BEFORE_FIRST_OUTPUT = "before-first-output"
    AFTER_OUTPUTS = "after-outputs"
    AFTER_OFFSETS = "after-offsets"
    BEFORE_COMMIT = "before-commit"
    IN_REVOKE = "in-revoke"
    BETWEEN_REVOKE_AND_ASSIGN = "between-revoke-and-assign"


class FilePoint(StrEnum):
    """Those of a file pipeline's checkpoint, in their order; all come before its transaction begins.

    WHILE_FILLING: a record is in the spool, and not in a file. WHILE_WRITING: the first of the Avro files is written.
    WHILE_UPLOADING: the first of them is uploaded and verified. AFTER_UPLOADS: all are. References are outputs like any
    other: AFTER_OUTPUTS lies between them and the offsets.
    """

    WHILE_FILLING = "while-filling"
    WHILE_WRITING = "while-writing"
    WHILE_UPLOADING = "while-uploading"
    AFTER_UPLOADS = "after-uploads"


AnyPoint = Point | FilePoint
Reach = Callable[[AnyPoint], None]


class _Worker:
    """How far this process is, by its calls: one loop runs in it."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._is_initialised = False
        self._outputs = 0
        self._has_uploaded = False

    def initialised(self) -> None:
        self._is_initialised = True

    def fetches(self) -> None:
        if self._is_initialised:
            self._is_initialised = False
            self._reach(Point.BETWEEN_INIT_AND_FIRST_FETCH)

    def begun(self) -> None:
        self._outputs = 0

    def writes(self) -> None:
        if self._outputs == 0:
            self._reach(Point.BEFORE_FIRST_OUTPUT)
        self._outputs += 1

    def flushed(self) -> None:
        # A transaction may have offsets alone.
        if self._outputs:
            self._reach(Point.AFTER_OUTPUTS)

    def uploaded(self) -> None:
        self._has_uploaded = True
        self._reach(FilePoint.WHILE_UPLOADING)

    def finished(self) -> None:
        # A checkpoint may have no files.
        if self._has_uploaded:
            self._has_uploaded = False
            self._reach(FilePoint.AFTER_UPLOADS)


def seams(reach: Reach) -> list[Seam]:
    """The wrappers for the loop. Raises AttributeError where a method does not exist any more."""
    from workers.loop.group.membership import Membership
    from workers.loop.producing.transactional_producer import TransactionalProducer
    from workers.loop.records.filing import Filing
    from workers.sinks.file_sink import FileSinkWriter
    from workers.sinks.local_folder import LocalFolder
    from workers.sinks.s3_bucket import S3Bucket

    worker = _Worker(reach)
    return [
        around(FileSinkWriter, "add", after=lambda: reach(FilePoint.WHILE_FILLING)),
        # A batch, most of which C files without `add`.
        around(Filing, "filed_by_c", after=lambda: reach(FilePoint.WHILE_FILLING)),
        around(FileSinkWriter, "_write", after=lambda: reach(FilePoint.WHILE_WRITING)),
        around(LocalFolder, "upload", after=worker.uploaded),
        around(S3Bucket, "upload", after=worker.uploaded),
        around(FileSinkWriter, "finish", after=worker.finished),
        around(TransactionalProducer, "init", after=worker.initialised),
        around(Membership, "consume", before=worker.fetches),
        around(TransactionalProducer, "begin", after=worker.begun),
        around(TransactionalProducer, "write_records", before=worker.writes),
        around(TransactionalProducer, "write_outputs", before=worker.writes),
        around(TransactionalProducer, "flush", after=worker.flushed),
        around(TransactionalProducer, "send_offsets", after=lambda: reach(Point.AFTER_OFFSETS)),
        around(TransactionalProducer, "commit", before=lambda: reach(Point.BEFORE_COMMIT)),
        around(
            Membership,
            "on_revoke",
            before=lambda: reach(Point.IN_REVOKE),
            after=lambda: reach(Point.BETWEEN_REVOKE_AND_ASSIGN),
        ),
    ]


def stop_if_asked(folder: Path, point: AnyPoint) -> None:
    """Take the request for this point, if there is one for this process or for any, and stop."""
    pid = os.getpid()
    for asked in (f"{point}@{pid}", str(point)):
        with suppress(FileNotFoundError):
            taken = (folder / asked).rename(folder / f"{point}.{_FROZEN}.{pid}")
            if taken.read_text() == _BY_ITSELF:
                os.setsid()
            # To this thread: it must not continue until another one has received it.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            return


def makers(environment: Mapping[str, str]) -> list[Make]:
    """Nothing, where no folder is named."""
    folder = environment.get(FOLDER_VARIABLE)
    return [] if folder is None else [lambda: seams(lambda point: stop_if_asked(Path(folder), point))]


class FreezePoints:
    """The test's side of the folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def environment_of(self, environment: Mapping[str, str]) -> dict[str, str]:
        """For processes that stop on request, and for their starters."""
        path = [str(_AT_START), str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        return {**environment, "PYTHONPATH": os.pathsep.join(path), FOLDER_VARIABLE: str(self._folder)}

    def ask(self, point: AnyPoint, *, pid: int | None = None, by_itself: bool = False) -> None:
        """Stop the next worker that comes there: this one, or any.

        by_itself: in a session of its own, for a worker whose parent shall die while it is frozen. The kernel wakes the
        stopped processes of a group whose last parent in their session is gone, and sends them SIGHUP.
        """
        asked = self._folder / f".{_request(point, pid)}"
        asked.write_text(_BY_ITSELF if by_itself else "")
        asked.rename(self._folder / _request(point, pid))

    def withdraw(self, point: AnyPoint, *, pid: int | None = None) -> bool:
        """Take a request back; False: a worker has taken it already."""
        try:
            (self._folder / _request(point, pid)).unlink()
        except FileNotFoundError:
            return False
        return True

    def frozen(self) -> dict[int, AnyPoint]:
        """The frozen workers, and their points."""
        found: dict[int, AnyPoint] = {}
        for path in self._folder.glob(f"*.{_FROZEN}.*"):
            point, _, pid = path.name.partition(f".{_FROZEN}.")
            if is_stopped(int(pid)):
                found[int(pid)] = _point(point)
        return found

    def wait_until_frozen(self, point: AnyPoint, deadline_s: float) -> int:
        """The pid of a worker that is frozen at this point."""

        def at_point() -> list[int]:
            return [pid for pid, at in self.frozen().items() if at is point]

        return wait_for(at_point, deadline_s, lambda: f"a worker at {point}; frozen are {self.frozen()}")[0]

    def thaw(self, pid: int) -> None:
        """SIGCONT; nothing where the process is gone, as frozen ones are killed too."""
        for path in self._folder.glob(f"*.{_FROZEN}.{pid}"):
            path.unlink()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def thaw_all(self) -> None:
        """At the end of a test no process stays frozen, and no request stays open."""
        for point in (*Point, *FilePoint):
            for path in self._folder.glob(f"{point}*"):
                if f".{_FROZEN}." not in path.name:
                    path.unlink()
        for pid in self.frozen():
            self.thaw(pid)


def is_stopped(pid: int) -> bool:
    """True if it is frozen, with all of its threads; False where it is gone."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def _point(name: str) -> AnyPoint:
    return FilePoint(name) if name in FilePoint.__members__.values() else Point(name)


def _request(point: AnyPoint, pid: int | None) -> str:
    return str(point) if pid is None else f"{point}@{pid}"
