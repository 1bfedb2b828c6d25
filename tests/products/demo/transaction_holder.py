"""Run as a script: a worker that commits a transaction, opens a second one on request, and waits."""

import signal
import sys

from confluent_kafka import Producer


def main(bootstrap_servers: str, topic: str, transactional_id: str, leaves_open: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id})
    producer.init_transactions(30)
    for number in range(2 if leaves_open == "open" else 1):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.flush(30)
        if number == 0:
            producer.commit_transaction(30)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
