"""Send requests of Kafka's protocol to a chosen broker, through kafka-python's connections.

The library is untyped and partly private: the modules on this client are its border. They block, and return no object
of the library.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, cast

from kafka import errors as library_errors  # pyright: ignore[reportMissingTypeStubs]
from kafka.admin import KafkaAdminClient  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from kafka.future import Future  # pyright: ignore[reportMissingTypeStubs]

from app.core.clusters.cluster_entry import sent_on
from app.edges.kafka import first_contact
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.connections import is_allowed, to_kafka_python
from app.edges.kafka.raw_connections import (
    LARGEST_ANSWER_BYTES,
    MalformedAnswerError,
    NotAllowedError,
    UnreachedBrokersError,
    UnreachedError,
    address_of,
    is_about_settings,
    open_network,
)
from app.kit.errors import FencelineError, InvalidError, UnavailableError

errors: Any = library_errors

# It logs each failure that is raised here, and at debug level its settings with the password.
_library_log = logging.getLogger("kafka")
_library_log.addHandler(logging.NullHandler())
_library_log.propagate = False

# Together below 15 s. The explanation has the rest of a short question's time, and at least a moment.
_BOOTSTRAP_S = 6.0
_EXPLAINED_WITHIN_S = 4.0
LEAST_EXPLAINING_S = 0.8
_SHARE_OF_BOOTSTRAP = 0.7
# The same time for all advertised addresses together: another broker of the cluster has answered already.
_CONTACT_S = 3.0
_ONE_BROKER_S = 1.0
# A new client needs the rest, to find another broker or the reason.
_SHARE_OF_RESUMING = 0.3
# With less time than this left, nothing is retried.
_AGAIN_S = 0.1
# The exceptions of code that reads a malformed answer.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, struct.error)


class RawClient:
    """A connection to the cluster; a context manager."""

    def __init__(self, resolved: Mapping[str, str], attempt: ConnectionAttempt) -> None:
        left_ms = max(1, int(attempt.left_s * 1000))
        # A long question does not wait for its whole time until a wrong address is reported.
        bootstrap_s = min(_BOOTSTRAP_S, attempt.left_s * _SHARE_OF_BOOTSTRAP)
        opened: list[Any] = []

        def open_and_note(**settings: Any) -> Any:
            opened.append(open_network(may_connect=partial(is_allowed, resolved), **settings))
            return opened[0]

        try:
            self._client: Any = cast(Any, KafkaAdminClient)(
                **to_kafka_python(resolved),
                client_id="fenceline-server",
                bootstrap_timeout_ms=max(1, int(bootstrap_s * 1000)),
                request_timeout_ms=left_ms,
                reconnect_backoff_max_ms=500,
                receive_message_max_bytes=LARGEST_ANSWER_BYTES,
                kafka_client=open_and_note,
            )
        except errors.KafkaError as error:
            # It connects in its constructor, and leaves its thread running when that fails.
            for network in opened:
                network.close()
                network._manager._net.stop()  # noqa: SLF001 - what the library's own close does
            seen = opened[0]._manager.last_failure if opened else None  # noqa: SLF001 - our own
            if is_about_settings(error):
                raise
            if isinstance(seen, NotAllowedError):
                raise seen from error
            why = first_contact.why_not(resolved, within_s=_explained_s(attempt))
            if why is None and seen is None:
                raise
            raise UnreachedError(why or str(seen) or type(seen).__name__) from error
        self._manager: Any = self._client._manager  # noqa: SLF001 - no public way to a broker of one's choice
        # A metadata request must not create a topic, nor recreate a deleted one.
        self._manager.cluster.config["allow_auto_create_topics"] = False
        self._attempt = attempt
        self._resolved = resolved
        # It has answered: another one may be frozen, and a new connection to it would take all of the time.
        self._reached: int | None = None
        try:
            self._refuse_addresses()
            self._reach_one(min(_CONTACT_S, attempt.left_s * _SHARE_OF_BOOTSTRAP))
        except BaseException:
            self._client.close()
            raise

    def resume(self, attempt: ConnectionAttempt) -> bool:
        """Begin another question, with new metadata and without what the last question learned.

        Return False if no broker answers at once: a new client finds the reason.
        """
        self._attempt = attempt
        self._reached = None
        try:
            self._manager.run(self._forget)
            answer = self._manager.run(self._one_reached, min(_ONE_BROKER_S, attempt.left_s * _SHARE_OF_RESUMING))
            if answer is None:
                return False
            self._manager.run(self._manager.cluster.update_metadata, answer)
            self._refuse_addresses()
        except Exception:  # noqa: BLE001 - also the end of the library's thread, whatever has ended it
            return False
        return True

    async def _forget(self) -> None:
        """Do what a new client does: time limits of this question, no known failure, no known coordinator."""
        left_ms = max(1, int(self.left_ms))
        self._manager.config["request_timeout_ms"] = left_ms
        for connection in self._manager._conns.values():  # noqa: SLF001 - as `_manager`
            # It computes its limit once, from its own copy of the settings.
            connection._timeout_secs = left_ms / 1000  # noqa: SLF001
        self._manager.cluster._coordinators.clear()  # noqa: SLF001
        self._manager.failures.clear()
        self._manager.last_failure = None

    @property
    def is_at_rest(self) -> bool:
        """True if each broker that was asked has answered: another question may use the connections."""
        connections = list(self._manager._conns.values())  # noqa: SLF001 - as `_manager`
        return not self._manager.failures and all(one.connected and not one.in_flight_requests for one in connections)

    def _refuse_addresses(self) -> None:
        """Raise NotAllowedError if a broker advertises an address that the administrator does not allow."""
        for address in self._advertised().values():
            if not is_allowed(self._resolved, address):
                raise NotAllowedError(sent_on(address))

    def _reach_one(self, within_s: float) -> None:
        """Ask one of the brokers at its advertised address; the connection serves the next request, too.

        Raises UnreachedBrokersError with the reasons if none of them is reached.
        """
        if self._manager.run(self._one_reached, within_s) is None:
            why = self._why_not_reached()
            raise UnreachedBrokersError(why or "none of its brokers does at its advertised address")

    async def _one_reached(self, within_s: float) -> Any:
        """Return its metadata; None if none answers."""
        until = time.monotonic() + within_s
        while True:
            for broker_id in self._advertised():
                left_s = until - time.monotonic()
                if left_s <= 0:
                    return None
                try:
                    # A listener that expects SASL accepts any connection, and ends it at a request.
                    question = self._manager.cluster.metadata_request()
                    answer = self._manager.send(question, broker_id, request_timeout_ms=left_s * 1000)
                    found = await self._manager.wait_for(answer, min(left_s, _ONE_BROKER_S) * 1000)
                except errors.KafkaError:
                    continue
                self._reached = broker_id
                return found
            await self._manager._net.sleep(_AGAIN_S)  # noqa: SLF001 - the library's own loop

    def _why_not_reached(self) -> str | None:
        """Return a reason for each broker without an answer at its advertised address; None if all answer."""
        advertised = self._advertised()
        found = first_contact.why_not_advertised(self._resolved, advertised, within_s=_explained_s(self._attempt))
        # Only a client can test a login: the first contact does not try one.
        heard = {one: self._manager.failures[one] for one in advertised if one in self._manager.failures}
        for broker_id, failed in heard.items():
            if is_about_settings(failed):
                reason = f"{advertised[broker_id]}: {_without_class(failed)}"
                found.setdefault(broker_id, first_contact.of_broker(broker_id, reason))
        return "; ".join(found.values()) or None

    def _advertised(self) -> dict[int, str]:
        """Return `host:port` by broker id, from the newest metadata."""
        return {broker.node_id: address_of(broker) for broker in self._manager.cluster.brokers()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise UnreachedBrokersError instead of an error that reports only a missing answer."""
        try:
            if not isinstance(error, Exception) or not _names_no_broker(error):
                return
            # Until the time is up, a broker that is not ready is asked again.
            why = None if is_transient(error) and self._attempt.left_s > _AGAIN_S else self._why_not_reached()
            if why is not None:
                raise UnreachedBrokersError(why) from error
        finally:
            self.close()

    def close(self) -> None:
        self._client.close()

    def send(self, request: Any, broker_id: int) -> Any:
        """Return the answer of this broker. Raises a KafkaError of the library's."""
        return self._manager.run(self._sent, request, broker_id)

    def send_in_half_of_the_time(self, request: Any, broker_id: int) -> Any:
        """Do as `send`, and leave time for other brokers if this one does not answer."""
        with self._half_of_the_time():
            return self.send(request, broker_id)

    def broker_ids(self) -> list[int]:
        """The brokers of the newest metadata."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    async def _sent(self, request: Any, broker_id: int) -> Any:
        return await self._sent_to(request, broker_id, self.left_ms)

    def _sent_to(self, request: Any, broker_id: int, timeout_ms: float) -> Any:
        """Return the future answer of this broker; call it on the network's own thread.

        After a broker's death others still name it as leader or coordinator, when the library has dropped it from its
        list already. The library raises an error without retries for it. Here it counts as a broker that is not ready
        yet, and the list is read again.
        """
        try:
            return self._manager.send(request, node_id=broker_id, request_timeout_ms=timeout_ms)
        except errors.UnknownBrokerIdError:
            self._manager.cluster.request_update()
            missing = errors.NodeNotReadyError(f"broker {broker_id} is not in the cluster's metadata now")
            return cast(Any, Future)().failure(missing)

    @contextmanager
    def _half_of_the_time(self) -> Generator[None]:
        """Give the questions in the block half of the remaining time, so that later ones have time as well."""
        whole, self._attempt = self._attempt, self._attempt.half()
        try:
            yield
        finally:
            self._attempt = whole

    @property
    def left_ms(self) -> float:
        return self._attempt.left_s * 1000


def error_of(code: int, message: str | None) -> Exception:
    return errors.for_code(code)(message or "")


def is_transient(error: Exception) -> bool:
    """Return whether a coordinator moves or loads; a missing answer has used up its time already."""
    return isinstance(error, errors.RetriableError) and not isinstance(error, errors.KafkaTimeoutError)


@contextmanager
def reading_answers() -> Generator[None]:
    """Raise MalformedAnswerError for an unreadable answer, with the place in the code as its cause."""
    try:
        yield
    except _UNREADABLE as error:
        raise MalformedAnswerError(f"an answer cannot be read: {type(error).__name__}: {error}") from error


def _explained_s(attempt: ConnectionAttempt) -> float:
    return min(_EXPLAINED_WITHIN_S, max(LEAST_EXPLAINING_S, attempt.left_s))


def _names_no_broker(error: Exception) -> bool:
    """Return whether it reports only a missing answer or a failed login, without the broker."""
    if isinstance(error, UnreachedError | NotAllowedError) or not isinstance(error, errors.KafkaError):
        return False
    is_refusal = isinstance(error, errors.BrokerResponseError) and not isinstance(error, errors.RequestTimedOutError)
    return is_about_settings(error) or not is_refusal


def _without_class(error: Exception) -> str:
    """Remove the names of the library's classes."""
    return str(error).rpartition("Error: ")[2]


def failure(attempt: ConnectionAttempt, what: str, error: Exception) -> FencelineError:
    if isinstance(error, NotAllowedError):
        return InvalidError(str(error), field="bootstrap_servers")
    if isinstance(error, UnreachedBrokersError):
        return attempt.unreachable(str(error), is_advertised=True)
    if is_about_settings(error):
        return attempt.unreachable(_without_class(error))
    if isinstance(error, errors.BrokerResponseError):
        return attempt.refused(what, str(error))
    if isinstance(error, errors.KafkaProtocolError):
        return UnavailableError(f"a broker at {attempt.address} does not answer as Kafka does: {error}")
    return attempt.unreachable(str(error))
