"""The clients of the tests themselves print nothing on stderr, and create no topics by a look-up."""

from typing import Any

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS

# librdkafka prints each connection that a stopping broker closes.
QUIET: dict[str, Any] = {"log_level": 0, **NEVER_CREATE_TOPICS}
