"""Files that pipelines wrote: their references are received, kept, and shown."""
