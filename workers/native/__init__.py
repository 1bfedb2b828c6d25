"""Records that never become Python objects: polled, held and produced by C, on the librdkafka of confluent-kafka.

records.c     the queue of a consumer, batches of records, and their way to a producer
arrow.c       records as Arrow columns, and rows of Arrow columns on their way to a producer
avro.c        Avro: values checked against a schema, and encoded
filing.c      records on their way into files, by their partition columns (columns.c)
stepped.c     steps over a batch (steps.c), on a record's fields (fields.c), with values as msgspec has them (json.c)
build.py      `make native` builds them for each platform into `built/`
library.py    finds the right file, and says why there is none
taking.py     decides whether C holds a task's records, and polls them
batch.py      the memory of one take
held.py       the records of a take, and what the loop asks of them
arrow.py      the batches of a Python function over Arrow, and the rows that it returned
avro.py       schemas for C, and the blocks of a file
filing.py     the parts of a file sink
stepping.py   the outputs of steps, with those that Python decides

Membership, ownership, transactions and errors are the loop's (workers/loop), which reads records through
`workers.loop.records.polled` and does not know which implementation it has.
"""
