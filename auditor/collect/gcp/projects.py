"""Which projects are looked into, and the price catalogue: Cloud Billing's part."""

from collections.abc import Iterable
from functools import partial

from auditor.collect.gcp.rest import Google
from auditor.collect.gcp.words import explain
from auditor.collect.work import Collection, Task
from auditor.errors import SourceError
from auditor.settings import GcpSource

# Compute Engine and Cloud TPU: where accelerators and their hosts are priced.
_PRICED_SERVICES = ("6F81-5844-456A", "E000-3F24-B8AA")
_SKUS_A_PAGE = 5000  # the most that the catalogue gives


def find(source: GcpSource, accounts: Iterable[str], collection: Collection, google: Google) -> list[str]:
    """The projects configured, else those linked to the bill's accounts, else to all accounts that can be seen."""
    if source.projects:
        return list(dict.fromkeys(source.projects))
    found: list[str] = []
    known = list(dict.fromkeys(accounts))
    if not known:
        task = Task("inventory", "cloudbilling:billingAccounts.list", "metrics and inventory of all projects",
                    lambda: known.extend(accounts_seen(google)))  # fmt: skip
        collection.attempt(task, explain)
    for account in known:
        task = Task(
            "inventory",
            "cloudbilling:billingAccounts.projects.list",
            "metrics and inventory of the projects that the billing account pays for",
            partial(_extend, found, account, google),
            account,
        )
        collection.attempt(task, explain)
    return sorted(set(found))


def _extend(found: list[str], account: str, google: Google) -> None:
    found.extend(linked([account], google))


def accounts_seen(google: Google) -> list[str]:
    """The billing accounts that the credentials may see. Raises SourceError where there are none."""
    pages = google.pages("cloudbilling.billingAccounts.list", {"pageSize": 100})
    found = [one["name"].rpartition("/")[2] for page in pages for one in page.get("billingAccounts", ())]
    if not found:
        raise SourceError("no billing account can be seen with these credentials: list `projects` in the configuration")
    return found


def linked(accounts: Iterable[str], google: Google) -> list[str]:
    """The projects that billing accounts pay for."""
    links = [
        one
        for account in accounts
        for page in google.pages("cloudbilling.billingAccounts.projects.list", {"pageSize": 500}, account=account)
        for one in page.get("projectBillingInfo", ())
    ]
    return [str(one["projectId"]) for one in links if one.get("billingEnabled", True)]


def price_tasks(collection: Collection, google: Google) -> list[Task]:
    """One task a service: its SKUs with today's prices in US dollars, a file a page."""

    def fetch(service: str) -> None:
        names = []
        pages = google.pages("cloudbilling.services.skus.list", {"pageSize": _SKUS_A_PAGE}, service=service)
        for number, page in enumerate((page for page in pages if page.get("skus")), start=1):
            names.append(f"prices/{service}/skus-{number:03}.json")
            # each file of its own would say that another page follows, which is here
            whole = {key: value for key, value in page.items() if key != "nextPageToken"}
            collection.folder.write_json(names[-1], whole, kind="prices", now=collection.now)
        older = [name for name in collection.folder.entries if name.startswith(f"prices/{service}/")]
        collection.folder.drop(set(older) - set(names))

    hides = "list prices of accelerators"
    return [
        Task("prices", "cloudbilling:services.skus.list", hides, partial(fetch, service))
        for service in _PRICED_SERVICES
    ]
