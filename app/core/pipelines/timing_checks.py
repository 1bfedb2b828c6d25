"""Checks of the times in a definition: the rules of librdkafka and the brokers, and advice.

message.timeout.ms ≤ transaction timeout (≤ the broker's transaction.max.timeout.ms, see `cluster_checks`);
commit interval < transaction timeout; session timeout ≤ max.poll.interval.ms. The times of a file sink: `file_checks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.core.allow_lists.options import canonical
from app.core.pipelines.pipeline import GroupProtocol, PipelineDefinition, ProcessingGuarantee
from app.kit.errors import Problem

_DEFAULTS = PipelineDefinition(cluster="", source_topics=(), group_id="", sink_topic="")
DEFAULT_SESSION_TIMEOUT_MS = _DEFAULTS.session_timeout_ms
DEFAULT_MAX_POLL_INTERVAL_MS = 300_000
DEFAULT_RECONNECT_BACKOFF_MS = 100
DEFAULT_RECONNECT_BACKOFF_MAX_MS = 10_000
"""librdkafka's own, for the options that are not set."""

_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,19})?", re.ASCII)


def check(definition: PipelineDefinition) -> Iterator[Problem]:
    """Yield the problems that need only the definition."""
    yield from _check_bounds(definition)
    if definition.dataframe is not None:
        return  # a query has neither a commit interval nor options of clients
    yield from _check_commit_interval(definition)
    yield from _check_transaction(definition)
    yield from _check_linger(definition)
    yield from _check_group(definition)
    for field, overrides in (
        ("consumer_overrides", canonical(definition.consumer_overrides)),
        ("producer_overrides", canonical(definition.producer_overrides)),
    ):
        yield from _check_backoff(field, overrides)


def number(overrides: Mapping[str, str], name: str) -> float | None:
    """Return the value of a numeric option, or None if it is not set or not a number (a problem of the options'
    check).
    """
    value = overrides.get(name, "")
    return float(value) if _NUMBER.fullmatch(value) else None


def max_poll_interval_ms(definition: PipelineDefinition) -> float:
    """Return the longest time without a poll of a task before the group removes it."""
    return number(canonical(definition.consumer_overrides), "max.poll.interval.ms") or DEFAULT_MAX_POLL_INTERVAL_MS


def _check_bounds(definition: PipelineDefinition) -> Iterator[Problem]:
    for field, value, least, most in (
        ("commit_interval_ms", definition.commit_interval_ms, 1, 3_600_000),
        ("transaction_timeout_ms", definition.transaction_timeout_ms, 1_000, 2_147_483_647),
        ("session_timeout_ms", definition.session_timeout_ms, 1_000, 3_600_000),
    ):
        if not least <= value <= most:
            message = f"{field} must be between {least} and {most} milliseconds, not {value}"
            yield Problem(field=field, message=message)


def _check_commit_interval(definition: PipelineDefinition) -> Iterator[Problem]:
    interval_ms, timeout_ms = definition.commit_interval_ms, definition.transaction_timeout_ms
    if definition.files is not None:
        if interval_ms != _DEFAULTS.commit_interval_ms:
            message = (
                f"commit_interval_ms has no effect with files: input is committed together with its files, every "
                f"files.rotate_ms, {definition.files.rotate_ms}"
            )
            yield Problem(field="commit_interval_ms", message=message, is_warning=True)
        return
    max_poll_ms = max_poll_interval_ms(definition)
    if interval_ms >= max_poll_ms:
        message = (
            f"With {interval_ms} ms between commits a task would exceed max.poll.interval.ms, {max_poll_ms:.0f}, and "
            "be removed from its group; commit more often"
        )
        yield Problem(field="commit_interval_ms", message=message)
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return
    if interval_ms >= timeout_ms:
        message = (
            f"With {interval_ms} ms between commits every transaction would exceed its timeout of {timeout_ms} ms "
            "and be aborted; commit more often"
        )
        yield Problem(field="commit_interval_ms", message=message)
    elif interval_ms > timeout_ms / 2:
        message = (
            f"{interval_ms} ms between commits leaves less than half of the transaction timeout of {timeout_ms} ms "
            "for the commit itself: a slow broker would abort it"
        )
        yield Problem(field="commit_interval_ms", message=message, is_warning=True)


def _check_transaction(definition: PipelineDefinition) -> Iterator[Problem]:
    if definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return
    timeout_ms = definition.transaction_timeout_ms
    overrides = canonical(definition.producer_overrides)
    message_ms = number(overrides, "message.timeout.ms")
    if message_ms is not None and message_ms > timeout_ms:
        message = (
            f"message.timeout.ms is {message_ms:.0f}, but a record cannot be retried for longer than its transaction "
            f"is open: at most transaction_timeout_ms, {timeout_ms}"
        )
        yield Problem(field="producer_overrides.message.timeout.ms", message=message)
    socket_ms = number(overrides, "socket.timeout.ms")
    if socket_ms is not None and socket_ms > timeout_ms:
        message = f"socket.timeout.ms is {socket_ms:.0f}; it may not exceed transaction_timeout_ms, {timeout_ms}"
        yield Problem(field="producer_overrides.socket.timeout.ms", message=message)


def _check_linger(definition: PipelineDefinition) -> Iterator[Problem]:
    """Without an override a record is retried as long as a transaction may be open, with any guarantee."""
    overrides = canonical(definition.producer_overrides)
    linger_ms, message_ms = number(overrides, "linger.ms"), number(overrides, "message.timeout.ms")
    limit_ms = definition.transaction_timeout_ms if message_ms is None else message_ms
    if linger_ms is not None and linger_ms >= limit_ms:
        message = f"linger.ms is {linger_ms:g}: records would wait longer than their timeout of {limit_ms:.0f} ms"
        yield Problem(field="producer_overrides.linger.ms", message=message)


def _check_group(definition: PipelineDefinition) -> Iterator[Problem]:
    overrides = canonical(definition.consumer_overrides)
    max_poll_ms = max_poll_interval_ms(definition)
    if definition.group_protocol is GroupProtocol.CONSUMER:
        if definition.session_timeout_ms != DEFAULT_SESSION_TIMEOUT_MS:
            message = (
                "session_timeout_ms has no effect with the group protocol `consumer`: the broker sets the session "
                "(group.consumer.session.timeout.ms, 45 s by default)"
            )
            yield Problem(field="session_timeout_ms", message=message, is_warning=True)
        return
    session_ms = definition.session_timeout_ms
    if "group.remote.assignor" in overrides:
        message = "Only the group protocol `consumer` has a remote assignor; leave it out, or change group_protocol"
        yield Problem(field="consumer_overrides.group.remote.assignor", message=message)
    if session_ms > max_poll_ms:
        message = (
            f"session_timeout_ms is {session_ms} and max.poll.interval.ms {max_poll_ms:.0f}; "
            "the session timeout must not be longer"
        )
        yield Problem(field="session_timeout_ms", message=message)


def _check_backoff(field: str, overrides: Mapping[str, str]) -> Iterator[Problem]:
    first, most = number(overrides, "reconnect.backoff.ms"), number(overrides, "reconnect.backoff.max.ms")
    if first is None and most is None:
        return
    first = DEFAULT_RECONNECT_BACKOFF_MS if first is None else first
    most = DEFAULT_RECONNECT_BACKOFF_MAX_MS if most is None else most
    if first > most:
        name = "reconnect.backoff.ms" if "reconnect.backoff.ms" in overrides else "reconnect.backoff.max.ms"
        message = f"reconnect.backoff.ms, {first:.0f}, may not exceed reconnect.backoff.max.ms, {most:.0f}"
        yield Problem(field=f"{field}.{name}", message=message)
