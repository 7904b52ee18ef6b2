"""The example's report, figure by figure: what a page shows is what the bundled bills and samples come to.

Findings, which grow with the rules, are not held fast here; the money under them is.
"""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor.assets import room
from auditor.cli.request import make_request
from auditor.progress import Silent
from auditor.render import Extras, render
from auditor.scan import scan

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "render" / "golden" / "example.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Extras, str]:
    request = make_request(paths=(str(room("examples") / "estate"),), as_of=date(2026, 10, 1))
    result = scan(request, Silent(), datetime(2026, 10, 3, 6, 0, tzinfo=UTC))
    (path,) = render(result.document, result.extras, ["html"], tmp_path_factory.mktemp("example"))
    return result.document, result.extras, path.read_text("utf-8")


def test_the_page_says_what_was_spent_and_on_what(report: tuple[dict[str, Any], Extras, str]) -> None:
    _, _, page = report
    spent = set(re.findall(r'title="([^"]+ USD)"', page[: page.index('<section id="findings"')]))
    for name, figures in GOLDEN.items():
        for key, figure in figures.items():
            assert f"{figure} USD" in spent, (name, key)


def test_the_ledger_holds_the_golden_money(report: tuple[dict[str, Any], Extras, str]) -> None:
    document, _, _ = report
    classes: dict[str, Decimal] = {}
    for row in document["gpu_ledger"]:
        classes[row["class"]] = classes.get(row["class"], Decimal(0)) + Decimal(row["effective_cost"])
    assert classes == {name: Decimal(figure) for name, figure in GOLDEN["accelerators by class"].items()}


def test_every_cut_of_the_ledger_adds_up_to_it(report: tuple[dict[str, Any], Extras, str]) -> None:
    document, extras, _ = report
    whole = sum(Decimal(row["effective_cost"]) for row in document["gpu_ledger"])
    for name in ("gpu_by_day", "gpu_by_owner", "gpu_by_model", "week_hours"):
        assert sum(row.effective_cost for row in getattr(extras, name)) == whole, name
    named = sum(row.effective_cost for row in extras.machine_days or ())
    nameless = sum(Decimal(r["effective_cost"]) for r in document["gpu_ledger"] if r["class"] == "reserved_unused")
    assert whole - nameless <= named <= whole  # an unused reservation is no machine


def test_costs_by_day_and_transfer_by_payer_add_up(report: tuple[dict[str, Any], Extras, str]) -> None:
    document, extras, _ = report
    assert sum(row.effective_cost for row in extras.daily_costs or ()) == Decimal(document["totals"]["effective_cost"])
    edges = sum(row.effective_cost for row in extras.transfer_edges or ())
    assert edges == sum(row.effective_cost for row in extras.transfer_payers or ())


def test_every_idle_or_underused_machine_shows_its_samples(report: tuple[dict[str, Any], Extras, str]) -> None:
    document, extras, page = report
    judged = [f for f in document["findings"] if f["rule_id"] in ("gpu.idle_instance", "gpu.underused_instance")]
    assert judged
    for finding in judged:
        lines = extras.samples[finding["id"]]
        assert any(line.threshold is not None for line in lines)
        card = page[page.index(f'id="f-{finding["id"]}"') :].partition("</details>")[0]
        assert '<figure class="samples">' in card
        assert "dashed: threshold" in card
