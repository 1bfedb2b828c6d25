"""What growth costs the server: pipelines, tasks that report, and transactional ids of its cluster."""
