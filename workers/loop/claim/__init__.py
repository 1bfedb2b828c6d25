"""May this attempt (still) have its transactional id? The server's word, and the journal's."""
