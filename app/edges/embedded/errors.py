"""The one error of this room: a sentence that names what did not come up and the way out."""


class EmbeddedError(Exception):
    """An embedded service could not be fetched, started or stopped; the message says which, why, and what to do."""


class PortTakenError(EmbeddedError):
    """A service ended because somebody took its port after it was found free: start it again on another."""
