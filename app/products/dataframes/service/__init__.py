"""Reports of queries: received, and shown."""
