"""A webhook: the address, kinds and signatures of alerts. A delivery: one alert on its way there."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from app.core.alerts.alert import Alert, AlertKind
from app.core.alerts.target import origin_of, problem_of_url
from app.core.clusters import secret_reference
from app.kit.errors import Problem
from app.kit.words import duration_s

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
RESERVED_NAMES = frozenset({"stream"})
"""Names that the pages' own addresses use in place of a webhook's name."""
MAX_WEBHOOKS = 50
"""Every alert is written once for each webhook."""
MAX_SECRETS = 2
LONGEST_URL = 1_000
_GONE = 410
# These do not concern the message: the receiver was too slow, not ready, or got too many requests.
_TEMPORARY = frozenset({408, 425, 429})
_CLOCKS_AGREE_S = 60


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """secrets: references. Every delivery is signed with each of them; the second one serves a change of secrets.

    kinds: the kinds of alerts it gets; empty: all. paused_at: since when nothing is sent; alerts written meanwhile
    wait.
    pause_reason: the user or reason of the pause.
    """

    name: str
    url: str
    secrets: tuple[str, ...]
    kinds: tuple[AlertKind, ...] = ()
    created_at: datetime
    created_by: str
    paused_at: datetime | None = None
    pause_reason: str | None = None

    @property
    def origin(self) -> str:
        """Return scheme, host and port: the rest of an address is often a secret."""
        return origin_of(self.url)


class DeliveryState(StrEnum):
    """PENDING ─▶ DELIVERED;  PENDING ─▶ GIVEN_UP (the attempts took too long, or the receiver wants no more)."""

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One alert for one webhook, as the page shows it.

    attempts: how often sending began. next_attempt_at: the earliest time of the next one; during an attempt, the time
    after which another server may take it over. answer_status, answer: the last answer, its text cut. error: why the
    last attempt failed.
    """

    id: str
    webhook: str
    type: str
    subject: str
    sentence: str
    state: DeliveryState
    written_at: datetime
    attempts: int
    next_attempt_at: datetime
    last_attempt_at: datetime | None = None
    answer_status: int | None = None
    answer: str | None = None
    error: str | None = None
    ended_at: datetime | None = None


class WebhookCounts(msgspec.Struct, frozen=True, kw_only=True):
    """pending: on their way. given_up: not delivered and still kept. oldest_pending_at: when the oldest was written."""

    pending: int = 0
    delivered: int = 0
    given_up: int = 0
    oldest_pending_at: datetime | None = None


def check_webhook(
    *, name: str, url: str, secrets: Sequence[str], kinds: Collection[AlertKind], allowed_hosts: Collection[str]
) -> list[Problem]:
    """Return all problems of the webhook, without a request to it."""
    problems: list[Problem] = []
    if name in RESERVED_NAMES:
        message = f"`{name}` is used by Fenceline's own addresses; choose another name"
        problems.append(Problem(field="name", message=message))
    elif not _NAME.fullmatch(name):
        problems.append(
            Problem(field="name", message="a webhook's name has 1 to 63 of a-z, 0-9 and -, and begins with a letter")
        )
    if len(url) > LONGEST_URL:
        problems.append(Problem(field="url", message=f"an address has at most {LONGEST_URL} characters"))
    elif (problem := problem_of_url(url, allowed_hosts=allowed_hosts)) is not None:
        problems.append(Problem(field="url", message=problem))
    if not 1 <= len(secrets) <= MAX_SECRETS:
        problems.append(
            Problem(field="secrets", message="name one secret, or two while the receiver changes from one to the other")
        )
    problems += [
        Problem(
            field="secrets",
            message="a secret is a reference, not its value: env:FENCELINE_SECRET_NAME, or file:NAME for a file in the "
            "folder FENCELINE_SECRETS_DIR",
        )
        for secret in secrets
        if not secret_reference.is_reference(secret)
    ][:1]
    if AlertKind.TEST in kinds:
        problems.append(Problem(field="kinds", message="a test is sent on request and cannot be chosen"))
    return problems


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one delivery. It belongs to this server until its lease ends. `number` counts from 1."""

    delivery_id: str
    number: int
    alert: Alert


class Answered(msgspec.Struct, frozen=True):
    """The receiver's answer; text is the start of its body.

    clock_ahead_s: its clock against the server's, by the Date of its answer; 0 without one.
    """

    status: int
    text: str
    clock_ahead_s: int = 0

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """The receiver wants no more deliveries at all."""
        return self.status == _GONE

    @property
    def is_refusal(self) -> bool:
        """The receiver works but rejects this message, so others need not wait for it."""
        return 400 <= self.status < 500 and self.status not in _TEMPORARY

    @property
    def problem(self) -> str:
        """Return why it was not delivered, as a sentence."""
        if 300 <= self.status < 400:
            return f"the receiver redirects with {self.status}, which Fenceline does not follow: correct the address"
        if self.is_gone:
            return "the receiver answers 410: it wants no more, so the webhook is paused"
        if self.is_refusal:
            return f"the receiver rejects it with {self.status}{self._clocks}"
        return f"the receiver answers {self.status}"

    @property
    def _clocks(self) -> str:
        """The difference of the clocks, as receivers reject signatures whose time is five minutes off."""
        if abs(self.clock_ahead_s) < _CLOCKS_AGREE_S:
            return ""
        way = "ahead of" if self.clock_ahead_s > 0 else "behind"
        apart = f"its clock is {duration_s(abs(self.clock_ahead_s))} {way} the server's"
        return f"; {apart}, and it may reject signatures for that"
