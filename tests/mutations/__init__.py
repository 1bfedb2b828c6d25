"""Protections of the loop, switched off one by one: then the suite must see records lost or duplicated."""
