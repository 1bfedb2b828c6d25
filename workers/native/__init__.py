"""Records that never become Python objects: polled, held and produced by C, on the librdkafka of confluent-kafka.

lane.c        the C part; `make native` builds it for each platform into `built/`
library.py    finds the right file, and says why there is none
taking.py     the queue of a consumer: its partitions are forwarded to it, and records are taken from it in batches
held.py       a batch, and what the loop asks of it

Membership, ownership, transactions and errors are the loop's (workers/loop), which reads records through
`workers.loop.records.polled` and does not know which implementation it has.
"""
