"""What is told to programs elsewhere: which kinds of alerts there are, and when they are told."""
