"""What `auditor doctor` says of an AWS source: who asks, what is permitted, present, detailed and fresh."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from auditor.checks import Check
from auditor.collect.aws import access, objects
from auditor.collect.aws.access import Account, CallFailed
from auditor.collect.aws.words import explain
from auditor.collect.budget import Budget
from auditor.errors import AuditorError
from auditor.settings import AwsSource, Limits

_FRESH = timedelta(days=2)  # exports are renewed at least once a day
_MANY = 10_000  # calls that a check may make at most


def check(source: AwsSource) -> Iterator[Check]:
    """Costs nothing: no paid call is made. Each thing stands for itself; one that is refused stops no other."""
    subject = f"source {source.name}"
    budget = Budget(Limits(money=Decimal(0), calls=_MANY))
    try:
        start = access.base(source, budget)
    except Exception as error:
        yield _failed(subject, error)
        return
    yield Check("ok", subject, f"signed in as account {start.account_id}")
    accounts = []
    for answer in _accounts(source, start, subject):
        if isinstance(answer, Check):
            yield answer
        else:
            accounts.append(answer)
    yield from _exports(source, [start, *(one for one in accounts if one is not start)], subject)
    yield from _definitions(start, source, subject)
    for account in accounts:
        yield from _account(source, account, f"{subject} account {account.account_id}")


def _failed(subject: str, error: Exception, state: str = "bad") -> Check:
    refusal = explain(error)
    if refusal is None and not isinstance(error, AuditorError):
        raise error
    name = f"{error.name}: " if isinstance(error, CallFailed) else ""
    return Check(state, subject, f"{name}{refusal.reason}" if refusal else str(error), refusal.fix if refusal else None)


def _accounts(source: AwsSource, start: Account, subject: str) -> Iterator[Account | Check]:
    try:
        arns = access.roles(source, start)
        external_id = access.external_id(source)
    except (CallFailed, AuditorError) as error:
        yield _failed(subject, error)
        return
    for arn in arns:
        try:
            yield start if arn is None else access.assumed(start, arn, external_id)
        except (CallFailed, AuditorError) as error:
            yield _failed(f"{subject} role {arn}", error)


def _exports(source: AwsSource, accounts: Sequence[Account], subject: str) -> Iterator[Check]:
    if not source.exports:
        yield Check(
            "bad" if not source.cost_explorer else "warn",
            subject,
            "no bill is read: `exports` is empty" + (", Cost Explorer's sums stand in" if source.cost_explorer else ""),
            "create a Data Export (CUR 2.0, hourly, with resource ids) to an S3 bucket and name s3://BUCKET/PREFIX under `exports`",
        )
    for url in source.exports:
        try:
            yield _export(url, accounts, f"{subject} {url}")
        except (CallFailed, AuditorError) as error:
            yield _failed(f"{subject} {url}", error)
    for url in source.flow_logs:
        try:
            name, prefix = objects.address(url)
            next(objects.Bucket(name, accounts).list(prefix, MaxKeys=1))
            yield Check("ok", f"{subject} {url}", "flow logs can be listed")
        except (CallFailed, AuditorError) as error:
            yield _failed(f"{subject} {url}", error)


def _export(url: str, accounts: Sequence[Account], subject: str) -> Check:
    name, prefix = objects.address(url)
    bucket = objects.Bucket(name, accounts)
    newest: datetime | None = None
    manifests = 0
    for one in bucket.objects(prefix):
        manifests += one.key.endswith("-Manifest.json")
        when = datetime.fromisoformat(one.modified.replace("Z", "+00:00"))
        newest = max(newest or when, when)
    if newest is None:
        return Check(
            "bad",
            subject,
            "nothing has been delivered there",
            "a new export takes up to 24 hours; else compare the prefix with the export's own",
        )
    age = datetime.now(UTC) - newest
    text = f"{manifests} manifests, newest object {newest:%Y-%m-%d %H:%M} UTC"
    if age > _FRESH:
        return Check("warn", subject, f"{text}: {age.days} days old", "look at the export's last run in Data Exports")
    return Check("ok", subject, text)


def _definitions(start: Account, source: AwsSource, subject: str) -> Iterator[Check]:
    """How the exports are set up. The permission is optional, so a refusal is only a remark."""
    buckets = {objects.address(url)[0] for url in source.exports if url.startswith("s3://")}
    try:
        for page in start.pages("cur:DescribeReportDefinitions", start.home):
            for report in page.get("ReportDefinitions") or ():
                if report.get("S3Bucket") in buckets:
                    yield _report(report, subject)
    except (CallFailed, AuditorError) as error:
        yield _failed(subject, error, "warn")
    try:
        for page in start.pages("bcm-data-exports:ListExports", start.home):
            for listed in page.get("Exports") or ():
                answer = start.call("bcm-data-exports:GetExport", start.home, ExportArn=listed["ExportArn"])
                export = answer["Export"]
                place = export.get("DestinationConfigurations", {}).get("S3Destination", {})
                if place.get("S3Bucket") in buckets:
                    yield _data_export(export, subject)
    except (CallFailed, AuditorError) as error:
        yield _failed(subject, error, "warn")


def _report(report: dict[str, Any], subject: str) -> Check:
    wants = []
    if "RESOURCES" not in (report.get("AdditionalSchemaElements") or ()):
        wants.append("resource ids")
    if report.get("TimeUnit") != "HOURLY":
        wants.append("hourly rows")
    return _verdict(
        f"{subject} report {report['ReportName']}",
        wants,
        "a report's columns cannot be changed: create a new one with `aws cur put-report-definition` (TimeUnit HOURLY, AdditionalSchemaElements RESOURCES)",
    )


def _data_export(export: dict[str, Any], subject: str) -> Check:
    tables = export.get("DataQuery", {}).get("TableConfigurations") or {}
    wants = []
    for table, settings in tables.items():
        if table != "COST_AND_USAGE_REPORT":
            continue  # FOCUS is hourly and has resource ids as it is
        if settings.get("INCLUDE_RESOURCES") != "TRUE":
            wants.append("resource ids")
        if settings.get("TIME_GRANULARITY") != "HOURLY":
            wants.append("hourly rows")
    return _verdict(
        f"{subject} export {export.get('Name')}",
        wants,
        "`aws bcm-data-exports update-export` with INCLUDE_RESOURCES TRUE and TIME_GRANULARITY HOURLY",
    )


def _verdict(subject: str, wants: Sequence[str], fix: str) -> Check:
    if wants:
        return Check("bad" if "resource ids" in wants else "warn", subject, f"lacks {' and '.join(wants)}", fix)
    return Check("ok", subject, "hourly, with resource ids")


def _account(source: AwsSource, account: Account, subject: str) -> Iterator[Check]:
    """One Region is looked into, the first of those named or the credentials' own."""
    region = source.regions[0] if source.regions else account.region
    if source.inventory:
        try:
            account.call("ec2:DescribeInstances", region, MaxResults=5)
            yield Check("ok", subject, f"inventory of {region} can be listed")
        except (CallFailed, AuditorError) as error:
            yield _failed(subject, error)
    if source.metrics:
        yield from _gpus(account, region, subject)


def _gpus(account: Account, region: str, subject: str) -> Iterator[Check]:
    """Whether GPU metrics come in: CloudWatch lists what came within the last three hours."""
    try:
        for metric in ("nvidia_smi_utilization_gpu", "node_gpu_utilization"):
            answer = account.call("cloudwatch:ListMetrics", region, MetricName=metric, RecentlyActive="PT3H")
            if answer.get("Metrics"):
                yield Check("ok", subject, f"{metric} comes in ({region})")
                return
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        answer = account.call("cloudwatch:ListMetrics", region, Namespace="AWS/EC2", MetricName="CPUUtilization")
        yield Check(
            "warn",
            subject,
            f"no GPU metric came in since {now - timedelta(hours=3):%H:%M} UTC ({region}); {len(answer.get('Metrics') or ())} machines report CPU",
            "install the CloudWatch agent with the nvidia_gpu section and append_dimensions InstanceId, or name a Prometheus with the DCGM exporter",
        )
    except (CallFailed, AuditorError) as error:
        yield _failed(subject, error)
