"""Why readers wait: from what brokers say to a chain of reasons, and what it would cost to end what holds them."""
