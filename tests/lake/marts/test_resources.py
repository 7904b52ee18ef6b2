"""The inventory as rules see it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from auditor.views import VIEWS
from tests.lake.marts.conftest import Lake

ACCOUNT = {"account_id": "111122223333", "region": "us-east-1"}


def test_every_view_has_the_columns_and_types_that_rules_bind_to(lake: Lake) -> None:
    lake.build()
    for view, columns in VIEWS.items():
        if view == "budgets":  # the configuration's, not the lake's
            continue
        built = {row[0]: row[1] for row in lake.rows(f"describe {view}")}
        assert built == columns, view


def test_building_twice_gives_the_same_lake(lake: Lake) -> None:
    lake.resource("i-0aaaabbbbccccdddd", "instance", attributes={"machine_type": "g5.xlarge"}).build()
    first = lake.rows("from instances")
    assert lake.build().rows("from instances") == first
    assert len(first) == 1


def test_listings_of_one_day_complete_each_other_and_older_ones_do_not(lake: Lake) -> None:
    machine = "i-0aaaabbbbccccdddd"
    lake.resource(
        machine,
        "instance",
        observed_at="2026-09-10",
        state="stopped",
        attributes={"stopped_at": "2026-09-09T00:00:00Z"},
    )
    lake.resource(
        machine,
        "instance",
        observed_at="2026-09-30",
        state="running",
        attributes={"machine_type": "p5.48xlarge", "subnet_id": "subnet-1"},
    )
    lake.resource(
        f"arn:aws:ec2:us-east-1:111122223333:instance/{machine}",
        "other",
        observed_at="2026-09-30 01:00:00",
        name="train-1",
    ).build()
    assert lake.rows("select ResourceName, state, machine_type, subnet_id, stopped_at from instances") == [
        ("train-1", "running", "p5.48xlarge", "subnet-1", None)
    ]


def test_times_in_attributes_are_utc_whatever_their_offset(lake: Lake) -> None:
    lake.resource("i-0aaaabbbbccccdddd", "instance", attributes={"stopped_at": "2026-09-09T02:00:00+02:00"})
    lake.resource("i-0aaaabbbbcccceeee", "instance", attributes={"stopped_at": "2026-09-09 00:00:00"}).build()
    assert lake.rows("select distinct stopped_at from instances") == [(datetime(2026, 9, 9),)]


def test_the_bill_says_account_and_owner_of_a_resource(lake: Lake) -> None:
    lake.charge(ResourceId="vol-0aaaabbbbccccdddd", SubAccountId="444455556666", owner="robotics", day="2026-09-02")
    lake.resource(
        "vol-0aaaabbbbccccdddd", "volume", **ACCOUNT, attributes={"size_gib": 500, "instance_id": "i-0aaaabbbbccccdddd"}
    ).build()
    assert lake.rows("select SubAccountId, owner, RegionId, size_gib, instance_id from volumes") == [
        ("444455556666", "robotics", "us-east-1", 500.0, "i-0aaaabbbbccccdddd")
    ]


def test_a_buckets_size_is_its_newest_measurement(lake: Lake) -> None:
    lake.resource("acme-data", "bucket", attributes={"has_lifecycle": False})
    lake.samples("acme-data", "bucket.size_bytes", {"2026-09-01 00:00:00": 1e12, "2026-09-02 00:00:00": 2e12}).build()
    assert lake.rows("select has_lifecycle, size_bytes from buckets") == [(False, 2e12)]


def network(lake: Lake, endpoint_tables: list[str], service: str = "com.amazonaws.us-east-1.s3") -> Lake:
    """A VPC whose two private subnets route through one gateway, by two tables; a third table does not."""
    nat = "nat-0aaaabbbbccccdddd"
    lake.resource(nat, "nat_gateway", **ACCOUNT, attributes={"network_id": "vpc-1", "subnet_id": "subnet-public"})
    for name, zone in (("subnet-a", "us-east-1a"), ("subnet-b", "us-east-1b"), ("subnet-public", "us-east-1a")):
        lake.resource(name, "subnet", **ACCOUNT, zone=zone, attributes={"network_id": "vpc-1"})
    private = [{"destination": "0.0.0.0/0", "target": nat}]
    lake.resource(
        "rtb-a",
        "route_table",
        **ACCOUNT,
        attributes={"network_id": "vpc-1", "associations": ["subnet-a"], "routes": private},
    )
    lake.resource(
        "rtb-main", "route_table", **ACCOUNT, attributes={"network_id": "vpc-1", "is_main": True, "routes": private}
    )
    public = {
        "network_id": "vpc-1",
        "associations": ["subnet-public"],
        "routes": [{"destination": "0.0.0.0/0", "target": "igw-1"}],
    }
    lake.resource("rtb-public", "route_table", **ACCOUNT, attributes=public)
    endpoint = {
        "endpoint_type": "gateway",
        "service": service,
        "network_id": "vpc-1",
        "route_table_ids": endpoint_tables,
    }
    return lake.resource("vpce-1", "private_endpoint", **ACCOUNT, attributes=endpoint)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (["rtb-a", "rtb-main"], True),
        (["rtb-a"], False),
        (["rtb-public"], False),
        (["rtb-a", "rtb-main", "rtb-public"], True),
    ],
)
def test_an_endpoint_counts_where_every_route_table_of_the_gateway_has_it(
    lake: Lake, tables: list[str], expected: bool
) -> None:
    network(lake, tables).build()
    assert lake.rows(
        "select has_s3_endpoint, has_dynamodb_endpoint, subnet_ids, client_zones, route_table_ids, connectivity from nat_gateways"
    ) == [(expected, False, ["subnet-a", "subnet-b"], ["us-east-1a", "us-east-1b"], ["rtb-a", "rtb-main"], "public")]


def test_without_route_tables_the_network_decides_and_without_both_nothing_is_known(lake: Lake) -> None:
    lake.resource("nat-0aaaabbbbccccdddd", "nat_gateway", **ACCOUNT, attributes={"network_id": "vpc-1"})
    lake.resource("nat-0aaaabbbbcccceeee", "nat_gateway", **ACCOUNT, attributes={"network_id": "vpc-2"})
    lake.resource(
        "nat-0aaaabbbbccccffff",
        "nat_gateway",
        account_id="444455556666",
        region="us-east-1",
        attributes={"network_id": "vpc-3"},
    )
    endpoint: dict[str, Any] = {
        "endpoint_type": "gateway",
        "service": "com.amazonaws.us-east-1.s3",
        "network_id": "vpc-1",
    }
    lake.resource("vpce-1", "private_endpoint", **ACCOUNT, attributes=endpoint).build()
    assert lake.rows("select network_id, has_s3_endpoint from nat_gateways order by network_id") == [
        ("vpc-1", True),
        ("vpc-2", False),
        ("vpc-3", None),
    ]


@pytest.mark.parametrize(("open_subnets", "expected"), [((True, True), True), ((True, False), False)])
def test_a_google_gateway_serves_the_subnets_of_its_network_and_region(
    lake: Lake, open_subnets: tuple[bool, bool], expected: bool
) -> None:
    front = "https://www.googleapis.com/compute/v1/projects/acme-ml"
    here = {"provider": "gcp", "account_id": "acme-ml", "region": "us-central1"}
    lake.resource(
        "//compute.googleapis.com/projects/acme-ml/regions/us-central1/routers/r-1",
        "nat_gateway",
        **here,
        attributes={"network_id": f"{front}/global/networks/net"},
    )
    for number, private_access in enumerate(open_subnets):
        attributes = {"network_id": f"{front}/global/networks/net", "private_google_access": private_access}
        lake.resource(
            f"//compute.googleapis.com/projects/acme-ml/regions/us-central1/subnetworks/s-{number}",
            "subnet",
            **here,
            attributes=attributes,
        )
    elsewhere = {"network_id": f"{front}/global/networks/net", "private_google_access": False}
    lake.resource(
        "//compute.googleapis.com/projects/acme-ml/regions/europe-west4/subnetworks/far",
        "subnet",
        **here | {"region": "europe-west4"},
        attributes=elsewhere,
    )
    lake.build()
    assert lake.rows("select has_private_google_access, len(subnet_ids), has_s3_endpoint from nat_gateways") == [
        (expected, 2, None)
    ]


@pytest.mark.parametrize(("services", "expected"), [(["Microsoft.Storage"], True), (["Microsoft.Sql"], False)])
def test_an_azure_gateway_serves_the_subnets_it_names(lake: Lake, services: list[str], expected: bool) -> None:
    group = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/net/providers/Microsoft.Network"
    subnet = f"{group}/virtualNetworks/v/subnets/a"
    lake.resource(f"{group}/natGateways/n", "nat_gateway", provider="azure", related={"subnets": [subnet.upper()]})
    lake.resource(
        subnet,
        "subnet",
        provider="azure",
        attributes={"network_id": f"{group}/virtualNetworks/v", "service_endpoints": services},
    ).build()
    assert lake.rows("select has_storage_service_endpoint, subnet_ids from nat_gateways") == [(expected, [subnet])]


def test_nat64_leads_through_the_gateway_and_an_egress_only_gateway_around_it(lake: Lake) -> None:
    nat = "nat-0aaaabbbbccccdddd"
    lake.resource(nat, "nat_gateway", **ACCOUNT, attributes={"network_id": "vpc-1", "availability_mode": "Regional"})
    for name, zone, route in (
        ("a", "us-east-1a", {"destination": "64:ff9b::/96", "target": nat}),
        ("b", "us-east-1b", {"destination": "::/0", "target": "eigw-1"}),
    ):
        lake.resource(f"subnet-{name}", "subnet", **ACCOUNT, zone=zone, attributes={"network_id": "vpc-1"})
        table = {"network_id": "vpc-1", "associations": [f"subnet-{name}"], "routes": [route]}
        lake.resource(f"rtb-{name}", "route_table", **ACCOUNT, attributes=table)
    lake.build()
    assert lake.rows("select subnet_ids, client_zones, availability_mode from nat_gateways") == [
        (["subnet-a"], ["us-east-1a"], "regional")
    ]


def test_a_machine_of_another_account_stands_in_the_shared_subnet_behind_the_gateway(lake: Lake) -> None:
    network(lake, ["rtb-a"])
    lake.resource(
        "i-0aaaabbbbccccdddd",
        "instance",
        account_id="444455556666",
        region="us-east-1",
        attributes={"subnet_id": "subnet-a"},
    ).build()
    assert lake.rows(
        "select nat_gateways.SubAccountId, instances.SubAccountId from nat_gateways "
        "join instances on list_contains(nat_gateways.subnet_ids, instances.subnet_id)"
    ) == [(ACCOUNT["account_id"], "444455556666")]
