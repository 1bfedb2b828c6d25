"""What the clients of the tests themselves say on stderr: nothing."""

from typing import Any

# librdkafka prints each connection that a stopping broker closes.
QUIET: dict[str, Any] = {"log_level": 0}
