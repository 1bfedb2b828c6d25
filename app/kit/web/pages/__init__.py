"""The frame of every page: rendering, live regions, assets, formats of numbers and times, errors."""
