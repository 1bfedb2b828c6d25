"""Rows of DataFrames: Spark's own Kafka sink and Fenceline's, one after the other."""
