"""What can go wrong, in the few kinds that everybody above the borders needs to know.

Each error is one clear sentence that names the thing and the way out. The web renders them in one place as RFC 9457
problem documents; `status` and `title` are for that place, nobody else looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong (or, as a warning, unwise), at the field that a person would change.

    `field` is a path as the form and the API name it: `sink_topic`, `transform.steps.2.value`, `spark.conf.spark.foo`.
    """

    field: str
    message: str
    is_warning: bool = False


class FencelineError(Exception):
    """The base of all errors that carry a sentence for a person.

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
    title = "There is no such thing"


class ConflictError(FencelineError):
    """The request is sound, but not in the state that things are in, or another owner was first."""

    status = 409
    title = "That is in conflict with what is there"


class InvalidError(FencelineError):
    """What was sent is wrong."""

    status = 422
    title = "What was sent is not valid"

    def __init__(self, message: str, *, problems: Sequence[Problem] = (), field: str | None = None) -> None:
        super().__init__(message, field=field)
        if problems:
            self.problems = list(problems)


class UnauthenticatedError(FencelineError):
    """Nobody, or nobody we know: the way out is to log in or to send a valid token."""

    status = 401
    title = "Who are you?"


class ForbiddenError(FencelineError):
    status = 403
    title = "Your role does not allow that"


class PreconditionError(FencelineError):
    """The caller named what it had seen (a revision), and that is no longer so."""

    status = 412
    title = "It has changed meanwhile"


class UnavailableError(FencelineError):
    """Something that we need does not answer: Postgres, a broker, a Spark master. Trying again later may help."""

    status = 503
    title = "Something that is needed does not answer"


class OutcomeUnknownError(UnavailableError):
    """Somebody was asked to do it, and did not say that it is done: it may be. The way out is to look again first."""

    title = "It may have been done"


class BrokerUnreachableError(UnavailableError):
    """No broker of the cluster answered in time. Names the address, the client's error, and how long it was tried.

    is_advertised: the bootstrap address answers, and `error` names the brokers that do not at their advertised ones.
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
    """A state change that a table of states does not allow: a bug or a race, never ignored.

    It is no FencelineError: code that handles expected errors does not catch it by accident.
    """
