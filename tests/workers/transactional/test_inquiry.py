"""Rule 5 without a server: where nothing can be known the answer is no, and the task ends as superseded."""

from __future__ import annotations

import pytest

from app.embedded.ports import free_ports
from workers.transactional import inquiry
from workers.transactional.client_config import Config
from workers.transactional.producers import ProducerIdentity

IDENTITY = ProducerIdentity(producer_id=4_000, epoch=3)


class Server:
    """A server with one answer that counts how often it is asked; None is one that is away."""

    def __init__(self, word: bool | None) -> None:
        self.word = word
        self.asked = 0

    def __call__(self, _timeout_s: float) -> bool | None:
        self.asked += 1
        return self.word


def nobodys_journal() -> Config:
    (port,) = free_ports(1)
    return {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "nobody", "log_level": 0}


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test if the journal is opened."""

    def opened(*_arguments: object) -> None:
        raise AssertionError("the journal was read")

    monkeypatch.setattr(inquiry, "read_history", opened)


def test_a_journal_that_cannot_be_read_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "READ_JOURNAL_S", 0.5)
    away = Server(None)
    may, reason = inquiry.may_rebuild(
        ask_server=away, transactional_id="t", identity=IDENTITY, journal_config=nobodys_journal()
    )
    assert may is False
    assert reason.startswith("the server is away, and the journal cannot be read: ")
    assert "__transaction_state" in reason
    assert away.asked == 1


@pytest.mark.usefixtures("unread")
def test_a_producer_whose_identity_is_not_known_is_not_rebuilt() -> None:
    may, reason = inquiry.may_rebuild(
        ask_server=Server(None), transactional_id="t", identity=None, journal_config=nobodys_journal()
    )
    assert may is False
    assert reason == "the server is away, and this producer's id and epoch are not known"


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("word", [True, False])
@pytest.mark.parametrize("identity", [IDENTITY, None])
def test_the_servers_word_is_enough(word: bool, identity: ProducerIdentity | None) -> None:
    may, _reason = inquiry.may_rebuild(
        ask_server=Server(word), transactional_id="t", identity=identity, journal_config=nobodys_journal()
    )
    assert may is word
