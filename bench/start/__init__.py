"""What people wait for after they have asked for a start or a drain, part by part."""
