"""The views that come from the bill, the flow logs and the shipped prices."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from tests.lake.marts.conftest import Lake


@pytest.mark.parametrize(
    ("charge", "direction", "gigabytes"),
    [
        (
            {"x_Operation": "InterZone-In", "x_UsageType": "DataTransfer-Regional-Bytes", "ConsumedUnit": "GB"},
            "in",
            2048,
        ),
        (
            {"x_Operation": "InterZone-Out", "x_UsageType": "DataTransfer-Regional-Bytes", "ConsumedUnit": "GB"},
            "out",
            2048,
        ),
        ({"x_UsageType": "USE1-EUW1-AWS-Out-Bytes", "ConsumedUnit": "GB"}, "out", 2048),
        (
            {"provider": "gcp", "x_SkuDescription": "Network Inter Zone Data Transfer Out", "ConsumedUnit": "bytes"},
            "out",
            Decimal("0.000001907349"),
        ),
        ({"provider": "azure", "x_SkuMeterName": "Standard Data Transfer In", "ConsumedUnit": "1 GB"}, "in", 2048),
        ({"provider": "azure", "x_SkuMeterName": "Inter Continent", "ConsumedUnit": "1 TB"}, None, 2_048_000),
    ],
)
def test_a_transfer_has_its_direction_and_the_providers_own_gigabytes(
    lake: Lake, charge: dict[str, str], direction: str | None, gigabytes: Decimal
) -> None:
    lake.charge(
        usage_kind="transfer.inter_zone",
        ConsumedQuantity=2048,
        EffectiveCost="20.48",
        day="2026-09-02",
        ResourceId="r",
        **charge,
    ).build()
    assert lake.rows("select direction, gigabytes, EffectiveCost from transfers") == [
        (direction, gigabytes, Decimal("20.48"))
    ]


def test_locations_become_regions_through_the_bills_own_rows(lake: Lake) -> None:
    lake.charge(
        usage_kind="compute.hours", RegionId="eu-west-1", RegionName="EU (Ireland)", day="2026-09-02", EffectiveCost=1
    )
    places = {"x_FromLocation": "EU (Ireland)", "x_ToLocation": "Atlantis"}
    lake.charge(usage_kind="transfer.inter_region", day="2026-09-02", EffectiveCost=3, **places).build()
    assert lake.rows("select from_region_id, to_region_id, EffectiveCost from transfers") == [("eu-west-1", None, 3)]


@pytest.mark.parametrize(
    ("usage_type", "ends"),
    [
        ("USE1-APS3-AWS-Out-Bytes", ("us-east-1", "ap-south-1")),
        ("USE1-APS3-AWS-In-Bytes", ("ap-south-1", "us-east-1")),
        ("EU-EUC1-AWS-Out-ABytes", ("eu-west-1", "eu-central-1")),
        ("USE1-ZZZ9-AWS-Out-Bytes", ("us-east-1", None)),
        ("USE1-DataTransfer-Out-Bytes", (None, None)),
    ],
)
def test_the_codes_of_a_usage_type_tell_both_ends(
    lake: Lake, usage_type: str, ends: tuple[str | None, str | None]
) -> None:
    kind = "transfer.inter_region"
    lake.charge(usage_kind=kind, x_UsageType=usage_type, day="2026-09-02", EffectiveCost=3).build()
    assert lake.rows("select from_region_id, to_region_id, EffectiveCost from transfers") == [(*ends, 3)]


def test_gateway_hours_are_a_transfer_kind_without_bytes(lake: Lake) -> None:
    lake.charge(
        usage_kind="nat.hours",
        ConsumedQuantity=24,
        ConsumedUnit="Hrs",
        EffectiveCost="1.08",
        day="2026-09-02",
        ResourceId="nat-1",
    ).build()
    assert lake.rows("select gigabytes, EffectiveCost from transfers") == [(None, Decimal("1.08"))]


def test_commitments_have_used_and_unused_cost(lake: Lake) -> None:
    for status, cost in (("Used", 7), ("Unused", 3), (None, 100)):
        lake.charge(CommitmentDiscountId="ri-1", CommitmentDiscountStatus=status, EffectiveCost=cost, day="2026-09-02")
    lake.build()
    assert lake.rows("select hour, used_cost, unused_cost from commitment_hours") == [(datetime(2026, 9, 2), 7, 3)]


def test_flows_name_the_peer_where_one_resource_holds_its_address(lake: Lake) -> None:
    lake.resource("nat-0aaaabbbbccccdddd", "nat_gateway", aliases=["eni-0aaaabbbbccccdddd"])
    lake.resource("i-0aaaabbbbccccdddd", "instance", zone="us-east-1b", region="us-east-1", aliases=["10.0.1.5"])
    flow = {
        "provider": "aws",
        "resource_id": "eni-0aaaabbbbccccdddd",
        "source_address": "10.0.1.5",
        "destination_address": "203.0.113.9",
    }
    lake.put("flows_seen", {**flow, "hour": "2026-09-02 01:00:00", "direction": "ingress", "bytes": 10})
    lake.put("flows_seen", {**flow, "hour": "2026-09-02 02:00:00", "direction": "ingress", "bytes": 5})
    lake.put(
        "flows_seen", {**flow, "hour": "2026-09-02 02:00:00", "direction": "egress", "bytes": 7, "peer_service": "S3"}
    ).build()
    assert lake.rows(
        "select ResourceId, day, peer_id, peer_zone, peer_service, bytes from flows_daily order by bytes"
    ) == [
        ("nat-0aaaabbbbccccdddd", date(2026, 9, 2), "203.0.113.9", None, "S3", 7),
        ("nat-0aaaabbbbccccdddd", date(2026, 9, 2), "i-0aaaabbbbccccdddd", "us-east-1b", None, 15),
    ]


def test_prices_are_of_whole_machines_and_bear_their_source(lake: Lake) -> None:
    lake.build()
    assert lake.rows(
        "select count(*) > 100, count(*) filter (where source is null or as_of is null or low > high) from prices"
    ) == [(True, 0)]
    assert lake.rows("select count(*) from prices where machine_type like '%part)%'") == [(0,)]


def test_paid_rates_are_of_whole_machines_and_keep_purchase_options_apart(lake: Lake) -> None:
    machine = {
        "provider": "azure",
        "RegionId": "eastus",
        "machine_type": "Standard_NC48ads_A100_v4",
        "accelerator_model": "A100",
        "accelerator_count": 2,
        "usage_kind": "accelerator.hours",
        "ConsumedQuantity": 1,
        "ConsumedUnit": "Hours",
        "hour": "2026-09-02 00:00:00",
    }
    table = "accelerator_charges"
    lake.charge(table, **machine, ResourceId="vm-1", purchase_option="on_demand", EffectiveCost=5)
    lake.charge(table, **machine, ResourceId="vm-2", purchase_option="committed", EffectiveCost=3, ListCost=5)
    lake.charge(table, **machine, ResourceId="vm-3", purchase_option="reserved_capacity", EffectiveCost=50)
    lake.build()
    assert lake.rows(
        "select machine_type, machine_family, purchase_option, machine_hours, hourly_rate, list_ratio from paid_rates order by purchase_option"
    ) == [
        ("standard_nc48ads_a100_v4", "standard_ncads_a100_v4", "committed", 1, 3, 0.6),
        ("standard_nc48ads_a100_v4", "standard_ncads_a100_v4", "on_demand", 1, 5, None),
    ]
