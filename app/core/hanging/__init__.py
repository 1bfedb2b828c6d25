"""Hanging transactions found without anybody asking: which partitions to ask about, what was found, how it ended."""
