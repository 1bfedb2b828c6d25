"""The few kinds of errors that services raise and edges handle.

Each error is one clear sentence that names the thing and the next step. The web renders them in one place as RFC 9457
problem documents, for which `status` and `title` are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem (or, as a warning, a doubtful choice), at the field that a user would change.

    `field` is a path as the form and the API name it: `sink_topic`, `transform.steps.2.value`, `spark.conf.spark.foo`.
    """

    field: str
    message: str
    is_warning: bool = False


class FencelineError(Exception):
    """The base of all errors with a sentence for a user.

    field: the form field it belongs to, if any. problems: every mistake at its field, warnings among them.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Fenceline failed"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.problems = [] if field is None else [Problem(field=field, message=message)]


class NotFoundError(FencelineError):
    status = 404
    title = "Not found"


class ConflictError(FencelineError):
    """The request is valid, but conflicts with the present state or with another owner."""

    status = 409
    title = "Conflict with the present state"


class InvalidError(FencelineError):
    """The request's content is wrong."""

    status = 422
    title = "Not valid"

    def __init__(self, message: str, *, problems: Sequence[Problem] = (), field: str | None = None) -> None:
        super().__init__(message, field=field)
        if problems:
            self.problems = list(problems)


class UnauthenticatedError(FencelineError):
    """No user, or an unknown one: the next step is to log in or to send a valid token."""

    status = 401
    title = "Authentication required"


class ForbiddenError(FencelineError):
    status = 403
    title = "Not permitted for this role"


class PreconditionError(FencelineError):
    """The revision that the caller named has changed."""

    status = 412
    title = "Changed meanwhile"


class UnavailableError(FencelineError):
    """A required service does not answer: Postgres, a broker, a Spark master. A later retry may help."""

    status = 503
    title = "A required service does not answer"


class ActOutcomeUnknownError(UnavailableError):
    """A request was sent and not confirmed, so it may be done. The next step is to check before a retry."""

    title = "Outcome unknown"


class BrokerUnreachableError(UnavailableError):
    """No broker of the cluster answered in time. Names the address, the client's error, and the time.

    is_advertised: the bootstrap address answers, and `error` names the brokers whose advertised addresses do not.
    """

    def __init__(self, address: str, error: str, tried_s: float, *, is_advertised: bool = False) -> None:
        if is_advertised:
            message = (
                f"{address} answers, but {error} (tried for {tried_s:.1f} s). "
                "Check the broker's advertised.listeners, and whether this machine may connect there."
            )
        else:
            message = (
                f"no Kafka broker answers at {address}: {error} (tried for {tried_s:.1f} s). Check that the brokers "
                "run, that this address is what they advertise, and the cluster's security settings."
            )
        super().__init__(message)
        self.address = address
        self.error = error
        self.tried_s = tried_s


class IllegalTransitionError(Exception):
    """A state change that a table of states forbids: a bug or a race, never ignored.

    It is no FencelineError, so that code for expected errors does not catch it by accident.
    """
