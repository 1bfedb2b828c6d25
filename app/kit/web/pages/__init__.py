"""What every page stands in: rendering, live regions, assets, words for numbers and times, errors."""
