"""Secrets are references, resolved where they are used, and never part of a message."""

from __future__ import annotations

import pytest

from app.core.clusters.secret_reference import is_reference, resolve
from app.kit.errors import InvalidError


def read(name: str) -> str:
    if name == "kafka-password":
        return "from-a-file\n"
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("value", "ok"),
    [
        ("env:FENCELINE_SECRET_KAFKA", True),
        ("file:kafka-password", True),
        ("hunter2", False),
        ("env:PATH", False),
        ("env:FENCELINE_SECRET_", False),
        ("file:../../etc/shadow", False),
        ("file:/etc/shadow", False),
        ("file:.hidden", False),
        ("file:a/b", False),
    ],
)
def test_form_of_a_reference(value: str, ok: bool) -> None:
    assert is_reference(value) is ok


def test_references_are_replaced_and_the_rest_is_left() -> None:
    config = {"sasl.password": "env:FENCELINE_SECRET_KAFKA", "ssl.key.password": "file:kafka-password", "x": "env"}
    resolved = resolve(config, environment={"FENCELINE_SECRET_KAFKA": "s3cret"}, read_file=read)
    assert resolved == {"sasl.password": "s3cret", "ssl.key.password": "from-a-file", "x": "env"}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("env:FENCELINE_SECRET_ABSENT", "is not in this process's environment"),
        ("file:absent", "No such file or directory"),
        ("file:../shadow", "without a folder"),
        ("env:HOME", "neither env:FENCELINE_SECRET_NAME nor file:NAME"),
    ],
)
def test_unresolved_reference_is_named(reference: str, words: str) -> None:
    with pytest.raises(InvalidError) as refused:
        resolve({"sasl.password": reference}, environment={"HOME": "/root"}, read_file=read)
    assert reference in refused.value.message
    assert words in refused.value.message
    assert "/root" not in refused.value.message
