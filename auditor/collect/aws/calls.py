"""Every call that is made to AWS, with the permission it needs and its price: the policy and the doctor read this table."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

# https://aws.amazon.com/aws-cost-management/aws-cost-explorer/pricing/: each paginated request, 0.01 USD.
COST_EXPLORER_REQUEST = Decimal("0.01")
# https://aws.amazon.com/cloudwatch/pricing/: GetMetricData, 0.01 USD per 1,000 metrics requested, never free.
METRIC_REQUESTED = Decimal("0.00001")

ACCOUNT, EXPORT_BUCKET, EXPORT_OBJECTS, ROLE = "account", "export bucket", "export objects", "role"
_RESOURCES = {
    ACCOUNT: ["*"],
    EXPORT_BUCKET: ["arn:aws:s3:::EXPORT-BUCKET"],
    EXPORT_OBJECTS: ["arn:aws:s3:::EXPORT-BUCKET/*"],
    ROLE: ["arn:aws:iam::*:role/AUDITOR-ROLE"],
}


@dataclass(frozen=True)
class Call:
    """One operation. `token` names the page mark in request and answer; `size` asks for the largest page there is."""

    service: str  # as the SDK calls it
    method: str
    actions: tuple[str, ...]  # IAM's own names of what must be allowed
    resource: str = ACCOUNT
    token: tuple[str, str] | None = None
    size: Mapping[str, Any] = field(default_factory=dict)
    money: Decimal = Decimal(0)


def _ec2(method: str, action: str, largest: int | None = None) -> Call:
    pages = ("NextToken", "NextToken") if largest else None
    return Call("ec2", method, (f"ec2:{action}",), token=pages, size={"MaxResults": largest} if largest else {})


_NEXT = ("NextToken", "NextToken")
_HUNDRED = {"MaxResults": 100}

# The vendor's own name of a call -> the call. Sizes are the documented maxima.
CALLS: Mapping[str, Call] = {
    "sts:GetCallerIdentity": Call("sts", "get_caller_identity", ()),  # needs no permission
    "sts:AssumeRole": Call("sts", "assume_role", ("sts:AssumeRole",), ROLE),
    "organizations:ListAccounts": Call(
        "organizations", "list_accounts", ("organizations:ListAccounts",), token=_NEXT, size={"MaxResults": 20}
    ),
    "s3:ListObjectsV2": Call(
        "s3",
        "list_objects_v2",
        ("s3:ListBucket",),
        EXPORT_BUCKET,
        ("ContinuationToken", "NextContinuationToken"),
        {"MaxKeys": 1000},
    ),
    "s3:GetObject": Call("s3", "get_object", ("s3:GetObject",), EXPORT_OBJECTS),
    "s3:ListBuckets": Call(
        "s3",
        "list_buckets",
        ("s3:ListAllMyBuckets",),
        token=("ContinuationToken", "ContinuationToken"),
        size={"MaxBuckets": 1000},  # with a size, the answer tells each bucket's Region
    ),
    "s3:GetBucketLifecycleConfiguration": Call(
        "s3", "get_bucket_lifecycle_configuration", ("s3:GetLifecycleConfiguration",)
    ),
    "ce:GetCostAndUsage": Call(
        "ce",
        "get_cost_and_usage",
        ("ce:GetCostAndUsage",),
        token=("NextPageToken", "NextPageToken"),
        money=COST_EXPLORER_REQUEST,
    ),
    "cur:DescribeReportDefinitions": Call(
        "cur", "describe_report_definitions", ("cur:DescribeReportDefinitions",), token=_NEXT, size={"MaxResults": 5}
    ),
    "bcm-data-exports:ListExports": Call(
        "bcm-data-exports", "list_exports", ("bcm-data-exports:ListExports",), token=_NEXT, size=_HUNDRED
    ),
    "bcm-data-exports:GetExport": Call("bcm-data-exports", "get_export", ("bcm-data-exports:GetExport",)),
    "cloudwatch:ListMetrics": Call("cloudwatch", "list_metrics", ("cloudwatch:ListMetrics",), token=_NEXT),
    "cloudwatch:GetMetricData": Call("cloudwatch", "get_metric_data", ("cloudwatch:GetMetricData",), token=_NEXT),
    "ec2:DescribeRegions": _ec2("describe_regions", "DescribeRegions"),
    "ec2:DescribeInstances": _ec2("describe_instances", "DescribeInstances", 1000),
    "ec2:DescribeVolumes": _ec2("describe_volumes", "DescribeVolumes", 500),
    "ec2:DescribeNatGateways": _ec2("describe_nat_gateways", "DescribeNatGateways", 1000),
    "ec2:DescribeVpcEndpoints": _ec2("describe_vpc_endpoints", "DescribeVpcEndpoints", 1000),
    "ec2:DescribeRouteTables": _ec2("describe_route_tables", "DescribeRouteTables", 100),
    "ec2:DescribeSubnets": _ec2("describe_subnets", "DescribeSubnets", 1000),
    "ec2:DescribeAddresses": _ec2("describe_addresses", "DescribeAddresses"),
    "ec2:DescribePlacementGroups": _ec2("describe_placement_groups", "DescribePlacementGroups"),
    "ec2:DescribeCapacityReservations": _ec2("describe_capacity_reservations", "DescribeCapacityReservations", 1000),
    "ec2:DescribeReservedInstances": _ec2("describe_reserved_instances", "DescribeReservedInstances"),
    "fsx:DescribeFileSystems": Call("fsx", "describe_file_systems", ("fsx:DescribeFileSystems",), token=_NEXT),
    "elasticfilesystem:DescribeFileSystems": Call(
        "efs",
        "describe_file_systems",
        ("elasticfilesystem:DescribeFileSystems",),
        token=("Marker", "NextMarker"),
        size={"MaxItems": 100},
    ),
    "elasticloadbalancing:DescribeLoadBalancers": Call(
        "elbv2",
        "describe_load_balancers",
        ("elasticloadbalancing:DescribeLoadBalancers",),
        token=("Marker", "NextMarker"),
        size={"PageSize": 400},
    ),
    "sagemaker:ListNotebookInstances": Call(
        "sagemaker", "list_notebook_instances", ("sagemaker:ListNotebookInstances",), token=_NEXT, size=_HUNDRED
    ),
    "sagemaker:ListApps": Call("sagemaker", "list_apps", ("sagemaker:ListApps",), token=_NEXT, size=_HUNDRED),
    "sagemaker:ListEndpoints": Call(
        "sagemaker", "list_endpoints", ("sagemaker:ListEndpoints",), token=_NEXT, size=_HUNDRED
    ),
    "sagemaker:DescribeEndpoint": Call("sagemaker", "describe_endpoint", ("sagemaker:DescribeEndpoint",)),
    "sagemaker:DescribeEndpointConfig": Call(
        "sagemaker", "describe_endpoint_config", ("sagemaker:DescribeEndpointConfig",)
    ),
    "sagemaker:ListTrainingJobs": Call(
        "sagemaker", "list_training_jobs", ("sagemaker:ListTrainingJobs",), token=_NEXT, size=_HUNDRED
    ),
    "sagemaker:DescribeTrainingJob": Call("sagemaker", "describe_training_job", ("sagemaker:DescribeTrainingJob",)),
    "savingsplans:DescribeSavingsPlans": Call(
        "savingsplans",
        "describe_savings_plans",
        ("savingsplans:DescribeSavingsPlans",),
        token=("nextToken", "nextToken"),
        size={"maxResults": 1000},
    ),
    "pricing:GetProducts": Call("pricing", "get_products", ("pricing:GetProducts",), token=_NEXT, size=_HUNDRED),
}


def policy() -> str:
    """The least-privilege policy of these calls, as IAM takes it; EXPORT-BUCKET and AUDITOR-ROLE are to be replaced."""
    statements = list(_statements())
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)


def _statements() -> Iterator[dict[str, Any]]:
    names = {
        ACCOUNT: "ReadBillsMetricsAndInventory",
        EXPORT_BUCKET: "ListTheBucketsOfExportsAndFlowLogs",
        EXPORT_OBJECTS: "ReadExportsAndFlowLogs",
        ROLE: "LookIntoOtherAccounts",
    }
    for resource, sid in names.items():
        actions = {action for call in CALLS.values() if call.resource == resource for action in call.actions}
        yield {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": _RESOURCES[resource]}
