"""The Python function of the comparison, on whole batches, as a user of Fenceline would upload it."""

# pyright: basic


def delay_in_hours(records):
    """One output for each record, in order."""
    outputs = []
    for record in records:
        value = record.json()
        outputs.append([record.with_json({"id": value["id"], "delay_h": value["arr_delay"] / 60})])
    return outputs
