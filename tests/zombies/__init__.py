"""Zombies of each stage of a migration, and of the switch in one step: who doubles records, and who stops the rest."""
