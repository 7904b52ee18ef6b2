"""The GPU-hour ledger: it adds up to the bill, and each class means what the contract says."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.lake.marts import LedgerThresholds
from tests.lake.marts.conftest import WINDOW, Lake

MACHINE = "i-0aaaabbbbccccdddd"
HOUR = "2026-09-02 01:00:00"


def five_minutes(value: float, hour: str = HOUR, missing: int = 0) -> dict[str, float]:
    """Twelve samples of one hour, the last `missing` of them lost."""
    return {f"{hour[:14]}{minute:02}:00": value for minute in range(0, 60 - 5 * missing, 5)}


def billed_hour(lake: Lake, **row: Any) -> Lake:
    return lake.charge(
        "accelerator_charges",
        **{
            "ResourceId": MACHINE,
            "usage_kind": "accelerator.hours",
            "hour": HOUR,
            "EffectiveCost": "8",
            "ConsumedQuantity": 1,
            "ConsumedUnit": "Hrs",
            "accelerator_count": 1,
            **row,
        },
    )


def classes(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.rows("select device, class from accelerator_hours order by hour, device")


def test_a_machine_hour_is_split_over_its_devices_and_the_remainder_goes_to_the_last(lake: Lake) -> None:
    billed_hour(lake, accelerator_count=3, EffectiveCost="10.000000000001").build_ledger()
    rows = lake.rows("select device, EffectiveCost, accelerator_hours from accelerator_hours order by device")
    assert rows == [
        ("0", Decimal("3.333333333333"), 1),
        ("1", Decimal("3.333333333333"), 1),
        ("2", Decimal("3.333333333335"), 1),
    ]


def test_a_silent_device_of_a_reporting_machine_has_no_telemetry(lake: Lake) -> None:
    billed_hour(lake, accelerator_count=2).samples(
        MACHINE, "gpu.utilization", five_minutes(0.9), device="1"
    ).build_ledger()
    assert classes(lake) == [("0", "no_telemetry"), ("1", "productive")]


def test_a_series_without_a_device_speaks_for_all_devices(lake: Lake) -> None:
    billed_hour(lake, accelerator_count=2).samples(MACHINE, "gpu.utilization", five_minutes(0.9)).build_ledger()
    assert classes(lake) == [("0", "productive"), ("1", "productive")]


def test_devices_named_by_uuid_keep_their_names(lake: Lake) -> None:
    billed_hour(lake, accelerator_count=2).samples(
        MACHINE, "gpu.utilization", five_minutes(0.9), device="GPU-ab"
    ).build_ledger()
    assert classes(lake) == [("0", "no_telemetry"), ("GPU-ab", "productive")]


def test_the_zero_of_a_partitioned_gpu_does_not_hide_what_its_sms_do(lake: Lake) -> None:
    billed_hour(lake, accelerator_count=2).samples(MACHINE, "gpu.utilization", five_minutes(0), device="0")
    lake.samples(MACHINE, "gpu.sm_active", five_minutes(0.5), device="0")
    lake.samples(MACHINE, "gpu.utilization", five_minutes(0.4), device="1")
    lake.samples(MACHINE, "gpu.sm_active", five_minutes(0.01), device="1").build_ledger()
    rows = lake.rows("select device, utilization_max from accelerator_hours order by device")
    assert rows == [("0", 0.5), ("1", 0.4)]


def test_more_reporting_slices_than_devices_share_the_hour(lake: Lake) -> None:
    billed_hour(lake)
    for slice_name in ("0/1", "0/2"):
        lake.samples(MACHINE, "gpu.sm_active", five_minutes(0.5), device=slice_name)
    lake.build_ledger()
    assert lake.rows(
        "select device, accelerator_hours, EffectiveCost, class from accelerator_hours order by device"
    ) == [
        ("0/1", Decimal("0.5"), 4, "productive"),
        ("0/2", Decimal("0.5"), 4, "productive"),
    ]


@pytest.mark.parametrize(
    ("use", "memory", "pressure", "expected"),
    [
        (0.01, 0.01, None, "idle"),
        (0.01, 0.70, None, "held"),
        (0.01, None, None, "held"),
        (0.30, 0.70, 1.0, "starved"),
        (0.30, 0.70, 0.5, "productive"),
        (0.90, 0.70, 1.0, "productive"),
        (0.01, 0.01, 1.0, "idle"),
    ],
)
def test_the_class_follows_use_memory_and_storage(
    lake: Lake, use: float, memory: float | None, pressure: float | None, expected: str
) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(use), device="0")
    if memory is not None:
        lake.samples(MACHINE, "gpu.memory_used_ratio", five_minutes(memory), device="0")
    if pressure is not None:
        lake.samples(MACHINE, "disk.throughput_ratio", five_minutes(pressure), device="vol-1")
    lake.build_ledger()
    assert classes(lake) == [("0", expected)]


def test_one_busy_sample_keeps_an_hour_from_being_idle(lake: Lake) -> None:
    lake = (
        billed_hour(lake)
        .samples(MACHINE, "gpu.utilization", five_minutes(0.0) | {"2026-09-02 01:30:00": 0.5}, device="0")
        .build_ledger()
    )
    assert classes(lake) == [("0", "productive")]


@pytest.mark.parametrize(("missing", "expected"), [(2, "productive"), (3, "no_telemetry")])
def test_an_hour_counts_as_seen_from_four_fifths_of_its_samples(lake: Lake, missing: int, expected: str) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(0.9, missing=missing), device="0").build_ledger()
    assert classes(lake) == [("0", expected)]


def test_only_the_billed_part_of_an_hour_needs_samples(lake: Lake) -> None:
    billed_hour(lake, ConsumedQuantity="0.5").samples(
        MACHINE, "gpu.utilization", five_minutes(0.9, missing=6), device="0"
    ).build_ledger()
    assert lake.rows("select accelerator_hours, coverage, class from accelerator_hours") == [
        (Decimal("0.5"), 1.0, "productive")
    ]


def test_half_an_hour_of_four_devices_is_four_half_hours(lake: Lake) -> None:
    billed_hour(lake, ConsumedQuantity="0.5", accelerator_count=4).build_ledger()
    assert lake.rows("select device, accelerator_hours, EffectiveCost from accelerator_hours order by device") == [
        (device, Decimal("0.5"), 2) for device in ("0", "1", "2", "3")
    ]


def test_one_burst_of_the_disk_starves_nobody(lake: Lake) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(0.3), device="0")
    lake.samples(
        MACHINE, "disk.throughput_ratio", five_minutes(0.1) | {"2026-09-02 01:30:00": 1.0}, device="vol-1"
    ).build_ledger()
    assert classes(lake) == [("0", "productive")]


def test_thresholds_are_the_callers(lake: Lake) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(0.2), device="0").build_ledger(
        thresholds=LedgerThresholds(max_utilization=0.3)
    )
    assert classes(lake) == [("0", "held")]


@pytest.mark.parametrize(
    ("store", "metric", "link"),
    [
        (
            "vol-0aaaabbbbccccdddd",
            "disk.iops_ratio",
            {"resource_type": "volume", "attributes": {"instance_id": MACHINE}},
        ),
        (
            "fs-0aaaabbbbccccdddd",
            "fs.throughput_ratio",
            {"resource_type": "file_system", "related": {"mounted_by": [MACHINE]}},
        ),
        (
            "fs-0aaaabbbbccccdddd",
            "fs.throughput_ratio",
            {"resource_type": "file_system", "related": {"related": [{"resource_id": MACHINE}]}},
        ),
    ],
)
def test_a_machine_starves_on_the_disk_or_file_system_that_is_tied_to_it(
    lake: Lake, store: str, metric: str, link: dict[str, Any]
) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(0.2), device="0")
    lake.samples(store, metric, five_minutes(1.0)).resource(store, **link).build_ledger()
    assert classes(lake) == [("0", "starved")]


def test_a_file_system_starves_the_machines_of_the_job_it_is_tagged_with(lake: Lake) -> None:
    billed_hour(lake, job="run-7").samples(MACHINE, "gpu.utilization", five_minutes(0.2), device="0")
    lake.charge(
        ResourceId="fs-0aaaabbbbccccdddd",
        usage_kind="file_system.capacity",
        job="run-7",
        EffectiveCost=1,
        day="2026-09-02",
    )
    lake.samples("fs-0aaaabbbbccccdddd", "fs.throughput_ratio", five_minutes(1.0)).build_ledger()
    assert classes(lake) == [("0", "starved")]


def test_another_machines_file_system_starves_nobody(lake: Lake) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(0.2), device="0")
    lake.samples("fs-0aaaabbbbccccdddd", "fs.throughput_ratio", five_minutes(1.0)).resource(
        "fs-0aaaabbbbccccdddd", "file_system"
    ).build_ledger()
    assert classes(lake) == [("0", "productive")]


def test_unused_reservations_and_charges_without_a_resource_have_their_own_rows(lake: Lake) -> None:
    billed_hour(
        lake,
        ResourceId="cr-0aaaabbbbccccdddd",
        usage_kind="accelerator.reserved_unused",
        accelerator_count=8,
        ConsumedQuantity=2,
    )
    billed_hour(lake, ResourceId=None, accelerator_count=4, ConsumedQuantity=3).build_ledger()
    assert lake.rows(
        "select ResourceId, device, accelerator_hours, EffectiveCost, class from accelerator_hours order by ResourceId"
    ) == [
        ("cr-0aaaabbbbccccdddd", "", 16, 8, "reserved_unused"),
        (None, "", 12, 8, "no_telemetry"),
    ]


def test_the_lines_of_a_google_machine_are_one_machine_hour(lake: Lake) -> None:
    machine = "//compute.googleapis.com/projects/440055006600/zones/us-central1-a/instances/1234567890123456789"
    line = {
        "provider": "gcp",
        "ResourceId": machine,
        "ConsumedUnit": "seconds",
        "accelerator_count": None,
        "machine_type": "n1-standard-32",
    }
    billed_hour(
        lake,
        **line,
        ConsumedQuantity=14400,
        x_SkuDescription="Nvidia Tesla T4 GPU running in Americas",
        EffectiveCost="1.40",
    )
    billed_hour(lake, **line, ConsumedQuantity=115200, usage_kind="accelerator.core", EffectiveCost="1.00")
    billed_hour(
        lake, **line, ConsumedQuantity=432000, usage_kind="accelerator.ram", EffectiveCost="0.60"
    ).build_ledger()
    assert lake.rows(
        "select device, accelerator_hours, EffectiveCost, usage_kind from accelerator_hours order by device"
    ) == [(device, 1, Decimal("0.75"), "accelerator.hours") for device in ("0", "1", "2", "3")]


def test_a_daily_charge_falls_on_the_hours_with_samples(lake: Lake) -> None:
    billed_hour(lake, hour="2026-09-02 00:00:00", grain="day", ConsumedQuantity=2)
    for hour in ("2026-09-02 05:00:00", "2026-09-02 20:00:00"):
        lake.samples(MACHINE, "gpu.utilization", five_minutes(0.9, hour), device="0")
    lake.build_ledger()
    assert lake.rows("select hour::varchar, EffectiveCost, class from accelerator_hours order by hour") == [
        ("2026-09-02 05:00:00", 4, "productive"),
        ("2026-09-02 20:00:00", 4, "productive"),
    ]


def test_billed_hours_of_a_day_beyond_the_samples_have_no_telemetry(lake: Lake) -> None:
    billed_hour(lake, hour="2026-09-02 00:00:00", grain="day", ConsumedQuantity=3, EffectiveCost="10")
    lake.samples(MACHINE, "gpu.utilization", five_minutes(0.9, "2026-09-02 05:00:00"), device="0")
    lake.resource(
        MACHINE, "instance", created_at="2026-09-02 04:00:00", attributes={"machine_type": "g5.xlarge"}
    ).build_ledger()
    assert lake.rows("select hour(hour), EffectiveCost, class, machine_type from accelerator_hours order by hour") == [
        (4, Decimal("3.333333333333"), "no_telemetry", "g5.xlarge"),
        (5, Decimal("3.333333333333"), "productive", "g5.xlarge"),
        (6, Decimal("3.333333333334"), "no_telemetry", "g5.xlarge"),
    ]


def test_an_hourly_series_covers_every_hour_it_has_a_sample_in(lake: Lake) -> None:
    for hour in (1, 2, 3):
        billed_hour(lake, hour=f"2026-09-02 0{hour}:00:00")
    lake.samples(
        MACHINE, "gpu.utilization", {"2026-09-02 01:00:00": 0.9, "2026-09-02 02:00:00": 0.9}, device="0"
    ).build_ledger()
    assert [name for _, name in classes(lake)] == ["productive", "productive", "no_telemetry"]


def test_a_series_slower_than_an_hour_speaks_for_the_hours_up_to_the_next_sample(lake: Lake) -> None:
    for hour in range(4):
        billed_hour(lake, hour=f"2026-09-02 0{hour}:00:00")
    lake.samples(
        MACHINE, "gpu.utilization", {"2026-09-02 00:00:00": 0.9, "2026-09-02 02:00:00": 0.9}, device="0"
    ).build_ledger()
    assert [name for _, name in classes(lake)] == ["productive"] * 4


def test_committed_cost_is_the_covered_part(lake: Lake) -> None:
    billed_hour(lake, ConsumedQuantity="0.25", EffectiveCost="2", purchase_option="on_demand")
    billed_hour(
        lake, ConsumedQuantity="0.75", EffectiveCost="3", purchase_option="committed", CommitmentDiscountStatus="Used"
    ).build_ledger()
    assert lake.rows(
        "select EffectiveCost, committed_cost, accelerator_hours, purchase_option from accelerator_hours"
    ) == [(5, 3, 1, "committed")]


def test_charges_outside_the_window_of_their_provider_are_left_out(lake: Lake) -> None:
    billed_hour(lake, hour="2026-08-31 23:00:00")
    billed_hour(lake, hour="2026-10-01 00:00:00")
    billed_hour(lake, provider="other")
    billed_hour(lake, hour="2026-09-30 23:00:00").build({"aws": WINDOW})
    assert lake.rows("select hour::varchar from accelerator_hours") == [("2026-09-30 23:00:00",)]


CENT_OF_A_MICRO = Decimal("0.000000000001")
LINE = st.fixed_dictionaries(
    {
        "provider": st.sampled_from(["aws", "gcp", "azure"]),
        "ResourceId": st.sampled_from(
            ["i-0aaaabbbbccccdddd", "I-0AAAABBBBCCCCDDDD", "/subscriptions/0/vm-b", "endpoint-c", "", None]
        ),
        "usage_kind": st.sampled_from(
            [
                "accelerator.hours",
                "accelerator.core",
                "accelerator.tpu",
                "accelerator.endpoint",
                "accelerator.reserved_unused",
            ]
        ),
        "x_SkuDescription": st.sampled_from(
            [None, "Nvidia L4 GPU running in Americas", "A2 Instance Ram running in Americas"]
        ),
        "BillingCurrency": st.sampled_from(["USD", "EUR"]),
        "hour": st.sampled_from(
            [
                "2026-08-31 23:00:00",
                "2026-09-01 00:00:00",
                "2026-09-01 07:00:00",
                "2026-09-30 00:00:00",
                "2026-10-01 00:00:00",
            ]
        ),
        "grain": st.sampled_from(["hour", "day"]),
        "EffectiveCost": st.integers(-(10**14), 10**17).map(lambda units: str(units * CENT_OF_A_MICRO)),
        "ConsumedQuantity": st.one_of(st.none(), st.decimals(0, 60, places=6).map(str)),
        "ConsumedUnit": st.sampled_from([None, "Hrs", "seconds"]),
        "accelerator_count": st.sampled_from([None, "0.167", "1", "3", "8"]),
        "purchase_option": st.sampled_from([None, "on_demand", "committed", "spot"]),
        "CommitmentDiscountStatus": st.sampled_from([None, "Used", "Unused"]),
        "job": st.sampled_from([None, "run-1"]),
    }
)
SAMPLE = st.fixed_dictionaries(
    {
        "provider": st.sampled_from(["aws", "gcp", "azure", None]),
        "resource_id": st.sampled_from(["i-0aaaabbbbccccdddd", "/subscriptions/0/VM-B", "endpoint-c", "nobody"]),
        "device": st.sampled_from(["", "0", "1", "GPU-ab", "2/1"]),
        "metric": st.sampled_from(
            [
                "gpu.utilization",
                "gpu.sm_active",
                "gpu.memory_used_ratio",
                "cpu.iowait",
                "disk.iops_ratio",
                "fs.throughput_ratio",
            ]
        ),
        "time": st.builds("2026-09-01 {:02}:{:02}:00".format, st.integers(0, 23), st.integers(0, 59)),
        "value": st.sampled_from([0.0, 0.03, 0.4, 0.96, 1.0]),
    }
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines=st.lists(LINE, min_size=1, max_size=30), samples=st.lists(SAMPLE, max_size=60))
def test_the_ledger_adds_up_to_the_accelerator_bill_whatever_the_estate(
    new_lake: Callable[[], Lake], lines: list[dict[str, Any]], samples: list[dict[str, Any]]
) -> None:
    lake = new_lake()
    for line in lines:
        lake.charge("accelerator_charges", **line)
    if samples:
        lake.put("metrics", *samples)
    lake.build_ledger()
    inside = "hour >= timestamp '2026-09-01' and hour < timestamp '2026-10-01'"
    billed = lake.rows(
        f"select provider, BillingCurrency, sum(EffectiveCost) from accelerator_charges where {inside} group by all order by all"
    )
    assert (
        lake.rows(
            "select provider, BillingCurrency, sum(EffectiveCost) from accelerator_hours group by all order by all"
        )
        == billed
    )
    covered = lake.rows(
        "select sum(EffectiveCost) from accelerator_charges "
        f"where {inside} and (purchase_option = 'committed' or CommitmentDiscountStatus = 'Used')"
    )
    assert (lake.rows("select sum(committed_cost) from accelerator_hours")[0][0] or 0) == (covered[0][0] or 0)
    twice = """
        select provider, ResourceId, BillingCurrency, hour, device
        from accelerator_hours where ResourceId is not null group by all having count(*) > 1
    """
    assert lake.rows(twice) == []
    assert (
        lake.rows(
            "select device from accelerator_hours where device <> '' and (accelerator_hours < 0 or accelerator_hours > 1)"
        )
        == []
    )
    names = "('reserved_unused', 'no_telemetry', 'starved', 'idle', 'held', 'productive')"
    assert lake.rows(f"select class from accelerator_hours where class is null or class not in {names}") == []


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    days=st.lists(st.tuples(st.integers(1, 24_000_000), st.integers(0, 10**15)), min_size=1, max_size=4),
    count=st.integers(1, 8),
)
def test_the_hours_of_daily_charges_add_up_to_what_was_billed(
    new_lake: Callable[[], Lake], days: list[tuple[int, int]], count: int
) -> None:
    lake = new_lake()
    for day, (micro_hours, units) in enumerate(days, start=1):
        quantity = Decimal(micro_hours) / 1_000_000
        billed_hour(
            lake,
            hour=f"2026-09-0{day} 00:00:00",
            grain="day",
            ConsumedQuantity=quantity,
            EffectiveCost=units * CENT_OF_A_MICRO,
            accelerator_count=count,
        )
    lake.build_ledger()
    machine_hours = sum(Decimal(micro_hours) / 1_000_000 for micro_hours, _ in days)
    cost = sum(units for _, units in days) * CENT_OF_A_MICRO
    assert lake.rows("select sum(accelerator_hours), sum(EffectiveCost) from accelerator_hours") == [
        (machine_hours * count, cost)
    ]


def test_a_schedulers_job_is_named_in_the_hours_in_which_it_held_the_machine(lake: Lake) -> None:
    for number in range(4):
        billed_hour(lake, hour=f"2026-09-02 0{number}:00:00", job="tagged" if number == 3 else None)
    lake.resource(MACHINE, "instance")
    for name, start, end in (("a", "00:50", "02:20"), ("b", "02:20", "04:00")):
        lake.resource(
            f"slurm/{name}",
            "training_job",
            attributes={
                "scheduler": "slurm",
                "job": name,
                "started_at": f"2026-09-02 {start}:00",
                "ended_at": f"2026-09-02 {end}:00",
            },
            related={"nodes": [MACHINE]},
        )
    lake.build_ledger()
    assert lake.rows("select job, workload_kind, workload_signal from accelerator_hours order by hour") == [
        ("a", "training", "scheduler"),
        ("a", "training", "scheduler"),
        ("b", "training", "scheduler"),
        ("tagged", "training", "scheduler"),
    ]


def test_the_members_of_a_scale_set_speak_for_their_own_devices(lake: Lake) -> None:
    scale_set = "/subscriptions/1/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/gpu"
    billed_hour(lake, provider="azure", ResourceId=scale_set, ConsumedQuantity=3, accelerator_count=2, EffectiveCost=60)
    member = f"{scale_set}/virtualMachines/1"
    lake.resource(member, "instance", provider="azure", aliases=["aks-gpu-vmss000001"])
    for device in ("0", "1"):
        lake.samples(f"{scale_set.lower()}/virtualMachines/0", "gpu.utilization", five_minutes(0.9), device, "azure")
        lake.samples("aks-gpu-vmss000001", "gpu.utilization", five_minutes(0.0), device, None)
    lake.build_ledger()
    assert lake.rows("select device, class, EffectiveCost::double from accelerator_hours order by class, device") == [
        ("1/0", "held", 10.0),
        ("1/1", "held", 10.0),
        ("0", "no_telemetry", 10.0),
        ("1", "no_telemetry", 10.0),
        ("0/0", "productive", 10.0),
        ("0/1", "productive", 10.0),
    ]


def test_a_sum_over_devices_is_divided_by_the_devices_of_the_machine(lake: Lake) -> None:
    billed_hour(lake, accelerator_count=8).samples(MACHINE, "gpu.busy_devices", five_minutes(6.0))
    lake.samples(MACHINE, "gpu.memory_used_devices", five_minutes(4.0)).build_ledger()
    assert lake.rows("select distinct utilization_mean, memory_used_ratio, class from accelerator_hours") == [
        (pytest.approx(0.75), 0.5, "productive")
    ]


@pytest.mark.parametrize(("share", "expected"), [(0.75, "starved"), (0.25, "productive")])
def test_a_limit_that_was_met_most_of_the_hour_starves(lake: Lake, share: float, expected: str) -> None:
    billed_hour(lake).samples(MACHINE, "gpu.utilization", five_minutes(0.3))
    lake.samples(MACHINE, "disk.limit_reached", five_minutes(share)).build_ledger()
    assert classes(lake) == [("0", expected)]
