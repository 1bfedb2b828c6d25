"""The claim at the server before anything is run: a lease by its driver, an audit by its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from app.core.wire import protocol
from app.core.wire.heartbeat import ClaimAnswer
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError

TRY_AGAIN_S = 1.0

log = logging.getLogger(__name__)


class NotGrantedError(Exception):
    """This application may not run the lease; the message is the server's reason."""


def claim(
    client: ServerClient,
    path: str,
    wanted: msgspec.Struct,
    *,
    what: str,
    within_s: float,
    give_up: Callable[[], bool],
) -> None:
    """Claim `what`. Raises NotGrantedError.

    A server that is away is asked again until `within_s` is over. `give_up` ends the wait early.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            answer = client.post(path, wanted, ClaimAnswer)
        except ServerRefusedError as error:
            raise NotGrantedError(error.reason) from error
        except protocol.UnsupportedProtocolError as error:
            raise NotGrantedError(str(error)) from error
        except ServerAwayError as error:
            if time.monotonic() >= deadline or give_up():
                raise NotGrantedError(f"{what} could not be claimed within {within_s:g} s: {error}") from error
            log.warning("%s cannot be claimed yet: %s", what, error)
            time.sleep(TRY_AGAIN_S)
        else:
            if not answer.granted:
                raise NotGrantedError(answer.reason or "no reason given")
            return
