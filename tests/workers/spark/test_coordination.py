"""Driver and task on a real socket: the answers to a task, and the refusal of other clients."""

from __future__ import annotations

import http.client
from collections.abc import Generator

import pytest

from app.core.wire.heartbeat import DesiredTaskState
from tests.support.waiting import wait_for
from workers.spark.coordination import CoordinationServer
from workers.spark.driver_line import DriverAwayError, DriverLine
from workers.spark.messages import AttemptEnd, AttemptEnded, Begun, DriverMessage, PolledControl


@pytest.fixture
def server() -> Generator[CoordinationServer]:
    coordination = CoordinationServer(host="127.0.0.1", tasks=2, desired=DesiredTaskState.PAUSE)
    coordination.start()
    yield coordination
    coordination.close()


def line_to(server: CoordinationServer) -> DriverLine:
    return DriverLine(host="127.0.0.1", port=server.port, secret=server.secret)


def begun(attempt: int = 0, task: int = 0) -> Begun:
    return Begun(task=task, attempt=attempt, host="here", pid=1)


def test_a_task_gets_the_desired_state_when_it_begins(server: CoordinationServer) -> None:
    admission = line_to(server).begin(begun())
    assert (admission.desired, admission.is_current_attempt) == (DesiredTaskState.PAUSE, True)
    assert server.attempts_begun() == 1


def test_a_poll_returns_a_drain_and_a_drain_is_final(server: CoordinationServer) -> None:
    line = line_to(server)
    heard: list[DriverMessage] = []
    line.begin(begun())
    line.listen(PolledControl(task=0, attempt=0), heard.append, after_each=lambda: None)
    server.want(DesiredTaskState.DRAIN)
    server.want(DesiredTaskState.RUN)
    try:
        wait_for(
            lambda: bool(heard) and heard[-1].desired is DesiredTaskState.DRAIN, 5, lambda: f"a drain; got {heard}"
        )
    finally:
        line.close()


def test_an_end_is_reported_though_its_message_is_no_text(server: CoordinationServer) -> None:
    """An error may quote a record, of any size; an end that is not reported would be tried again for ever."""
    line = line_to(server)
    line.begin(begun())
    line.end(AttemptEnded(task=0, attempt=0, end=AttemptEnd.HOPELESS, message="bad \udcff byte" + "x" * 100_000))
    verdict = server.verdict()
    assert verdict is not None
    assert verdict.message.startswith("task 0: bad ? bytexxx")


def test_an_answer_that_breaks_its_receiver_does_not_end_the_polling(server: CoordinationServer) -> None:
    line = line_to(server)
    line.begin(begun())
    heard: list[DriverMessage] = []

    def hear(word: DriverMessage) -> None:
        heard.append(word)
        if len(heard) == 1:
            raise RuntimeError("can't start new thread")

    line.listen(PolledControl(task=0, attempt=0), hear, after_each=lambda: None)
    try:
        wait_for(lambda: len(heard) >= 3, 5, lambda: f"answers after the first; got {heard}")
    finally:
        line.close()


def test_an_earlier_attempt_hears_that_it_is_not_the_current_one(server: CoordinationServer) -> None:
    line = line_to(server)
    line.begin(begun(attempt=0))
    line_to(server).begin(begun(attempt=1))
    heard: list[DriverMessage] = []
    line.listen(PolledControl(task=0, attempt=0), heard.append, after_each=lambda: None)
    try:
        wait_for(lambda: bool(heard), 5, "an answer of the driver")
    finally:
        line.close()
    assert not heard[0].is_current_attempt
    assert not line.begin(begun(attempt=0)).is_current_attempt


def test_an_end_reaches_the_book(server: CoordinationServer) -> None:
    line = line_to(server)
    line.begin(begun())
    line.end(AttemptEnded(task=0, attempt=0, end=AttemptEnd.HOPELESS, message="no such topic"))
    verdict = server.verdict()
    assert verdict is not None
    assert "no such topic" in verdict.message


@pytest.mark.parametrize(
    ("secret", "path", "body", "status"),
    [
        ("wrong", "/poll", b'{"task":0,"attempt":0}', 401),
        ("", "/poll", b'{"task":0,"attempt":0}', 401),
        (None, "/poll", b'{"task":"zero"}', 400),
        (None, "/other", b"{}", 404),
        (None, "/poll", b"x" * 70_000, 413),
    ],
)
def test_other_clients_and_malformed_requests_are_refused(
    server: CoordinationServer, secret: str | None, path: str, body: bytes, status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    bearer = f"Bearer {server.secret if secret is None else secret}"
    connection.request("POST", path, body=body, headers={"Authorization": bearer})
    assert connection.getresponse().status == status
    connection.close()


def test_a_driver_that_is_away_is_named(server: CoordinationServer) -> None:
    line = line_to(server)
    port = server.port
    server.close()
    with pytest.raises(DriverAwayError, match=str(port)):
        line.begin(begun())
    line.end(AttemptEnded(task=0, attempt=0, end=AttemptEnd.DRAINED))
