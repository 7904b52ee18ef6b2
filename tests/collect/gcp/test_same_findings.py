"""An audit that was collected live finds what the audit of the vendor's own files finds, to the last digit."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditor import collect
from auditor.cli.request import make_request
from auditor.progress import Silent
from auditor.scan import scan
from auditor.settings import Settings
from tests.collect.gcp.bills import SCHEMA
from tests.collect.gcp.server import BigTable, FakeGoogle

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "estate"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "estates" / "dev" / "data"
# gcloud's lists, and the collection of Compute that they are of, or the address of another service
COLLECTIONS = {
    "compute-instances-list": "instances",
    "compute-routers-list": "routers",
    "compute-networks-subnets-list": "subnetworks",
    "compute-disks-list": "disks",
    "compute-addresses-list": "addresses",
    "compute-commitments-list": "commitments",
    "compute-reservations-list": "reservations",
    "compute-forwarding-rules-list": "forwardingRules",
    "compute-tpus-tpu-vm-list": "tpu.googleapis.com/v2/projects/{project}/locations/-/nodes",
    "filestore-instances-list": "file.googleapis.com/v1/projects/{project}/locations/-/instances",
}


@dataclass(frozen=True)
class Estate:
    """Files of an estate's Google part: bills, lists, series; and the day up to which it is audited."""

    bills: list[Path]
    lists: list[Path]
    series: Path
    as_of: date

    @property
    def now(self) -> datetime:
        return datetime.combine(self.as_of, time(6), UTC) + timedelta(days=2)

    @property
    def files(self) -> list[Path]:
        return [*self.bills, *self.lists, self.series]


def example(root: Path, series: str, as_of: date) -> Estate:
    lists = [root / "inventory" / "gcp" / f"{name}.json" for name in COLLECTIONS]
    bills = sorted((root / "gcp" / "billing-export").glob("*.json.gz"))
    return Estate(bills, [path for path in lists if path.is_file()], root / "monitoring" / series, as_of)


def serve(google: FakeGoogle, estate: Estate) -> str:
    """The bill by day of export, the lists by project, the series as the samples they were made of."""
    google.page_rows, google.page_items = 1000, 20
    days: dict[str, list[Any]] = defaultdict(list)
    for path in estate.bills:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            row = json.loads(line)
            days[row["export_time"][:10].replace("-", "")].append(row)
    account = row["billing_account_id"]
    table = "gcp_billing_export_resource_v1_" + account.replace("-", "_")
    google.tables[table] = BigTable(SCHEMA)
    for day, rows in days.items():
        google.tables[table].add(day, rows, int(day))
    projects = _serve_lists(google, estate)
    links = [{"projectId": project, "billingEnabled": True} for project in sorted(projects)]
    google.lists[f"cloudbilling.googleapis.com/v1/billingAccounts/{account}/projects"] = {"projectBillingInfo": links}
    _serve_series(google, estate)
    return google.url


def _serve_lists(google: FakeGoogle, estate: Estate) -> set[str]:
    projects = set()
    for path in estate.lists:
        collection = COLLECTIONS[path.stem]
        for one in json.loads(path.read_text()):
            link = one.get("selfLink") or one["name"]
            project = link.partition("projects/")[2].partition("/")[0]
            projects.add(project)
            if "{project}" in collection:
                answer = google.lists.setdefault(collection.format(project=project), {})
                answer.setdefault(collection.rpartition("/")[2], []).append(one)
            else:
                google.compute[(project, collection)].append(one)
    return projects


def _serve_series(google: FakeGoogle, estate: Estate) -> None:
    answer = json.loads(gzip.decompress(estate.series.read_bytes()))
    for one in answer["timeSeries"]:
        edge = "endTime" if one["metricKind"] == "DELTA" else "startTime"
        raw = [(datetime.fromisoformat(at["interval"][edge]), _figure(at["value"])) for at in one["points"]]
        about = {key: one[key] for key in ("metric", "resource", "unit") if key in one}
        metric, labels = one["metric"]["type"], one["resource"]["labels"]
        project = labels.get("project_id") or labels["resource_container"]
        google.series[(project, metric)].append({**about, "raw": raw})
        if answer.get("unit"):
            google.units[metric] = answer["unit"]


def _figure(value: dict[str, Any]) -> float:
    return float(next(iter(value.values())))


def audit(estate: Estate, *paths: Path) -> dict[str, Any]:
    request = make_request(paths=tuple(map(str, paths)), as_of=estate.as_of)
    document: dict[str, Any] = scan(request, Silent(), estate.now).document
    return document


def told(document: dict[str, Any]) -> list[Any]:
    """What a reader acts on: every finding but for the names of the files it came from."""
    left_out = {"sources", "evidence"}
    return sorted(
        json.dumps({key: value for key, value in one.items() if key not in left_out}, sort_keys=True)
        for one in document["findings"]
    )


ESTATES = [
    pytest.param(example(EXAMPLE, "cloud-monitoring-gpu.json.gz", date(2026, 10, 1)), id="example"),
    pytest.param(
        example(SHARED, "cloud-monitoring-timeseries.json.gz", date(2026, 11, 1)),
        id="development estate",
        marks=[pytest.mark.shared, pytest.mark.skipif(not SHARED.is_dir(), reason="the shared estate is not there")],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("estate", ESTATES)
def test_a_live_audit_finds_what_the_files_tell(google: FakeGoogle, tmp_path: Path, estate: Estate) -> None:
    source = {"name": "prod", "billing_dataset": "acme-billing.billing", "endpoint_url": serve(google, estate)}
    settings = Settings.model_validate({"sources": {"gcp": [source]}})
    (collected,) = collect.collect(settings, tmp_path / "landing", tmp_path, Silent(), estate.now)
    assert collected.problems == []
    offline, live = audit(estate, *estate.files), audit(estate, collected.path)
    assert told(live) == told(offline) and len(told(live)) >= 3
    assert live["reconciliation"] == offline["reconciliation"]
    assert [one for one in live["sources"] if one["status"] != "ok"] == []
    # the audit's own cost: a series of figures each, no query
    paid = {one["api"] for one in live["own_usage"] if float(one["cost"])}
    assert paid == {"monitoring:projects.timeSeries.list"}
