"""AWS, by its own SDK: bills from S3, metrics from CloudWatch, inventory and prices from the services' own lists."""

from collections.abc import Iterator
from functools import partial

from auditor.checks import Check
from auditor.collect.aws import access, bills, flows, inventory, metrics, prices
from auditor.collect.aws.access import Account
from auditor.collect.aws.calls import policy
from auditor.collect.aws.words import explain
from auditor.collect.work import Collection, Task
from auditor.settings import AwsSource

__all__ = ["check", "collect", "explain", "policy"]

_WHOLE = "everything of this source"


def collect(source: AwsSource, collection: Collection) -> None:
    """Fetches what the source's settings ask for; what is refused becomes a problem of the report."""
    found: list[Account] = []
    begin = Task("billing", "sts:GetCallerIdentity", _WHOLE, partial(_begin, source, collection, found))
    if not collection.attempt(begin, explain):
        return
    start = found[0]
    accounts = _accounts(source, collection, start)
    bills.collect(source, collection, [start, *(one for one in accounts if one is not start)])
    places = [(account, _regions(source, collection, account)) for account in accounts]
    if source.inventory:
        collection.each(
            (task for account, regions in places for task in inventory.tasks(collection, account, regions)), explain
        )
    if source.metrics:
        metrics.collect(collection, places)
    if source.prices:
        prices.collect(collection, start, places)
    flows.collect(source, collection, [start, *(one for one in accounts if one is not start)])


def check(source: AwsSource) -> Iterator[Check]:
    """What can be said of the source without fetching it."""
    from auditor.collect.aws import doctor

    yield from doctor.check(source)


def _begin(source: AwsSource, collection: Collection, found: list[Account]) -> None:
    found.append(access.base(source, collection.budget))


def _accounts(source: AwsSource, collection: Collection, start: Account) -> list[Account]:
    """The accounts to look into; one whose role cannot be assumed is left out and said."""
    arns: list[str | None] = []

    def ask() -> None:
        arns.extend(access.roles(source, start))

    hides = "metrics and inventory of the accounts of the organization"
    if not collection.attempt(Task("inventory", "organizations:ListAccounts", hides, ask), explain):
        arns.extend(source.roles or [None])
    accounts: dict[str | None, Account] = {}

    def assume(arn: str | None) -> None:
        accounts[arn] = start if arn is None else access.assumed(start, arn, access.external_id(source))

    collection.each((_assume(arn, partial(assume, arn), start) for arn in arns), explain)
    return [accounts[arn] for arn in arns if arn in accounts]


def _assume(arn: str | None, run: partial[None], start: Account) -> Task:
    account = start.account_id if arn is None else next((part for part in arn.split(":") if part.isdigit()), None)
    return Task("inventory", "sts:AssumeRole", "metrics and inventory of the account", run, account)


def _regions(source: AwsSource, collection: Collection, account: Account) -> list[str]:
    """The Regions to look into: those named, else all that are enabled in the account."""
    if source.regions or not (source.inventory or source.metrics):
        return list(source.regions)
    found: list[str] = []

    def ask() -> None:
        answer = account.call("ec2:DescribeRegions")
        found.extend(sorted(one["RegionName"] for one in answer["Regions"]))

    hides = "metrics and inventory of all Regions but the credentials' own"
    if not collection.attempt(Task("inventory", "ec2:DescribeRegions", hides, ask, account.account_id), explain):
        return [account.region]
    return found
