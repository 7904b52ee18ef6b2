"""The lines of a bill behind a finding, found again in the files."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import SettingsError
from auditor.evidence import bill_rows
from auditor.finding import Finding, Remedy

NAT = "arn:aws:ec2:eu-west-1:111122223333:natgateway/nat-0abc"


def finding(rule_id: str, resource_id: str | None, provider: str = "aws", **more: Any) -> Finding:
    nothing = Decimal(0)
    values: dict[str, Any] = {
        "title": "",
        "sub_account_id": "111122223333",
        "region_id": "eu-west-1",
        "subject": resource_id or "",
        "billing_currency": "USD",
        "window_start": datetime(2026, 3, 2, tzinfo=UTC),
        "window_end": datetime(2026, 3, 4, tzinfo=UTC),
        **dict.fromkeys(
            (
                "effective_cost",
                "committed_cost",
                "monthly_cost",
                "monthly_savings",
                "monthly_savings_low",
                "monthly_savings_high",
                "freed_commitment",
            ),
            nothing,
        ),
        "confidence": "high",
        "severity": "low",
        "reason": "",
        "remedy": Remedy("", (), "", ""),
        "references": (),
        "stage": "remove",
        **more,
    }
    return Finding(rule_id=rule_id, provider=provider, resource_id=resource_id, **values)


@pytest.fixture
def cur(tmp_path: Path) -> str:
    lines = [
        {
            "bill/PayerAccountId": "111122223333",
            "bill/BillingPeriodStartDate": "2026-03-01T00:00:00Z",
            "lineItem/UsageAccountId": "111122223333",
            "lineItem/LineItemType": "Usage",
            "lineItem/UsageStartDate": f"2026-03-{day:02}T00:00:00Z",
            "lineItem/UsageEndDate": f"2026-03-{day + 1:02}T00:00:00Z",
            "lineItem/ProductCode": "AmazonEC2",
            "lineItem/UsageType": usage_type,
            "lineItem/Operation": "NatGateway" if "Nat" in usage_type else "RunInstances",
            "lineItem/ResourceId": resource,
            "lineItem/UsageAmount": "24",
            "lineItem/UnblendedCost": f"{day}.5",
            "lineItem/CurrencyCode": "USD",
            "product/region": "eu-west-1",
            "resourceTags/user:Note": "",
        }
        for day in (1, 2, 3, 4)
        for resource, usage_type in (
            (NAT, "EU-NatGateway-Bytes"),
            (NAT, "EU-NatGateway-Hours"),
            ("i-0abc", "EU-BoxUsage:g6.xlarge"),
            ("i-0def", "EU-BoxUsage:g6.xlarge"),
        )
    ]
    path = tmp_path / "bill.csv.gz"
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return str(path)


def test_the_lines_are_those_of_the_resource_in_the_window_as_they_are_written(cur: str) -> None:
    found = bill_rows([cur], finding("gpu.idle_instance", "i-0abc"))
    assert [(row.line["lineItem/UsageStartDate"], row.billed_cost) for row in found.rows] == [
        ("2026-03-02T00:00:00Z", Decimal("2.5")),
        ("2026-03-03T00:00:00Z", Decimal("3.5")),
    ]
    row = found.rows[0]
    assert row.line["lineItem/ResourceId"] == "i-0abc"
    assert row.line["lineItem/UnblendedCost"] == "2.5"
    assert "resourceTags/user:Note" not in row.line
    assert (row.file, row.format, row.usage_kind) == ("bill.csv.gz", "legacy-cur-csv", "accelerator.hours")


def test_of_a_rule_about_bytes_only_the_lines_of_bytes_are_shown(cur: str) -> None:
    found = bill_rows([cur], finding("network.nat_processing", NAT))
    assert [row.usage_kind for row in found.rows] == ["nat.bytes", "nat.bytes"]


def test_more_lines_than_wanted_are_counted(cur: str) -> None:
    found = bill_rows([cur], finding("gpu.idle_instance", "i-0abc"), limit=1)
    assert (len(found.rows), found.total) == (1, 2)


def test_a_scope_without_a_resource_is_told_by_its_account_region_and_members(cur: str) -> None:
    whole = bill_rows([cur], finding("network.nat_processing", None))
    assert whole.total == 2
    elsewhere = bill_rows([cur], finding("network.nat_processing", None, region_id="us-east-1"))
    assert elsewhere.total == 0
    cluster = bill_rows([cur], finding("gpu.idle_cluster", None, evidence={"members": ["i-0abc", "i-0def"]}))
    assert {row.line["lineItem/ResourceId"] for row in cluster.rows} == {"i-0abc", "i-0def"}


def test_a_line_of_google_keeps_its_nested_fields(tmp_path: Path) -> None:
    name = "//compute.googleapis.com/projects/1/zones/us-east4-a/instances/2"
    line = {
        "billing_account_id": "0A0A0A-0B0B0B-0C0C0C",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": "ABCD-EFGH-1234", "description": "Nvidia L4 GPU running in Virginia"},
        "usage_start_time": "2026-03-02T00:00:00Z",
        "usage_end_time": "2026-03-02T01:00:00Z",
        "export_time": "2026-03-02T03:00:00Z",
        "project": {"id": "acme-ml"},
        "location": {"region": "us-east4"},
        "resource": {"name": "gpu-1", "global_name": name},
        "cost": 0.56,
        "currency": "USD",
        "usage": {"amount": 3600, "unit": "seconds", "amount_in_pricing_units": 1, "pricing_unit": "hour"},
        "credits": [],
        "invoice": {"month": "202603"},
        "cost_type": "regular",
    }
    path = tmp_path / "export.json"
    path.write_text(
        "".join(json.dumps({**line, "resource": {"name": n, "global_name": n}}) + "\n" for n in (name, "x"))
    )
    found = bill_rows([str(path)], finding("gpu.idle_instance", name, "gcp", sub_account_id="acme-ml"))
    assert [row.line["sku"]["description"] for row in found.rows] == ["Nvidia L4 GPU running in Virginia"]


def test_a_damaged_file_is_named_and_a_missing_path_refused(cur: str, tmp_path: Path) -> None:
    data = Path(cur).read_bytes()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "bill.csv.gz").write_bytes(data[:40])
    found = bill_rows([cur, str(tmp_path / "cut")], finding("gpu.idle_instance", "i-0abc"))
    assert found.total == 2
    with pytest.raises(SettingsError, match="no such file"):
        bill_rows([str(tmp_path / "nowhere")], finding("gpu.idle_instance", "i-0abc"))


def test_the_lines_are_printed_with_their_headers_and_a_hint_at_the_rest(
    cur: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from auditor.cli.evidence import show_rows

    show_rows(finding("gpu.idle_instance", "i-0abc"), [cur], limit=1)
    printed = capsys.readouterr().out
    assert "2026-03-02 00:00  accelerator.hours  USD 2.5000 billed" in printed
    assert "lineItem/ResourceId=i-0abc" in printed
    assert "1 of 2 lines" in printed
    show_rows(finding("gpu.idle_instance", "i-0abc"), [cur], limit=1, as_json=True)
    assert json.loads(capsys.readouterr().out)["line"]["lineItem/UnblendedCost"] == "2.5"
    show_rows(finding("gpu.idle_instance", "i-other"), [cur])
    assert "No line of these files" in capsys.readouterr().out
