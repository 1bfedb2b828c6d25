"""The demo: real flights through a real pipeline, a kill in the middle, and an independent proof at the end."""
