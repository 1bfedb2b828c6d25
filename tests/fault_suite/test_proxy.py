"""The bad network, on loopback, with a broker that answers every request."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.edges.embedded.ports import LOOPBACK, free_ports
from tests.fault_suite.frames import END_TXN, EndTxn, FrameSplitter, NotKafkaError, end_txn, request_header
from tests.fault_suite.proxy import BrokerProxy, Conditions, Direction, Loss, Part
from tests.support.waiting import wait_for

PRODUCE = 0
_QUIET_S = 0.15
_WITHIN_S = 5.0


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request(api_key: int, correlation_id: int, body: bytes = b"", *, version: int = 1) -> bytes:
    client_id = b"client"
    tags = b"\0" if api_key == END_TXN and version >= 3 else b""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id + tags
    return frame(header + body)


def end_transaction(correlation_id: int, name: str = "tid", *, is_commit: bool = True, version: int = 1) -> bytes:
    encoded = name.encode()
    length = bytes([len(encoded) + 1]) if version >= 3 else struct.pack(">h", len(encoded))
    body = length + encoded + struct.pack(">qh?", 7, 3, is_commit)
    return request(END_TXN, correlation_id, body, version=version)


class FakeBroker:
    """Answers every request with its correlation id and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        splitter = FrameSplitter()
        with connection:
            while True:
                try:
                    data = connection.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                for asked in splitter.feed(data):
                    self.asked.append(asked)
                    connection.sendall(frame(struct.pack(">i", request_header(asked).correlation_id) + b"answer"))


class Client:
    """One connection to the proxy."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=_WITHIN_S)

    def ask(self, data: bytes) -> None:
        self._socket.sendall(data)

    def heard(self, within_s: float = _WITHIN_S) -> bytes | None:
        """The received bytes; none at all if the connection has ended; None if nothing came in time."""
        self._socket.settimeout(within_s)
        try:
            return self._socket.recv(65536)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker() -> Generator[FakeBroker]:
    broker = FakeBroker()
    yield broker
    broker.close()


@pytest.fixture
def proxy(broker: FakeBroker) -> Generator[BrokerProxy]:
    with BrokerProxy(free_ports(1)[0], target_port=broker.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: BrokerProxy) -> Generator[Client]:
    client = Client(proxy.port)
    yield client
    client.close()


@given(bodies=st.lists(st.binary(min_size=4, max_size=50)), pieces=st.lists(st.integers(1, 20), min_size=1))
def test_frames_come_out_whole_from_pieces_of_any_size(bodies: list[bytes], pieces: list[int]) -> None:
    stream, found, splitter, turn = b"".join(map(frame, bodies)), list[bytes](), FrameSplitter(), 0
    while stream:
        size = pieces[turn % len(pieces)]
        found += splitter.feed(stream[:size])
        stream, turn = stream[size:], turn + 1
    assert found == [frame(body) for body in bodies]


def test_a_stream_that_is_not_kafkas_is_refused_and_not_gathered() -> None:
    with pytest.raises(NotKafkaError, match="plain connections"):
        FrameSplitter().feed(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    with pytest.raises(NotKafkaError, match="plain connections"):
        FrameSplitter().feed(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("is_commit", [True, False])
def test_every_version_of_end_txn_is_read(version: int, is_commit: bool) -> None:
    data = end_transaction(1, "fl.t.gruppe-ü.0", is_commit=is_commit, version=version)
    assert end_txn(data) == EndTxn("fl.t.gruppe-ü.0", 7, 3, is_commit)


def test_well_it_passes_everything_on(client: Client, broker: FakeBroker) -> None:
    client.ask(request(PRODUCE, 5, b"records") + end_transaction(6))
    answers = b""
    while len(answers) < 28:
        answers += client.heard() or b""
    assert answers == frame(struct.pack(">i", 5) + b"answer") + frame(struct.pack(">i", 6) + b"answer")
    assert broker.asked == [request(PRODUCE, 5, b"records"), end_transaction(6)]


def test_cut_ends_the_connections_that_stand_and_lets_new_ones_come(proxy: BrokerProxy, client: Client) -> None:
    client.ask(request(PRODUCE, 1))
    assert client.heard()
    proxy.cut()
    assert client.heard() == b""
    again = Client(proxy.port)
    again.ask(request(PRODUCE, 2))
    assert again.heard()
    again.close()


def test_refused_clients_do_not_get_through_until_it_is_healed(proxy: BrokerProxy, client: Client) -> None:
    proxy.refuse()
    assert client.heard() == b""
    refused = Client(proxy.port)
    assert refused.heard() == b""
    proxy.heal()
    again = Client(proxy.port)
    again.ask(request(PRODUCE, 2))
    assert again.heard()
    again.close()


def test_stalled_to_the_broker_requests_arrive_late_and_none_is_lost(
    proxy: BrokerProxy, client: Client, broker: FakeBroker
) -> None:
    proxy.impose(Conditions(stalled=frozenset({Direction.TO_BROKER})))
    client.ask(request(PRODUCE, 1))
    client.ask(request(PRODUCE, 2))
    assert client.heard(_QUIET_S) is None
    assert broker.asked == []
    proxy.heal()
    assert client.heard()
    wait_for(lambda: len(broker.asked) == 2, _WITHIN_S, lambda: f"both requests; it was asked {broker.asked}")


def test_stalled_to_the_client_the_broker_has_acted_without_an_answer(
    proxy: BrokerProxy, client: Client, broker: FakeBroker
) -> None:
    proxy.impose(Conditions(stalled=frozenset({Direction.TO_CLIENT})))
    client.ask(end_transaction(1))
    wait_for(lambda: broker.asked, _WITHIN_S, "the request at the broker")
    assert client.heard(_QUIET_S) is None
    proxy.heal()
    assert client.heard() == frame(struct.pack(">i", 1) + b"answer")


def test_a_delay_holds_up_both_ways_and_not_the_number_of_requests(proxy: BrokerProxy, client: Client) -> None:
    proxy.impose(Conditions(delay_s=0.1))
    began = time.monotonic()
    for number in range(20):
        client.ask(request(PRODUCE, number))
    answers = b""
    while len(answers) < 20 * 14:
        answers += client.heard() or b""
    # One delay for twenty requests each way: it is a distance, not a queue at a counter, which would take 4 s.
    assert 0.2 <= time.monotonic() - began < 2.0


def test_slow_takes_as_long_as_the_bytes_need(proxy: BrokerProxy, client: Client) -> None:
    proxy.impose(Conditions(bytes_per_s=10_000))
    began = time.monotonic()
    client.ask(request(PRODUCE, 1, b"x" * 2_000))
    assert client.heard()
    assert time.monotonic() - began >= 0.2


def test_a_slow_connection_is_quick_as_soon_as_it_is_healed(proxy: BrokerProxy, client: Client) -> None:
    proxy.impose(Conditions(bytes_per_s=10))
    client.ask(request(PRODUCE, 1, b"x" * 2_000))
    assert client.heard(_QUIET_S) is None
    proxy.heal()
    assert client.heard()


def test_a_lost_request_never_reaches_the_broker(proxy: BrokerProxy, client: Client, broker: FakeBroker) -> None:
    proxy.lose(Loss(Part.REQUEST))
    client.ask(end_transaction(1))
    assert client.heard() == b""
    assert broker.asked == []
    assert [(lost.transactional_id, lost.producer_id, lost.producer_epoch) for lost in proxy.lost] == [("tid", 7, 3)]


def test_a_lost_answer_is_one_that_the_broker_has_given(proxy: BrokerProxy, client: Client, broker: FakeBroker) -> None:
    proxy.lose(Loss(Part.ANSWER))
    client.ask(end_transaction(1))
    assert client.heard() == b""
    assert broker.asked == [end_transaction(1)]
    assert [lost.loss.part for lost in proxy.lost] == [Part.ANSWER]


def test_a_loss_happens_once(proxy: BrokerProxy, client: Client) -> None:
    proxy.lose(Loss(Part.ANSWER))
    client.ask(end_transaction(1))
    assert client.heard() == b""
    again = Client(proxy.port)
    again.ask(end_transaction(1))
    assert again.heard()
    again.close()
    assert len(proxy.lost) == 1


def test_only_a_frame_that_fits_is_lost(proxy: BrokerProxy, client: Client) -> None:
    proxy.lose(Loss(Part.REQUEST, transactional_id="another"))
    proxy.lose(Loss(Part.REQUEST, is_commit=False))
    client.ask(end_transaction(1))
    assert client.heard()
    client.ask(request(PRODUCE, 2))
    assert client.heard()
    assert proxy.lost == ()
    client.ask(end_transaction(3, is_commit=False))
    assert client.heard() == b""


def test_a_kept_loss_holds_the_connection_before_it_is_cut(
    proxy: BrokerProxy, client: Client, broker: FakeBroker
) -> None:
    proxy.lose(Loss(Part.REQUEST, silence_s=0.5))
    client.ask(end_transaction(1))
    client.ask(request(PRODUCE, 2))
    assert client.heard(_QUIET_S) is None
    assert client.heard() == b""
    assert broker.asked == []


def test_without_a_broker_behind_it_it_refuses() -> None:
    with BrokerProxy(free_ports(1)[0]) as proxy:
        client = Client(proxy.port)
        assert client.heard() == b""
        client.close()
        assert proxy.connections == 0
