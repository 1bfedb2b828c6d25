"""What happens to a batch of records, and how the bad one among them is found."""
