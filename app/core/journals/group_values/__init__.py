"""What the records of `__consumer_offsets` say, a module for each kind of group: offsets, classic, KIP-848, Streams."""
