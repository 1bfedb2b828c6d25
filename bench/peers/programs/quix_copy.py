"""Quix Streams doing the same work, in an environment of its own (requirements/quix.lock).

python quix_copy.py BOOTSTRAP SOURCE SINK TASK GUARANTEE COMMIT_INTERVAL_S COMPRESSION FOLDER; runs until it is killed.
"""

# pyright: basic, reportMissingImports=false
# Its packages are not those of this environment.

import sys

from quixstreams import Application


def main() -> None:
    bootstrap_servers, source, sink, task, guarantee, interval_s, compression, folder = sys.argv[1:]
    application = Application(
        broker_address=bootstrap_servers,
        consumer_group=f"quix-{sink}",
        auto_offset_reset="earliest",
        commit_interval=float(interval_s),
        processing_guarantee=guarantee,
        auto_create_topics=False,
        state_dir=folder,
        loglevel="WARNING",
        consumer_extra_config={"fetch.queue.backoff.ms": 10, "queued.max.messages.kbytes": 65_536},
        producer_extra_config={
            "acks": "all",
            "linger.ms": 5,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "compression.type": compression,
        },
    )
    kind = "bytes" if task == "identity" else "json"
    read = application.topic(source, value_deserializer=kind, key_deserializer="bytes")
    written = application.topic(sink, value_serializer=kind, key_serializer="bytes")
    frame = application.dataframe(read)
    if task == "filter and project":
        frame = frame.filter(lambda record: record["arr_delay"] >= 15)
        frame = frame.apply(lambda record: {"id": record["id"], "carrier": record["carrier"]})
    elif task in ("a Python function", "a polars function"):  # it has no batches
        frame = frame.apply(lambda record: {"id": record["id"], "delay_h": record["arr_delay"] / 60})
    frame.to_topic(written)
    application.run()


if __name__ == "__main__":
    main()
