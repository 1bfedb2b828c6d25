"""Real services as our own child processes: Kafka, Postgres and Spark for the demo, `make serve` and every test."""
