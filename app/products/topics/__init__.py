"""The topics of a cluster: settings, sizes, readers and writers; and their records, with the outcome of each."""
