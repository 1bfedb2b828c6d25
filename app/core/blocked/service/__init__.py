"""Why readers wait, and ending a transaction by hand."""
