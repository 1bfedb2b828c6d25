"""The values of the records of `__consumer_offsets`, by kind of group: offsets, classic, KIP-848, share, Streams."""
