"""The command log: user, command, reason and time of each change, by the form's choice."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from app.core.access.command import CommandFilter
from app.core.access.service import command_log
from app.core.access.signed_in import Viewer
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import Problem
from app.kit.moments import WordsError, moment_of
from app.kit.page import Page
from app.kit.web.api.words import NO_NUL
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import links_of
from app.kit.web.pages.screen import Look, Screen
from app.kit.words import words

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PAGE = 50
_VERBS = sorted((verb, words(verb)) for verb in Verb)
Word = Annotated[str, Query(max_length=200, pattern=NO_NUL)]


class CommandSelection:
    """The values of the page's form; a value that is not chosen is an empty string there."""

    def __init__(
        self,
        who: Word = "",
        verb: Word = "",
        target: Word = "",
        outcome: Word = "",
        since: Annotated[Word, Query(alias="from")] = "",
        until: Annotated[Word, Query(alias="to")] = "",
        after: str | None = None,
    ) -> None:
        self.form = {
            "who": who.strip(),
            "verb": verb.strip(),
            "target": target.strip(),
            "outcome": outcome.strip(),
            "from": since.strip(),
            "to": until.strip(),
        }
        self.after = after
        self.problems: dict[str, tuple[Problem, ...]] = {}

    def wanted(self, now: datetime) -> CommandFilter:
        """Return the filter; the mistakes are in `problems` then."""
        form = self.form
        return CommandFilter(
            who=form["who"] or None,
            verb=self._verb(form["verb"]),
            target=form["target"] or None,
            outcome=form["outcome"] or None,
            since=self._moment("from", now),
            until=self._moment("to", now),
        )

    def _verb(self, text: str) -> Verb | None:
        try:
            return Verb(text) if text else None
        except ValueError:
            self.problems["verb"] = (Problem(field="verb", message=f"there is no command {text[:60]!r}: choose one"),)
            return None

    def _moment(self, field: str, now: datetime) -> datetime | None:
        try:
            return moment_of(self.form[field], now=now) if self.form[field] else None
        except WordsError as error:
            self.problems[field] = (Problem(field=field, message=str(error)),)
            return None


def _looking_at(selection: CommandSelection) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        wanted = selection.wanted(now)
        page = Page[command_log.Command](items=())
        if not selection.problems:
            page = await command_log.list_commands(uow, wanted, after=selection.after, limit=_PAGE)
        form = {field: text or None for field, text in selection.form.items()}
        context = {
            "commands": page.items,
            "form": selection.form,
            "is_filtered": any(selection.form.values()),
            "problems": selection.problems,
            "verbs": [("", "all"), *_VERBS],
            "pages": links_of(page.next_cursor, partial(screen.url_of, "commands", **form)),
        }
        status = 422 if selection.problems else 200
        return Screen(
            template="commands/list", title="Command log", context=context, concerns=frozenset(), status=status
        )

    return look


@router.get("/commands")
@router.get("/commands/stream")
async def show_list(
    request: Request, wiring: WiringDep, by: Viewer, selection: Annotated[CommandSelection, Depends()]
) -> Response:
    return await screen.live(request, wiring, by, _looking_at(selection))
