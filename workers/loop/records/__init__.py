"""Processing of a batch of records, and the search for the bad one among them."""
