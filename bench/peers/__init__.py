"""The loop against its peers: the same topics, records, commit interval, durability and verification, in one run."""
