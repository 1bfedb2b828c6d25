"""Written files: receive, store and show their references."""
