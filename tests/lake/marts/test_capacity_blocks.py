"""The fee of a Capacity Block goes to the machines that ran in it, and for the rest to capacity that nobody used."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lake.marts.conftest import Lake

BLOCK = "cr-0aaaabbbbccccdddd"
ARN = f"arn:aws:ec2:us-east-1:111122223333:capacity-reservation/{BLOCK}"
MACHINES = ("i-0aaaabbbbccccdddd", "i-0aaaabbbbcccceeee")


def fee(lake: Lake, cost: Any, hour: str = "2026-09-02 00:00:00", **row: Any) -> Lake:
    return lake.charge(
        "accelerator_charges",
        **{
            "ResourceId": ARN,
            "usage_kind": "accelerator.capacity_block",
            "ChargeCategory": "Purchase",
            "SubAccountId": "111122223333",
            "machine_type": "p5.48xlarge",
            "accelerator_count": 8,
            "hour": hour,
            "EffectiveCost": cost,
            "purchase_option": "reserved_capacity",
            **row,
        },
    )


def ran(lake: Lake, machine: str, hour: str, quantity: Any = 1, **row: Any) -> Lake:
    return lake.charge(
        "accelerator_charges",
        **{
            "ResourceId": machine,
            "usage_kind": "accelerator.hours",
            "SubAccountId": "111122223333",
            "CapacityReservationId": ARN,
            "CapacityReservationStatus": "Used",
            "machine_type": "p5.48xlarge",
            "accelerator_count": 8,
            "ConsumedQuantity": quantity,
            "ConsumedUnit": "Hrs",
            "hour": hour,
            "EffectiveCost": 0,
            "purchase_option": "reserved_capacity",
            **row,
        },
    )


def block(lake: Lake, starts: str, ends: str, count: int = 2) -> Lake:
    return lake.resource(
        BLOCK,
        "capacity_reservation",
        account_id="111122223333",
        aliases=[ARN],
        attributes={
            "starts_at": starts,
            "ends_at": ends,
            "reserved_count": count,
            "machine_type": "p5.48xlarge",
            "reservation_type": "capacity-block",
        },
    )


def by_machine(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.rows("""
        select ResourceId, class, sum(EffectiveCost), sum(accelerator_hours)::double
        from accelerator_hours group by all order by ResourceId nulls last, class
    """)


def test_a_fee_paid_in_advance_is_spread_over_the_hours_and_instances_of_its_block(lake: Lake) -> None:
    block(lake, "2026-09-10 10:00:00", "2026-09-10 14:00:00")
    fee(lake, 800)  # 4 hours x 2 instances: 100 each
    for hour in ("10", "11", "12"):
        ran(lake, MACHINES[0], f"2026-09-10 {hour}:00:00")
    lake.samples(
        MACHINES[0],
        "gpu.utilization",
        {f"2026-09-10 {hour}:{minute:02}:00": 0.9 for hour in (10, 11) for minute in range(0, 60, 5)},
    ).build_ledger()
    assert by_machine(lake) == [
        (ARN, "reserved_unused", Decimal(500), 40.0),
        (MACHINES[0], "no_telemetry", Decimal(100), 8.0),
        (MACHINES[0], "productive", Decimal(200), 16.0),
    ]
    assert lake.rows("select count(*) from accelerator_hours where hour < '2026-09-10 10:00:00'") == [(0,)]
    assert lake.rows("select sum(committed_cost) from accelerator_hours") == [(Decimal(800),)]


def test_a_machine_pays_for_the_part_of_the_hour_that_it_ran(lake: Lake) -> None:
    block(lake, "2026-09-10 10:00:00", "2026-09-10 11:00:00", count=1)
    ran(fee(lake, 100), MACHINES[0], "2026-09-10 10:00:00", quantity="0.25").build_ledger()
    assert by_machine(lake) == [
        (ARN, "reserved_unused", Decimal(75), 6.0),
        (MACHINES[0], "no_telemetry", Decimal(25), 2.0),
    ]


def test_a_daily_bill_gives_the_machine_its_share_of_the_day(lake: Lake) -> None:
    block(lake, "2026-09-10 00:00:00", "2026-09-11 00:00:00", count=1)
    fee(lake, 240, hour="2026-09-10 00:00:00", grain="day")
    ran(lake, MACHINES[0], "2026-09-10 00:00:00", quantity=6, grain="day").build_ledger()
    assert by_machine(lake) == [
        (ARN, "reserved_unused", Decimal(180), 144.0),
        (MACHINES[0], "no_telemetry", Decimal(60), 48.0),
    ]


def test_without_inventory_the_machines_tell_how_large_the_block_is_and_when(lake: Lake) -> None:
    fee(lake, 400)
    ran(lake, MACHINES[0], "2026-09-10 10:00:00")
    ran(lake, MACHINES[1], "2026-09-10 10:00:00")
    ran(lake, MACHINES[1], "2026-09-10 11:00:00").build_ledger()
    assert [(row[0], row[2]) for row in by_machine(lake)] == [
        (ARN, Decimal(100)),
        (MACHINES[0], Decimal(100)),
        (MACHINES[1], Decimal(200)),
    ]


def test_a_block_that_nobody_entered_is_reserved_and_unused(lake: Lake) -> None:
    block(lake, "2026-09-10 10:00:00", "2026-09-10 12:00:00")
    fee(lake, 100).build_ledger()
    assert by_machine(lake) == [(ARN, "reserved_unused", Decimal(100), 32.0)]


def test_a_block_outside_the_window_keeps_the_hour_of_its_charge(lake: Lake) -> None:
    block(lake, "2026-11-10 10:00:00", "2026-11-10 12:00:00")
    fee(lake, 100).build_ledger()
    assert lake.rows("select hour::varchar, class, EffectiveCost from accelerator_hours") == [
        ("2026-09-02 00:00:00", "reserved_unused", Decimal(100))
    ]


def test_a_machine_that_only_telemetry_and_inventory_show_ran_where_it_has_samples(lake: Lake) -> None:
    block(lake, "2026-09-10 10:00:00", "2026-09-10 12:00:00", count=1)
    lake.resource(
        MACHINES[0],
        "instance",
        attributes={"capacity_reservation_id": BLOCK, "accelerator_count": 8, "machine_type": "p5.48xlarge"},
    )
    lake.samples(MACHINES[0], "gpu.utilization", {f"2026-09-10 10:{minute:02}:00": 0.9 for minute in range(0, 60, 5)})
    fee(lake, 100).build_ledger()
    assert by_machine(lake) == [
        (ARN, "reserved_unused", Decimal(50), 8.0),
        (MACHINES[0], "productive", Decimal(50), 8.0),
    ]


def test_a_fee_that_names_no_block_goes_to_the_reserved_machines_of_its_account_and_type(lake: Lake) -> None:
    fee(lake, 100, ResourceId=None)
    ran(lake, MACHINES[0], "2026-09-02 00:00:00")
    ran(lake, "i-0aaaabbbbccccffff", "2026-09-02 00:00:00", SubAccountId="444455556666").build_ledger()
    assert [(row[0], row[2]) for row in by_machine(lake)] == [(MACHINES[0], Decimal(100)), ("i-0aaaabbbbccccffff", 0)]


def test_a_machine_outside_the_block_bears_none_of_it(lake: Lake) -> None:
    block(lake, "2026-09-10 10:00:00", "2026-09-10 11:00:00", count=1)
    fee(lake, 100)
    ran(lake, MACHINES[0], "2026-09-10 10:00:00", CapacityReservationId=None, EffectiveCost=55).build_ledger()
    assert [(row[0], row[2]) for row in by_machine(lake)] == [(ARN, Decimal(100)), (MACHINES[0], Decimal(55))]


HOURS = st.builds("2026-09-{:02}T{:02}:00:00".format, st.integers(1, 3), st.integers(0, 23))


@pytest.mark.parametrize("known", [False, True])
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    fees=st.lists(
        st.tuples(
            st.integers(-(10**12), 10**16),
            HOURS,
            st.sampled_from(["hour", "day"]),
            st.sampled_from([ARN, BLOCK, None, ""]),
        ),
        min_size=1,
        max_size=4,
    ),
    uses=st.lists(
        st.tuples(
            st.sampled_from([*MACHINES, "i-0aaaabbbbcccc1111"]),
            HOURS,
            st.sampled_from(["hour", "day"]),
            st.decimals(0, 30, places=6),
            st.sampled_from([ARN, BLOCK, None]),
        ),
        max_size=8,
    ),
    count=st.integers(1, 3),
)
def test_whatever_ran_the_ledger_bears_the_fee_exactly(
    new_lake: Callable[[], Lake], known: bool, fees: list[Any], uses: list[Any], count: int
) -> None:
    lake = new_lake()
    if known:
        block(lake, "2026-08-30 11:30:00", "2026-09-02 11:30:00", count)
    for units, hour, grain, name in fees:
        at = f"{hour[:10]} 00:00:00" if grain == "day" else hour.replace("T", " ")
        fee(lake, units * Decimal("0.000000000001"), at, grain=grain, ResourceId=name)
    for machine, hour, grain, quantity, reservation in uses:
        at = f"{hour[:10]} 00:00:00" if grain == "day" else hour.replace("T", " ")
        ran(lake, machine, at, quantity, grain=grain, CapacityReservationId=reservation)
    lake.build_ledger()
    billed = sum(units for units, *_ in fees) * Decimal("0.000000000001")
    assert lake.rows("select sum(EffectiveCost), sum(committed_cost) from accelerator_hours") == [(billed, billed)]
    machines = "('i-0aaaabbbbccccdddd', 'i-0aaaabbbbcccceeee', 'i-0aaaabbbbcccc1111')"
    assert lake.rows(
        f"select count(*) from accelerator_hours where class = 'reserved_unused' and ResourceId in {machines}"
    ) == [(0,)]
