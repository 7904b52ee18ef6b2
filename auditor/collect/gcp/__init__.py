"""Google Cloud: the billing export, Cloud Monitoring, and what the services list, by Google's own clients."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from auditor.checks import Check
from auditor.collect.gcp.calls import policy
from auditor.collect.gcp.words import explain
from auditor.collect.work import Collection, Task
from auditor.settings import GcpSource

if TYPE_CHECKING:
    from auditor.collect.gcp.rest import Google

__all__ = ["check", "collect", "explain", "policy"]


def collect(source: GcpSource, collection: Collection) -> None:
    """Fetches what the settings of the source ask for; each list that is refused is a problem of its own."""
    from auditor.collect.gcp import inventory, metrics, projects
    from auditor.collect.gcp.rest import Google

    google = Google(source.endpoint_url, collection.budget)
    accounts = _bills(source, collection, google)
    if source.prices:
        collection.each(projects.price_tasks(collection, google), explain)
    if not source.metrics and not source.inventory:
        return
    names = projects.find(source, accounts, collection, google)
    if source.inventory:
        regions: dict[str, list[str]] = {}
        collection.each((inventory.find_regions(name, collection, google, regions) for name in names), explain)
        lists = (task for name in names for task in inventory.tasks(name, collection, google, regions))
        collection.each(lists, explain)
    if source.metrics:
        collection.each((task for name in names for task in metrics.tasks(name, collection, google)), explain)


def _bills(source: GcpSource, collection: Collection, google: "Google") -> list[str]:
    """Fetches the bills; returns the billing accounts they tell of."""
    accounts: list[str] = []
    if source.billing_dataset:
        from auditor.collect.gcp import bigquery

        tables = bigquery.collect(source, collection, google)
        accounts = [account for table in tables if (account := bigquery.account_of(table))]
    for url in source.exports:
        from auditor.collect.gcp import objects

        run = partial(_mirror, url, source, collection, objects.fetch)
        collection.attempt(Task("billing", "storage:objects.list", f"the bills below {url}", run), explain)
    return accounts


def _mirror(url: str, source: GcpSource, collection: Collection, fetch: Callable[..., list[str]]) -> None:
    fetch(
        url,
        collection.folder,
        collection.budget,
        collection.now,
        endpoint_url=source.endpoint_url,
        kind="billing",
        months=collection.months,
    )


def check(source: GcpSource) -> Iterator[Check]:
    """What `auditor doctor` says of the source."""
    from auditor.collect.gcp.doctor import check as look

    yield from look(source)
