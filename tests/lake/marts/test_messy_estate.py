"""An estate as it is met: several sources, spellings, forms and clouds at once, and the ledger still adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lake.marts.conftest import Lake

DAY = "2026-09-02"
PROJECT = "//compute.googleapis.com/projects"
SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg-ml/providers"


@dataclass(frozen=True)
class Kind:
    """How one sort of machine is billed, and the ids under which telemetry knows it."""

    provider: str
    billed: str
    reported: tuple[str, ...]
    aliases: tuple[str, ...]
    metric: str
    devices: tuple[str, ...]
    count: str
    usage_kind: str = "accelerator.hours"
    description: str | None = None


def kind_of(number: int, form: str) -> Kind:
    short = f"i-0aaaabbbbcccc{number:04x}"
    numeric = f"12345678901234{number:05d}"
    forms = {
        "aws": Kind(
            "aws",
            short,
            (short, f"arn:aws:ec2:us-east-1:111122223333:instance/{short}", f"ip-10-0-0-{number}.ec2.internal"),
            (f"ip-10-0-0-{number}.ec2.internal",),
            "gpu.utilization",
            ("0", "1"),
            "2",
        ),
        "neuron": Kind("aws", short, (short,), (), "neuron.utilization", ("0/0", "0/1", "1/0", "1/1"), "2"),
        "mig": Kind("azure", f"{SUBSCRIPTION}/Microsoft.Compute/virtualMachines/mig{number}",
            (f"{SUBSCRIPTION}/microsoft.compute/virtualmachines/MIG{number}",), (), "gpu.sm_active", ("0", "1", "2"), "0.5"),
        "gcp": Kind(
            "gcp",
            f"{PROJECT}/440055006600/zones/us-central1-a/instances/{numeric}",
            (f"{PROJECT}/acme-ml/zones/us-central1-a/instances/{numeric}", numeric),
            (),
            "gpu.utilization",
            ("0", "1"),
            "2",
            description="Nvidia L4 GPU running in Americas",
        ),
        "tpu": Kind(
            "gcp",
            f"//tpu.googleapis.com/projects/acme-ml/locations/us-central1-a/nodes/tpu{number}",
            (f"//tpu.googleapis.com/projects/acme-ml/locations/us-central1-a/nodes/tpu{number}",),
            (),
            "tpu.duty_cycle",
            ("0", "1", "1:0", "1:1"),
            "4",
            "accelerator.tpu",
            "Cloud TPU v5e chip hours",
        ),
        "scale_set": Kind(
            "azure",
            f"{SUBSCRIPTION}/Microsoft.Compute/virtualMachineScaleSets/set{number}",
            tuple(f"{SUBSCRIPTION}/Microsoft.Compute/virtualMachineScaleSets/set{number}/virtualMachines/{at}" for at in (0, 1)),
            (),
            "gpu.utilization",
            ("0", "1"),
            "2",
        ),
    }  # fmt: skip
    return forms[form]


MACHINE = st.fixed_dictionaries(
    {
        "form": st.sampled_from(["aws", "neuron", "mig", "gcp", "tpu", "scale_set"]),
        "grain": st.sampled_from(["hour", "day"]),
        "hours": st.sets(st.integers(0, 5), min_size=1, max_size=4),
        "units": st.integers(1, 10**16),
        "purchase": st.sampled_from(["on_demand", "spot", "committed", "reserved_capacity"]),
        "part": st.sampled_from(["1", "0.5", "0.016667"]),
        "sources": st.lists(
            st.tuples(
                st.integers(0, 2),  # which of its ids
                st.sampled_from([60, 300, 900, 3600]),  # interval
                st.integers(0, 59),  # clock skew
                st.booleans(),  # by device, or a roll-up
                st.sampled_from([0.0, 0.3, 0.9]),
                st.sets(st.integers(0, 5), max_size=2),  # hours lost
            ),
            max_size=3,
        ),
        "created": st.sampled_from([None, f"{DAY} 02:30:00", "2026-08-01 00:00:00"]),
    }
)


def put_machine(lake: Lake, number: int, machine: dict[str, Any]) -> Decimal:
    kind = kind_of(number, machine["form"])
    cost = machine["units"] * Decimal("0.000000000001")
    total = Decimal(0)
    hours = [0] if machine["grain"] == "day" else sorted(machine["hours"])
    for hour in hours:
        quantity = Decimal(machine["part"]) * (len(machine["hours"]) if machine["grain"] == "day" else 1)
        lake.charge(
            "accelerator_charges",
            provider=kind.provider,
            ResourceId=kind.billed,
            usage_kind=kind.usage_kind,
            x_SkuDescription=kind.description,
            hour=f"{DAY} {hour:02}:00:00",
            grain=machine["grain"],
            EffectiveCost=cost,
            ConsumedQuantity=quantity * (int(kind.count) if kind.provider == "gcp" else 1),
            ConsumedUnit="Hrs",
            accelerator_count=None if kind.provider == "gcp" else kind.count,
            purchase_option=machine["purchase"],
        )
        total += cost
    if machine["created"] or kind.aliases:
        lake.resource(
            kind.billed, "instance", provider=kind.provider, created_at=machine["created"], aliases=list(kind.aliases)
        )
    for which, interval, skew, by_device, value, lost in machine["sources"]:
        name = kind.reported[which % len(kind.reported)]
        times = [at for at in range(skew, 6 * 3600, interval) if at // 3600 not in lost]
        for device in kind.devices if by_device else ("",):
            lake.samples(
                name,
                kind.metric,
                {f"{DAY} {at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}": value for at in times},
                device,
                kind.provider,
            )
    return total


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(machines=st.lists(MACHINE, min_size=1, max_size=4))
def test_a_messy_estate_adds_up_and_every_hour_is_told_once(
    new_lake: Callable[[], Lake], machines: list[dict[str, Any]]
) -> None:
    lake = new_lake()
    billed = sum((put_machine(lake, number, machine) for number, machine in enumerate(machines, 1)), Decimal(0))
    lake.build_ledger()
    assert lake.rows("select sum(EffectiveCost) from accelerator_hours") == [(billed,)]
    by_machine = "select ResourceId, sum(EffectiveCost) from {} group by ResourceId order by ResourceId"
    assert lake.rows(by_machine.format("accelerator_hours")) == lake.rows(by_machine.format("accelerator_charges"))
    covered = "select sum(EffectiveCost) from accelerator_charges where purchase_option = 'committed'"
    assert (lake.rows("select sum(committed_cost) from accelerator_hours")[0][0] or 0) == (
        lake.rows(covered)[0][0] or 0
    )
    twice = "select 1 from metric_hours group by provider, ResourceId, device, metric, hour having count(*) > 1"
    assert lake.rows(twice) == []
    beside = """
        select 1 from metric_hours as whole join metric_hours as part
            on part.ResourceId = whole.ResourceId and part.metric = whole.metric and part.hour = whole.hour
        where whole.device = '' and part.device <> ''
    """
    assert lake.rows(beside) == []
    # nobody is idle without samples, and a machine without any is unknown
    assert (
        lake.rows(
            "select 1 from accelerator_hours where class in ('idle', 'held', 'productive') and utilization_mean is null"
        )
        == []
    )
    silent = {kind_of(at, machine["form"]).billed for at, machine in enumerate(machines, 1) if not machine["sources"]}
    known = lake.rows("select distinct ResourceId from accelerator_hours where class <> 'no_telemetry'")
    assert silent.isdisjoint(row[0] for row in known)


def test_spot_machines_that_are_replaced_daily_are_each_their_own_and_short_lives_count(lake: Lake) -> None:
    for day in range(1, 6):
        machine = f"i-0aaaabbbbcccc000{day}"
        for hour in (8, 9):
            lake.charge(
                "accelerator_charges",
                ResourceId=machine,
                usage_kind="accelerator.hours",
                hour=f"2026-09-0{day} {hour:02}:00:00",
                EffectiveCost=4,
                ConsumedQuantity=1 if hour == 8 else "0.5",
                accelerator_count=1,
                purchase_option="spot",
            )
        beat = [f"2026-09-0{day} {at // 60:02}:{at % 60:02}:00" for at in range(8 * 60, 9 * 60 + 30, 5)]
        lake.samples(machine, "gpu.utilization", dict.fromkeys(beat, 0.8), device="0")
    lake.build_ledger()
    assert lake.rows(
        "select class, count(distinct ResourceId), sum(accelerator_hours)::double, sum(EffectiveCost) from accelerator_hours group by all"
    ) == [("productive", 5, 7.5, Decimal(40))]
