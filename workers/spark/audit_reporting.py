"""The audit driver's connection to the server: claims the audit, reports its progress and its outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from app.core.wire import protocol
from app.products.audits.wire import (
    CLAIM_PATH,
    OUTCOME_PATH,
    PROGRESS_PATH,
    AuditAnswer,
    AuditClaim,
    AuditOutcome,
    AuditProgressReport,
)
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError
from workers.spark import claiming
from workers.spark.claiming import TRY_AGAIN_S

log = logging.getLogger(__name__)


class _AuditNothing(msgspec.Struct):
    """The answer to an outcome."""


class AuditReporter:
    """Without a server nothing is sent, and the audit stays wanted: it changes nothing, so it may continue alone."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client
        self._failing = False

    def claim(self, claim: AuditClaim, *, within_s: float, give_up: Callable[[], bool]) -> None:
        """Claim before anything is read; an absent server is asked again for `within_s`. Raises NotGrantedError."""
        if not self._client.is_configured:
            return
        claiming.claim(self._client, CLAIM_PATH, claim, what="the audit", within_s=within_s, give_up=give_up)

    def is_wanted(self, progress: AuditProgressReport) -> bool:
        """Report the progress; False once the server has reported that the result is not wanted any more."""
        if not self._client.is_configured:
            return True
        try:
            answer = self._client.post(PROGRESS_PATH, progress, AuditAnswer)
        except ServerRefusedError as error:
            log.warning("the server refuses this audit: %s", error)
            return False
        except (ServerAwayError, protocol.UnsupportedProtocolError) as error:
            if not self._failing:
                log.warning("the audit's progress does not reach the server; it continues: %s", error)
            self._failing = True
            return True
        self._failing = False
        return answer.is_wanted

    def tell_outcome(self, outcome: AuditOutcome, *, within_s: float) -> bool:
        """Send the outcome; False if the server did not receive it within `within_s`: the file has it, too."""
        if not self._client.is_configured:
            return True
        deadline = time.monotonic() + within_s
        while True:
            try:
                self._client.post(OUTCOME_PATH, outcome, _AuditNothing)
                return True
            except ServerRefusedError as error:
                log.warning("the outcome was refused: %s", error)
                return False
            except ServerAwayError as error:
                if time.monotonic() >= deadline:
                    log.warning("the server did not receive the outcome: %s", error)
                    return False
                time.sleep(TRY_AGAIN_S)
