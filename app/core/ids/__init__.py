"""Transactional ids, their mappings, what was fenced and why."""
