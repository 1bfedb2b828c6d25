"""Deliveries are signed by Standard Webhooks, and an invalid secret is reported without its value."""

from __future__ import annotations

import base64

import pytest

from app.kit.errors import InvalidError
from app.products.webhooks.signature import headers_of, key_of

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_signature_of_the_reference_libraries_own_example() -> None:
    """The example that the specification's libraries are tested with."""
    headers = headers_of(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        timestamp_s=1614265330,
        keys=[key_of(SECRET, reference="env:X")],
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_two_secrets_sign_both() -> None:
    keys = [b"a" * 24, b"b" * 24]
    both, first, second = (
        headers_of("id", b"{}", timestamp_s=1, keys=some)["webhook-signature"] for some in (keys, keys[:1], keys[1:])
    )
    assert both == f"{first} {second}"
    assert first != second


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "hunter2hunter2hunter2hunter2hunter2",
        "whsec_" + base64.b64encode(b"a" * 23).decode(),
        "whsec_" + base64.b64encode(b"a" * 65).decode(),
        "whsec_" + base64.b64encode(b"a" * 24).decode()[:-2] + "ü!",
    ],
)
def test_an_invalid_secret_is_refused_by_its_name(secret: str) -> None:
    with pytest.raises(InvalidError) as refused:
        key_of(secret, reference="env:FENCELINE_SECRET_PAGER")
    assert "env:FENCELINE_SECRET_PAGER" in refused.value.message
    assert "fenceline webhooks secret" in refused.value.message
    assert len(secret) < 10 or secret not in refused.value.message


def test_secret_may_end_with_a_newline() -> None:
    assert key_of(SECRET + "\n", reference="file:pager") == base64.b64decode(SECRET.removeprefix("whsec_"))
