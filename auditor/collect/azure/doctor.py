"""What `auditor doctor` says of an Azure source: may it be read, are the exports on, how old are bills and metrics."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from auditor.checks import Check
from auditor.collect.azure import bills, inventory, objects
from auditor.collect.azure.clients import Azure, explain, raw
from auditor.collect.budget import Budget
from auditor.collect.work import in_words
from auditor.settings import AzureSource, Limits

_STALE = timedelta(days=2)  # a daily export runs once a day, and its newest costs are a day old
_LATE = timedelta(hours=3)
_MANIFESTS = 3  # newest ones that are looked into
_EXPORT = (
    "az costmanagement export create --name auditor-{kind} --type {type} --scope {scope} --timeframe MonthToDate "
    "--recurrence Daily --recurrence-period from=TODAYT00:00:00Z to=2036-01-01T00:00:00Z --schedule-status Active --storage-account-id STORAGE_ACCOUNT_ID "
    "--storage-container exports --storage-directory {kind}"
)


def check(source: AzureSource) -> Iterator[Check]:
    """One line for each thing that a collection needs; what fails is told with its remedy and stops no other."""
    azure = Azure(Budget(Limits()), source.endpoint_url)
    subject = f"source {source.name}"
    now = datetime.now(UTC)
    if not source.exports and not source.scopes:
        yield Check(
            "bad", f"{subject}: bill", "neither `exports` nor `scopes` is set, so that no costs are read",
            'name a scope, for example scopes = ["/subscriptions/ID"], or where exports lie',
        )  # fmt: skip
    urls = list(source.exports)
    for scope in source.scopes:
        yield from _guarded(f"{subject}: exports of {scope}", partial(_scope, azure, scope, urls))
    for url in dict.fromkeys(urls):
        yield from _guarded(f"{subject}: {url.partition('?')[0]}", partial(_export, azure, url, now))
    if source.inventory or source.metrics:
        yield from _guarded(f"{subject}: subscriptions", partial(_subscriptions, azure, source))
    if source.metrics:
        yield from _guarded(f"{subject}: metrics", partial(_metrics, azure, source, now))
        yield from _guarded(f"{subject}: GPU metrics of machines", partial(_gpus, azure, source))
        yield from _guarded(f"{subject}: GPU metrics of Azure ML", partial(_ml_gpus, azure, source, now))


_Said = Iterator[tuple[str, str, str | None]]


def _guarded(subject: str, look: Callable[[], _Said]) -> Iterator[Check]:
    try:
        for state, text, fix in look():
            yield Check(state, subject, text, fix)
    except Exception as error:
        refusal = in_words(error, explain)
        yield Check("bad", subject, refusal.reason, refusal.fix)


def _scope(azure: Azure, scope: str, urls: list[str]) -> _Said:
    costs: dict[str, dict[str, Any]] = {}
    for export in bills.exports(azure, scope):
        kind = str(((export.get("properties") or {}).get("definition") or {}).get("type") or "").lower()
        costs.setdefault("actualcost" if kind == "usage" else kind, export)
        url = bills.place_of(export)
        if kind in bills.COST_TYPES and url:
            urls.append(url)
    if not {"actualcost", "amortizedcost", "focuscost"} & costs.keys():
        yield (
            "warn",
            "no cost export; the Query API is asked, which gives neither tags nor prices",
            _make(scope, "actual"),
        )
        return
    for kind in sorted(costs.keys() & bills.COST_TYPES):
        export = costs[kind]
        runs = (((export.get("properties") or {}).get("runHistory") or {}).get("value")) or []
        last = (runs[0].get("properties") or {}) if runs else {}
        told = f"{kind} export {export.get('name')}"
        status = str(((export.get("properties") or {}).get("schedule") or {}).get("status") or "")
        if status.lower() == "inactive":
            yield "warn", f"{told} is inactive", "turn it on in Cost Management > Exports"
        elif str(last.get("status") or "Completed").lower() not in ("completed", "newdatanotavailable"):
            yield "bad", f"{told}: its last run is {last['status']}", "see its run history in Cost Management > Exports"
        elif not runs:
            yield "warn", f"{told} has not run yet", "run it once in Cost Management > Exports"
        else:
            yield "ok", f"{told}, last run {last.get('processingEndTime') or last.get('submittedTime')}", None
    if "actualcost" in costs and "amortizedcost" not in costs:
        yield (
            "warn",
            "no amortized export: what reservations and savings plans cost is told by purchases only",
            _make(scope, "amortized"),
        )


def _make(scope: str, kind: str) -> str:
    return _EXPORT.format(kind=kind, type="AmortizedCost" if kind == "amortized" else "ActualCost", scope=scope)


def _export(azure: Azure, url: str, now: datetime) -> _Said:
    place = objects.parse(url)
    blobs = list(objects.listing(azure, place))
    if not blobs:
        yield "bad", "reachable, but empty", "correct the prefix, or run the export once in Cost Management > Exports"
        return
    newest = max(blob.modified for blob in blobs)
    age = now - newest
    text = f"{len(blobs)} files, the newest of {newest:%Y-%m-%d %H:%M} UTC"
    if age > _STALE:
        yield "warn", f"{text}: no run for {age.days} days", "see its run history in Cost Management > Exports"
    else:
        yield "ok", text, None
    kinds = objects.kinds(azure, place, blobs, _MANIFESTS)
    if kinds and "amortizedcost" not in kinds and "focuscost" not in kinds:
        yield (
            "warn",
            "only actual costs lie here; without amortized ones reservations are told by their purchases",
            _make("SCOPE", "amortized"),
        )


def _subscriptions(azure: Azure, source: AzureSource) -> _Said:
    rows = [row for page in inventory.ask_graph(azure, inventory.SUBSCRIPTION_QUERY, []) for row in page["data"]]
    readable = {str(row.get("subscriptionId") or "").lower() for row in rows}
    missing = [one for one in source.subscriptions if one.lower() not in readable]
    for one in missing:
        yield (
            "bad",
            f"{one} cannot be read",
            (
                f"az role definition create --role-definition @auditor-role.json (from `auditor permissions azure`), then "
                f"az role assignment create --assignee PRINCIPAL --role 'Auditor reader' --scope /subscriptions/{one}"
            ),
        )
    if not readable:
        yield "bad", "none can be read", "grant the role that `auditor permissions azure` prints"
    elif not missing:
        yield "ok", f"{len(source.subscriptions) or len(readable)} can be read", None


def _one(azure: Azure, source: AzureSource, condition: str) -> dict[str, Any] | None:
    body: dict[str, Any] = {
        "query": f"resources | where {condition} | project id, location, size = properties.hardwareProfile.vmSize | take 1",
        "options": {"resultFormat": "objectArray"},
    }
    if source.subscriptions:
        body["subscriptions"] = list(source.subscriptions)
    with azure.asking("resourcegraph:resources", ""):
        found = azure.graph().resources(body, cls=raw).json().get("data") or []
    return found[0] if found else None


def _metrics(azure: Azure, source: AzureSource, now: datetime) -> _Said:
    machine = _one(
        azure,
        source,
        "type =~ 'microsoft.compute/virtualmachines' and "
        "properties.extended.instanceView.powerState.code =~ 'PowerState/running'",
    )
    if machine is None:
        yield "ok", "no virtual machine runs, so that there is nothing to ask", None
        return
    newest = _newest(azure, machine, "microsoft.compute/virtualmachines", "Percentage CPU", None, now)
    if newest is None:
        yield (
            "warn",
            f"{machine['id']} runs and has no CPU metric of the last day",
            "see Metrics of that machine in the portal",
        )
    elif now - newest > _LATE:
        yield "warn", f"the newest sample is of {newest:%Y-%m-%d %H:%M} UTC", None
    else:
        yield "ok", f"flowing, the newest hour is {newest:%Y-%m-%d %H:%M} UTC", None


def _newest(
    azure: Azure, thing: dict[str, Any], namespace: str, metric: str, condition: str | None, now: datetime
) -> datetime | None:
    """Time of the newest hour of the last day in which the metric has a figure."""
    with azure.asking("monitor:metrics.getBatch", str(thing["id"])):
        answer = azure.metrics(str(thing["location"]).lower()).query_resources(
            resource_ids=[thing["id"]],
            metric_namespace=namespace,
            metric_names=[metric],
            timespan=(now - timedelta(days=1), now),
            granularity=timedelta(hours=1),
            aggregations=["Average"],
            filter=condition,
        )
    times = [
        point.timestamp
        for result in answer
        for one in result.metrics
        for series in one.timeseries
        for point in series.data
        if point.average is not None
    ]
    return max(times, default=None)


def _ml_gpus(azure: Azure, source: AzureSource, now: datetime) -> _Said:
    namespace = "microsoft.machinelearningservices/workspaces"
    workspace = _one(azure, source, f"type =~ '{namespace}'")
    if workspace is None:
        yield "ok", "no workspace of Azure ML", None
        return
    newest = _newest(azure, workspace, namespace, "GpuUtilizationPercentage", "DeviceId eq '*'", now)
    if newest is None:
        yield "ok", f"none in {workspace['id']} for a day: no job or instance with accelerators ran there", None
    else:
        yield "ok", f"flowing, the newest hour is {newest:%Y-%m-%d %H:%M} UTC", None


def _gpus(azure: Azure, source: AzureSource) -> _Said:
    machine = _one(
        azure,
        source,
        "type =~ 'microsoft.compute/virtualmachines' and tostring(properties.hardwareProfile.vmSize) startswith 'Standard_N'",
    )
    if machine is None:
        yield "ok", "no virtual machine with accelerators", None
        return
    yield (
        "warn",
        f"{machine['id']} ({machine.get('size')}) has accelerators, and Azure measures none of a virtual machine",
        "run dcgm-exporter there and add the Prometheus that scrapes it as [[sources.prometheus]] "
        '(Azure Managed Prometheus: auth = "azure")',
    )
