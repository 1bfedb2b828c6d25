"""Webhooks: receivers of alerts, with allowed addresses, signatures and retries."""
