"""Who may do what, once, and who did it: tokens, idempotency, the command log."""
