"""What the brokers say: transactions and groups as the observer knows them now."""
