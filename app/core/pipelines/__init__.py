"""What a pipeline is: its definition, its revisions, its file, and whether it makes sense."""
