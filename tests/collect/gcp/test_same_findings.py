"""An audit that was collected live finds what the audit of the vendor's own files finds, to the last digit."""

import gzip
import json
from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from auditor import collect
from auditor.cli.request import make_request
from auditor.progress import Silent
from auditor.scan import scan
from auditor.settings import Settings
from tests.collect.gcp.bills import DETAILED, SCHEMA
from tests.collect.gcp.server import BigTable, FakeGoogle

ESTATE = Path(__file__).resolve().parents[3] / "examples" / "estate"
BILLS = ESTATE / "gcp" / "billing-export"
INVENTORY = ESTATE / "inventory" / "gcp"
SERIES = ESTATE / "monitoring" / "cloud-monitoring-gpu.json.gz"
NOW = datetime(2026, 10, 3, 6, 0, tzinfo=UTC)
ACCOUNT = "0A1B2C-3D4E5F-6A7B8C"


def serve(google: FakeGoogle) -> None:
    """The example's bill by day of export, its inventory by project, its series as the samples they were made of."""
    google.page_rows = 500
    google.page_items = 3
    days: dict[str, list[Any]] = defaultdict(list)
    for path in sorted(BILLS.glob("*.json.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            row = json.loads(line)
            days[row["export_time"][:10].replace("-", "")].append(row)
    google.tables[DETAILED] = BigTable(SCHEMA)
    for day, rows in days.items():
        google.tables[DETAILED].add(day, rows, int(day))
    projects = set()
    for name, collection in (("instances", "instances"), ("routers", "routers"), ("networks-subnets", "subnetworks")):
        for one in json.loads((INVENTORY / f"compute-{name}-list.json").read_text()):
            project = one["selfLink"].split("/projects/")[1].split("/")[0]
            projects.add(project)
            google.compute[(project, collection)].append(one)
    links = [{"projectId": project, "billingEnabled": True} for project in sorted(projects)]
    google.lists[f"cloudbilling.googleapis.com/v1/billingAccounts/{ACCOUNT}/projects"] = {"projectBillingInfo": links}
    told = json.loads(gzip.decompress(SERIES.read_bytes()))
    for one in told["timeSeries"]:
        raw = [
            (datetime.fromisoformat(at["interval"]["startTime"]), at["value"]["doubleValue"]) for at in one["points"]
        ]
        about = {key: one[key] for key in ("metric", "resource")}
        metric, project = one["metric"]["type"], one["resource"]["labels"]["project_id"]
        google.series[(project, metric)].append({**about, "raw": raw})
        google.units[metric] = told["unit"]


def audit(*paths: Path) -> dict[str, Any]:
    request = make_request(paths=tuple(map(str, paths)), as_of=date(2026, 10, 1))
    document: dict[str, Any] = scan(request, Silent(), NOW).document
    return document


def told(document: dict[str, Any]) -> list[Any]:
    """What a reader acts on: every finding but for the names of the files it came from."""
    left_out = {"id", "sources", "evidence", "first_seen", "last_seen"}
    return sorted(
        json.dumps({key: value for key, value in one.items() if key not in left_out}, sort_keys=True)
        for one in document["findings"]
    )


@pytest.fixture(scope="module")
def offline() -> dict[str, Any]:
    return audit(BILLS, INVENTORY, SERIES)


@pytest.mark.slow
def test_a_live_audit_finds_what_the_files_tell(google: FakeGoogle, tmp_path: Path, offline: dict[str, Any]) -> None:
    serve(google)
    source = {"name": "prod", "billing_dataset": "acme-billing.billing", "endpoint_url": google.url}
    settings = Settings.model_validate({"sources": {"gcp": [source]}})
    (collected,) = collect.collect(settings, tmp_path / "landing", tmp_path, Silent(), NOW)
    assert collected.problems == []
    live = audit(collected.path)
    assert [one["id"] for one in live["findings"]] == [one["id"] for one in offline["findings"]]
    assert told(live) == told(offline) and len(told(live)) >= 3
    assert live["reconciliation"] == offline["reconciliation"]
    assert [one for one in live["sources"] if one["status"] != "ok"] == []
    # the audit's own cost: two series of figures, no query
    assert {one["api"]: one["cost"] for one in live["own_usage"] if float(one["cost"])} == {
        "monitoring:projects.timeSeries.list": "0.000001"
    }
