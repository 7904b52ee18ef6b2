"""Bills: the exports in S3, and Cost Explorer's answers where it is asked."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any

from auditor.collect.aws import objects
from auditor.collect.aws.access import Account
from auditor.collect.aws.words import explain
from auditor.collect.work import Collection, Task
from auditor.settings import AwsSource

# https://docs.aws.amazon.com/cost-management/latest/userguide/ce-exploring-data.html: closed months change for a while
# after their end, when refunds, credits and the final invoice come.
_SETTLED_DAYS = 10


def collect(source: AwsSource, collection: Collection, accounts: Sequence[Account]) -> None:
    """Fetches what is new of the exports; an export is read with the first of the accounts that may."""
    found: list[tuple[objects.Bucket, objects.Delivery]] = []
    for url in source.exports:
        collection.attempt(
            Task(
                "billing", "s3:ListObjectsV2", f"the bills of {url}", partial(_list, url, collection, accounts, found)
            ),
            explain,
        )
    parallel = max(1, collection.limits.parallel // max(1, len(found)))
    collection.each((_task(collection, bucket, delivery, parallel) for bucket, delivery in found), explain)
    if source.cost_explorer:
        start = accounts[0]
        collection.each(_months(collection, start), explain)


def _list(
    url: str,
    collection: Collection,
    accounts: Sequence[Account],
    found: list[tuple[objects.Bucket, objects.Delivery]],
) -> None:
    name, prefix = objects.address(url)
    bucket = objects.Bucket(name, accounts, collection.progress.advance)
    # Of two addresses one may lie below the other; a file is written by one thread at a time.
    known = {(one.bucket, one.export, one.period) for _, one in found}
    for one in objects.deliveries(bucket, prefix, collection.folder, collection.now, months=collection.months):
        if (one.bucket, one.export, one.period) not in known:
            found.append((bucket, one))


def _task(collection: Collection, bucket: objects.Bucket, delivery: objects.Delivery, parallel: int) -> Task:
    hides = f"the newest delivery of {delivery.title}; what an earlier collection fetched of it is still read"

    def run() -> None:
        objects.take(bucket, delivery, collection.folder, collection.now, parallel=parallel)

    return Task("billing", "s3:GetObject", hides, run)


def _months(collection: Collection, account: Account) -> Iterator[Task]:
    """One question a month; a month that has settled is not asked for again, for every page costs money."""
    first = date.fromisoformat(objects.newest_months(collection.now, collection.months) + "-01")
    while first < collection.now.date():
        following = (first + timedelta(days=32)).replace(day=1)
        end = min(following, collection.now.date())
        mark = f"ce/{account.account_id}/{first:%Y-%m}"
        settled = (following + timedelta(days=_SETTLED_DAYS)).isoformat()
        asked = collection.folder.mark(mark)
        if asked is None or (asked < settled and asked != collection.now.date().isoformat()):
            yield Task(
                "billing",
                "ce:GetCostAndUsage",
                f"Cost Explorer's totals of {first:%Y-%m}, and the costs of accounts that no export holds",
                partial(_ask, collection, account, first, end, mark),
                account.account_id,
            )
        first = following


def _ask(collection: Collection, account: Account, start: date, end: date, mark: str) -> None:
    """By account and service: an answer by account gives way, account by account, where there is a bill."""
    document: dict[str, Any] | None = None
    for page in account.pages(
        "ce:GetCostAndUsage",
        account.home,
        TimePeriod={"Start": start.isoformat(), "End": end.isoformat()},
        Granularity="DAILY",
        Metrics=["UnblendedCost", "AmortizedCost"],
        GroupBy=[{"Type": "DIMENSION", "Key": "LINKED_ACCOUNT"}, {"Type": "DIMENSION", "Key": "SERVICE"}],
    ):
        page.pop("NextPageToken", None)
        if document is None:
            document = page
            continue
        document["ResultsByTime"] += page["ResultsByTime"]
        document.setdefault("DimensionValueAttributes", []).extend(page.get("DimensionValueAttributes") or [])
    if document is None:
        return
    name = f"billing/cost-explorer/{account.account_id}/{start:%Y-%m}.json"
    collection.folder.write_json(
        name, document, kind="billing", now=collection.now, account_id=account.account_id, period=f"{start:%Y-%m}"
    )
    collection.folder.set_mark(mark, collection.now.date().isoformat())
