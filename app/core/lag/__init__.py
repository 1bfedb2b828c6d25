"""The lag of groups: in records and seconds, judged by movement."""
