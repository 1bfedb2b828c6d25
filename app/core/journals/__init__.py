"""The two journals of the brokers, `__transaction_state` and `__consumer_offsets`: bytes to records to a live model."""
