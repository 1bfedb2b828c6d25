"""Access: tokens, sessions, idempotency and the command log."""
