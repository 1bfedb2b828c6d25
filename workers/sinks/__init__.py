"""Where a pipeline's outputs go, if not straight into a topic."""
