"""The audit without Spark: from a window to offsets, from records to ids, from ids to findings."""
