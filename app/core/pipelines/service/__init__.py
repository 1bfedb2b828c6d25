"""Use cases of definitions: clusters, pipelines and their transforms."""
