"""The main job on the bundled example, against the truth that its generator knows."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from auditor.assets import room
from auditor.cli.request import make_request
from auditor.progress import Silent
from auditor.render import render
from auditor.scan import ScanResult, scan

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EXPECTED: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text(encoding="utf-8"))
NOW = datetime(2026, 10, 3, 6, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def audit() -> ScanResult:
    return scan(make_request(paths=(str(EXAMPLES / "estate"),), as_of=date(2026, 10, 1)), Silent(), NOW)


@pytest.fixture(scope="module")
def document(audit: ScanResult) -> dict[str, Any]:
    return audit.document


def same(resource: str | None, other: str) -> bool:
    """Ids agree where one is the other's last part: a bill writes an ARN where a person writes the short id."""
    left, right = (resource or "").lower(), other.lower()
    return left == right or left.endswith("/" + right) or right.endswith("/" + left)


def test_every_period_reconciles_with_the_truth_to_the_last_decimal(document: dict[str, Any]) -> None:
    got = {
        (row["provider"], row["billing_account_id"], row["billing_period"], row["currency"]): row
        for row in document["reconciliation"]
    }
    assert len(got) == len(EXPECTED["totals"])
    for total in EXPECTED["totals"]:
        row = got[(total["provider"], total["billing_account_id"], total["billing_period"], total["currency"])]
        assert Decimal(row["lake_billed_cost"]) == Decimal(total["billed_cost"])
        assert Decimal(row["source_billed_cost"]) == Decimal(total["billed_cost"])
        assert row["difference"] == "0"


def test_every_planted_waste_is_found(document: dict[str, Any]) -> None:
    ran = {entry["rule_id"] for entry in document["coverage"]["rules"] if entry["status"] in ("ran", "degraded")}
    for planted in EXPECTED["planted"]:
        if planted["rule_id"] not in ran:
            continue
        found = [
            finding
            for finding in document["findings"]
            if finding["rule_id"] == planted["rule_id"]
            and (
                same(finding["resource_id"], planted["resource_id"])
                or any(same(str(member), planted["resource_id"]) for member in finding["evidence"].get("members", ()))
            )
        ]
        assert found, planted


def test_no_look_alike_is_accused(document: dict[str, Any]) -> None:
    for silent in EXPECTED["silent"]:
        accused = [
            f
            for f in document["findings"]
            if f["rule_id"] == silent["rule_id"] and same(f["resource_id"], silent["resource_id"])
        ]
        assert not accused, silent


def test_the_ledger_is_the_accelerator_bill_of_the_window(document: dict[str, Any]) -> None:
    running = [row for row in document["gpu_ledger"] if row["class"] != "reserved_unused"]
    ledger = sum(Decimal(row["effective_cost"]) for row in running)
    assert ledger == Decimal(document["coverage"]["gpu"]["effective_cost"])
    assert ledger > 0


def test_net_savings_never_exceed_what_a_resource_costs(document: dict[str, Any]) -> None:
    for finding in document["findings"]:
        net, gross, cost = (
            Decimal(finding[name]) for name in ("monthly_savings_net", "monthly_savings", "monthly_cost")
        )
        assert 0 <= net <= gross <= cost
    sure = sum(Decimal(f["monthly_savings_net"]) for f in document["findings"] if f["confidence"] != "low")
    assert abs(sure - Decimal(document["totals"]["monthly_savings_net"])) < Decimal("0.000001")


def test_the_document_has_the_published_shape(document: dict[str, Any]) -> None:
    schema = json.loads((room("reports") / "findings.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)


def test_files_of_no_concern_are_named_and_make_nothing_partial(audit: ScanResult) -> None:
    assert audit.exit_status == 0
    assert audit.document["run"]["status"] == "complete"
    skipped = {
        source["paths"][0]: source["message"] for source in audit.document["sources"] if source["status"] == "skipped"
    }
    assert "week, bay, who" in skipped["office/parking-rota.csv"]


def test_all_formats_are_written(audit: ScanResult, tmp_path: Path) -> None:
    written = render(audit.document, audit.extras, ("html", "json", "csv", "md", "sarif", "parquet"), tmp_path)
    assert all(path.stat().st_size > 500 for path in written)
    assert "Reconcil" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_same_files_give_the_same_findings_whatever_their_order(document: dict[str, Any], tmp_path: Path) -> None:
    paths = [str(path) for path in sorted((EXAMPLES / "estate").iterdir(), reverse=True)]
    again = scan(make_request(paths=tuple(paths), as_of=date(2026, 10, 1)), Silent(), NOW).document
    for part in ("totals", "reconciliation", "gpu_ledger", "findings"):
        assert again[part] == document[part]
