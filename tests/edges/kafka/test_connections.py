"""The files of a cluster's entry: only certificates and keys are read, and no other content is quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.edges.kafka.connections import resolve
from app.kit.errors import InvalidError

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n"


def resolved(option: str, path: object) -> dict[str, str]:
    return resolve({"bootstrap.servers": "x:1", option: str(path)}, environment={}, secrets_dir=None)


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("ssl.ca.location", CERTIFICATE),
        ("ssl.ca.location", f"# the company's\n{CERTIFICATE}{CERTIFICATE}"),
        ("ssl.certificate.location", CERTIFICATE),
        ("ssl.key.location", KEY),
    ],
)
def test_certificates_and_keys_are_taken(tmp_path: Path, option: str, content: str) -> None:
    (tmp_path / "file").write_text(content)
    assert resolved(option, tmp_path / "file")[option] == str(tmp_path / "file")


@pytest.mark.parametrize("option", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
@pytest.mark.parametrize("content", ["root:$6$salt$hash:19000::", "", None])
def test_another_file_is_refused_and_not_quoted(tmp_path: Path, option: str, content: str | None) -> None:
    if content is not None:
        (tmp_path / "shadow").write_text(content)
    with pytest.raises(InvalidError, match=f"{option}: .*shadow is not a readable PEM file") as refused:
        resolved(option, tmp_path / "shadow")
    assert "salt" not in str(refused.value)


def test_a_folder_of_authorities_is_taken_and_no_folder_of_keys(tmp_path: Path) -> None:
    assert resolved("ssl.ca.location", tmp_path)
    assert resolved("ssl.ca.location", "probe")
    with pytest.raises(InvalidError):
        resolved("ssl.key.location", tmp_path)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/proc/self/environ"])
def test_a_device_is_not_read(path: str) -> None:
    with pytest.raises(InvalidError, match="not a readable PEM file"):
        resolved("ssl.ca.location", path)
