"""The page of a diagnosis and of a plan, without brokers."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import msgspec
import pytest

from app.core.blocked import pages as stuck
from app.core.blocked.diagnosis import AdviceVerdict, Explanation, explain_topic
from app.core.blocked.ending import EndingPlan, plan_end, plan_fence
from app.kit import access
from app.kit.access import Role, Verb
from app.kit.printable import is_odd
from app.kit.web.pages import display, screen
from tests.core.blocked.answers import ID, asked, held, known, read_through
from tests.edges.main.pages.test_rendering import may_as
from tests.support.odd_names import EVIL, in_bash
from tests.support.page_samples import NOW


def page(
    found: Explanation | None, *, role: Role = Role.OPERATOR, problem: str | None = None, is_known: bool = True
) -> str:
    context: dict[str, Any] = {
        "clusters": ["demo"],
        "cluster": "demo",
        "target": "orders:0",
        "kind": "",
        "problem": problem,
        "blocked": [],
        "causes": [],
        "is_known": is_known,
        "found": None if found is None else stuck._shown(found),  # pyright: ignore[reportPrivateUsage] - the context of a view
    }
    return screen.render("stuck/_detail", {"may": may_as(role), "now": NOW, **context})


def planned(plan: EndingPlan) -> str:
    context: dict[str, Any] = {
        "verb": "End",
        "subject": "orders-0",
        "plan": plan,
        "action": "/stuck/end",
        "fields": {},
        "back": "/stuck",
    }
    return screen.render("stuck/_plan", {"now": NOW, **context})


def test_page_shows_the_chain_with_evidence_and_advice() -> None:
    html = page(explain_topic("orders", [held(known(timeout_ms=900_000))], asked()))
    assert "read_committed consumers of orders-0 are blocked at offset 10." in html
    assert f"which is {ID}" in html
    assert "DescribeProducers" in html
    assert "Fence…" in html
    assert "End transaction…" not in html
    assert 'data-copy="read_committed consumers of orders-0' in html


def test_copied_text_has_no_control_characters_and_names_the_same_id() -> None:
    owner = msgspec.structs.replace(known(timeout_ms=900_000), transactional_id=EVIL)
    found = explain_topic("orders", [held(owner)], asked())
    plan = plan_fence(EVIL, owner, asked())
    copied = [unescape(text) for text in re.findall(r'data-copy="([^"]*)"', page(found) + planned(plan))]
    describe, fence, terminate = (text for text in copied if text.startswith(("kafka-", "fenceline ")))
    for line in (describe, fence, terminate):
        assert not is_odd(line)
        words = re.fullmatch(r"[\w .:-]+ (\$'.*')(?: --bootstrap-server b1:9092)?", line)
        assert words is not None, line
        assert in_bash([words[1]], "C.UTF-8") == [EVIL.encode()]
    as_text = next(text for text in copied if text.startswith("read_committed consumers of"))
    assert not is_odd(as_text.replace("\n", ""))
    assert "id␊␛[2J" in as_text


def test_id_with_a_nul_character_gets_no_command() -> None:
    owner = msgspec.structs.replace(known(timeout_ms=900_000), transactional_id="orders\0-1")
    assert explain_topic("orders", [held(owner)], asked()).partitions[0].commands == ()
    assert plan_fence("orders\0-1", owner, asked()).command == ""


def test_link_ends_a_hanging_transaction_in_its_partition() -> None:
    html = page(explain_topic("orders", [held(None)], asked()))
    assert "/stuck/end?cluster=demo&amp;topic=orders&amp;partition=0&amp;start_offset=10&amp;target=orders%3A0" in html
    assert "Fence…" not in html


@pytest.mark.parametrize("role", list(Role))
def test_end_is_offered_only_to_permitted_roles(role: Role) -> None:
    html = page(explain_topic("orders", [held(None)], asked()), role=role)
    assert ("End transaction…" in html) is access.allows(role, Verb.END_TRANSACTION) is role.includes(Role.OPERATOR)


def test_partitions_that_are_not_blocked_are_counted() -> None:
    free = [msgspec.structs.replace(read_through(held(None)), partition=number) for number in (1, 2)]
    html = page(explain_topic("orders", [held(None), *free], asked()))
    assert "2 more partitions are not blocked." in html
    assert "read_committed consumers of orders are blocked in 1 of 3 partitions" in html


def test_empty_page_explains_itself() -> None:
    assert "No blocked readers" in page(None)
    assert "No blocked readers" not in page(None, is_known=False)
    assert "No blocked readers" not in page(None, problem="no Kafka broker answers at b1:9092")
    assert "no Kafka broker answers" in page(None, problem="no Kafka broker answers at b1:9092")


def test_objection_requires_a_reason() -> None:
    html = planned(plan_end(held(known()), None, asked()))
    assert "fence that id instead" in html
    assert 'name="force"' in html
    free_to_go = planned(plan_end(held(None), None, asked()))
    assert 'name="force"' not in free_to_go
    assert "Losses" in free_to_go


def test_impossible_plan_has_no_button() -> None:
    html = planned(plan_fence(ID, None, asked()))
    assert "Not possible: the transactional id" in html
    assert "<form" not in html


def test_names_from_the_cluster_are_text() -> None:
    odd = msgspec.structs.replace(known(timeout_ms=900_000), transactional_id="<script>alert(1)</script>")
    html = page(explain_topic("orders", [held(odd)], asked()))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("verdict", list(AdviceVerdict))
def test_every_verdict_has_a_tone(verdict: AdviceVerdict) -> None:
    assert display.tone(verdict) in {"good", "busy", "warn", "bad", "idle"}
