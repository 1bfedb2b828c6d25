"""What a cluster is, what may be said of it, and what it must offer."""
