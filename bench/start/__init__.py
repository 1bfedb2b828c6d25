"""The waits of a user after a request to start or drain, part by part."""
