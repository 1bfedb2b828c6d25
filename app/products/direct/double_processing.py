"""`fenceline double-processing`: offsets that two producers of a group processed, from the journal or the server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.double_processing.listing import counts_of
from app.core.double_processing.overlap import Overlap, overlaps_of, producers_of
from app.core.journals import group_records
from app.core.journals.double_processing import OverlapGrade
from app.edges.kafka.cli.cluster import DirectCluster, Within, as_document, now_ms
from app.edges.kafka.cli.direct import BootstrapServer, ClientConfig, answered
from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.output import AsJson, Watch, ago, present, table
from app.kit.words import count
from app.products.direct.groups import GroupLook
from app.products.direct.listing import TransactionLook
from app.products.direct.operations import RegisteredCluster, check_named

_STYLES = {OverlapGrade.PROVED: "bold red", OverlapGrade.LIKELY: "yellow"}


class ToldOverlap(msgspec.Struct, frozen=True, kw_only=True):
    """The printed fields of a finding from either source."""

    group: str
    topic: str
    partition: int
    grade: OverlapGrade
    at: datetime | None
    sentence: str
    alternatives: list[str]
    advice: list[str]


def double_processing(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="One group, with other explanations and next steps.")
    ] = None,
    *,
    timeout: Within = 60.0,
    bootstrap_server: BootstrapServer = None,
    config: ClientConfig = None,
    cluster: RegisteredCluster = None,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Offsets that were processed twice, by the committed transactional offsets of all clients.

    Exit code 1 if a finding is proved or likely.
    """
    check_named(bootstrap_server, config, cluster)
    found: list[ToldOverlap] = []

    if cluster is not None:
        client, path = connect(), f"/clusters/{quote(cluster, safe='')}/double-processing"

        def read() -> dict[str, Any]:
            answer = client.get(path, group=group)
            found[:] = [as_record(one, ToldOverlap) for one in answer["items"]]
            return answer
    else:
        look = _OverlapLook(DirectCluster(bootstrap_server, config), group=group, timeout_s=timeout)

        def read() -> dict[str, Any]:
            answer = answered(look.read)
            found[:] = [as_record(one, ToldOverlap) for one in answer["items"]]
            return answer

    present(read, partial(rendered, is_detailed=group is not None), as_json=as_json, watch_it=watch_it)
    if any(one.grade.is_problem for one in found):
        raise typer.Exit(ExitCode.FAILED)


class _OverlapLook:
    """The findings in a cluster's journals; each call reads only new records."""

    def __init__(self, cluster: DirectCluster, *, group: str | None, timeout_s: float) -> None:
        self._groups = GroupLook(cluster, timeout_s=timeout_s, is_wanted=lambda name: group in (None, name))
        self._ids = TransactionLook(cluster, timeout_s=timeout_s)

    def read(self) -> dict[str, Any]:
        groups = list(self._groups.groups().values())
        if self._groups.source != group_records.TOPIC:
            raise CommandError(f"findings need READ on {group_records.TOPIC}: {self._groups.remark}")
        wanted, names, remark = producers_of(groups), dict[int, str](), self._groups.remark
        if wanted:
            known = self._ids.ids()
            names = {one.state.producer_id: name for name, one in known.items() if one.state.producer_id in wanted}
            remark = "; ".join(dict.fromkeys(filter(None, [remark, self._ids.remark])))
        items = [one for each in groups for one in overlaps_of(each, names)]
        return {
            "source": self._groups.source,
            "remark": remark,
            "read_at_ms": now_ms(),
            "items": as_document(sorted(items, key=_newest_first)),
            "counts": {str(grade): times for grade, times in counts_of(groups).items()},
        }


def _newest_first(one: Overlap) -> float:
    return 0.0 if one.at is None else -one.at.timestamp()


def rendered(answer: dict[str, Any], *, is_detailed: bool) -> RenderableType:
    """Return the findings as a table, with explanations and next steps if `is_detailed`."""
    found = [as_record(one, ToldOverlap) for one in answer["items"]]
    parts: list[RenderableType] = [
        table(
            ("GROUP", "PARTITION", "GRADE", "TIME", "FINDING"),
            (
                (one.group, f"{one.topic}-{one.partition}", _grade(one.grade), ago(one.at), one.sentence)
                for one in found
            ),
            empty="No offset was processed twice, as far as the journal shows.",
        )
    ]
    if is_detailed:
        parts += _details(found)
    source = answer.get("source") or f"the server's reading of {answer['reading']['topic']}"
    said = ", ".join(f"{times} {grade}" for grade, times in answer["counts"].items() if times)
    parts.append(Text(f"{said or count(0, 'finding')}, from {source}", style="dim"))
    if remark := answer.get("remark") or answer.get("reading", {}).get("problem"):
        parts.append(Text(remark, style="dim"))
    return Group(*parts)


def _details(found: Sequence[ToldOverlap]) -> list[RenderableType]:
    """Return each text once: findings of a group often share them."""
    alternatives = dict.fromkeys(text for one in found for text in one.alternatives)
    advice = dict.fromkeys(text for one in found for text in one.advice)
    return [
        *(Text(f"or: {text}", style="yellow") for text in alternatives),
        *(Text(f"next: {text}", style="cyan") for text in advice),
    ]


def _grade(grade: OverlapGrade) -> Text:
    return Text(grade, style=_STYLES.get(grade, "dim"))
