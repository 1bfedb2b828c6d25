"""Zombies of each stage of a migration, and of the switch in one step: their duplicates, and their fencing."""
