"""Permission of this attempt to initialise its transactional id, from the server or the journal."""
