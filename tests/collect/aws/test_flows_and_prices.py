"""Flow logs of the newest days, and list prices of the machines that run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from auditor.collect.folder import LandingFolder
from auditor.landing import LandingFile
from auditor.normalise.look import look
from auditor.normalise.prices import recognise as recognise_prices
from auditor.settings import Limits
from tests.collect.aws.estate import serve_lists
from tests.collect.aws.server import BASE, Aws

Collect = Callable[..., LandingFolder]
BUCKET = "acme-flows"
PLAIN = f"net/AWSLogs/{BASE}/vpcflowlogs/us-east-1"


@pytest.fixture(autouse=True)
def bucket(s3: Any) -> None:
    s3.create_bucket(Bucket=BUCKET)


def put(s3: Any, key: str, body: bytes = b"x") -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=body)


def test_only_the_newest_days_are_fetched_and_years_are_never_listed(s3: Any, aws: Aws, collect: Collect) -> None:
    for day in ("2025/09/30", "2026/09/02", "2026/09/24", "2026/09/30", "2026/10/01"):
        put(s3, f"{PLAIN}/{day}/flow.log.gz")
    aws.calls.clear()
    folder = collect(flow_logs=[f"s3://{BUCKET}/net"])
    assert folder.problems == []
    assert sorted(str(entry.period) for entry in folder.entries.values()) == ["2026-09-24", "2026-09-30"]
    listed = [call.parameters.get("prefix", "") for call in aws.calls if call.operation == "ListObjectsV2"]
    assert not [prefix for prefix in listed if "2025" in prefix]
    aws.calls.clear()
    collect(flow_logs=[f"s3://{BUCKET}/net"])
    assert aws.count("GetObject") == 0


def test_folders_in_the_hive_form_are_understood(s3: Any, collect: Collect) -> None:
    top = f"AWSLogs/aws-account-id={BASE}/aws-service=vpcflowlogs/aws-region=us-east-1"
    put(s3, f"{top}/year=2026/month=09/day=30/hour=05/flow.log.parquet")
    folder = collect(flow_logs=[f"s3://{BUCKET}"])
    assert [entry.kind for entry in folder.entries.values()] == ["flows"]


def test_flow_logs_leave_half_of_the_bytes_to_the_bills_and_older_days_go_first(s3: Any, collect: Collect) -> None:
    put(s3, f"{PLAIN}/2026/09/30/flow.log.gz", bytes(400))
    put(s3, f"{PLAIN}/2026/09/29/flow.log.gz", bytes(400))
    folder = collect(flow_logs=[f"s3://{BUCKET}/net"], limits=Limits(bytes=1000))
    assert [entry.period for entry in folder.entries.values()] == ["2026-09-30"]
    assert "2026-09-29 and before are left out" in folder.problems[0].reason


def test_a_prefix_without_days_is_said(s3: Any, collect: Collect) -> None:
    put(s3, "net/readme.txt")
    folder = collect(flow_logs=[f"s3://{BUCKET}/net"])
    assert "no folders by year, month and day" in folder.problems[0].reason


def test_prices_are_asked_for_machines_that_are_there_and_kept_for_a_week(aws: Aws, collect: Collect) -> None:
    machines = [
        {"Instances": [{"InstanceId": f"i-{kind}", "InstanceType": kind} for kind in ("g5.xlarge", "m6i.large")]}
    ]
    serve_lists(aws, {(BASE, "us-east-1", "Reservations"): machines})
    product = {"product": {"sku": "ABC", "attributes": {"instanceType": "g5.xlarge"}}, "serviceCode": "AmazonEC2"}
    aws.items("pricing", "GetProducts", "PriceList", lambda _: [json.dumps(product)] * 3, page=2)
    settings = {"inventory": True, "prices": True, "regions": ["us-east-1"]}
    folder = collect(**settings)
    assert folder.problems == []
    [name] = [name for name, entry in folder.entries.items() if entry.kind == "prices"]
    assert len(json.loads((folder.path / name).read_text())["PriceList"]) == 3
    file = LandingFile(folder.path / name, name, 1)
    found = recognise_prices(file, look(file))
    assert found is not None
    assert found.format == "aws-price-list-products"
    asked = [call.parameters for call in aws.calls if call.operation == "GetProducts"]
    assert {tuple(one.items()) for one in asked[0]["Filters"]} >= {
        (("Type", "TERM_MATCH"), ("Field", "instanceType"), ("Value", "g5.xlarge"))
    }
    aws.calls.clear()
    collect(**settings)
    assert aws.count("GetProducts") == 0
