"""How long a record is on its way, from when it was due to be sent to a reader of committed records."""
