"""What could not be joined is listed, with what it costs."""

from __future__ import annotations

from decimal import Decimal

from tests.lake.marts.conftest import Lake

MACHINE = "i-0aaaabbbbccccdddd"


def billed(lake: Lake, resource_id: str | None, cost: int) -> Lake:
    return lake.charge(
        "accelerator_charges",
        ResourceId=resource_id,
        ServiceName="Amazon EC2",
        usage_kind="accelerator.hours",
        hour="2026-09-02 01:00:00",
        EffectiveCost=cost,
        ConsumedQuantity=1,
        accelerator_count=1,
    )


def listed(lake: Lake) -> list[tuple[object, ...]]:
    return lake.build().rows(
        "select kind, id, reason, EffectiveCost, samples from unjoined order by kind, id nulls last, reason"
    )


def test_samples_of_an_unknown_host_are_listed_beside_the_machine_without_telemetry(lake: Lake) -> None:
    billed(lake, MACHINE, 8)
    lake.samples("gpu-node-7", "gpu.utilization", {"2026-09-02 01:00:00": 0.5, "2026-09-02 01:05:00": 0.5}, device="0")
    assert listed(lake) == [
        ("bill", MACHINE, "no sample of its accelerators", Decimal(8), 0),
        ("telemetry", "gpu-node-7", "no bill and no inventory knows this name", None, 2),
    ]


def test_a_name_of_two_machines_is_listed_as_such(lake: Lake) -> None:
    for number in (1, 2):
        lake.resource(f"i-0aaaabbbbcccc000{number}", "instance", state="stopped", aliases=["worker"])
    lake.samples("worker", "gpu.utilization", {"2026-09-02 01:00:00": 0.5})
    assert listed(lake) == [("telemetry", "worker", "two or more resources answer to this name", None, 1)]


def test_cost_without_a_resource_and_machines_that_one_side_misses_are_listed(lake: Lake) -> None:
    billed(lake, None, 3)
    billed(lake, MACHINE, 5)
    lake.samples(MACHINE, "gpu.utilization", {"2026-09-02 01:00:00": 0.5})
    lake.resource("i-0aaaabbbbcccc0001", "instance", state="running", attributes={"accelerator_count": 8})
    lake.resource("i-0aaaabbbbcccc0002", "instance", state="terminated", attributes={"accelerator_count": 8})
    assert listed(lake) == [
        ("bill", None, "the bill names no resource: Amazon EC2", Decimal(3), 0),
        ("inventory", "i-0aaaabbbbcccc0001", "no bill charges it in the window, in state running", None, None),
        ("inventory", MACHINE, "no inventory lists it", Decimal(5), None),
    ]


def test_a_machine_that_all_three_know_is_not_listed(lake: Lake) -> None:
    billed(lake, MACHINE, 5)
    lake.samples(MACHINE, "gpu.utilization", {"2026-09-02 01:00:00": 0.5})
    lake.resource(MACHINE, "instance", state="running", attributes={"accelerator_count": 1})
    assert listed(lake) == []
