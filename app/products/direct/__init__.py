"""Commands about transactions and groups that ask the brokers themselves: no server of ours is needed."""
