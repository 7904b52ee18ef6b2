"""What runs: Resource Graph for nearly everything, the resource manager for what the graph does not show."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from auditor.collect.azure.calls import GRAPH_TYPES, SCALE_SET_MACHINES
from auditor.collect.azure.clients import Azure, CallFailed, explain, raw
from auditor.collect.work import Collection, Task
from auditor.errors import SourceError
from auditor.journal import Problem
from auditor.settings import AzureSource

_PAGE = 1000  # rows of one answer, the most that Resource Graph gives
_SUBSCRIPTIONS = 1000  # that one question may name
_TYPES = ", ".join(f"'{name}'" for name in GRAPH_TYPES)
# Pages hang together only where the rows have an order and keep their id.
QUERIES = {
    "resources": (
        f"resources | where type in~ ({_TYPES}) | project id, name, type, location, kind, sku, zones, tags, managedBy, "
        "subscriptionId, resourceGroup, properties | order by id asc"
    ),
    "scale-set-machines": (
        f"computeresources | where type =~ '{SCALE_SET_MACHINES}' | project id, name, type, location, sku, zones, tags, "
        "subscriptionId, resourceGroup, properties | order by id asc"
    ),
}
SUBSCRIPTION_QUERY = (
    "resourcecontainers | where type =~ 'microsoft.resources/subscriptions' | project id, name, type, subscriptionId, "
    "properties | order by id asc"
)
_STANDING = ("deallocated", "deallocating", "stopped")


@dataclass(frozen=True)
class Thing:
    """What later steps need to know of a resource."""

    id: str
    type: str
    region: str
    subscription: str
    stands: bool = False  # a machine that does not run
    kind: str = ""
    size: str = ""


@dataclass
class Found:
    """What the graph showed, by id."""

    things: dict[str, Thing] = field(default_factory=dict)
    subscriptions: list[str] = field(default_factory=list)

    def of(self, *types: str) -> list[Thing]:
        return [thing for thing in self.things.values() if thing.type in types]


def subscriptions(azure: Azure, source: AzureSource, c: Collection) -> list[str]:
    """The subscriptions that can be read. One that is configured and cannot be is a problem of the report."""
    rows: list[dict[str, Any]] = []
    task = Task(
        "inventory",
        "resourcegraph:resources",
        "all metrics and the whole inventory",
        lambda: rows.extend(row for page in ask_graph(azure, SUBSCRIPTION_QUERY, []) for row in page["data"]),
    )
    if not c.attempt(task, explain):
        return []
    readable = {str(row.get("subscriptionId") or "").lower() for row in rows}
    wanted = [one.lower().removeprefix("/subscriptions/") for one in source.subscriptions] or sorted(readable)
    for one in wanted:
        if one not in readable:
            refused = Problem(
                "inventory",
                "resourcegraph:resources",
                f"the subscription {one} is not among those that the credential may read",
                "its metrics and inventory",
                "grant the role that `auditor permissions azure` prints: az role assignment create --assignee PRINCIPAL "
                f"--role 'Auditor reader' --scope /subscriptions/{one}",
                one,
            )
            c.folder.problem(refused)
    if not readable:
        c.folder.problem(
            Problem(
                "inventory",
                "resourcegraph:resources",
                "the credential may read no subscription",
                "all metrics and the whole inventory",
                "grant the role that `auditor permissions azure` prints at the subscriptions",
            )
        )
    return [one for one in wanted if one in readable]


def ask_graph(azure: Azure, query: str, among: list[str]) -> Iterator[dict[str, Any]]:
    """Every page of an answer. Raises SourceError where Resource Graph cuts an answer without a way to go on."""
    token: str | None = None
    while True:
        options: dict[str, Any] = {"resultFormat": "objectArray", "$top": _PAGE}
        if token:
            options["$skipToken"] = token
        body: dict[str, Any] = {"query": query, "options": options}
        if among:
            body["subscriptions"] = among
        with azure.asking("resourcegraph:resources", ""):
            answer = azure.graph().resources(body, cls=raw)
        page: dict[str, Any] = answer.json()
        azure.came("resourcegraph:resources", len(answer.content))
        yield page
        if answer.headers.get("x-ms-tenant-subscription-limit-hit", "").lower() == "true":
            raise SourceError(
                "Resource Graph looks into 10,000 subscriptions at most: name those wanted in `subscriptions`"
            )
        token = page.get("$skipToken")
        if not token:
            if str(page.get("resultTruncated")).lower() == "true":
                raise SourceError("Resource Graph cut its answer and gives no token for the rest")
            return


def collect(azure: Azure, among: list[str], c: Collection, *, keep: bool) -> Found:
    """Asks for what runs in the subscriptions; without `keep` nothing is put down, as only metrics need to know it."""
    found = Found(subscriptions=among)
    written: dict[str, list[str]] = {}
    for table, query in QUERIES.items():
        names: list[str] = []
        task = Task(
            "inventory",
            "resourcegraph:resources",
            "what runs and its metrics" if table == "resources" else "the machines of uniform scale sets",
            partial(_graph, azure, table, query, among, c, found, names if keep else None),
        )
        if c.attempt(task, explain):
            written[table] = names
    if keep:
        for table, names in written.items():
            c.folder.drop(
                name for name in c.folder.entries if name.startswith(f"inventory/graph/{table}-") and name not in names
            )
        c.each(_rest(azure, found, c), explain)
        if "resources" in written:  # else nothing is known to be gone
            _drop_gone(found, c)
    return found


def _graph(
    azure: Azure, table: str, query: str, among: list[str], c: Collection, found: Found, names: list[str] | None
) -> None:
    at = 0
    for first in range(0, len(among), _SUBSCRIPTIONS):
        for page in ask_graph(azure, query, among[first : first + _SUBSCRIPTIONS]):
            for row in page.get("data") or []:
                thing = _thing(row)
                found.things[thing.id.lower()] = thing
            at += 1
            if names is not None:
                name = f"inventory/graph/{table}-{at:05d}.json"
                c.folder.write_json(name, page, kind="inventory", now=c.now)
                names.append(name)


def _thing(row: dict[str, Any]) -> Thing:
    about = row.get("properties") or {}
    power = (((about.get("extended") or {}).get("instanceView") or {}).get("powerState") or {}).get("code") or ""
    return Thing(
        id=str(row["id"]),
        type=str(row.get("type") or "").lower(),
        region=str(row.get("location") or "global").replace(" ", "").lower(),
        subscription=str(row.get("subscriptionId") or "").lower(),
        stands=str(power).lower().removeprefix("powerstate/") in _STANDING,
        kind=str(row.get("kind") or ""),
        size=str((about.get("hardwareProfile") or {}).get("vmSize") or ""),
    )


@dataclass(frozen=True)
class _Detail:
    """A list or a thing of the resource manager that belongs to one resource (or to none)."""

    call: str
    where: str
    subscription: str | None
    region: str
    name: str
    hides: str
    query: tuple[tuple[str, str], ...] = ()
    paged: bool = True
    absent_is_empty: bool = False


def _details(found: Found) -> Iterator[_Detail]:
    # The graph tells that a machine stands, not since when.
    for one in sorted({thing.subscription for thing in found.of("microsoft.compute/virtualmachines") if thing.stands}):
        yield _Detail(
            "compute:virtualMachines.list", one, one, "all", "virtual-machines-status", "since when machines stand",
            (("statusOnly", "true"),),
        )  # fmt: skip
    for thing in found.of("microsoft.compute/capacityreservationgroups/capacityreservations"):
        yield _of(
            "compute:capacityReservations.get", thing, "how much of a capacity reservation is used",
            (("$expand", "instanceView"),), paged=False,
        )  # fmt: skip
    for thing in found.of("microsoft.machinelearningservices/workspaces"):
        yield _of("machinelearning:computes.list", thing, "compute instances and clusters, their states and schedules")
    for thing in found.of("microsoft.storage/storageaccounts"):
        if thing.kind.lower() == "filestorage":  # what shares cost elsewhere goes by use, not by what is provisioned
            yield _of("storage:fileShares.list", thing, "file shares and what is provisioned for them")
        else:
            yield _of(
                "storage:managementPolicies.get", thing, "whether old objects are deleted", paged=False,
                absent_is_empty=True,
            )  # fmt: skip
    yield _Detail("capacity:reservations.list", "", None, "all", "reservations", "reservations that end or lie idle")
    yield _Detail("billingbenefits:savingsPlans.list", "", None, "all", "savings-plans", "savings plans that end")


def _of(
    call: str,
    thing: Thing,
    hides: str,
    query: tuple[tuple[str, str], ...] = (),
    *,
    paged: bool = True,
    absent_is_empty: bool = False,
) -> _Detail:
    parts = [part for part in re.split(r"/(?:resourceGroups|providers)/", thing.id, flags=re.IGNORECASE) if part][1:]
    name = "/".join(parts).replace("/", "_")
    stem = f"{call.partition(':')[2].partition('.')[0]}/{name}"
    return _Detail(
        call, thing.id, thing.subscription, thing.region, stem, f"{hides} ({thing.id.rpartition('/')[2]})", query, paged,
        absent_is_empty,
    )  # fmt: skip


def _rest(azure: Azure, found: Found, c: Collection) -> Iterable[Task]:
    for detail in _details(found):
        yield Task(
            "inventory",
            detail.call,
            detail.hides,
            partial(_fetch, azure, detail, c),
            detail.subscription,
            detail.region if detail.region != "all" else None,
        )


def _fetch(azure: Azure, detail: _Detail, c: Collection) -> None:
    query = dict(detail.query)
    stem = _stem(detail)
    names = []
    try:
        answers = (
            azure.pages(detail.call, detail.where, **query)
            if detail.paged
            else iter([azure.get(detail.call, detail.where, **query)])
        )
        for at, answer in enumerate(answers, start=1):
            name = f"{stem}.json" if at == 1 else f"{stem}-{at:04d}.json"
            names.append(name)
            if not detail.paged or answer.json().get("value"):
                c.folder.write(
                    name, answer.content, kind="inventory", now=c.now, account_id=detail.subscription,
                    region=detail.region,
                )  # fmt: skip
            else:
                c.folder.drop([name])  # an empty list says nothing that a missing file does not
    except CallFailed as error:
        if not (detail.absent_is_empty and getattr(error.error, "status_code", None) == 404):
            raise
        c.folder.drop([f"{stem}.json"])
        return
    c.folder.drop(
        name for name in c.folder.entries if re.fullmatch(re.escape(stem) + r"-\d{4}\.json", name) and name not in names
    )


def _stem(detail: _Detail) -> str:
    return f"inventory/{detail.subscription or 'tenant'}/{detail.region}/{detail.name}"


def _drop_gone(found: Found, c: Collection) -> None:
    """Drops details of resources that the graph no longer shows."""
    stems = {_stem(detail) for detail in _details(found)}
    gone = []
    for name in c.folder.entries:
        stem = re.sub(r"(-\d{4})?\.json$", "", name)
        if name.startswith("inventory/") and not name.startswith("inventory/graph/") and stem not in stems:
            gone.append(name)
    c.folder.drop(gone)
