"""Fencing events: who or what ended a producer, a membership or a transaction, judged from what proves it."""
