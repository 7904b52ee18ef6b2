"""What the audit itself cost stands beside its sources."""

import re
from pathlib import Path
from typing import Any

import pytest

from auditor.render import render
from tests.render import invented

USAGE = [
    {"api": "ce:GetCostAndUsage", "calls": 12, "bytes": 34567, "cost": "0.12", "currency": "USD"},
    {"api": "cloudwatch:GetMetricData", "calls": 3, "bytes": 0, "cost": "0.0039", "currency": "USD"},
    {"api": "prometheus:query_range", "calls": 21, "bytes": 1, "cost": None, "currency": "USD"},
]


@pytest.mark.parametrize(("form", "name"), [("html", "report.html"), ("md", "report.md")])
def test_own_usage_is_shown_to_the_hundredth_of_a_cent(tmp_path: Path, form: str, name: str) -> None:
    document: dict[str, Any] = {**invented.document(), "own_usage": USAGE}
    render(document, invented.extras(), (form,), tmp_path)
    text = re.sub(r"<[^>]+>|\\", "", (tmp_path / name).read_text("utf-8")).replace("\N{NO-BREAK SPACE}", " ")
    for shown in ("ce:GetCostAndUsage", "34,567", "USD 0.1200", "USD 0.0039", "unknown"):
        assert shown in text


def test_nothing_is_shown_where_nothing_was_collected(reports: Path) -> None:
    for name in ("report.html", "report.md"):
        text = (reports / name).read_text("utf-8")
        assert "What this audit used" not in text
        assert "Used by this audit" not in text
