"""What `auditor doctor` says of a source: whether exports, lists and metrics are there, permitted, and fresh."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from auditor.checks import Check
from auditor.collect.budget import Budget, BudgetReached
from auditor.collect.gcp import metrics
from auditor.collect.gcp.rest import Google, Params
from auditor.collect.gcp.words import explain
from auditor.errors import SourceError
from auditor.settings import GcpSource, Limits

_MOST_PROJECTS = 50  # looked at; a doctor should not take minutes
_STALE = timedelta(days=2)  # an export writes several times a day
_CONSOLE = "Billing, Billing export, BigQuery export"
_GPU_FIGURES = (
    "agent.googleapis.com/gpu/utilization",
    "kubernetes.io/node/accelerator/duty_cycle",
    "tpu.googleapis.com/accelerator/duty_cycle",
)
_AGENT = "install the Ops Agent on the machines: https://cloud.google.com/monitoring/agent/ops-agent/install-index"


def check(source: GcpSource) -> Iterator[Check]:
    """One check after the other; one that fails stops no other."""
    subject = f"source {source.name}"
    made: list[Google] = []
    yield from _safely(subject, lambda: _sign_in(source, subject, made))
    if not made:
        return
    google, accounts = made[0], list[str]()
    if source.billing_dataset:
        yield from _safely(f"{subject}: {source.billing_dataset}", lambda: _dataset(source, google, accounts))
    for url in source.exports:
        yield from _safely(f"{subject}: {url}", partial(_bucket, url, google))
    if not source.billing_dataset and not source.exports:
        yield Check("warn", subject, "no bill is configured", "set billing_dataset = PROJECT.DATASET, or exports")
    if source.metrics or source.inventory:
        projects: list[str] = []
        yield from _safely(subject, lambda: _projects(source, google, accounts, projects))
        for project in projects[:_MOST_PROJECTS]:
            yield from _safely(f"{subject}: project {project}", partial(_project, source, google, project))


def _safely(subject: str, run: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from run()
    except (SourceError, BudgetReached) as error:
        yield Check("bad", subject, str(error))
    except Exception as error:
        known = explain(error)
        if known is None:
            raise
        yield Check("bad", subject, known.reason, known.fix)


def _sign_in(source: GcpSource, subject: str, made: list[Google]) -> Iterator[Check]:
    google = Google(source.endpoint_url, Budget(Limits()))
    made.append(google)
    who = getattr(google.credentials, "service_account_email", None)
    yield Check("ok", subject, f"signed in as {who}" if who and "@" in str(who) else "credentials found")


def _dataset(source: GcpSource, google: Google, accounts: list[str]) -> Iterator[Check]:
    from auditor.collect.gcp import bigquery

    export = bigquery.Export(source, google)
    for name in export.tables():
        subject = f"source {source.name}: table {name}"
        account = bigquery.account_of(name)
        accounts.extend([account] if account else [])
        table = export.table(name)
        columns = {field.name for field in table.schema}
        if table.table_type != "TABLE":
            yield Check("warn", subject, "a view: each collection pays for a query of it", "name the table beneath it")
        elif columns & {"resource", "ResourceId"}:
            yield Check("ok", subject, "names resources")
        else:
            yield Check(
                "warn",
                subject,
                "the standard export names no resources: findings can tell projects only",
                f"enable the detailed usage cost export ({_CONSOLE})",
            )
        if table.table_type == "TABLE":
            yield _age(subject, export.partitions(table))


def _age(subject: str, partitions: dict[str, str]) -> Check:
    if not partitions:
        return Check("bad", subject, "has no rows yet", "the first rows come within a day of enabling the export")
    newest = datetime.fromtimestamp(max(map(int, partitions.values())) / 1000, UTC)
    text = f"newest rows of {newest:%Y-%m-%d %H:%M} UTC, {len(partitions)} partitions"
    if datetime.now(UTC) - newest > _STALE:
        return Check("warn", subject, f"{text}: the export seems to have stopped", f"look at {_CONSOLE}")
    return Check("ok", subject, text)


def _bucket(url: str, google: Google) -> Iterator[Check]:
    from auditor.collect.gcp import objects

    newest = objects.newest(url, google)
    if newest is None:
        yield Check("bad", url, "nothing lies there", "check the prefix, and the job that extracts the bill")
    else:
        yield Check("ok", url, f"newest file of {newest:%Y-%m-%d %H:%M} UTC")


def _projects(source: GcpSource, google: Google, accounts: list[str], found: list[str]) -> Iterator[Check]:
    from auditor.collect.gcp import projects

    found.extend(source.projects or sorted(projects.linked(accounts or projects.accounts_seen(google), google)))
    subject = f"source {source.name}"
    if not found:
        yield Check("bad", subject, "no project is linked to the billing account", "list `projects`")
        return
    yield Check("ok", subject, f"{len(found)} projects")
    if len(found) > _MOST_PROJECTS:
        yield Check("warn", subject, f"only the first {_MOST_PROJECTS} projects are looked at here")


def _project(source: GcpSource, google: Google, project: str) -> Iterator[Check]:
    subject = f"source {source.name}: project {project}"
    accelerators = 0
    if source.inventory:
        accelerators = _accelerators(google, project)
        yield Check("ok", subject, f"machines can be listed, {accelerators} of them with GPUs")
    if source.metrics:
        flowing = [one for one in _GPU_FIGURES if _flows(google, project, one)]
        if flowing:
            yield Check("ok", subject, f"figures of accelerators come in ({', '.join(flowing)})")
        elif accelerators:
            text = f"no figures of GPUs came in the last day, and there are machines with some: {accelerators}"
            yield Check("warn", subject, text, _AGENT)
        else:
            yield Check("ok", subject, "metrics can be read")


def _accelerators(google: Google, project: str) -> int:
    params: Params = {"maxResults": 500, "fields": "items/*/instances/guestAccelerators,nextPageToken"}
    pages = google.pages("compute.instances.aggregatedList", params, project=project)
    parts = (part for page in pages for part in (page.get("items") or {}).values())
    return sum(1 for part in parts for one in part.get("instances", ()) if one.get("guestAccelerators"))


def _flows(google: Google, project: str, metric: str) -> bool:
    now = datetime.now(UTC)
    asked = metrics.Metric(metric).params(now - timedelta(days=1), now)
    asked |= {"view": "HEADERS", "pageSize": 1}
    return bool(json.loads(metrics.ask(google, project, asked)).get("timeSeries"))
