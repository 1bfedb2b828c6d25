"""Files that pipelines wrote, as the references to them tell: what was read of those, and what came of it."""
