"""What a cluster keeps of the promises of Kafka's transactions: verdicts, judgements, the report."""
