"""The second stage of a run: three brokers, a Spark cluster of two workers, a server and its Postgres."""
