"""A broker's refusal and a missing answer are distinguished, as the second may have changed something."""

from __future__ import annotations

import pytest

from app.edges.kafka.raw_client import errors
from app.edges.kafka.transactions.questions import INIT_PRODUCER_ID


@pytest.mark.parametrize(
    ("name", "is_open"),
    [
        ("TransactionalIdAuthorizationFailedError", False),
        ("InvalidProducerEpochError", False),
        ("ConcurrentTransactionsError", True),
        ("NotCoordinatorError", True),
        ("KafkaTimeoutError", True),
        ("KafkaConnectionError", True),
        ("NodeNotReadyError", True),
    ],
)
def test_only_a_brokers_no_is_a_no(name: str, is_open: bool) -> None:
    refused = INIT_PRODUCER_ID.refused("tx", getattr(errors, name)())
    assert refused.is_open is is_open
    assert (refused.permission is None) is not name.startswith("TransactionalIdAuthorization")
