"""REST schemas of observed transactions and groups. Times are the brokers', except `as_of` and `phase_since`."""
