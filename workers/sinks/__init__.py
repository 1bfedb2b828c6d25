"""The destinations of a pipeline's outputs other than topics."""
