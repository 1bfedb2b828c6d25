"""The exactly-once loop, free of Spark: one task reads, transforms and writes in Kafka transactions."""
