"""What the brokers say, at the edge. Times are the brokers' own, but for `as_of` and `phase_since`."""
