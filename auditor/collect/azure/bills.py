"""Bills: exports where they lie, those that a scope has, and answers of the Query API for months that none holds."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from typing import Any

from auditor.collect.azure import objects
from auditor.collect.azure.clients import Azure, explain, raw
from auditor.collect.work import Collection, Task
from auditor.journal import Problem
from auditor.settings import AzureSource

# An export of another type is no bill: PriceSheet, ReservationDetails, ReservationRecommendations, …
COST_TYPES = {"actualcost", "usage", "amortizedcost", "focuscost"}
_SETTLED = 10  # days after a month's end; Microsoft restates a month for 5 days at most
_ROWS = 5000  # of a page, the most that the Query API gives


def collect(azure: Azure, source: AzureSource, c: Collection) -> None:
    """Exports first; what no export of a scope holds (months before it was made, all of them without one) is queried."""
    urls = [url for url in dict.fromkeys(source.exports) if c.attempt(_understand(url), explain)]
    of_scope: dict[str, list[str]] = {}
    for scope in source.scopes:
        found: list[str] = []
        task = Task(
            "billing",
            "costmanagement:exports.list",
            f"the bill of {scope}, which would be fetched from its exports",
            partial(_find, azure, scope, found),
            scope,
        )
        if not c.attempt(task, explain):
            continue
        for url in found:
            place = next((given for given in urls if _is_below(url, given)), url)
            of_scope.setdefault(scope, []).append(place)
            urls += [place] if place not in urls else []
        of_scope.setdefault(scope, [])
    for url in urls:
        _fetch(azure, url, c)
    for scope, places in of_scope.items():
        _query(azure, scope, {month for url in places for month in _held(url, c)}, c)


def _understand(url: str) -> Task:
    def run() -> None:
        objects.parse(url)

    return Task("billing", "storage:blobs.list", f"what lies at {url.partition('?')[0]}", run)


def _find(azure: Azure, scope: str, into: list[str]) -> None:
    into += exports_of(azure, scope)


def exports_of(azure: Azure, scope: str) -> list[str]:
    """Where the cost exports of a scope lie. Actual and amortized go before FOCUS, which Azure leaves columns out of."""
    places: dict[str, list[str]] = {}
    for export in exports(azure, scope):
        about = export.get("properties") or {}
        kind = str((about.get("definition") or {}).get("type") or "").lower()
        url = place_of(export)
        if kind in COST_TYPES and url:
            places.setdefault("focus" if kind == "focuscost" else "cost", []).append(url)
    return list(dict.fromkeys(places.get("cost") or places.get("focus") or []))


def exports(azure: Azure, scope: str) -> list[dict[str, Any]]:
    """The exports of a scope with their last runs, as the API tells them."""
    with azure.asking("costmanagement:exports.list", scope):
        answer = azure.costs().exports.list(scope.strip("/"), expand="runHistory", cls=raw)
    return [one for one in answer.json().get("value") or [] if isinstance(one, dict)]


def place_of(export: dict[str, Any]) -> str | None:
    target = ((export.get("properties") or {}).get("deliveryInfo") or {}).get("destination") or {}
    account = str(target.get("resourceId") or target.get("storageAccount") or "").rpartition("/")[2]
    if not account or not target.get("container"):
        return None
    parts = [target["container"], *str(target.get("rootFolderPath") or "").split("/"), export.get("name")]
    return f"https://{account}.blob.core.windows.net/" + "/".join(str(part) for part in parts if part)


def _is_below(url: str, given: str) -> bool:
    one, other = objects.parse(url), objects.parse(given)
    return one.folder == other.folder and f"{one.prefix}/".startswith(f"{other.prefix}/" if other.prefix else "")


def _fetch(azure: Azure, url: str, c: Collection) -> None:
    plans: list[objects.Plan] = []
    listing = Task(
        "billing",
        "storage:blobs.list",
        f"what was exported to {url.partition('?')[0]} since the last collection",
        lambda: plans.append(objects.plan(azure, url, c.folder, c.now, kind="billing", months=c.months)),
    )
    if not c.attempt(listing, explain):
        return
    plan = plans[0]
    if not plan.runs:
        c.folder.problem(
            Problem(
                "billing",
                "storage:blobs.list",
                f"no export of the last {c.months} months lies at {url}",
                "every cost that it should hold",
                "correct `exports`, or run the export once in Cost Management > Exports",
            )
        )
    c.each(
        (
            Task(
                "billing",
                "storage:blobs.get",
                f"the newest costs of {run.first or run.group}; an older delivery of them is used where there is one",
                partial(objects.bring, azure, plan, run, blob, c.folder, c.now, kind="billing"),
                plan.place.folder,
            )
            for run in plan.runs
            for blob in run.blobs
        ),
        explain,
    )
    for run in plan.runs:
        objects.show(plan, run, c.folder, kind="billing")
    objects.drop_gone(plan, c.folder, kind="billing")


def _held(url: str, c: Collection) -> set[date]:
    """The first days of the months whose costs lie here now, of this collection or an earlier one."""
    spans = set(objects.spans(objects.parse(url), c.folder, kind="billing"))
    # Files that do not tell their months may hold any.
    return {m for m in _months(c) if any((first or "") <= f"{m:%Y-%m}" <= (last or "9999") for first, last in spans)}


def _query(azure: Azure, scope: str, held: set[date], c: Collection) -> None:
    for month in held:  # an export has taken over
        folder = _folder(scope, month)
        c.folder.drop(name for name in c.folder.entries if name.startswith(f"{folder}/"))
        c.folder.set_mark(f"query {folder}", None)
    c.each(
        (
            Task(
                "billing",
                "costmanagement:query.usage",
                f"the costs of {month:%Y-%m} of {scope}",
                partial(_query_month, azure, scope, month, c),
                scope,
            )
            for month in _months(c)
            if month not in held
        ),
        explain,
    )


def _folder(scope: str, month: date) -> str:
    slug = re.sub(r"[^A-Za-z0-9-]+", "_", scope.strip("/"))
    return f"billing/query/{slug}/{month:%Y-%m}"


def _months(c: Collection) -> Iterator[date]:
    month = c.now.date().replace(day=1)
    for _ in range(c.months):
        yield month
        month = (month - timedelta(days=1)).replace(day=1)


def _query_month(azure: Azure, scope: str, month: date, c: Collection) -> None:
    """The days of one month, once it is settled never again. Pages are shown to readers when the last is there."""
    following = (month + timedelta(days=32)).replace(day=1)
    folder = _folder(scope, month)
    mark = f"query {folder}"
    if c.folder.mark(mark):
        return
    names = []
    for at, page in enumerate(_answers(azure, scope, month, following), start=1):
        staged = f"{folder}/{objects.STAGED}page-{at:04d}.json"
        c.folder.write(staged, page, kind="billing", now=c.now, period=f"{month:%Y-%m}")
        names.append(f"{folder}/page-{at:04d}.json")
    for name in names:
        c.folder.adopt(f"{folder}/{objects.STAGED}{name.rpartition('/')[2]}", name)
    c.folder.drop(name for name in c.folder.entries if name.startswith(f"{folder}/") and name not in names)
    if c.now.date() >= following + timedelta(days=_SETTLED):
        c.folder.set_mark(mark, c.now.isoformat())


def _answers(azure: Azure, scope: str, month: date, following: date) -> Iterator[bytes]:
    """Every page. Costs of a month's days by resource and meter; larger scopes give no resources."""
    below = scope.lower().startswith("/subscriptions/")
    last = following - timedelta(days=1)
    body = {
        "type": "ActualCost",
        "timeframe": "Custom",
        "timePeriod": {"from": f"{month}T00:00:00+00:00", "to": f"{last}T23:59:59+00:00"},
        "dataset": {
            "granularity": "Daily",
            "aggregation": {"totalCost": {"name": "Cost", "function": "Sum"}},
            "grouping": [
                {"type": "Dimension", "name": name}
                for name in (("ResourceId", "Meter") if below else ("SubscriptionId", "ServiceName"))
            ],
        },
    }
    with azure.asking("costmanagement:query.usage", scope):
        answer = azure.costs().query.usage(scope.strip("/"), body, params={"$top": str(_ROWS)}, cls=raw)
    azure.came("costmanagement:query.usage", len(answer.content))
    while answer.status_code != 204 and answer.content:
        yield answer.content
        link = (answer.json().get("properties") or {}).get("nextLink")
        if not link:
            return
        answer = azure.post("costmanagement:query.usage", scope, link, body)
