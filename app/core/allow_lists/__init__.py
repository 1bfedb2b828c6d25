"""Which options of clients and of Spark a pipeline may name."""
