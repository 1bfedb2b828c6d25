"""Use cases of what is defined: clusters, pipelines and their transforms."""
