"""The offsets of brokers' clocks from this server's, and ages that are computed with them."""
