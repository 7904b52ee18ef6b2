"""The bundled example, served as AWS would: bills in S3, inventory as its services list it, metrics in CloudWatch."""

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from auditor.assets import room
from auditor.collect.aws.calls import CALLS
from auditor.collect.aws.inventory import REGIONAL
from tests.collect.aws.server import Aws, Request, epoch

ESTATE = room("examples") / "estate"
REGION_OF = {"111122223333": "us-east-1", "222233334444": "us-east-1", "444455556666": "eu-west-1"}
BUCKETS = {"cur2": "acme-robotics-billing", "legacy": "acme-vision-billing"}
_MEMORY_MIB = 40_000.0


def serve_lists(aws: Aws, lists: Mapping[tuple[str, str, str], list[Any]]) -> None:
    """Inventory by account, Region and key of the answer; everything else is empty."""

    def add(name: str, key: str) -> None:
        service, operation = CALLS[name].service, name.partition(":")[2]

        def items(request: Request) -> list[Any]:
            kind = f"{service} {key}" if key == "FileSystems" else key
            return list(lists.get((request.account, request.region, kind), []))

        aws.items(service, operation, key, items)

    for listing in REGIONAL:
        add(listing.call, listing.key)
    for name, key in (
        ("sagemaker:ListEndpoints", "Endpoints"),
        ("sagemaker:ListTrainingJobs", "TrainingJobSummaries"),
        ("savingsplans:DescribeSavingsPlans", "savingsPlans"),
        ("s3:ListBuckets", "Buckets"),
    ):
        add(name, key)


def serve_estate(aws: Aws, s3: Any) -> None:
    for folder, bucket in BUCKETS.items():
        s3.create_bucket(Bucket=bucket)
        paths = sorted((ESTATE / "aws" / folder).rglob("*.*"), key=lambda path: path.name.endswith("Manifest.json"))
        for path in paths:
            s3.put_object(Bucket=bucket, Key=path.relative_to(ESTATE).as_posix(), Body=path.read_bytes())
    lists: dict[tuple[str, str, str], list[Any]] = {}
    for path in sorted((ESTATE / "inventory" / "aws").rglob("*.json")):
        account = path.parent.name
        for key, items in json.loads(path.read_text()).items():
            lists[(account, REGION_OF[account], key)] = items
    serve_lists(aws, lists)
    accounts = [{"Id": one, "Arn": "arn:x", "Status": "ACTIVE", "State": "ACTIVE"} for one in REGION_OF]
    aws.items("organizations", "ListAccounts", "Accounts", lambda _: accounts)
    where = {
        instance["InstanceId"]: (account, region)
        for (account, region, key), items in lists.items()
        if key == "Reservations"
        for group in items
        for instance in group["Instances"]
    }
    for resource, device, metric, points in samples():
        _serve_series(aws, where, resource, device, metric, points)


def _serve_series(
    aws: Aws,
    where: Mapping[str, tuple[str, str]],
    resource: str,
    device: str,
    metric: str,
    points: list[tuple[float, float]],
) -> None:
    if metric == "nat.bytes":
        _, _, _, region, account, name = resource.split(":")
        gateway = name.rpartition("/")[2]
        aws.put(account, region, "AWS/NATGateway", "BytesInFromSource", points, NatGatewayId=gateway)
        aws.put(
            account,
            region,
            "AWS/NATGateway",
            "BytesInFromDestination",
            [(t, 0) for t, _ in points],
            NatGatewayId=gateway,
        )
        return
    place = where[resource]
    if metric == "cpu.utilization":
        aws.put(*place, "AWS/EC2", "CPUUtilization", [(t, 100 * v) for t, v in points], InstanceId=resource)
        return
    own = {"InstanceId": resource, "index": device, "name": "NVIDIA", "arch": "x"}
    if metric == "gpu.utilization":
        aws.put(*place, "CWAgent", "nvidia_smi_utilization_gpu", [(t, 100 * v) for t, v in points], **own)
    else:
        used = [(t, _MEMORY_MIB * v) for t, v in points]
        aws.put(*place, "CWAgent", "nvidia_smi_memory_used", used, **own)
        aws.put(*place, "CWAgent", "nvidia_smi_memory_total", [(t, _MEMORY_MIB) for t, _ in points], **own)


def rows() -> Iterator[tuple[str, str, str, str, float]]:
    """(time, resource, device, metric, value) of AWS's part of the samples."""
    table = str(ESTATE / "monitoring" / "metrics-gpu.parquet")
    yield from duckdb.execute(
        "select strftime(time at time zone 'UTC', '%Y-%m-%dT%H:%M:%S'), resource_id, device, metric, value from read_parquet(?) where provider = 'aws'",
        [table],
    ).fetchall()
    with gzip.open(ESTATE / "monitoring" / "metrics-network.csv.gz", "rt") as lines:
        for row in csv.DictReader(lines):
            if row["provider"] == "aws":
                yield row["time"][:19], row["resource_id"], row["device"], row["metric"], float(row["value"])


def samples() -> Iterator[tuple[str, str, str, list[tuple[float, float]]]]:
    series: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for time, resource, device, metric, value in rows():
        series[(resource, device, metric)].append((epoch(time), value))
    for key, points in series.items():
        yield *key, points


def write_offline(folder: Path) -> list[str]:
    """The same data as files, as an offline audit is given them."""
    table = folder / "metrics.csv"
    with table.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("time", "provider", "resource_id", "device", "metric", "value"))
        for time, resource, device, metric, value in rows():
            writer.writerow((f"{time}Z", "aws", resource, device, metric, repr(value)))
    return [str(ESTATE / "aws"), str(ESTATE / "inventory" / "aws"), str(table)]


def shared_files() -> list[str]:
    """What comes from elsewhere than AWS, in both audits."""
    return [
        str(ESTATE / "inventory" / "resources.jsonl"),
        str(ESTATE / "monitoring" / "prometheus-dcgm-gpu-util.json.gz"),
    ]
