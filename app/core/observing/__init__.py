"""What is known of a cluster's transactions and groups now, since when, and from where."""
