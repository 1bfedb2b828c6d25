"""A migration of the whole product under load and faults, forward and back: `make migration`."""
