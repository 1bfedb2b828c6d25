"""What Fenceline knows without asking anybody: definitions, decisions, decoders. Pure; no I/O, no framework."""
