"""The stores, one module a noun. SQL stands here and nowhere else."""
