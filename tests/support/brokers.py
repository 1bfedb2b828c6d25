"""How the brokers of the tests differ from those of a first user: nothing waits longer than it must."""

TEST_BROKER_SETTINGS = {
    # The interval of the check for timed-out transactions; 10 s by default.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # The interval of the log cleaner's check for something to compact; 15 s by default.
    "log.cleaner.backoff.ms": "1000",
    # `__transaction_state` keeps its 50 partitions: decoders hash with that number.
    "offsets.topic.num.partitions": "10",
    # In classic groups a client asks for its session; in those of KIP-848 and of Streams the broker says it (45 s by
    # default).
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
}
