"""Azure: cost exports and queries, Azure Monitor metrics, Resource Graph inventory and retail prices."""

from auditor.collect.azure import bills, inventory, metrics, prices
from auditor.collect.azure.calls import policy
from auditor.collect.azure.clients import Azure, explain
from auditor.collect.azure.doctor import check
from auditor.collect.work import Collection
from auditor.settings import AzureSource

__all__ = ["check", "collect", "explain", "policy"]


def collect(source: AzureSource, collection: Collection) -> None:
    """Fetches what the source's settings ask for into the collection's folder; what fails is a problem there."""
    azure = Azure(collection.budget, source.endpoint_url, collection.progress.advance)
    bills.collect(azure, source, collection)
    if not (source.inventory or source.metrics or source.prices):
        return
    among = inventory.subscriptions(azure, source, collection)
    if not among:
        return
    found = inventory.collect(azure, among, collection, keep=source.inventory)
    if source.metrics:
        metrics.collect(azure, found, collection)
    if source.prices:
        prices.collect(azure, {thing.region for thing in found.of(*metrics.MACHINES)}, collection)
