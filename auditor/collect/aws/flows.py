"""VPC flow logs from S3: the newest days of the window, each day's folder asked for by itself."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial

from auditor.collect.aws import objects
from auditor.collect.aws.access import Account
from auditor.collect.aws.words import explain
from auditor.collect.folder import plain
from auditor.collect.work import Collection, Task
from auditor.errors import SourceError
from auditor.settings import AwsSource

_DAYS = 7  # a week shows who talks to whom; a month of a large network is terabytes
_SHARE = Decimal("0.5")  # of [limits] bytes: bills come first
_DAY = re.compile(r"(?:^|/)(?:year=)?(\d{4})/(?:month=)?(\d{2})/(?:day=)?(\d{2})/")
_YEAR = re.compile(r"(?:^|/)(?:year=)?\d{4}/$")
_DEPTH = 8  # AWSLogs/ACCOUNT/vpcflowlogs/REGION, in the hive form with aws-account-id=, aws-service=, aws-region=
_HIDES = "which machines talk to which, by address"


def collect(source: AwsSource, collection: Collection, accounts: Sequence[Account]) -> None:
    _drop_old(collection)
    for url in source.flow_logs:
        found: list[tuple[objects.Bucket, list[objects.Stored]]] = []
        ask = partial(_list, url, collection, accounts, found)
        # Days that were left out, or a folder that may not be listed, take nothing from the days found before.
        collection.attempt(Task("flows", "s3:ListObjectsV2", _HIDES, ask), explain)
        for bucket, stored in found:
            collection.each((_task(collection, bucket, one) for one in stored), explain)


def _task(collection: Collection, bucket: objects.Bucket, one: objects.Stored) -> Task:
    def run() -> None:
        name = _name(bucket, one)
        if not collection.folder.holds(name, one.etag):
            collection.folder.write(
                name,
                bucket.blocks(one),
                kind="flows",
                now=collection.now,
                etag=one.etag,
                size=one.size,
                period=_day_of(one.key),
            )

    return Task("flows", "s3:GetObject", _HIDES, run)


def _name(bucket: objects.Bucket, one: objects.Stored) -> str:
    return plain(f"flows/{bucket.name}/{one.key}")


def _day_of(key: str) -> str | None:
    found = _DAY.search(key)
    return "-".join(found.groups()) if found else None


def _list(
    url: str,
    collection: Collection,
    accounts: Sequence[Account],
    found: list[tuple[objects.Bucket, list[objects.Stored]]],
) -> None:
    name, prefix = objects.address(url)
    bucket = objects.Bucket(name, accounts, collection.progress.advance)
    left = int(collection.limits.bytes * _SHARE)
    wanted: list[objects.Stored] = []
    found.append((bucket, wanted))
    roots = list(_roots(bucket, prefix))
    if not roots:
        raise SourceError(f"{url} holds no folders by year, month and day, as flow logs have: correct the prefix")
    for day in _days(collection):
        stored = [one for root in roots for one in bucket.objects(_folder(root, day)) if one.size]
        left -= sum(one.size for one in stored if not collection.folder.holds(_name(bucket, one), one.etag))
        if left < 0:
            raise SourceError(
                f"flow logs of {day} and before are left out: with them they take more than half of [limits] bytes"
            )
        wanted += stored


def _days(collection: Collection) -> Iterator[date]:
    """The newest whole days of the window, the newest first: a later day never goes for want of room for an older."""
    day = collection.end.date()
    for _ in range(_DAYS):
        day -= timedelta(days=1)
        if day >= collection.start.date():
            yield day


def _folder(root: str, day: date) -> str:
    if root.endswith("year="):
        return f"{root}{day:%Y}/month={day:%m}/day={day:%d}/"
    return f"{root}{day:%Y/%m/%d}/"


def _roots(bucket: objects.Bucket, prefix: str) -> Iterator[str]:
    """The folders above the years: only they are listed, not the objects of years."""
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    level = [prefix]
    for _ in range(_DEPTH):
        below: list[str] = []
        for folder in level:
            folders = [
                one["Prefix"] for page in bucket.list(folder, Delimiter="/") for one in page.get("CommonPrefixes") or ()
            ]
            years = [one for one in folders if _YEAR.search(one)]
            if years:
                yield folder + ("year=" if "year=" in years[0].removeprefix(folder) else "")
            else:
                below += folders
        level = below


def _drop_old(collection: Collection) -> None:
    first = collection.start.date().isoformat()
    collection.folder.drop(
        [
            entry.name
            for entry in collection.folder.entries.values()
            if entry.kind == "flows" and entry.period and entry.period < first
        ]
    )
