"""Inventory: what `aws ... describe-*` would print of each account and Region, as far as a rule reads it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from auditor.collect.aws.access import Account, CallFailed
from auditor.collect.work import Collection, Task

GLOBAL = "global"  # the folder of what lies in no Region


@dataclass(frozen=True)
class Listing:
    """One list of the inventory: the call, the key of its answer, the file's name, and what the report misses without."""

    call: str
    key: str
    name: str
    hides: str
    arguments: Mapping[str, Any]


def _ec2(call: str, key: str, hides: str, **arguments: Any) -> Listing:
    word = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in call.removeprefix("Describe"))
    return Listing(f"ec2:{call}", key, f"ec2-describe{word}", hides, arguments)


REGIONAL = (
    _ec2("DescribeInstances", "Reservations", "state, type and tags of the machines"),
    _ec2("DescribeVolumes", "Volumes", "unattached and slow disks"),
    _ec2("DescribeNatGateways", "NatGateways", "idle and unneeded NAT gateways"),
    _ec2("DescribeVpcEndpoints", "VpcEndpoints", "which networks reach S3 without a NAT gateway"),
    _ec2("DescribeRouteTables", "RouteTables", "which subnets lie behind which NAT gateway"),
    _ec2("DescribeSubnets", "Subnets", "which zone a subnet lies in"),
    _ec2("DescribeAddresses", "Addresses", "unused Elastic IP addresses"),
    _ec2("DescribePlacementGroups", "PlacementGroups", "whether training clusters are placed close together"),
    _ec2("DescribeCapacityReservations", "CapacityReservations", "reserved capacity that nobody runs in"),
    _ec2("DescribeReservedInstances", "ReservedInstances", "reserved instances about to end"),
    Listing(
        "fsx:DescribeFileSystems", "FileSystems", "fsx-describe-file-systems", "idle and slow FSx file systems", {}
    ),
    Listing(
        "elasticfilesystem:DescribeFileSystems",
        "FileSystems",
        "efs-describe-file-systems",
        "idle and slow EFS file systems",
        {},
    ),
    Listing(
        "elasticloadbalancing:DescribeLoadBalancers",
        "LoadBalancers",
        "elbv2-describe-load-balancers",
        "idle load balancers",
        {},
    ),
    Listing(
        "sagemaker:ListNotebookInstances",
        "NotebookInstances",
        "sagemaker-list-notebook-instances",
        "idle SageMaker notebooks",
        {},
    ),
    Listing("sagemaker:ListApps", "Apps", "sagemaker-list-apps", "idle SageMaker Studio apps", {}),
)
_SAVINGS_PLANS = Listing(
    "savingsplans:DescribeSavingsPlans",
    "savingsPlans",
    "savingsplans-describe-savings-plans",
    "savings plans about to end",
    {},
)
_BUCKETS = Listing("s3:ListBuckets", "Buckets", "s3api-list-buckets", "buckets that only grow", {})
_ENDPOINTS = Listing("sagemaker:ListEndpoints", "Endpoints", "sagemaker-list-endpoints", "idle endpoints", {})
_JOBS = "sagemaker-describe-training-job"
_FINAL = {"Completed", "Failed", "Stopped"}  # states in which a job's description stays what it is


def place(account: Account, region: str, name: str) -> str:
    """The name of a file of the inventory; account and Region stand in it because most answers do not tell them."""
    return f"inventory/{account.account_id}/{region}/{name}.json"


def tasks(collection: Collection, account: Account, regions: Iterable[str]) -> Iterator[Task]:
    """All lists of an account, Region by Region."""
    for region in regions:
        for listing in REGIONAL:
            if not account.has(listing.call, region):
                continue
            yield _task(collection, account, region, listing, partial(_list, collection, account, region, listing))
        if not account.has(_ENDPOINTS.call, region):
            continue
        yield _task(collection, account, region, _ENDPOINTS, partial(_endpoints, collection, account, region))
        jobs = Listing("sagemaker:ListTrainingJobs", "TrainingJobSummaries", _JOBS, "SageMaker training jobs", {})
        yield _task(collection, account, region, jobs, partial(_jobs, collection, account, region))
    yield _task(
        collection, account, GLOBAL, _SAVINGS_PLANS, partial(_list, collection, account, GLOBAL, _SAVINGS_PLANS)
    )
    yield _task(collection, account, GLOBAL, _BUCKETS, partial(_buckets, collection, account))


def _task(collection: Collection, account: Account, region: str, listing: Listing, run: Callable[[], None]) -> Task:
    where = None if region == GLOBAL else region
    return Task("inventory", listing.call, listing.hides, run, account.account_id, where)


def _list(collection: Collection, account: Account, region: str, listing: Listing) -> None:
    where = account.home if region == GLOBAL else region
    items = (
        item for page in account.pages(listing.call, where, **listing.arguments) for item in page.get(listing.key) or ()
    )
    _write(collection, account, region, listing.name, _document(listing.key, items))


def _document(key: str, items: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """All pages as the one answer that AWS's own tool prints; only one item at a time is in memory."""
    yield b'{"%s": [' % key.encode()
    between = b"\n"
    for item in items:
        yield between + json.dumps(item).encode()
        between = b",\n"
    yield b"\n]}\n"


def _write(collection: Collection, account: Account, region: str, name: str, blocks: Iterator[bytes]) -> None:
    collection.folder.write(
        place(account, region, name),
        blocks,
        kind="inventory",
        now=collection.now,
        account_id=account.account_id,
        region=None if region == GLOBAL else region,
    )


def _endpoints(collection: Collection, account: Account, region: str) -> None:
    """The list tells the names only: numbers stand in each endpoint's description, machine types in its configuration."""
    listed = [one for page in account.pages(_ENDPOINTS.call, region) for one in page.get("Endpoints") or ()]
    _write(collection, account, region, _ENDPOINTS.name, _document("Endpoints", iter(listed)))
    described = [account.call("sagemaker:DescribeEndpoint", region, EndpointName=one["EndpointName"]) for one in listed]
    _write_each(collection, account, region, "sagemaker-describe-endpoint", described)
    names = dict.fromkeys(one["EndpointConfigName"] for one in described if one.get("EndpointConfigName"))
    _write_each(
        collection,
        account,
        region,
        "sagemaker-describe-endpoint-config",
        [account.call("sagemaker:DescribeEndpointConfig", region, EndpointConfigName=name) for name in names],
    )


def _write_each(
    collection: Collection, account: Account, region: str, name: str, answers: list[dict[str, Any]]
) -> None:
    """Answers about one thing each, one a line; no file where there are none."""
    if answers:
        _write(collection, account, region, name, (json.dumps(one).encode() + b"\n" for one in answers))
    elif place(account, region, name) in collection.folder.entries:
        collection.folder.drop([place(account, region, name)])


def _jobs(collection: Collection, account: Account, region: str) -> None:
    """The jobs of the window. One that has ended is described once and kept."""
    known = {
        one.get("TrainingJobArn"): one
        for one in read_each(collection, account, region, _JOBS)
        if one.get("TrainingJobStatus") in _FINAL
    }
    answers = []
    pages = account.pages("sagemaker:ListTrainingJobs", region, LastModifiedTimeAfter=collection.start)
    for job in (one for page in pages for one in page.get("TrainingJobSummaries") or ()):
        before = known.get(job["TrainingJobArn"])
        answers.append(
            before or account.call("sagemaker:DescribeTrainingJob", region, TrainingJobName=job["TrainingJobName"])
        )
    _write_each(collection, account, region, _JOBS, answers)


def _buckets(collection: Collection, account: Account) -> None:
    listed = [one for page in account.pages(_BUCKETS.call) for one in page.get("Buckets") or ()]
    _write(collection, account, GLOBAL, _BUCKETS.name, _document("Buckets", iter(listed)))
    wanted = set()
    refused: CallFailed | None = None
    for bucket in listed:
        # The answer names no bucket, so the file does.
        name = place(account, GLOBAL, f"s3api-get-bucket-lifecycle-configuration/{bucket['Name']}")
        try:
            answer = account.call(
                "s3:GetBucketLifecycleConfiguration", bucket.get("BucketRegion"), Bucket=bucket["Name"]
            )
        except CallFailed as error:
            response = getattr(error.error, "response", None) or {}
            if response.get("Error", {}).get("Code") != "NoSuchLifecycleConfiguration":
                refused = refused or error  # a bucket's own policy may deny what the others allow
                continue
            answer = {"Rules": []}  # S3 says "none" by an error
        wanted.add(name)
        collection.folder.write_json(
            name,
            {"Rules": answer.get("Rules") or []},
            kind="inventory",
            now=collection.now,
            account_id=account.account_id,
        )
    _drop_gone(collection, account, {bucket["Name"] for bucket in listed})
    if refused is not None:
        raise refused


def _drop_gone(collection: Collection, account: Account, names: set[str]) -> None:
    top = place(account, GLOBAL, "s3api-get-bucket-lifecycle-configuration/").removesuffix(".json")
    collection.folder.drop(
        [
            name
            for name in collection.folder.entries
            if name.startswith(top) and name.removeprefix(top).removesuffix(".json") not in names
        ]
    )


def read(collection: Collection, account: Account, region: str, name: str, key: str) -> list[dict[str, Any]]:
    """The items of a list that was fetched, now or by an earlier collection; empty where it never was."""
    path = collection.folder.path / place(account, region, name)
    if place(account, region, name) not in collection.folder.entries:
        return []
    found = json.loads(path.read_bytes()).get(key)
    return list(found or [])


def read_each(collection: Collection, account: Account, region: str, name: str) -> list[dict[str, Any]]:
    """Likewise of answers about one thing each."""
    if place(account, region, name) not in collection.folder.entries:
        return []
    with (collection.folder.path / place(account, region, name)).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
