"""The unit of work of commands that work on the database directly, without the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from app.kit.cli.errors import CommandError, ExitCode
from app.kit.errors import FencelineError, UnavailableError

if TYPE_CHECKING:
    from app.kit.db.unit_of_work import UnitOfWork
    from app.kit.settings import Settings

T = TypeVar("T")


def on_database(settings: Settings, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
    """Do `work` in one unit of work and commit it. Raises CommandError with the error's sentence."""
    from app.edges import main  # here: most commands need neither the database nor what brings it

    try:
        return main.on_database(settings, work)
    except UnavailableError as error:
        raise CommandError(str(error), code=ExitCode.UNREACHABLE) from error
    except (FencelineError, main.StartError) as error:
        raise CommandError(str(error)) from error
