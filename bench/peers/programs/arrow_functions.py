"""The Python function of the comparison over Arrow batches, by polars, as a user of Fenceline would upload it."""

# pyright: basic

import polars as pl

_FLIGHT = pl.Struct({"id": pl.Int64, "arr_delay": pl.Int64})


def delay_in_hours(batch):
    """One row for each record, in order."""
    flight = pl.col("value").cast(pl.String).str.json_decode(_FLIGHT)
    rows = pl.DataFrame(batch.select(["value"])).select(flight=flight).unnest("flight")
    outputs = rows.select("id", delay_h=pl.col("arr_delay") / 60)
    return outputs.select(value=pl.struct("id", "delay_h").struct.json_encode()).to_arrow()
