"""What the doctor says of a source, and the policy: every call is in the table, and none of them writes."""

import ast
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditor.checks import Check
from auditor.collect import aws as collector
from auditor.collect.aws import access
from auditor.collect.aws.calls import CALLS
from auditor.collect.folder import LandingFolder
from auditor.settings import AwsSource
from tests.collect.aws.estate import serve_lists
from tests.collect.aws.server import BASE, Aws, Fault, Request

SOURCES = sorted(Path(collector.__file__).parent.glob("*.py"))
READS = re.compile(r"^[a-z0-9-]+:(Get|List|Describe)[A-Z]\w+$")


def names_used() -> set[str]:
    """Names of calls that the code hands to `call` and `pages`, or keeps to do so."""
    found = set()
    for path in SOURCES:
        if path.name in ("calls.py", "words.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in CALLS:
                found.add(node.value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_ec2":
                found.add(f"ec2:{node.args[0].value}")  # type: ignore[attr-defined]
    return found


def test_the_table_holds_the_calls_that_the_code_makes_and_no_others() -> None:
    assert names_used() == set(CALLS)


def test_no_client_is_used_but_through_the_table() -> None:
    for path in SOURCES:
        text = path.read_text()
        assert ("create_client" in text) == (path.name == "access.py"), path
        assert "boto3" not in text or path.name == "words.py", path


def test_every_call_exists_and_none_writes() -> None:
    session = access.new_session(None)
    for name, call in CALLS.items():
        assert all(READS.match(action) or action == "sts:AssumeRole" for action in call.actions), name
        model = session.get_service_model(call.service)
        operation = model.operation_model(name.partition(":")[2])
        assert call.method == _snake(operation.name)
        for argument in (*([call.token[0]] if call.token else []), *call.size):
            assert argument in operation.input_shape.members, (name, argument)
        if call.token:
            assert call.token[1] in operation.output_shape.members, name


def _snake(name: str) -> str:
    from botocore import xform_name

    return str(xform_name(name))


def test_the_largest_page_is_one_that_the_service_allows() -> None:
    session = access.new_session(None)
    for name, call in CALLS.items():
        members = session.get_service_model(call.service).operation_model(name.partition(":")[2]).input_shape
        for argument, size in call.size.items():
            largest = members.members[argument].metadata.get("max")
            assert largest is None or size <= largest, name


def test_the_policy_allows_what_is_called_and_reads_only() -> None:
    document = json.loads(collector.policy())
    allowed = [action for statement in document["Statement"] for action in statement["Action"]]
    assert sorted(allowed) == sorted({action for call in CALLS.values() for action in call.actions})
    assert {statement["Effect"] for statement in document["Statement"]} == {"Allow"}
    [objects] = [one for one in document["Statement"] if "s3:GetObject" in one["Action"]]
    assert objects["Resource"] == ["arn:aws:s3:::EXPORT-BUCKET/*"]
    assert not [action for action in allowed if "*" in action]


def test_a_whole_collection_makes_only_calls_of_the_table(
    aws: Aws, s3: Any, collect: Callable[..., LandingFolder]
) -> None:
    serve_lists(aws, {(BASE, "us-east-1", "NatGateways"): [{"NatGatewayId": "nat-1"}]})
    s3.create_bucket(Bucket="acme")
    aws.calls.clear()
    collect(exports=["s3://acme/x"], flow_logs=["s3://acme/y"], inventory=True, metrics=True, prices=True)
    known = {(call.service, name.partition(":")[2]) for name, call in CALLS.items()}
    assert {(call.service, call.operation) for call in aws.calls} <= known
    assert len({call.operation for call in aws.calls}) > 15


# the doctor


@pytest.fixture
def doctor(url: str) -> Callable[..., list[Check]]:
    def run(**settings: Any) -> list[Check]:
        return list(collector.check(AwsSource(name="aws", endpoint_url=url, **settings)))

    return run


def serve_definitions(aws: Aws, *, resources: bool, granularity: str) -> None:
    report = {
        "ReportName": "old",
        "TimeUnit": "DAILY",
        "Format": "textORcsv",
        "Compression": "GZIP",
        "AdditionalSchemaElements": [],
        "S3Bucket": "acme-billing",
        "S3Prefix": "cur",
        "S3Region": "us-east-1",
    }
    aws.answers[("cur", "DescribeReportDefinitions")] = lambda _: {"ReportDefinitions": [report]}
    arn = f"arn:aws:bcm-data-exports:us-east-1:{BASE}:export/acme"
    aws.answers[("bcm-data-exports", "ListExports")] = lambda _: {
        "Exports": [{"ExportArn": arn, "ExportName": "acme", "ExportStatus": {"StatusCode": "HEALTHY"}}]
    }
    table = {"INCLUDE_RESOURCES": "TRUE" if resources else "FALSE", "TIME_GRANULARITY": granularity}
    destination = {
        "S3Bucket": "acme-billing",
        "S3Prefix": "exports",
        "S3Region": "us-east-1",
        "S3OutputConfigurations": {
            "OutputType": "CUSTOM",
            "Format": "PARQUET",
            "Compression": "PARQUET",
            "Overwrite": "OVERWRITE_REPORT",
        },
    }
    aws.answers[("bcm-data-exports", "GetExport")] = lambda _: {
        "Export": {
            "Name": "acme",
            "DataQuery": {"QueryStatement": "select 1", "TableConfigurations": {"COST_AND_USAGE_REPORT": table}},
            "DestinationConfigurations": {"S3Destination": destination},
            "RefreshCadence": {"Frequency": "SYNCHRONOUS"},
        }
    }


def said(checks: list[Check], state: str) -> str:
    return "\n".join(f"{one.subject}: {one.text} -> {one.fix}" for one in checks if one.state == state)


def test_the_doctor_sees_that_an_export_lacks_resource_ids_and_hours(
    aws: Aws, s3: Any, doctor: Callable[..., list[Check]]
) -> None:
    s3.create_bucket(Bucket="acme-billing")
    s3.put_object(
        Bucket="acme-billing", Key="exports/acme/metadata/BILLING_PERIOD=2026-09/acme-Manifest.json", Body=b"{}"
    )
    serve_definitions(aws, resources=False, granularity="DAILY")
    checks = doctor(exports=["s3://acme-billing/exports"], inventory=False, metrics=False)
    assert "export acme: lacks resource ids and hourly rows -> `aws bcm-data-exports update-export`" in said(
        checks, "bad"
    )
    assert "report old: lacks resource ids and hourly rows -> a report's columns cannot be changed" in said(
        checks, "bad"
    )
    assert "1 manifests, newest object" in said(checks, "ok")
    serve_definitions(aws, resources=True, granularity="HOURLY")
    assert "export acme: hourly, with resource ids" in said(
        doctor(exports=["s3://acme-billing/exports"], inventory=False, metrics=False), "ok"
    )


def test_the_doctor_sees_an_export_that_is_old_empty_or_not_named(
    aws: Aws, s3: Any, doctor: Callable[..., list[Check]]
) -> None:
    from moto.s3.models import s3_backends

    s3.create_bucket(Bucket="acme-billing")
    s3.put_object(Bucket="acme-billing", Key="exports/one.csv", Body=b"x")
    for one in s3_backends["123456789012"]["aws"].buckets["acme-billing"].keys.values():
        one.last_modified = (datetime.now(UTC) - timedelta(days=5)).replace(tzinfo=None)
    serve_definitions(aws, resources=True, granularity="HOURLY")
    checks = doctor(exports=["s3://acme-billing/exports", "s3://acme-billing/none"], inventory=False, metrics=False)
    assert "5 days old" in said(checks, "warn")
    assert "nothing has been delivered there" in said(checks, "bad")
    assert "`exports` is empty" in said(doctor(inventory=False, metrics=False), "bad")


def test_the_doctor_names_what_is_denied_and_takes_optional_permissions_lightly(
    aws: Aws, s3: Any, doctor: Callable[..., list[Check]]
) -> None:
    s3.create_bucket(Bucket="acme-billing")
    denied = {"DescribeReportDefinitions", "ListExports", "DescribeInstances"}

    def deny(request: Request) -> Fault | None:
        return Fault(403, "AccessDeniedException") if request.operation in denied else None

    aws.faults.append(deny)
    checks = doctor(exports=["s3://acme-billing/exports"])
    assert "allow ec2:DescribeInstances" in said(checks, "bad")
    assert "allow cur:DescribeReportDefinitions" in said(checks, "warn")
    assert "DescribeReportDefinitions" not in said(checks, "bad")


def test_the_doctor_says_whether_gpu_metrics_come_in(aws: Aws, doctor: Callable[..., list[Check]]) -> None:
    serve_lists(aws, {})
    serve_definitions(aws, resources=True, granularity="HOURLY")
    checks = doctor()
    assert "no GPU metric came in" in said(checks, "warn")
    assert "nvidia_gpu" in said(checks, "warn")
    aws.put(BASE, "us-east-1", "CWAgent", "nvidia_smi_utilization_gpu", [], InstanceId="i-1", index="0")
    assert "nvidia_smi_utilization_gpu comes in" in said(doctor(), "ok")


def test_the_doctor_makes_no_paid_call(aws: Aws, doctor: Callable[..., list[Check]]) -> None:
    serve_definitions(aws, resources=True, granularity="HOURLY")
    serve_lists(aws, {})
    doctor(cost_explorer=True)
    assert {call.operation for call in aws.calls}.isdisjoint({"GetCostAndUsage", "GetMetricData"})


def test_the_doctor_of_a_source_without_credentials_says_how_to_get_some(
    doctor: Callable[..., list[Check]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    [check] = doctor()
    assert check.state == "bad"
    assert "AWS_PROFILE" in str(check.fix)


def test_a_profile_that_does_not_exist_is_named(doctor: Callable[..., list[Check]]) -> None:
    [check] = doctor(profile="nobody")
    assert "no such profile" in check.text
