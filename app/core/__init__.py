"""The core: journals, observation, pipelines, runs, ids, fencing, clusters, alerts and access."""
