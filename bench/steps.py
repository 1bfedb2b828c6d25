"""How many records a second the declarative steps take, without Kafka: prints one JSON object.

python -m bench.steps [--seconds S]
"""

from __future__ import annotations

import argparse
import json
import time

from confluent_kafka import Message

from app.core.pipelines.pipeline import Condition, Filter, Project, Rename, Route, SetField, Step, StepOperator
from workers.transforms.steps import StepsTransform

BATCH = 1_000
CASES: dict[str, tuple[Step, ...]] = {
    "filter": (Filter(field="arr_delay", operator=StepOperator.GE, value=15),),
    "filter_project": (
        Filter(field="arr_delay", operator=StepOperator.GE, value=15),
        Project(fields=("id", "carrier", "flight", "arr_delay")),
    ),
    "five_steps_keep_all": (
        Filter(field="origin", operator=StepOperator.IN, value=["EWR", "JFK", "LGA"]),
        Rename(field="arr_delay", to="delay"),
        SetField(field="source", value="flights"),
        Route(field="delay", operator=StepOperator.GE, value=60, topic="very-late"),
        Project(fields=("id", "carrier", "delay", "source")),
    ),
    "condition": (Condition(expression="record.arr_delay >= 15 && record.origin == 'EWR'"),),
}


def messages() -> list[Message]:
    """A batch of about 100 bytes a record, a quarter of it at least 15 minutes late."""
    return [
        Message(
            topic="flights",
            partition=0,
            offset=number,
            key=b"UA",
            timestamp=(1, 1_700_000_000_000 + number),
            value=json.dumps(
                {
                    "id": number,
                    "carrier": "UA",
                    "flight": 1000 + number % 900,
                    "origin": ("EWR", "JFK", "LGA")[number % 3],
                    "dest": "IAH",
                    "arr_delay": number % 20 if number % 4 else 15 + number % 100,
                    "distance": 1400.0,
                },
                separators=(",", ":"),
            ).encode(),
        )
        for number in range(BATCH)
    ]


def measure(steps: tuple[Step, ...], batch: list[Message], seconds: float) -> dict[str, float | int]:
    transform = StepsTransform(steps)
    kept = len(transform.process(batch).outputs)
    batches = 0
    start, start_cpu = time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(20):
            transform.process(batch)
        batches += 20
    on_cpu = time.process_time() - start_cpu
    return {
        "records_per_second": round(batches * BATCH / elapsed),
        "records_per_cpu_second": round(batches * BATCH / on_cpu),
        "kept_of_1000": kept,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case")
    seconds: float = parser.parse_args().seconds
    batch = messages()
    print(
        json.dumps(
            {
                "value_bytes": sum(len(message) for message in batch) // BATCH,
                "cases": {name: measure(steps, batch, seconds) for name, steps in CASES.items()},
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
