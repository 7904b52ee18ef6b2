"""Which names mean the same resource."""

from __future__ import annotations

import pytest

from tests.lake.marts.conftest import Lake

GOOGLE = "//compute.googleapis.com/projects/440055006600/zones/us-central1-a/instances/1234567890123456789"
AZURE = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/ML/providers/Microsoft.Compute/virtualMachines/Train-1"


def billed(lake: Lake, provider: str, resource_id: str, day: str = "2026-09-02") -> Lake:
    return lake.charge(provider=provider, ResourceId=resource_id, day=day, EffectiveCost=1)


@pytest.mark.parametrize(
    ("provider", "bill", "reported"),
    [
        ("aws", "arn:aws:ec2:us-east-1:111122223333:instance/i-0aaaabbbbccccdddd", "i-0aaaabbbbccccdddd"),
        ("aws", "i-0aaaabbbbccccdddd", "arn:aws:ec2:us-east-1:111122223333:instance/i-0aaaabbbbccccdddd"),
        ("aws", "arn:aws:ec2:us-east-1:111122223333:natgateway/nat-0aaaabbbbccccdddd", "nat-0aaaabbbbccccdddd"),
        ("aws", "acme-checkpoints", "arn:aws:s3:::acme-checkpoints"),
        ("gcp", GOOGLE, GOOGLE.replace("440055006600", "acme-ml")),
        (
            "gcp",
            GOOGLE,
            "https://www.googleapis.com/compute/v1/projects/acme-ml/zones/us-central1-a/instances/1234567890123456789",
        ),
        ("gcp", GOOGLE, "1234567890123456789"),
        ("gcp", "//storage.googleapis.com/projects/_/buckets/acme-data", "gs://acme-data"),
        ("azure", AZURE, AZURE.lower()),
        (None, AZURE, AZURE.upper()),
    ],
)
def test_telemetry_finds_the_bills_resource_by_any_exact_key(
    lake: Lake, provider: str | None, bill: str, reported: str
) -> None:
    billed(lake, provider or "azure", bill).samples(
        reported, "cpu.iowait", {"2026-09-02 00:00:00": 0.1}, provider=provider
    ).build_metrics()
    assert lake.rows("select provider, ResourceId from metric_hours") == [(provider or "azure", bill)]
    assert lake.rows(f"select ResourceId from identities where alias = '{reported.lower()}'") == [(bill,)]


@pytest.mark.parametrize(
    "reported",
    [
        "train-1",
        GOOGLE.replace("1234567890123456789", "train-1"),
        "projects/acme-ml/zones/us-central1-a/instances/train-1",
    ],
)
def test_the_name_that_googles_bill_gives_a_numbered_machine_finds_it(lake: Lake, reported: str) -> None:
    lake.charge(
        provider="gcp",
        ResourceId=GOOGLE,
        ResourceName="train-1",
        SubAccountId="acme-ml",
        day="2026-09-02",
        EffectiveCost=1,
    )
    lake.samples(reported, "gpu.utilization", {"2026-09-02 00:00:00": 0.1}, device="0", provider="gcp").build_metrics()
    assert lake.rows("select provider, ResourceId from metric_hours") == [("gcp", GOOGLE)]


def test_a_name_that_two_billed_machines_bore_means_neither(lake: Lake) -> None:
    for number in ("1234567890123456789", "9876543210987654321"):
        lake.charge(
            provider="gcp", ResourceId=GOOGLE.replace("1234567890123456789", number), ResourceName="train-1",
            SubAccountId="acme-ml", day="2026-09-02", EffectiveCost=1,
        )  # fmt: skip
    lake.samples("train-1", "gpu.utilization", {"2026-09-02 00:00:00": 0.1}, device="0", provider="gcp").build_metrics()
    assert lake.rows("select ResourceId from metric_hours") == [("train-1",)]


def test_inventory_aliases_lead_from_a_host_name_to_the_bill(lake: Lake) -> None:
    billed(lake, "gcp", GOOGLE)
    link = "https://www.googleapis.com/compute/v1/projects/acme-ml/zones/us-central1-a/instances/train-1"
    lake.resource(link, "instance", provider="gcp", aliases=["train-1", GOOGLE.replace("440055006600", "acme-ml")])
    lake.samples("train-1", "gpu.utilization", {"2026-09-02 00:00:00": 0.1}, device="0", provider=None).build()
    assert lake.rows("select provider, ResourceId from metric_hours") == [("gcp", GOOGLE)]
    assert lake.rows("select ResourceId from instances") == [(GOOGLE,)]


def test_an_alias_of_two_resources_means_neither(lake: Lake) -> None:
    for resource_id in ("i-0aaaabbbbccccdddd", "i-0aaaabbbbcccceeee"):
        lake.resource(resource_id, "instance", aliases=["worker-0"])
    lake.samples("worker-0", "cpu.iowait", {"2026-09-02 00:00:00": 0.1}).build_metrics()
    assert lake.rows("select alias, resources from ambiguous_aliases") == [("worker-0", 2)]
    assert lake.rows("select count(*) from identities where alias = 'worker-0'") == [(0,)]
    assert lake.rows("select ResourceId from metric_hours") == [("worker-0",)]


def test_a_resources_own_id_outranks_the_same_name_among_anothers_aliases(lake: Lake) -> None:
    billed(lake, "aws", "eni-0aaaabbbbccccdddd")
    lake.resource("nat-0aaaabbbbccccdddd", "nat_gateway", aliases=["eni-0aaaabbbbccccdddd"]).build()
    assert lake.rows("select ResourceId from identities where alias = 'eni-0aaaabbbbccccdddd'") == [
        ("eni-0aaaabbbbccccdddd",)
    ]
    assert lake.rows("select ResourceId from nat_gateways") == [("nat-0aaaabbbbccccdddd",)]


def test_the_bills_most_frequent_spelling_is_canonical(lake: Lake) -> None:
    billed(lake, "azure", AZURE.upper())
    billed(lake, "azure", AZURE)
    billed(lake, "azure", AZURE, day="2026-09-03").build_metrics()
    assert lake.rows("select distinct ResourceId from identities") == [(AZURE,)]


def test_names_that_only_look_alike_stay_apart(lake: Lake) -> None:
    billed(lake, "aws", "arn:aws:sagemaker:us-east-1:111122223333:endpoint/ep-12345678")
    billed(lake, "aws", "arn:aws:sagemaker:us-east-1:111122223333:endpoint-config/ep-12345678").build_metrics()
    assert lake.rows("select count(distinct ResourceId) from identities") == [(2,)]
