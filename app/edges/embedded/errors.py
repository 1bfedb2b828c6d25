"""The errors of embedded services: a sentence with the failed service and the next step."""


class EmbeddedError(Exception):
    """An embedded service could not be fetched, started or stopped; the message has its name, reason and remedy."""


class PortTakenError(EmbeddedError):
    """A service ended because another process took its free port: start it again on another one."""
