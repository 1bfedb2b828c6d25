"""Read the files of pipelines by committed references, and find orphans."""
