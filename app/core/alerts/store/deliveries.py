"""The outbox of webhooks: written in the transaction of the event, taken by one server at a time."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import msgspec
import sqlalchemy as sa

from app.core.alerts.alert import Alert, AlertState
from app.core.alerts.tables import webhook_deliveries
from app.core.alerts.webhook import Answered, Delivery, DeliveryAttempt, DeliveryState
from app.kit.db.store import DatabaseStore
from app.kit.errors import InvalidError
from app.kit.page import Page, decode_cursor, encode_cursor

_D = webhook_deliveries.c
_IS_UNSENT = sa.and_(_D.state == DeliveryState.PENDING, _D.attempts == 0)
_ALERT_STATE = _D.alert["state"].as_string()
# A receiver gets the alerts about one subject in order, so an earlier one is not changed.
_AS_TOLD = sa.func.jsonb_build_object("state", _D.alert["state"], "said_before", _D.alert["said_before"])

# With a lock on the webhook's key, so that its removal does not abort the writing transaction.
_WRITE = sa.text(
    """
    INSERT INTO webhook_deliveries (webhook, subject, alert, state, written_at, attempts, next_attempt_at, is_refused)
    SELECT name, :subject, CAST(:alert AS jsonb), 'pending', clock_timestamp(), 0,
           clock_timestamp() + CAST(:wait AS interval), false
    FROM (
        SELECT name FROM webhooks
        WHERE CASE WHEN CAST(:only AS text) IS NULL THEN kinds = '{}' OR :kind = ANY(kinds) ELSE name = :only END
          AND name <> ALL(CAST(:except_for AS text[]))
        ORDER BY name FOR KEY SHARE
    ) AS receivers
    RETURNING webhook
    """
)
_DUE = """
    SELECT waiting.sequence FROM webhook_deliveries AS waiting
    WHERE waiting.webhook = webhooks.name AND waiting.state = 'pending'
      AND waiting.next_attempt_at <= clock_timestamp()
      AND NOT EXISTS (
          SELECT FROM webhook_deliveries AS earlier
          WHERE earlier.webhook = waiting.webhook AND earlier.state = 'pending'
            AND earlier.sequence < waiting.sequence
            AND (NOT earlier.is_refused OR earlier.subject = waiting.subject))
    """
_NAMES_DUE = sa.text(
    f"SELECT name FROM webhooks WHERE paused_at IS NULL AND EXISTS ({_DUE}) ORDER BY name"  # noqa: S608 - our own text
)
# One server locks the row; another one at the same time skips it, or finds it not due any more.
# The retry limit is checked again: a retry may become due after the check of give_up.
_BEGIN = sa.text(
    f"""
    UPDATE webhook_deliveries SET attempts = attempts + 1, last_attempt_at = clock_timestamp(),
           next_attempt_at = clock_timestamp() + CAST(:lease AS interval)
    WHERE sequence = (
        SELECT due.sequence FROM webhooks
        JOIN LATERAL (
            {_DUE}
              AND (waiting.attempts = 0 OR waiting.written_at >= clock_timestamp() - CAST(:retry_limit AS interval))
            ORDER BY waiting.sequence LIMIT 1 FOR UPDATE OF waiting SKIP LOCKED) AS due ON true
        WHERE webhooks.name = :webhook AND webhooks.paused_at IS NULL)
    RETURNING id, attempts, alert
    """  # noqa: S608 - our own text
).columns(id=sa.Uuid(as_uuid=False))


class DeliveryStore(DatabaseStore):
    """The outbox. Its times are Postgres' own, so the servers' clocks need not agree."""

    async def write(
        self, alert: Alert, *, wait_s: float = 0.0, only: str | None = None, except_for: Collection[str] = ()
    ) -> list[str]:
        """Write the alert for every webhook with its kind (or for `only` one); return their names."""
        rows = await self._db.rows(
            _WRITE,
            {
                "subject": alert.subject,
                "alert": msgspec.json.encode(alert).decode(),
                "kind": alert.kind.value,
                "wait": timedelta(seconds=wait_s),
                "only": only,
                "except_for": list(except_for),
            },
        )
        return [row.webhook for row in rows]

    async def replace_unsent(self, alert: Alert) -> set[str]:
        """Replace the unsent alerts of this subject by this one, in their state; return the webhooks."""
        given = sa.literal(msgspec.to_builtins(alert), _D.alert.type)
        rows = await self._db.rows(
            sa.update(webhook_deliveries)
            .where(_IS_UNSENT, _D.subject == alert.subject)
            .values(alert=given.op("||")(_AS_TOLD))
            .returning(_D.webhook)
        )
        return {row.webhook for row in rows}

    async def take_back_unsent(self, subject: str) -> set[str]:
        """Remove unsent HAPPENED alerts of this subject; return the webhooks."""
        rows = await self._db.rows(
            sa.delete(webhook_deliveries)
            .where(_IS_UNSENT, _D.subject == subject, AlertState.HAPPENED.value == _ALERT_STATE)
            .returning(_D.webhook)
        )
        return {row.webhook for row in rows}

    async def list(self, webhook: str, *, after: str | None, limit: int) -> Page[Delivery]:
        """List them newest first."""
        statement = (
            sa.select(webhook_deliveries).where(_D.webhook == webhook).order_by(_D.sequence.desc()).limit(limit + 1)
        )
        if after is not None:
            (before,) = decode_cursor(after, keys=1)
            if not before.isdecimal():
                raise InvalidError(
                    "this cursor is not from Fenceline: take it from next_cursor unchanged", field="after"
                )
            statement = statement.where(_D.sequence < int(before))
        rows = await self._db.rows(statement)
        cursor = encode_cursor(str(rows[limit - 1].sequence)) if len(rows) > limit else None
        return Page(items=tuple(_delivery(row) for row in rows[:limit]), next_cursor=cursor)

    async def due(self) -> list[str]:
        """Return the webhooks with a delivery that is due, by name."""
        return [row.name for row in await self._db.rows(_NAMES_DUE)]

    async def is_any_pending(self) -> bool:
        """Return whether a delivery is due now or later, also one of a paused webhook."""
        pending = sa.select(sa.exists().where(_D.state == DeliveryState.PENDING))
        return bool((await self._db.execute(pending)).scalar_one())

    async def begin(self, webhook: str, *, lease_s: float, retry_limit: timedelta) -> DeliveryAttempt | None:
        """Take the next delivery that is due; it belongs to the caller for `lease_s`. Commit before it is sent.

        They are taken in the order of their writing. Behind one that waits for its next attempt all others wait. Behind
        one that the receiver has refused, only those of the same subject wait. One older than `retry_limit` is not
        taken again.
        """
        given = {"webhook": webhook, "lease": timedelta(seconds=lease_s), "retry_limit": retry_limit}
        row = await self._db.row(_BEGIN, given)
        if row is None:
            return None
        return DeliveryAttempt(delivery_id=row.id, number=row.attempts, alert=msgspec.convert(row.alert, Alert))

    async def note_delivered(self, attempt: DeliveryAttempt, answered: Answered) -> None:
        await self._db.execute(
            sa.update(webhook_deliveries)
            .where(_D.id == attempt.delivery_id, _D.state == DeliveryState.PENDING)
            .values(
                state=DeliveryState.DELIVERED,
                ended_at=sa.func.clock_timestamp(),
                answer_status=answered.status,
                answer=answered.text,
                error=None,
            )
        )

    async def note_failed(
        self, attempt: DeliveryAttempt, *, pause_s: float, error: str, answered: Answered | None = None
    ) -> None:
        """Schedule the next attempt after `pause_s`; nothing happens if another attempt has begun meanwhile."""
        await self._db.execute(
            sa.update(webhook_deliveries)
            .where(
                _D.id == attempt.delivery_id,
                _D.state == DeliveryState.PENDING,
                _D.attempts == attempt.number,
            )
            .values(
                next_attempt_at=sa.func.clock_timestamp() + timedelta(seconds=pause_s),
                is_refused=answered is not None and answered.is_refusal,
                answer_status=None if answered is None else answered.status,
                answer=None if answered is None else answered.text,
                error=error,
            )
        )

    async def hurry(self, webhook: str, *, lease_s: float) -> None:
        """Try waiting deliveries at once; one that may be on its way now is tried when its lease ends."""
        lease_ends = _D.last_attempt_at + timedelta(seconds=lease_s)
        at_once = sa.func.least(_D.next_attempt_at, sa.func.greatest(sa.func.clock_timestamp(), lease_ends))
        await self._db.execute(
            sa.update(webhook_deliveries)
            .where(_D.webhook == webhook, _D.state == DeliveryState.PENDING, _D.attempts > 0)
            .values(next_attempt_at=at_once)
        )

    async def give_up(self, *, older_than: timedelta) -> dict[str, int]:
        """End older deliveries as not delivered, unless they are being sent now; return their number by webhook."""
        gone = (
            sa.update(webhook_deliveries)
            .where(
                _D.state == DeliveryState.PENDING,
                _D.written_at < sa.func.clock_timestamp() - older_than,
                _D.next_attempt_at <= sa.func.clock_timestamp(),
                # Each alert is tried at least once, even after a server was down for long.
                _D.attempts > 0,
            )
            .values(state=DeliveryState.GIVEN_UP, ended_at=sa.func.clock_timestamp())
            .returning(_D.webhook)
            .cte("gone")
        )
        rows = await self._db.rows(
            sa.select(gone.c.webhook, sa.func.count().label("given_up")).group_by(gone.c.webhook)
        )
        return {row.webhook: row.given_up for row in rows}


def _delivery(row: sa.Row[Any]) -> Delivery:
    alert = msgspec.convert(row.alert, Alert)
    return Delivery(
        id=row.id,
        webhook=row.webhook,
        type=alert.type,
        subject=row.subject,
        sentence=alert.sentence,
        state=DeliveryState(row.state),
        written_at=row.written_at,
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        last_attempt_at=row.last_attempt_at,
        answer_status=row.answer_status,
        answer=row.answer,
        error=row.error,
        ended_at=row.ended_at,
    )
