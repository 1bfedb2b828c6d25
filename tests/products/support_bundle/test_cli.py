"""A support bundle has the data for a maintainer, and none of the planted secrets."""

from __future__ import annotations

import html
import json
import shlex
import stat
import zipfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import orjson
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.edges.embedded.kafka import KafkaCluster
from app.kit.cli.output import json_text
from app.products.support_bundle.redaction import REMOVED, redact
from tests.support.api_samples import definition_on
from tests.support.fixtures import Fenceline
from tests.support.serving import Serving
from tests.support.topics import unique_name

PLANTED = "hunter2-planted-secret"
RUN_TOKEN = "Zk3vQ0b9yTq1mX8sLr5cWf7uEj2pNa4dHg6iKo0tBxY"
SECRET_FILE = "from-a-file-5e3f"


@pytest.mark.slow
def test_planted_secrets_are_nowhere_in_it(
    fenceline: Fenceline, served: Serving, tmp_path: Path, kafka: KafkaCluster, cluster: str
) -> None:
    name = unique_name("bundle")
    with served.client() as client:
        body = {"name": name, "definition": definition_on(kafka.bootstrap_servers, cluster=cluster)}
        assert client.post("/api/v1/pipelines", json=body).status_code == 201
    instance = served.state_dir / "instances" / "x"
    instance.mkdir(parents=True, exist_ok=True)
    postgres_password = (served.state_dir / "postgres" / "password").read_text().strip()
    (instance / "driver.log").write_text(
        f"sasl.password={PLANTED}\nenv says {PLANTED} {SECRET_FILE}\nAuthorization: Bearer {RUN_TOKEN}\n"
        f"postgresql://fenceline:{postgres_password}@127.0.0.1/x\n{served.token}\nan ordinary line\n"
    )
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "kafka").write_text(f"{SECRET_FILE}\n")
    ended = fenceline(
        "support-bundle", "-o", "bundle.zip", FENCELINE_SECRET_KAFKA=PLANTED, FENCELINE_SECRETS_DIR=str(secrets)
    )
    assert ended.returncode == 0, ended.stderr
    assert stat.S_IMODE((tmp_path / "bundle.zip").stat().st_mode) == 0o600
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        texts = {entry: bundle.read(entry).decode() for entry in bundle.namelist()}
    whole = "\n".join(texts.values())
    for secret in (PLANTED, RUN_TOKEN, SECRET_FILE, postgres_password, served.token):
        assert secret not in whole
    assert "an ordinary line" in texts["logs/instances/x/driver.log"]
    assert name in {item["name"] for item in orjson.loads(texts["definitions.json"])}
    assert orjson.loads(texts["versions.json"])["packages"]["fenceline"]
    assert orjson.loads(texts["ready.json"])["status"] == "ready"
    assert {"settings.json", "doctor.json", "clusters.json", "commands.json", "README.txt"} <= texts.keys()


def test_the_embedded_databases_log_is_not_packed(fenceline: Fenceline, tmp_path: Path) -> None:
    """Its log quotes statements, which have users' data."""
    state = tmp_path / "state"
    for folder in ("postgres", "postgres/data", "instances/postgres"):
        (state / folder).mkdir(parents=True)
        (state / folder / "postgres.log").write_text(f"STATEMENT: INSERT INTO {folder}\n")
    (state / "server.log").write_text("an ordinary line\n")
    ended = fenceline(
        "support-bundle",
        "-o",
        "bundle.zip",
        FENCELINE_STATE_DIR=str(state),
        FENCELINE_SERVER_URL="http://127.0.0.1:1",
    )
    assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        packed = {entry for entry in bundle.namelist() if entry.startswith("logs/")}
    assert packed == {"logs/server.log", "logs/instances/postgres/postgres.log"}


@pytest.mark.slow
def test_it_is_made_without_a_server_too(fenceline: Fenceline, tmp_path: Path) -> None:
    """A bundle matters most then."""
    ended = fenceline(
        "support-bundle",
        "-o",
        "bundle.zip",
        FENCELINE_SERVER_URL="http://127.0.0.1:1",
        FENCELINE_DATABASE_URL=f"postgresql://me:{PLANTED}@127.0.0.1:1/x",
    )
    assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        assert "127.0.0.1:1" in orjson.loads(bundle.read("definitions.json"))["not_available"]
        assert PLANTED not in "".join(bundle.read(entry).decode() for entry in bundle.namelist())


FORMS: list[Callable[[str], str]] = [
    json.dumps,
    lambda secret: json.dumps(secret, ensure_ascii=False),
    json_text,
    lambda secret: json.dumps(json.dumps(secret)),
    repr,
    ascii,
    lambda secret: repr(secret.encode()),
    quote,
    lambda secret: quote(secret, safe=""),
    quote_plus,
    html.escape,
    shlex.quote,
    lambda secret: b64encode(secret.encode()).decode(),
]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("token flt_abcdefghijklmnopqrstuvwxyz0123456789 ends", "token "),
        ('"password": "p w"', '"password": '),
        ("sasl.password = geheim, next", "next"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: "),
        ("postgres://u:geheim@host/db", "host/db"),
        ("-----BEGIN PRIVATE KEY-----\ngeheim\n-----END PRIVATE KEY-----\nafter", "after"),
        (f"run token {RUN_TOKEN}.", "run token "),
    ],
)
def test_text_like_a_secret_is_removed(text: str, kept: str) -> None:
    found = redact(text, secrets=())
    assert REMOVED in found
    assert kept in found
    for secret in ("geheim", "dXNlcjpwYXNz", "p w", "abcdefghijklmnopqrstuvwxyz", RUN_TOKEN):
        assert secret not in found


@pytest.mark.parametrize(
    "text",
    [
        '"sasl.password": "env:FENCELINE_SECRET_KAFKA"',
        "definition_sha256 " + "0123456789abcdef" * 4,
        "run 3069df2e-a9f6-4b6e-a37b-afc005f355f0 of delayed-flights is running",
        "http://127.0.0.1:8700/pipelines",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text, secrets=()) == text


@given(secret=st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40), form=st.sampled_from(FORMS))
@example(secret='ge"heim\\\n<ü>&', form=FORMS[0])
def test_a_secret_is_removed_however_it_is_written(secret: str, form: Callable[[str], str]) -> None:
    assume(len(secret.strip()) >= 8)
    written = form(secret)
    assert written not in redact(f"before {written} after", secrets=[secret])


def test_a_secret_by_shape_ends_where_its_quotation_does() -> None:
    text = json.dumps({"password": 'ge"heim", "x', "after": 1})
    assert redact(text, secrets=()) == f'{{"password": {REMOVED}, "after": 1}}'


def test_a_short_value_takes_nothing_else_with_it() -> None:
    assert redact("a banana", secrets=["a"]) == "a banana"


@pytest.mark.parametrize("secret", ["    ", " a   ", "\t\t\t\t\t"])
def test_a_secret_that_is_short_without_its_spaces_leaves_other_text_as_it_is(secret: str) -> None:
    assert redact("a banana", secrets=[secret]) == "a banana"
    assert redact(f"[{secret}]", secrets=[secret]) == f"[{REMOVED}]"
