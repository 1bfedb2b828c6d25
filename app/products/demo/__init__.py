"""The demo: real flights through a real pipeline, a kill in the middle, and an independent check at the end."""
