"""`fenceline audit`: the formats of windows and ids, and the output for an audit."""

from __future__ import annotations

import pytest
from rich.console import Console

from app.kit.cli.errors import CommandError
from app.kit.web.api.shown import model_of
from app.products.audits.audit import Audit, AuditState
from app.products.audits.cli import audits
from app.products.audits.result import AuditCounts
from tests.support.audit_samples import audit, broken_result, dangling_result, result


def test_place_of_an_id_is_parsed() -> None:
    assert audits.place("key", "--id") == {"kind": "key"}
    assert audits.place("json:order.id", "--id") == {"kind": "json", "path": "order.id"}
    assert audits.place("header:trace:id", "--id") == {"kind": "header", "name": "trace:id"}
    with pytest.raises(CommandError, match="expected key, json:PATH or header:NAME"):
        audits.place("order.id", "--id")


def test_audit_is_printed_with_its_verdict_and_the_places_of_wrong_records() -> None:
    item = model_of(Audit).of(audit(AuditState.DONE, result=broken_result())).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(item))
    text = printed.get()
    assert "flights  broken" in text
    assert "2 outputs lost (of 1 id) and 1 output duplicated, of 9 expected." in text
    assert "in-1@41" in text
    assert "out-2@17, out-2@30" in text


def test_unknown_figure_is_printed_as_a_dash() -> None:
    unclear = result(counts=AuditCounts(inputs=2, expected=2, outputs=1, unreadable_output=1))
    item = model_of(Audit).of(audit(AuditState.DONE, result=unclear)).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(item))
    figures = {words[0]: words[-1] for line in printed.get().splitlines() if (words := line.split())}
    assert figures["lost"] == "–"
    assert figures["expected"] == "2"


def test_dangling_reference_is_printed_with_its_file() -> None:
    item = model_of(Audit).of(audit(AuditState.DONE, result=dangling_result())).model_dump(mode="json")
    console = Console(width=200)
    with console.capture() as printed:
        console.print(audits.shown(item))
    text = printed.get()
    assert "files verified and read: 2, dangling references: 1" in text
    [line] = [line for line in text.splitlines() if "flights/carrier=UA/00ff.avro" in line]
    assert line.split()[0] == "out-0@12"
    assert line.rstrip().endswith("is not there")
