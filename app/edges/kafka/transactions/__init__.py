"""Ask brokers about transactions by Kafka's own protocol, and end transactions in two ways."""
