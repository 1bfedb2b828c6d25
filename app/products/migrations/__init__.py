"""From one producer a partition to one a task, and back, in an order in which no record can be processed twice."""
