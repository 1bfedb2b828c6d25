"""Common parts of tests: waiting for a condition, topics, databases, and the settings of the test services."""
