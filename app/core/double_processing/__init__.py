"""Offsets that two producers of a group processed: sentences, lists, REST and the section of pages."""
