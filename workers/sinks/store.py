"""The upload of a checkpoint's finished files: all of them verified, or an error in time."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from app.kit.back_off import BackOff
from workers.sinks.any_filesystem import AnyFilesystem
from workers.sinks.local_folder import LocalFolder
from workers.sinks.s3_bucket import S3Bucket
from workers.sinks.uploads import (
    Destination,
    OutOfTimeError,
    StoreFaultError,
    StoreRefusalError,
    ToUpload,
    Uploaded,
    UploadError,
    check_path,
)

BETWEEN_S = 0.5
"""The longest time between two calls of `between` during uploads."""

BACK_OFF = BackOff(0.1, 5.0)


def destination_of(root: str, options: Mapping[str, Any]) -> Destination:
    """The kind of store that a root names. Raises ValueError when no library here opens it."""
    parts = urlsplit(root)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise ValueError(f"{root} names no folder of this host: file:///path/to/folder does")
        return LocalFolder(Path(unquote(parts.path)))
    if parts.scheme in ("s3", "s3a"):
        return S3Bucket(bucket=parts.netloc, prefix=parts.path.strip("/"), options=options)
    if not parts.scheme:
        raise ValueError(f"{root!r} names no store: file:///path/to/folder or s3://bucket/prefix does")
    return AnyFilesystem(root, options=options)


def growing_pause_s(attempt: int) -> float:
    """The wait before attempt `attempt` + 1: from 0.1 s, growing by two, at most 5 s; from half to all by chance."""
    return BACK_OFF.wait_s(attempt) * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


class UploadStore:
    """Uploads files to a root. Made in the process that uses it: an object store's client does not survive a fork.

    Threads do the uploads, so that none holds the caller past its deadline. One that hangs is left behind, and ends
    when its call returns. A file that it may still upload is an orphan, since no record refers to it. At most
    `max_threads` exist at any time, including those left behind. While they are all taken, `put_all` waits for one, and
    reports it when its time is over.

    Args:
        root: `file:///path`, `s3://bucket/prefix`, or another URL that fsspec opens.
        parallel: how many uploads at a time. None: 4 into a folder of this host, whose disk is soon busy; 8 elsewhere,
            where each waits for answers. On S3 each takes memory for one part (S3Bucket), 8 MiB.
        options: for the client of the store, such as `endpoint_url`. Other settings come from its environment
            (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …). Never logged, and in no message.
        pause_s: the wait after attempt N failed.
    """

    def __init__(
        self,
        root: str,
        *,
        parallel: int | None = None,
        max_threads: int | None = None,
        options: Mapping[str, Any] | None = None,
        pause_s: Callable[[int], float] = growing_pause_s,
        destination: Destination | None = None,
    ) -> None:
        """Raises ValueError when the root cannot be a store."""
        if parallel is None:
            parallel = 4 if urlsplit(root).scheme == "file" else 8
        if parallel < 1:
            raise ValueError(f"parallel is {parallel}; at least one upload must be possible")
        self.root = root
        self._parallel = parallel
        self._max_threads = max(parallel, 3 * parallel if max_threads is None else max_threads)
        self._pause_s = pause_s
        self._destination = destination_of(root, options or {}) if destination is None else destination
        self._alive = threading.Semaphore(self._max_threads)

    def put_all(
        self, files: Sequence[ToUpload], *, within_s: float, between: Callable[[], None] = lambda: None
    ) -> list[Uploaded]:
        """Upload and verify all files; return them in the given order.

        Each is tried again, with growing pauses, until it is stored or the time is over. The first permanent error ends
        all uploads. An existing file with the same content counts as uploaded.

        Args:
            within_s: how long this may take; it returns or raises by then, and never returns later.
            between: called on this thread, at least every half second; its errors end the uploads.

        Raises:
            UploadError: not all are stored. Some may be, now or later: no reference may name them.
        """
        if not files:
            return []
        deadline_s = time.monotonic() + within_s
        _check_paths(files)
        checkpoint = _Checkpoint(self._destination, files, deadline_s=deadline_s, pause_s=self._pause_s)
        try:
            self._start(checkpoint, between)
            return checkpoint.wait(between)
        finally:
            checkpoint.stop.set()

    def _start(self, checkpoint: _Checkpoint, between: Callable[[], None]) -> None:
        """Start one thread for each upload that may run; without the first of them nothing can begin."""
        for started in range(min(self._parallel, len(checkpoint.files))):
            while not self._alive.acquire(timeout=0 if started else checkpoint.turn_s):
                if started:
                    return
                between()
                if checkpoint.is_late:
                    raise UploadError(
                        f"{checkpoint.files[0].path} was not begun: {self._max_threads} uploads of earlier checkpoints "
                        f"hang in {self.root}, the most that may run"
                    )
            try:
                threading.Thread(target=self._run, args=(checkpoint,), name="upload", daemon=True).start()
            except RuntimeError as error:
                self._alive.release()
                raise UploadError(f"{checkpoint.files[0].path} cannot be uploaded: {error}") from error

    def _run(self, checkpoint: _Checkpoint) -> None:
        try:
            checkpoint.work()
        finally:
            self._alive.release()


def _check_paths(files: Sequence[ToUpload]) -> None:
    seen: set[str] = set()
    for file in files:
        try:
            check_path(file.path)
        except StoreRefusalError as error:
            raise UploadError(f"{file.local} cannot be uploaded: {error}") from error
        if file.path in seen:
            raise UploadError(f"{file.path} is to be uploaded twice in one checkpoint")
        seen.add(file.path)


class _Checkpoint:
    """The uploads of one `put_all`: threads take files and report their results until `stop` is set."""

    def __init__(
        self,
        destination: Destination,
        files: Sequence[ToUpload],
        *,
        deadline_s: float,
        pause_s: Callable[[int], float],
    ) -> None:
        self.files = files
        self.stop = threading.Event()
        self._destination = destination
        self._deadline_s = deadline_s
        self._pause_s = pause_s
        self._waiting: queue.SimpleQueue[ToUpload] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[Uploaded | UploadError] = queue.SimpleQueue()
        # The last fault of each file, for the message when the time is over.
        self._faults: dict[str, str] = {}
        for file in files:
            self._waiting.put(file)

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._deadline_s

    @property
    def turn_s(self) -> float:
        return max(0.0, min(BETWEEN_S, self._deadline_s - time.monotonic()))

    def wait(self, between: Callable[[], None]) -> list[Uploaded]:
        done: dict[str, Uploaded] = {}
        called_at = time.monotonic()
        while len(done) < len(self.files):
            try:
                told = self._told.get(timeout=self.turn_s)
            except queue.Empty:
                told = None
            if isinstance(told, UploadError):
                raise told
            if told is not None:
                done[told.path] = told
            # Also when all are stored: a process that was frozen meanwhile has no time left for the references.
            if self.is_late:
                raise self._late(done)
            if told is None or time.monotonic() - called_at >= BETWEEN_S:
                between()
                called_at = time.monotonic()
        return [done[file.path] for file in self.files]

    def _late(self, done: Mapping[str, Uploaded]) -> UploadError:
        missing = [file for file in self.files if file.path not in done]
        if not missing:
            return UploadError(f"{self.files[-1].path} was uploaded too late: its time was over")
        # The fault of an attempted file is more useful than that of one still in the queue.
        named = next((file for file in missing if file.path in self._faults), missing[0])
        cause = self._faults.get(named.path, "no answer")
        return UploadError(f"{named.path} was not uploaded in time, nor {len(missing) - 1} others: {cause}")

    def work(self) -> None:
        """Upload files until none is left or it is over; the body of a thread."""
        while not self.stop.is_set():
            try:
                file = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._until_there(file)
            except StoreRefusalError as error:
                self._told.put(UploadError(f"{file.path} cannot be uploaded: {error}"))
            except Exception as error:  # noqa: BLE001 - reported to the waiting thread
                self._told.put(UploadError(f"{file.path} cannot be uploaded: {type(error).__name__}: {error}"))

    def _until_there(self, file: ToUpload) -> None:
        attempt = 0
        while not self.stop.is_set() and not self.is_late:
            attempt += 1
            try:
                self._destination.upload(file, deadline_s=self._deadline_s)
            except StoreFaultError as error:
                if not isinstance(error, OutOfTimeError) or file.path not in self._faults:
                    self._faults[file.path] = f"{error} (attempt {attempt})"
                self.stop.wait(min(self._pause_s(attempt), max(0.0, self._deadline_s - time.monotonic())))
            else:
                self._told.put(Uploaded(path=file.path, uploaded_at_ms=time.time_ns() // 1_000_000))
                return
