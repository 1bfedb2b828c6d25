"""The guarantees of every kind of store: order, time, threads, and its errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator

import pytest

from tests.support.waiting import wait_for
from tests.workers.sinks.stores.conftest import MakeFile
from workers.sinks.store import UploadStore, growing_pause_s
from workers.sinks.uploads import OutOfTimeError, StoreFaultError, StoreRefusalError, ToUpload, UploadError


class Scripted:
    """A destination that does what `act` says; `there` is what it has verified."""

    def __init__(self, act: Callable[[ToUpload, int], None] = lambda _file, _attempt: None) -> None:
        self.there: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self._act = act
        self._attempts: dict[str, int] = {}
        self._lock = threading.Lock()

    def upload(self, file: ToUpload, *, deadline_s: float) -> None:
        with self._lock:
            self._attempts[file.path] = attempt = self._attempts.get(file.path, 0) + 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self._act(file, attempt)
        finally:
            with self._lock:
                self.at_once -= 1
        with self._lock:
            self.there.append(file.path)


class Gate:
    """Blocks its callers until it is opened."""

    def __init__(self) -> None:
        self.inside = 0
        self._opened = threading.Event()

    def hold(self, _file: ToUpload, _attempt: int) -> None:
        self.inside += 1
        self._opened.wait()

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def gate() -> Generator[Gate]:
    made = Gate()
    yield made
    made.open()


def test_all_are_reported_in_the_given_order_and_run_at_most_as_many_as_configured(make_file: MakeFile) -> None:
    files = [make_file() for _ in range(50)]
    destination = Scripted()
    uploaded = UploadStore("x://", destination=destination, parallel=3).put_all(files, within_s=30)
    assert [one.path for one in uploaded] == [file.path for file in files]
    assert sorted(destination.there) == sorted(file.path for file in files)
    assert destination.most_at_once <= 3


def test_nothing_to_upload_is_done() -> None:
    assert UploadStore("x://", destination=Scripted()).put_all([], within_s=0) == []


def test_error_of_an_upload_that_is_late_names_the_fault_and_not_the_time(make_file: MakeFile) -> None:
    """Unfixed, the last try hid what all tries before it had met: that the disk was full."""

    def act(_file: ToUpload, attempt: int) -> None:
        raise StoreFaultError("No space left on device") if attempt == 1 else OutOfTimeError("no answer in time")

    store = UploadStore("x://", destination=Scripted(act), pause_s=lambda _attempt: 0.01)
    with pytest.raises(UploadError, match=r"No space left on device \(attempt 1\)"):
        store.put_all([make_file()], within_s=0.3)


def test_a_fault_is_tried_again_with_the_pauses_asked_for(make_file: MakeFile) -> None:
    def act(_file: ToUpload, attempt: int) -> None:
        if attempt < 4:
            raise StoreFaultError("busy")

    pauses: list[int] = []

    def pause_s(attempt: int) -> float:
        pauses.append(attempt)
        return 0.0

    UploadStore("x://", destination=Scripted(act), pause_s=pause_s).put_all([make_file()], within_s=30)
    assert pauses == [1, 2, 3]


def test_pauses_grow_to_a_bound() -> None:
    for attempt, longest in ((1, 0.1), (2, 0.2), (5, 1.6), (7, 5.0), (1_000, 5.0)):
        assert longest / 2 <= growing_pause_s(attempt) <= longest


def test_an_upload_that_fails_until_the_deadline_is_named_with_its_last_cause(make_file: MakeFile) -> None:
    file = make_file()

    def act(_file: ToUpload, _attempt: int) -> None:
        raise StoreFaultError("SlowDown: reduce your request rate")

    with pytest.raises(UploadError, match=rf"{file.path} was not uploaded in time.*SlowDown.*\(attempt \d+\)"):
        UploadStore("x://", destination=Scripted(act), pause_s=lambda _: 0.05).put_all([file], within_s=0.5)


def test_a_refusal_ends_it_for_all_at_once(make_file: MakeFile, gate: Gate) -> None:
    refused, hanging = make_file(), make_file()

    def act(file: ToUpload, attempt: int) -> None:
        if file.path == refused.path:
            raise StoreRefusalError("AccessDenied")
        gate.hold(file, attempt)

    began = time.monotonic()
    with pytest.raises(UploadError, match=f"{refused.path} cannot be uploaded: AccessDenied"):
        UploadStore("x://", destination=Scripted(act)).put_all([hanging, refused], within_s=60)
    assert time.monotonic() - began < 30


def test_an_unexpected_error_is_reported_and_not_lost_with_its_thread(make_file: MakeFile) -> None:
    def act(_file: ToUpload, _attempt: int) -> None:
        raise ZeroDivisionError("a mistake in Fenceline")

    with pytest.raises(UploadError, match="ZeroDivisionError: a mistake in Fenceline"):
        UploadStore("x://", destination=Scripted(act)).put_all([make_file()], within_s=30)


def test_the_waiting_caller_is_called_between_and_may_end_it(make_file: MakeFile, gate: Gate) -> None:
    class Superseded(Exception):  # noqa: N818 - not an error
        pass

    def between() -> None:
        raise Superseded

    with pytest.raises(Superseded):
        UploadStore("x://", destination=Scripted(gate.hold)).put_all([make_file()], within_s=60, between=between)


def test_many_quick_uploads_are_no_reason_not_to_call_between(
    make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.sinks.store.BETWEEN_S", 0.0)
    calls: list[None] = []
    files = [make_file() for _ in range(20)]
    UploadStore("x://", destination=Scripted()).put_all(files, within_s=30, between=lambda: calls.append(None))
    assert len(calls) >= len(files) - 1


def test_files_that_are_all_there_too_late_do_not_count(make_file: MakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the process is frozen between the last upload and the check of it."""
    clock = [100.0]
    monkeypatch.setattr("workers.sinks.store.time.monotonic", lambda: clock[0])

    def act(_file: ToUpload, _attempt: int) -> None:
        clock[0] += 3600

    with pytest.raises(UploadError, match="its time was over"):
        UploadStore("x://", destination=Scripted(act)).put_all([make_file()], within_s=60)


def test_uploads_that_hang_do_not_hold_the_next_checkpoint_while_threads_are_left(
    make_file: MakeFile, gate: Gate
) -> None:
    hanging, fine = make_file(), make_file()

    def act(file: ToUpload, attempt: int) -> None:
        if file.path == hanging.path:
            gate.hold(file, attempt)

    store = UploadStore("x://", destination=Scripted(act), parallel=1, max_threads=2)
    with pytest.raises(UploadError, match="no answer"):
        store.put_all([hanging], within_s=0.1)
    assert [one.path for one in store.put_all([fine], within_s=30)] == [fine.path]


def test_hanging_uploads_are_bounded_in_number_and_reported(make_file: MakeFile, gate: Gate) -> None:
    destination = Scripted(gate.hold)
    store = UploadStore("file:///lake", destination=destination, parallel=2, max_threads=4)
    for _ in range(2):
        with pytest.raises(UploadError, match="no answer"):
            store.put_all([make_file(), make_file()], within_s=0.1)
    calls: list[None] = []
    blocked = make_file()

    with pytest.raises(UploadError, match=f"{blocked.path} was not begun: 4 uploads .* hang in file:///lake"):
        store.put_all([blocked], within_s=1.2, between=lambda: calls.append(None))

    assert gate.inside == 4
    assert len(calls) >= 2


def test_a_checkpoint_that_waits_for_a_thread_gets_the_first_that_returns(make_file: MakeFile, gate: Gate) -> None:
    hanging, next_one = make_file(), make_file()

    def act(file: ToUpload, attempt: int) -> None:
        if file.path == hanging.path:
            gate.hold(file, attempt)

    store = UploadStore("x://", destination=Scripted(act), parallel=1, max_threads=1)
    with pytest.raises(UploadError):
        store.put_all([hanging], within_s=0.1)
    assert [one.path for one in store.put_all([next_one], within_s=60, between=gate.open)] == [next_one.path]


def test_queued_uploads_are_never_begun_after_the_end(make_file: MakeFile, gate: Gate) -> None:
    files = [make_file() for _ in range(3)]
    destination = Scripted(gate.hold)
    store = UploadStore("x://", destination=destination, parallel=1)
    with pytest.raises(UploadError, match="nor 2 others"):
        store.put_all(files, within_s=0.1)
    gate.open()
    wait_for(lambda: destination.at_once == 0, 30, "the thread that hung to end")
    assert destination.there == [files[0].path]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x.avro", "a/../../x.avro", "a//x.avro", "./x.avro", "a/\0.avro"]
)
def test_a_path_that_leads_elsewhere_is_refused(make_file: MakeFile, path: str) -> None:
    file = make_file(path="x")
    with pytest.raises(UploadError, match="no path below the root"):
        UploadStore("x://", destination=Scripted()).put_all(
            [ToUpload(local=file.local, path=path, size_bytes=1, sha256="")], within_s=1
        )


def test_one_path_for_two_files_is_refused(make_file: MakeFile) -> None:
    with pytest.raises(UploadError, match="twice"):
        UploadStore("x://", destination=Scripted()).put_all([make_file(path="x"), make_file(path="x")], within_s=1)


@pytest.mark.parametrize(
    ("root", "cause"),
    [
        ("", "names no store"),
        ("lake", "names no store"),
        ("file://elsewhere/lake", "no folder of this host"),
        ("s3://", "names no bucket"),
        ("nosuchthing://x", "no store that can be opened"),
    ],
)
def test_a_root_that_is_no_store_is_refused_when_it_is_named(root: str, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        UploadStore(root)
