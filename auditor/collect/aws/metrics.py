"""CloudWatch: hourly samples of all series, and steps of five minutes where an hour's mean leaves the question open."""

import gzip
import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from auditor.collect.aws import inventory
from auditor.collect.aws.access import Account
from auditor.collect.aws.calls import METRIC_REQUESTED
from auditor.collect.aws.screen import Screen
from auditor.collect.aws.series import (
    DAY,
    HOUR,
    MINUTES,
    PRESSURE,
    UTILISATION,
    WAITING,
    Series,
    is_accelerated,
    of_agents,
    of_buckets,
    of_efs,
    of_endpoint,
    of_file_servers,
    of_fsx,
    of_gateway,
    of_job,
    of_machine,
    of_volume,
)
from auditor.collect.aws.words import explain
from auditor.collect.work import Collection, Task

# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
_QUERIES, _POINTS = 500, 100_800
_ROOM = threading.BoundedSemaphore(4)  # a full answer takes some 30 MB until it is put down
_SETTLED = timedelta(minutes=15)  # so long an hour may still change after its end
_HIDES = "how busy machines, disks, gateways and file systems were"


@dataclass
class Unit:
    """One account and Region: what is to be asked of its CloudWatch, and until when."""

    account: Account
    region: str
    end: datetime
    series: list[Series] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)  # resources of which something could not be fetched

    @property
    def mark(self) -> str:
        return f"metrics/{self.account.account_id}/{self.region}"


@dataclass(frozen=True)
class Batch:
    """One request: as many series as one answer holds."""

    unit: Unit
    period: int
    start: datetime
    end: datetime
    series: tuple[Series, ...]

    @property
    def name(self) -> str:
        """Made of what is asked, so that the answer to the very same question is never fetched twice."""
        asked = hashlib.sha256(
            repr([(one.namespace, one.metric, one.dimensions, one.statistic) for one in self.series]).encode()
        )
        # Of equal samples the last counts, by the order of names: 60-minute files come before 5-minute ones.
        step = {HOUR: "hours", DAY: "days", MINUTES: "minutes"}[self.period]
        window = f"{self.start:%Y%m%dT%H}-{self.end:%Y%m%dT%H}"
        return f"telemetry/{self.unit.account.account_id}/{self.unit.region}/{window}/{step}-{asked.hexdigest()[:16]}.json.gz"


def collect(collection: Collection, places: Sequence[tuple[Account, list[str]]]) -> None:
    """Fetches what is new of all series; of those that are new themselves, all of the window."""
    _drop_old(collection)
    end = settled(collection)
    units = [Unit(account, region, end) for account, regions in places for region in regions]
    unfinished = [
        Unit(unit.account, unit.region, until)
        for unit in units
        if (until := _pending(collection, unit)) and until < end
    ]
    for wave in (unfinished, units):
        collection.each((_plan_task(collection, unit) for unit in wave), explain)
        _fetch(collection, wave)


def settled(collection: Collection) -> datetime:
    """The end of the last hour that no longer changes."""
    return collection.end if collection.now - collection.end >= _SETTLED else collection.end - timedelta(hours=1)


def _drop_old(collection: Collection) -> None:
    entries = collection.folder.entries.values()
    old = [
        one.name
        for one in entries
        if one.kind == "telemetry" and one.period and _time(one.period.partition("/")[2]) <= collection.start
    ]
    collection.folder.drop(old)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _stamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _pending(collection: Collection, unit: Unit) -> datetime | None:
    """The end of a window whose fetching was killed: asked again with the same end, its files need not be fetched again."""
    told = collection.folder.mark(f"{unit.mark}/pending")
    return _time(told) if told else None


def _plan_task(collection: Collection, unit: Unit) -> Task:
    run = partial(_plan, collection, unit)
    return Task(
        "telemetry", "cloudwatch:ListMetrics", "GPU and bucket metrics", run, unit.account.account_id, unit.region
    )


def _plan(collection: Collection, unit: Unit) -> None:
    account, region = unit.account, unit.region
    unit.series.extend(_of_inventory(collection, unit))  # known, whatever CloudWatch lets us list

    def listed(**filters: str) -> Iterator[dict[str, Any]]:
        for page in account.pages("cloudwatch:ListMetrics", region, **filters):
            yield from page.get("Metrics") or ()

    unit.series.extend(of_agents(listed))
    unit.series.extend(of_buckets(listed))
    if inventory.read(collection, account, region, "fsx-describe-file-systems", "FileSystems"):
        unit.series.extend(of_file_servers(listed))


def _of_inventory(collection: Collection, unit: Unit) -> Iterator[Series]:
    read = partial(inventory.read, collection, unit.account, unit.region)
    each = partial(inventory.read_each, collection, unit.account, unit.region)
    instances = [
        one for group in read("ec2-describe-instances", "Reservations") for one in group.get("Instances") or ()
    ]
    accelerated = {str(one["InstanceId"]) for one in instances if is_accelerated(one.get("InstanceType"))}
    kinds: tuple[tuple[Iterable[Any], Callable[[Any], Iterator[Series]]], ...] = (
        (instances, of_machine),
        (read("ec2-describe-volumes", "Volumes"), partial(of_volume, accelerated=accelerated)),
        (read("ec2-describe-nat-gateways", "NatGateways"), of_gateway),
        (read("fsx-describe-file-systems", "FileSystems"), of_fsx),
        (read("efs-describe-file-systems", "FileSystems"), of_efs),
        (each("sagemaker-describe-endpoint"), of_endpoint),
        (each("sagemaker-describe-training-job"), of_job),
    )
    for things, series_of in kinds:
        for thing in things:
            yield from series_of(thing)


def _fetch(collection: Collection, units: Sequence[Unit]) -> None:
    """All samples of the units; afterwards it is remembered how far each resource has come."""
    reached = {unit.mark: _reached(collection, unit) for unit in units}
    batches = {unit.mark: list(_batches(collection, unit, reached[unit.mark])) for unit in units}
    busy = [unit for unit in units if batches[unit.mark]]
    screens = {unit.mark: Screen(collection.start, unit.end) for unit in busy}
    for unit in busy:
        collection.folder.set_mark(f"{unit.mark}/pending", _stamp(unit.end))
    collection.each(
        (_task(collection, batch, screens[unit.mark]) for unit in busy for batch in batches[unit.mark]), explain
    )
    collection.each(
        (
            _task(collection, batch, None)
            for unit in busy
            for batch in _fine(unit, screens[unit.mark], batches[unit.mark])
        ),
        explain,
    )
    for unit in busy:
        for one in unit.series:
            if one.resource not in unit.failed:
                reached[unit.mark][_key(one)] = _stamp(_end(unit, one.period))
        _remember(collection, unit, reached[unit.mark])


def _key(one: Series) -> str:
    return f"{one.resource} by day" if one.period == DAY else one.resource


def _reached(collection: Collection, unit: Unit) -> dict[str, str]:
    told: dict[str, list[str]] = collection.folder.mark(unit.mark) or {}
    return {resource: until for until, resources in told.items() for resource in resources}


def _remember(collection: Collection, unit: Unit, reached: dict[str, str]) -> None:
    """By time, because nearly all resources have come equally far; what is gone for a whole window is forgotten."""
    told: dict[str, list[str]] = defaultdict(list)
    for resource, until in sorted(reached.items()):
        if _time(until) > collection.start:
            told[until].append(resource)
    collection.folder.set_mark(unit.mark, told)
    collection.folder.set_mark(f"{unit.mark}/pending", None)


def _end(unit: Unit, period: int) -> datetime:
    if period != DAY:
        return unit.end
    # S3 tells the size of a day in the course of the next.
    return unit.end.replace(hour=0) - timedelta(days=1)


def _batches(collection: Collection, unit: Unit, reached: dict[str, str]) -> Iterator[Batch]:
    groups: dict[tuple[int, datetime], list[Series]] = defaultdict(list)
    for one in dict.fromkeys(unit.series):
        told = reached.get(_key(one))
        start = max(_time(told), collection.start) if told else collection.start
        if start < _end(unit, one.period):
            groups[(one.period, start)].append(one)
    for (period, start), series in sorted(groups.items(), key=lambda group: group[0]):
        # What the screen reads comes first, so that few answers have to be looked through.
        series.sort(
            key=lambda one: (one.metric not in UTILISATION | PRESSURE, one.resource, one.metric, one.dimensions)
        )
        yield from cut(unit, period, start, _end(unit, period), series)


def cut(unit: Unit, period: int, start: datetime, end: datetime, series: Sequence[Series]) -> Iterator[Batch]:
    """Requests whose answers are one page each: paging a larger one would need as many calls, half of them half empty."""
    points = max(1, int((end - start).total_seconds() // period))
    size = max(1, min(_QUERIES, _POINTS // points))
    for at in range(0, len(series), size):
        yield Batch(unit, period, start, end, tuple(series[at : at + size]))


def _task(collection: Collection, batch: Batch, screen: Screen | None) -> Task:
    def run() -> None:
        try:
            with _ROOM:
                _ask(collection, batch, screen)
        except BaseException:
            batch.unit.failed.update(one.resource for one in batch.series)
            raise

    return Task("telemetry", "cloudwatch:GetMetricData", _HIDES, run, batch.unit.account.account_id, batch.unit.region)


def _ask(collection: Collection, batch: Batch, screen: Screen | None) -> None:
    """Fetches a batch, unless a collection that was killed has done so."""
    if batch.name in collection.folder.entries:
        if screen is not None:
            screen.read(batch.series, json.loads(gzip.decompress((collection.folder.path / batch.name).read_bytes())))
        return
    queries = [one.query(number, batch.period) for number, one in enumerate(batch.series)]
    results: list[dict[str, Any]] = []
    for page in batch.unit.account.pages(
        "cloudwatch:GetMetricData",
        batch.unit.region,
        MetricDataQueries=queries,
        StartTime=batch.start,
        EndTime=batch.end,
        ScanBy="TimestampAscending",
        MaxDatapoints=_POINTS,
        _money=METRIC_REQUESTED * len(queries),
    ):
        results += [
            one
            for one in page["MetricDataResults"]
            if one.get("Timestamps") or one.get("StatusCode") not in ("Complete", "PartialData")
        ]
    document = {
        "AccountId": batch.unit.account.account_id,
        "Region": batch.unit.region,
        "MetricDataQueries": queries,
        "MetricDataResults": results,
    }
    if screen is not None:
        screen.read(batch.series, document)
    data = gzip.compress(json.dumps(document).encode(), 3, mtime=0)
    collection.folder.write(
        batch.name,
        data,
        kind="telemetry",
        now=collection.now,
        account_id=batch.unit.account.account_id,
        region=batch.unit.region,
        period=f"{_stamp(batch.start)}/{_stamp(batch.end)}",
    )
    collection.progress.advance(len(data))


def _fine(unit: Unit, screen: Screen, batches: Sequence[Batch]) -> Iterator[Batch]:
    """Steps of five minutes of the days in question; means only: a sum over an hour is no sum over its first minutes."""
    start = min(batch.start for batch in batches)
    spans: dict[tuple[datetime, datetime], list[Series]] = defaultdict(list)
    for days, wanted in ((screen.waiting(), UTILISATION | PRESSURE | WAITING), (screen.uneven(), UTILISATION)):
        for one in dict.fromkeys(unit.series):
            if one.machine in days and one.metric in wanted and one.period == HOUR:
                for first, last in _runs(days[one.machine]):
                    span = max(first, start), min(last + timedelta(days=1), unit.end)
                    if span[0] < span[1]:
                        spans[span].append(one)
    for (begin, end), series in sorted(spans.items(), key=lambda span: span[0]):
        yield from cut(unit, MINUTES, begin, end, series)  # CloudWatch keeps them for 63 days


def _runs(days: Sequence[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """First and last day of each run of days."""
    first = last = days[0]
    for day in days[1:]:
        if day - last > timedelta(days=1):
            yield first, last
            first = day
        last = day
    yield first, last
