"""The costs of growth for the server: pipelines, tasks that report, and transactional ids of its cluster."""
