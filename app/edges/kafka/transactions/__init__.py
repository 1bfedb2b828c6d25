"""What brokers say about transactions, asked by Kafka's own protocol, and the two ways to end one."""
