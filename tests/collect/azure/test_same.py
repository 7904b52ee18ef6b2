"""The Azure part of the bundled example, served by an Azure of this machine: a live audit finds what the offline one does."""

import csv
import gzip
import io
import json
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.cli.request import make_request
from auditor.journal import Journal
from auditor.progress import Silent
from auditor.scan import scan
from auditor.settings import Limits
from tests.collect.azure.conftest import ACCOUNT
from tests.collect.azure.fake import NOW, Cloud

ESTATE = Path(__file__).resolve().parents[3] / "examples" / "estate"
OWN = ("id", "name", "type", "location", "tags", "zones", "sku", "resourceGroup")
Hours = dict[tuple[str, datetime], float]


def printed() -> list[dict[str, Any]]:
    return [one for path in sorted((ESTATE / "inventory/azure").glob("*.json")) for one in json.loads(path.read_text())]


def nested(value: Any) -> Any:
    """Parts with an id of their own, such as subnets, have properties too; what only refers to a thing has none."""
    if isinstance(value, list):
        return [nested(one) for one in value]
    if not isinstance(value, dict) or value.keys() <= {"id", "name"}:
        return value
    own = {key: one for key, one in value.items() if key in ("id", "name")}
    return {**own, "properties": {k: v for k, v in value.items() if k not in own}} if "id" in own else value


def graph_row(printed: dict[str, Any]) -> dict[str, Any]:
    """A resource as Resource Graph shows it: small letters in its type, all else below its properties."""
    row = {key: value for key, value in printed.items() if key in OWN}
    inner = {key: nested(value) for key, value in printed.items() if key not in OWN}
    if power := inner.pop("powerState", None):
        code = power.replace("VM ", "PowerState/")
        inner["extended"] = {"instanceView": {"powerState": {"code": code, "displayStatus": power}}}
    row |= {"type": row["type"].lower(), "subscriptionId": row["id"].split("/")[2], "properties": inner}
    return row


def network() -> tuple[str, Hours]:
    """The Azure rows of the network metrics as a file, and the bytes by resource and hour."""
    content = gzip.decompress((ESTATE / "monitoring/metrics-network.csv.gz").read_bytes()).decode()
    rows = [row for row in csv.DictReader(io.StringIO(content)) if row["provider"] == "azure"]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    hours = {
        (row["resource_id"], datetime.fromisoformat(row["time"].replace("Z", "+00:00"))): float(row["value"])
        for row in rows
    }
    return out.getvalue(), hours


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """What runs in the machines and tells of their GPUs: neither side has it from Azure."""
    path = tmp_path / "gpus"
    path.mkdir()
    with duckdb.connect() as con:
        source = str(ESTATE / "monitoring/metrics-gpu.parquet")
        con.execute(
            f"copy (select * from read_parquet('{source}') where provider = 'azure') to '{path / 'gpu.parquet'}'"
        )
    return path


def told(paths: list[Path], as_of: date = date(2026, 10, 1)) -> dict[str, Any]:
    request = make_request(paths=tuple(str(path) for path in paths), as_of=as_of)
    return scan(request, Silent(), NOW).document


def findings(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All that is said of each, by its id."""
    return {finding["id"]: finding for finding in document["findings"]}


@pytest.mark.slow
def test_a_live_audit_finds_what_the_offline_audit_of_the_same_data_finds(
    stored: Cloud, container: Any, pull: Callable[..., Journal], gpus: Path, tmp_path: Path
) -> None:
    offline = tmp_path / "offline"
    table, hours = network()
    offline.mkdir()
    shutil.copytree(ESTATE / "azure", offline / "exports")
    (offline / "network.csv").write_text(table)
    for one in (ESTATE / "inventory/azure").glob("*.json"):
        (offline / one.name).write_bytes(one.read_bytes())
    for path in sorted((ESTATE / "azure").rglob("*")):
        if path.is_file():
            container.upload_blob(path.relative_to(ESTATE).as_posix(), path.read_bytes())
    stored.resources = [graph_row(one) for one in printed()]
    stored.subscriptions = sorted({row["subscriptionId"] for row in stored.resources})
    for path_ in ("Microsoft.Capacity/reservations", "Microsoft.BillingBenefits/savingsPlans"):
        stored.documents[f"/providers/{path_}"] = {"value": []}
    stored.series = lambda resource, metric, when: (
        [({}, {"total": hours[(resource, when)]})] if metric == "ByteCount" and (resource, when) in hours else []
    )
    url = f"https://{ACCOUNT}.blob.core.windows.net/{container.container_name}/azure/exports"
    journal = pull(exports=[url], limits=Limits(months=3, parallel=4))
    assert journal.problems == []
    kinds = {entry.kind for entry in journal.entries.values()}
    assert kinds == {"billing", "inventory", "telemetry"}

    live, files = told([tmp_path / "azure", gpus]), told([tmp_path / "offline", gpus])
    assert len(files["findings"]) >= 5
    assert findings(live) == findings(files)
    assert live["totals"] == files["totals"]
    for one, other in zip(live["reconciliation"], files["reconciliation"], strict=True):
        assert {k: v for k, v in one.items() if k != "sources"} == {k: v for k, v in other.items() if k != "sources"}
    rules = [[(rule["rule_id"], rule["status"]) for rule in one["coverage"]["rules"]] for one in (live, files)]
    assert rules[0] == rules[1]


@pytest.mark.slow
def test_queried_costs_are_read_to_the_last_decimal(cloud: Cloud, pull: Callable[..., Journal], tmp_path: Path) -> None:
    one, other = "11111111-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000010"
    disk = f"/subscriptions/{one}/resourcegroups/g/providers/microsoft.compute/disks/d"
    billing = "/providers/Microsoft.Billing/billingAccounts/1234"
    cloud.costs[f"/subscriptions/{one}"] = [
        [0.1, 20260901, disk, "P30", "USD"],
        [0.2, 20260902, disk, "P30", "USD"],
        [12345.678901234, 20260930, disk, "P30", "USD"],
        [0.7, 20261001, disk, "P30", "USD"],
    ]
    assert (
        pull(scopes=[f"/subscriptions/{one}"], metrics=False, inventory=False, limits=Limits(months=2)).problems == []
    )
    cloud.cost_columns = ["Cost", "UsageDate", "SubscriptionId", "ServiceName", "Currency"]
    cloud.costs = {billing: [[3.3, 20260915, other, "Storage", "USD"]]}
    shutil.move(tmp_path / "azure", tmp_path / "one")
    assert pull(scopes=[billing], metrics=False, inventory=False, limits=Limits(months=2)).problems == []
    document = told([tmp_path / "one", tmp_path / "azure"])
    got = {
        (row["billing_account_id"], row["billing_period"]): row["lake_billed_cost"]
        for row in document["reconciliation"]
    }
    assert {period: amount for (_, period), amount in got.items() if period == "2026-10"} == {"2026-10": "0.7"}
    assert sorted(amount for (_, period), amount in got.items() if period == "2026-09") in (
        ["12345.978901234", "3.3"],
        ["12349.278901234"],
    )
    assert all(row["difference"] == "0" for row in document["reconciliation"])


SHARED = Path(__file__).resolve().parents[4] / "shared" / "estates" / "dev" / "data"


def monitored(folder: Path) -> dict[tuple[str, str, datetime], list[tuple[dict[str, str], dict[str, float]]]]:
    """Series of answers of Azure Monitor, by resource, metric and hour."""
    hours: dict[tuple[str, str, datetime], list[tuple[dict[str, str], dict[str, float]]]] = {}
    for path in sorted(folder.glob("azure-monitor-*.json")):
        for metric in json.loads(path.read_text())["value"]:
            resource = metric["id"].partition("/providers/Microsoft.Insights")[0].lower()
            for series in metric["timeseries"]:
                dimensions = {one["name"]["value"]: one["value"] for one in series["metadatavalues"]}
                for point in series["data"]:
                    when = datetime.fromisoformat(point.pop("timeStamp").replace("Z", "+00:00"))
                    hours.setdefault((resource, metric["name"]["value"], when), []).append((dimensions, point))
    return hours


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the team's sample files are not here")
def test_a_live_audit_of_two_agreements_and_all_kinds_of_resources_finds_the_same(
    stored: Cloud, container: Any, pull: Callable[..., Journal], tmp_path: Path
) -> None:
    for path in sorted((SHARED / "azure").rglob("*")):
        if path.is_file():
            container.upload_blob(path.relative_to(SHARED).as_posix(), path.read_bytes())
    for path in sorted((SHARED / "inventory/azure").glob("*.json")):
        document = json.loads(path.read_text())
        rows = document["data"] if isinstance(document, dict) else [graph_row(one) for one in document]
        stored.resources += [{"subscriptionId": row["id"].split("/")[2], **row} for row in rows]
    tenant = [row for row in stored.resources if row["type"].startswith("microsoft.capacity/")]
    stored.resources = [row for row in stored.resources if row not in tenant]
    stored.subscriptions = sorted({row["subscriptionId"] for row in stored.resources})
    stored.documents = {row["id"]: row for row in stored.resources}
    stored.documents |= {f"{row['id']}/computes": {"value": []} for row in stored.resources}
    stored.documents |= {
        f"/subscriptions/{one}/providers/Microsoft.Compute/virtualMachines": {"value": []}
        for one in stored.subscriptions
    }
    stored.documents["/providers/Microsoft.Capacity/reservations"] = {"value": tenant}
    stored.documents["/providers/Microsoft.BillingBenefits/savingsPlans"] = {"value": []}
    hours = monitored(SHARED / "monitoring")
    stored.series = lambda resource, metric, when: hours.get((resource.lower(), metric, when), [])
    url = f"https://{ACCOUNT}.blob.core.windows.net/{container.container_name}/azure"
    journal = pull(now=datetime(2026, 11, 2, 6, 30, tzinfo=UTC), exports=[url], limits=Limits(months=12, parallel=4))
    assert journal.problems == []

    offline = tmp_path / "offline"
    shutil.copytree(SHARED / "azure", offline / "exports")
    shutil.copytree(SHARED / "inventory/azure", offline / "inventory")
    for path in (SHARED / "monitoring").glob("azure-monitor-*.json"):
        shutil.copy(path, offline)
    live, files = told([tmp_path / "azure"], date(2026, 11, 1)), told([offline], date(2026, 11, 1))
    assert len(files["findings"]) > 100
    assert findings(live) == findings(files)
    assert live["totals"] == files["totals"]
