"""Faults of queries with DataFrames on a Spark standalone cluster: `make faults STAGE=dataframes`."""
