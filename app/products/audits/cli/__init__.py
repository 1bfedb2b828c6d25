"""`fenceline audit`, `fenceline compare`, and `fenceline audits`."""
