"""Real services as child processes: Kafka, Postgres and Spark for the demo, `make serve` and every test."""
