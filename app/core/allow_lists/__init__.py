"""Allow lists: the options of clients and of Spark that a pipeline may set."""
