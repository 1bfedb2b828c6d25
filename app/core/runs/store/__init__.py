"""The stores, one module a noun, with all SQL."""
