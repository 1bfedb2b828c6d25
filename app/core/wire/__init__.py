"""Messages between the server and the workers. Standard library and msgspec only; it travels to executors."""
