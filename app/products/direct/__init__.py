"""Commands about transactions and groups that ask the brokers directly, without a Fenceline server."""
