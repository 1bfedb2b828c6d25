"""What keeps the loop exact, switched off piece by piece: then the suite must see records lost or doubled."""
